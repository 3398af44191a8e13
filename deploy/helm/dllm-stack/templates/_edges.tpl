{{/* What the templates at the edges of the release share: its front, its limits, its scaling. */}}

{{/* A pod selector's labels of the whole release. */}}
{{- define "dllm-stack.release" -}}
app.kubernetes.io/name: dllm-stack
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Seconds after which a proxy may give up on an answer: later than the gateway itself does. */}}
{{- define "dllm-stack.proxyTimeoutS" -}}
{{ include "dllm-stack.setting" (dict "root" . "group" "gateway" "name" "request_timeout_s") | float64 | ceil | int | add 30 }}
{{- end }}

{{/* What of the gateway's port is for clients; not its health, nor its metrics, which name the tenants. */}}
{{- define "dllm-stack.paths" -}}
- {path: /v1, prefix: true}
- {path: /generate}
- {path: /tokenize}
- {path: /detokenize}
- {path: /openapi.json}
{{- if ne (include "dllm-stack.setting" (dict "root" . "group" "gateway" "name" "playground")) "false" }}
- {path: /}
- {path: /playground, prefix: true}
{{- end }}
{{- end }}

{{/* Whether a pool's workers are scaled by KEDA. Takes {root, name}. */}}
{{- define "dllm-stack.scaled" -}}
{{- if and .root.Values.keda.enabled (index .root.Values.pools .name).scaling -}}true{{- end -}}
{{- end }}
