{{/* What cannot work, a sentence a line: which value, what is wrong with it, what to do. */}}

{{- define "dllm-stack.checks" -}}
{{- with include "dllm-stack.reasons" . | trim -}}
{{- fail . -}}
{{- end -}}
{{- end }}

{{- define "dllm-stack.reasons" -}}
{{ include "dllm-stack.reasonsAtEdges" . }}
{{- end }}
