{{/* Names and labels. */}}

{{- define "dllm-stack.prefix" -}}
{{ default .Release.Name .Values.fullnameOverride }}
{{- end }}

{{/* The name of a component's objects. Takes {root, component}. */}}
{{- define "dllm-stack.name" -}}
{{ include "dllm-stack.prefix" .root }}-{{ .component }}
{{- end }}

{{/* What never changes of a component's labels. Takes {root, component}, and pool where there is one. */}}
{{- define "dllm-stack.selector" -}}
app.kubernetes.io/name: dllm-stack
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- with .pool }}
dllm-stack/pool: {{ quote . }}
{{- end }}
{{- end }}

{{- define "dllm-stack.labels" -}}
{{ include "dllm-stack.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Takes {root, repository}. */}}
{{- define "dllm-stack.image" -}}
{{- with .root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ .repository }}{{ if not (contains "@" .repository) }}:{{ default .root.Chart.AppVersion .root.Values.image.tag }}{{ end }}
{{- end }}

{{/* Defaults of dllm_stack/settings.py that the chart counts with. */}}
{{- define "dllm-stack.defaults" -}}
gateway: {request_timeout_s: 600, max_body_bytes: 4194304, playground: true}
queue: {cold_start_s: 0, worker_grace_s: 120}
worker: {drain_s: 30}
redis: {timeout_s: 2}
{{- end }}

{{/* A setting as the services will see it. Takes {root, group, name}. */}}
{{- define "dllm-stack.setting" -}}
{{- $defaults := include "dllm-stack.defaults" .root | fromYaml -}}
{{ dig .group .name (dig .group .name "" $defaults) .root.Values.config }}
{{- end }}

{{/* Seconds that open requests get when a pod is to stop. A gateway's, unless the values say less, as long as each may
take: a rollout ends no stream, and nobody waits for a gateway that has none. Takes {root, component}. */}}
{{- define "dllm-stack.drainS" -}}
{{- $name := "drain_s" -}}
{{- if and (eq .component "gateway") (not (hasKey (default dict .root.Values.config.gateway) $name)) -}}
{{- $name = "request_timeout_s" -}}
{{- end -}}
{{ include "dllm-stack.setting" (dict "root" .root "group" .component "name" $name) | float64 | ceil | int }}
{{- end }}

{{/* Seconds that a gateway or worker takes to stop at most. Takes {root, component}. */}}
{{- define "dllm-stack.leastGraceS" -}}
{{- $drain := include "dllm-stack.drainS" . | int -}}
{{- if eq .component "gateway" -}}
{{ add $drain .root.Values.gateway.preStopS 10 }}
{{- else -}}
{{ add $drain 30 }}
{{- end -}}
{{- end }}

{{/* Seconds that it is given. Takes {root, component, values}. */}}
{{- define "dllm-stack.graceS" -}}
{{- $given := .values.terminationGraceS -}}
{{ if kindIs "invalid" $given }}{{ include "dllm-stack.leastGraceS" . }}{{ else }}{{ int $given }}{{ end }}
{{- end }}

{{/* A quantity of Kubernetes, as "500Gi" or "1T", in GiB. */}}
{{- define "dllm-stack.gib" -}}
{{- $number := regexFind "^[0-9.]+" (toString .) | float64 -}}
{{- $unit := regexReplaceAll "^[0-9.]+" (toString .) "" | default "1" -}}
{{- $bytes := dict "1" 1.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 "Ei" 1152921504606846976.0 -}}
{{- divf (mulf $number (get $bytes $unit)) 1073741824.0 -}}
{{- end }}
