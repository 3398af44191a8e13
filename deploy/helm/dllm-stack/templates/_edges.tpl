{{/* What the templates at the edges of the release share: its front, its limits, its scaling. */}}

{{/* A pod selector's labels of the whole release. */}}
{{- define "dllm-stack.release" -}}
app.kubernetes.io/name: dllm-stack
app.kubernetes.io/instance: {{ .Release.Name | quote }}
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

{{/* How KEDA scales a pool, the defaults in. Takes the pool as `dllm-stack.pool` has it, and its `scaling`. */}}
{{- define "dllm-stack.scaling" -}}
{{- $slots := int .pool.engine.max_running_requests -}}
slots: {{ $slots }}
min: {{ ternary 1 (.scaling.min | int) (kindIs "invalid" .scaling.min) }}
max: {{ default .pool.replicas .scaling.max | int }}
queueDepth: {{ default (mulf $slots 0.8 | ceil | int) .scaling.queueDepth | int }}
oldestAgeS: {{ default 15 .scaling.oldestAgeS }}
cooldownS: {{ default 900 .scaling.cooldownS | int }}
{{- end }}

{{/* Of `dllm-stack.reasons` those about Ingress, routes and scaling. */}}
{{- define "dllm-stack.edgeReasons" -}}
{{- $autoscaling := .Values.gateway.autoscaling -}}
{{- if and $autoscaling.enabled (gt (int $autoscaling.min) (int $autoscaling.max)) }}
gateway.autoscaling.min is {{ int $autoscaling.min }}, more than its max of {{ int $autoscaling.max }}: raise the one or lower the other.
{{- end }}
{{- if and .Values.gateway.route.enabled (not .Values.gateway.route.parentRefs) }}
gateway.route.enabled needs gateway.route.parentRefs: the Gateway that the HTTPRoute belongs to, as in [{name: my-gateway, namespace: infra}].
{{- end }}
{{- $coldStartS := include "dllm-stack.setting" (dict "root" . "group" "queue" "name" "cold_start_s") | float64 -}}
{{- range $name, $values := .Values.pools }}
{{- with $values.scaling }}
{{- $pool := include "dllm-stack.pool" (dict "root" $ "name" $name) | fromYaml }}
{{- $scaling := include "dllm-stack.scaling" (dict "pool" $pool "scaling" .) | fromYaml }}
{{- if gt (int $scaling.min) (int $scaling.max) }}
pools.{{ $name }}.scaling.min is {{ $scaling.min }}, more than its max of {{ $scaling.max }}: raise the one or lower the other.
{{- end }}
{{- if and (eq (int $scaling.min) 0) (not $coldStartS) }}
pools.{{ $name }}.scaling.min is 0, and config.queue.cold_start_s is not set: requests for a pool without workers would get 503 at once, and never bring one up. Set it to the time that a worker takes to start, {{ add $pool.startTimeoutS $pool.fetchS }} s at most.
{{- end }}
{{- end }}
{{- range $other, $others := $.Values.pools }}
{{- if and (lt $name $other) (eq $values.model $others.model) (or $values.scaling $others.scaling) }}
pools.{{ $name }} and pools.{{ $other }} both serve {{ $values.model }}, and so one queue, by which only one of them can be scaled: take `scaling` out, or make them one pool.
{{- end }}
{{- end }}
{{- end }}
{{- end }}
