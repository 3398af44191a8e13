{{/* The profile, the models and what follows from both for a pool: the same files that the worker reads. */}}

{{/* The file of a folder, or what says that there is none. Takes {root, folder, name, value}. */}}
{{- define "dllm-stack.file" -}}
{{- $text := .root.Files.Get (printf "files/%s/%s.yaml" .folder .name) -}}
{{- if not $text -}}
{{- $known := list -}}
{{- range $path, $_ := .root.Files.Glob (printf "files/%s/*.yaml" .folder) -}}
{{- $known = append $known (base $path | trimSuffix ".yaml") -}}
{{- end -}}
{{- fail (printf "%s is %q, which is no %s: choose one of %s." .value (toString .name) (trimSuffix "s" .folder) (join ", " $known)) -}}
{{- end -}}
{{ $text }}
{{- end }}

{{- define "dllm-stack.profile" -}}
{{ include "dllm-stack.file" (dict "root" . "folder" "profiles" "name" .Values.profile "value" "profile") }}
{{- end }}

{{/* A mapping with another's entries in the place of its own, zeros and empty ones too, which `merge` skips. */}}
{{- define "dllm-stack.over" -}}
{{- $merged := deepCopy (first .) -}}
{{- range $key, $value := last . -}}
{{- $_ := set $merged $key $value -}}
{{- end -}}
{{ toYaml $merged }}
{{- end }}

{{/* A pool's model file, with the pool's own checkpoint and revision. Takes {root, name}. */}}
{{- define "dllm-stack.model" -}}
{{- $pool := index .root.Values.pools .name -}}
{{- $model := dict -}}
{{- if hasKey .root.Values.models $pool.model -}}
{{- $model = set (deepCopy (index .root.Values.models $pool.model)) "name" $pool.model -}}
{{- else -}}
{{- $value := printf "pools.%s.model" .name -}}
{{- $model = include "dllm-stack.file" (dict "root" .root "folder" "models" "name" (default "" $pool.model) "value" $value) | fromYaml -}}
{{- end -}}
{{- with $pool.checkpoint -}}
{{- if ne . $model.checkpoint -}}
{{- $_ := set (unset $model "revision") "checkpoint" . -}}
{{- end -}}
{{- end -}}
{{- with $pool.revision -}}
{{- $_ := set $model "revision" . -}}
{{- end -}}
{{- $modes := dig "dllm" "modes" "" $model -}}
{{- if and (kindIs "string" $modes) $modes (not (contains "/" $modes)) -}}
{{- $_ := set $model.dllm "modes" "/etc/dllm/modes.yaml" -}}
{{- $_ := set $model "_modes" $modes -}}
{{- end -}}
{{ toYaml $model }}
{{- end }}

{{/* How the engines of a pool run. Takes {root, name}. */}}
{{- define "dllm-stack.engine" -}}
{{- $pool := index .root.Values.pools .name -}}
{{- $profile := include "dllm-stack.profile" .root | fromYaml -}}
{{- $entry := deepCopy (dig "models" $pool.model dict $profile) -}}
{{- if and (not $entry) (not $pool.engine) -}}
{{- fail (printf "pools.%s.model is %q, which the profile %s has no entry for: choose one of %s, or give pools.%s.engine." .name $pool.model $profile.name (keys $profile.models | sortAlpha | join ", ") .name) -}}
{{- end -}}
{{- $engine := include "dllm-stack.over" (list $entry $pool.engine) | fromYaml -}}
{{- if not (and $engine.mem_fraction $engine.max_running_requests) -}}
{{- fail (printf "pools.%s.engine needs mem_fraction and max_running_requests, because the profile %s says nothing of %s: give both." .name $profile.name $pool.model) -}}
{{- end -}}
{{ toYaml $engine }}
{{- end }}

{{/* What the templates need to know of a pool, all in one. Takes {root, name}. */}}
{{- define "dllm-stack.pool" -}}
{{- $pool := index .root.Values.pools .name -}}
{{- $profile := include "dllm-stack.profile" .root | fromYaml -}}
{{- $model := include "dllm-stack.model" . | fromYaml -}}
{{- $engine := include "dllm-stack.engine" . | fromYaml -}}
{{- $worker := include "dllm-stack.over" (list .root.Values.worker $pool.worker) | fromYaml -}}
{{- $tp := default 1 $engine.tp | int -}}
{{- $gpus := default 0 $profile.gpus | int -}}
{{- $perNode := 1 -}}
{{- if not (kindIs "invalid" $pool.workersPerNode) -}}
{{- $perNode = int $pool.workersPerNode -}}
{{- else if $gpus -}}
{{- $perNode = max 1 (div $gpus $tp) -}}
{{- end -}}
{{- $nodes := ternary 1 $pool.nodes (kindIs "invalid" $pool.nodes) | int -}}
{{- $weightsMB := dig "facts" "weights_gb" 0 $model | float64 | mulf 1000 -}}
{{- $readS := divf $weightsMB $worker.readMBps -}}
{{- $loadS := mulf $readS 2 | addf 600 | ceil | int -}}
{{- $startTimeoutS := dig "worker" "start_timeout_s" $loadS .root.Values.config | float64 | ceil | int -}}
{{- $onHub := regexMatch "^[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*$" $model.checkpoint -}}
name: {{ quote .name }}
model: {{ quote $model.name }}
onHub: {{ $onHub }}
modes: {{ default "" $model._modes | quote }}
vendor: {{ $profile.vendor }}
tp: {{ $tp }}
gpus: {{ $gpus }}
nodes: {{ $nodes }}
workersPerNode: {{ $perNode }}
replicas: {{ mul $nodes $perNode }}
{{- with get (dict "nvidia" "nvidia.com/gpu" "amd" "amd.com/gpu") $profile.vendor }}
gpuResource: {{ . }}
{{- end }}
{{- with get (dict "nvidia" "nvidia.com/gpu.product" "amd" "amd.com/gpu.product-name") $profile.vendor }}
productLabel: {{ . }}
{{- end }}
shmGiB: {{ if kindIs "invalid" $worker.shmGiB }}{{ ternary 2 (mul 4 $tp) (eq $tp 1) }}{{ else }}{{ int $worker.shmGiB }}{{ end }}
startTimeoutS: {{ $startTimeoutS }}
weightsGiB: {{ divf $weightsMB 1073.741824 | ceil | int }}
readS: {{ $readS | ceil | int }}
fetchS: {{ divf $weightsMB $worker.downloadMBps | ceil | int }}
worker: {{ toJson $worker }}
engine: {{ toJson $engine }}
modelFile: {{ omit $model "_modes" | toJson }}
profileFile: {{ set (deepCopy $profile) "models" (dict $model.name $engine) | toJson }}
{{- end }}
