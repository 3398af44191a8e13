{{- define "dllm-stack.notes" -}}
{{- end }}
