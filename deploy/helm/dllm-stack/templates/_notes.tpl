{{/* What to do next, as commands to paste. Takes the base chart's root. */}}
{{- define "dllm-stack.notes" -}}
{{- include "dllm-stack.dropNoPools" . -}}
{{- $_ := include "dllm-stack.settleKeys" . -}}
{{- $gateway := include "dllm-stack.name" (dict "root" . "component" "gateway") }}
{{- $in := printf "--namespace %s" .Release.Namespace }}
{{- $ingress := .Values.gateway.ingress }}
{{- $keyed := ne .Values.keys.mode "off" }}
{{- $url := "http://127.0.0.1:8000" }}
{{- if and $ingress.enabled $ingress.host }}
{{- $url = printf "%s://%s" (ternary "https" "http" (not (empty $ingress.tlsSecret))) $ingress.host }}
{{- end }}
{{- $models := list }}
{{- range $name, $_ := .Values.pools }}
{{- $pool := include "dllm-stack.pool" (dict "root" $ "name" $name) | fromYaml }}
{{- $models = append $models $pool.model }}
{{- end }}
{{- $model := first $models -}}
dllm-stack {{ .Chart.AppVersion }} as {{ .Release.Name }}: {{ join ", " (uniq $models) }}
{{- if not $keyed }}

************************************************************************************
*  API KEYS ARE OFF: whoever reaches the gateway may use it, as much as they like. *
*  Before others do: --set {{ printf "%-56s" (printf "%skeys.mode=redis" (include "dllm-stack.inThin" .)) }}*
************************************************************************************
{{- end }}

Wait for the workers. A first start fetches and loads the weights:
{{- range $name, $_ := .Values.pools }}
{{- $pool := include "dllm-stack.pool" (dict "root" $ "name" $name) | fromYaml }}
  kubectl {{ $in }} rollout status deployment/{{ include "dllm-stack.name" (dict "root" $ "component" (printf "worker-%s" $name)) }} --timeout={{ add $pool.startTimeoutS $pool.fetchS 600 }}s
{{- end }}
{{- if eq $url "http://127.0.0.1:8000" }}

The API on this machine, in a terminal of its own:
  kubectl {{ $in }} port-forward service/{{ $gateway }} 8000:{{ int .Values.gateway.service.port }}
{{- end }}
{{- if eq .Values.keys.mode "redis" }}

A key, whose secret is shown this once:
  export API_KEY=$(kubectl {{ $in }} exec deployment/{{ $gateway }} --container gateway -- dllm-stack keys create my-team)
{{- else if eq .Values.keys.mode "file" }}

A key and its entry, which goes into {{ .Values.keys.secret.key }} of the Secret {{ .Values.keys.secret.name }}:
  kubectl {{ $in }} exec deployment/{{ $gateway }} --container gateway -- dllm-stack keys create my-team --entry
  export API_KEY=the-secret
{{- end }}

A chat, streamed:
  curl --no-buffer {{ $url }}/v1/chat/completions -H "Content-Type: application/json" \
    {{- if $keyed }}
    -H "Authorization: Bearer $API_KEY" \
    {{- end }}
    -d '{"model": "{{ $model }}", "stream": true, "messages": [{"role": "user", "content": "Count from 1 to 10."}]}'

In Python, with the OpenAI SDK:

python3 - <<'PY'
{{- if $keyed }}
import os
{{- end }}
from openai import OpenAI
client = OpenAI(base_url="{{ $url }}/v1", api_key={{ ternary "os.environ[\"API_KEY\"]" "\"none\"" $keyed }})
for chunk in client.chat.completions.create(
    model="{{ $model }}", stream=True, messages=[{"role": "user", "content": "Count from 1 to 10."}]
):
    print(chunk.choices[0].delta.content or "", end="", flush=True)
PY
{{- if or .Values.test.keySecret.name (ne .Values.keys.mode "file") }}

The same by Helm, once for each model:
  helm test {{ .Release.Name }} {{ $in }} --logs
{{- end }}

What the queue and the workers do:
  kubectl {{ $in }} exec --stdin --tty deployment/{{ $gateway }} --container gateway -- dllm-stack top
{{- if .Values.monitoring.dashboards.enabled }}

Grafana shows the dashboards "dllm-stack: ..." once its sidecar has found their ConfigMaps:
  kubectl {{ $in }} get configmaps --selector {{ range $label, $value := .Values.monitoring.dashboards.labels }}{{ $label }}={{ $value }},{{ end }}app.kubernetes.io/instance={{ .Release.Name }}
{{- else }}

Dashboards, alerts and what feeds them, where Prometheus' operator and Grafana's sidecar are. Give an upgrade all values
that you gave before, too: it forgets the others.
  --set {{ $p := include "dllm-stack.inThin" . }}{{ $p }}monitoring.podMonitors.enabled=true,{{ $p }}monitoring.rules.enabled=true,{{ $p }}monitoring.dashboards.enabled=true
{{- end }}
{{- end }}

{{/* What stands before the names of values on a command line: of a thin chart, the base chart's name. */}}
{{- define "dllm-stack.inThin" -}}
{{- if not .Chart.IsRoot }}{{ .Chart.Name }}.{{ end -}}
{{- end }}
