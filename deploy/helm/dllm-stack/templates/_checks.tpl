{{/* What cannot work, a sentence a line: which value, what is wrong with it, what to do. */}}

{{/* To be the first thing in every template. */}}
{{- define "dllm-stack.checks" -}}
{{- include "dllm-stack.dropNoPools" . -}}
{{- $open := include "dllm-stack.settleKeys" . -}}
{{- with print $open (include "dllm-stack.reasons" .) | trim -}}
{{- fail (printf "\n%s" .) -}}
{{- end -}}
{{- end }}

{{/* Keys are off where nothing is said of them, unless the release has them: an upgrade with other values than
those before would open its gateway to everybody. Says so. */}}
{{- define "dllm-stack.settleKeys" -}}
{{- if not .Values.keys.mode -}}
{{- $gateway := include "dllm-stack.name" (dict "root" . "component" "gateway") -}}
{{- $installed := lookup "apps/v1" "Deployment" .Release.Namespace $gateway -}}
{{- range dig "spec" "template" "spec" "containers" list $installed -}}
{{- range .env -}}
{{- if and (eq .name "DLLM_ACCESS__KEYS") (ne .value "off") }}
keys.mode is not given, but the gateway that is installed needs API keys, and would be open to everybody: give it again, as all your values, or set it to off.
{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set .Values.keys "mode" "off" -}}
{{- end -}}
{{- end }}

{{/* A pool that is null is none: so does one take out a pool that a thin chart brings. Helm leaves the null in. */}}
{{- define "dllm-stack.dropNoPools" -}}
{{- range $name, $pool := deepCopy .Values.pools -}}
{{- if kindIs "invalid" $pool -}}
{{- $_ := unset $.Values.pools $name -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "dllm-stack.reasons" -}}
{{- include "dllm-stack.nameReasons" . -}}
{{- include "dllm-stack.redisReasons" . -}}
{{- include "dllm-stack.keyReasons" . -}}
{{- include "dllm-stack.weightReasons" . -}}
{{- include "dllm-stack.graceReasons" (dict "root" . "component" "gateway" "values" .Values.gateway "what" "preStopS + config.gateway.drain_s + 10") -}}
{{- if not .Values.pools }}
pools is empty, so nothing would be served: give one, as in `pools.mini.model: llada2.1-mini`.
{{- end }}
{{- range $name, $pool := .Values.pools -}}
{{- include "dllm-stack.poolReasons" (dict "root" $ "name" $name) -}}
{{- end -}}
{{- include "dllm-stack.edgeReasons" . -}}
{{- range list "gateway" "router" -}}
{{- include "dllm-stack.envReasons" (dict "component" . "what" . "values" (get $.Values .)) -}}
{{- end -}}
{{- end }}

{{/* Variables of a component that the chart sets, which nobody can set once more. */}}
{{- define "dllm-stack.ownVariables" -}}
gateway: [DLLM_GATEWAY__HOST, DLLM_GATEWAY__DRAIN_S, DLLM_ADMIN__HOST, DLLM_ACCESS__KEYS, DLLM_QUEUE__WORKER_GRACE_S]
router: [DLLM_ROUTER__HOST, DLLM_ROUTER__WORKER_PODS]
worker: [DLLM_WORKER__HOST, DLLM_WORKER__MODEL, DLLM_WORKER__PROFILE, DLLM_WORKER__POD, DLLM_WORKER__START_TIMEOUT_S,
  DLLM_QUEUE__WORKER_GRACE_S, HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE, HF_TOKEN, HOME]
all: [DLLM_CONFIG, DLLM_LOG_FORMAT, DLLM_REDIS__URL, REDIS_PASSWORD]
{{- end }}

{{/* Takes {component, what, values}. */}}
{{- define "dllm-stack.envReasons" -}}
{{- $own := include "dllm-stack.ownVariables" . | fromYaml -}}
{{- range .values.extraEnv -}}
{{- if has .name (concat $own.all (get $own $.component)) }}
{{ $.what }}.extraEnv has {{ .name }}, which the chart sets, and Kubernetes refuses a variable that is there twice: remove it, and use the value of the chart that it comes from.
{{- end -}}
{{- end -}}
{{- end }}

{{- define "dllm-stack.nameReasons" -}}
{{- $prefix := include "dllm-stack.prefix" . -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]{0,33}[a-z0-9])?$" $prefix) }}
The release's name {{ $prefix | quote }} begins the names of Services: choose one of at most 35 lower-case letters, digits and dashes that begins with a letter, or set fullnameOverride to such.
{{- end -}}
{{- end }}

{{- define "dllm-stack.redisReasons" -}}
{{- $redis := .Values.redis -}}
{{- if eq $redis.mode "external" -}}
{{- if not (or $redis.external.url $redis.external.secret.name) }}
redis.mode is external, but neither redis.external.url nor redis.external.secret.name says where it is: give one of them.
{{- else if and $redis.external.url $redis.external.secret.name }}
redis.external.url and redis.external.secret.name both say where Redis is: give one of them.
{{- else if and $redis.external.url (not (regexMatch "^rediss?(\\+(sentinel|cluster))?://." $redis.external.url)) }}
redis.external.url is none of redis://, rediss://, redis+sentinel:// and redis+cluster://: correct it (docs/operations.md has examples).
{{- end -}}
{{- else -}}
{{- if gt (int .Values.gateway.zones) 1 }}
gateway.zones is {{ .Values.gateway.zones }}, but with redis.mode trial one zone's loss takes Redis with it: set redis.mode to external, with a Redis that survives a zone, or gateway.zones to 1.
{{- end -}}
{{- $limit := default dict $redis.trial.resources | dig "limits" "memory" "" | toString -}}
{{- if regexMatch "^[0-9]+(Mi|Gi)$" $limit -}}
{{- $limitMiB := regexFind "^[0-9]+" $limit | int | mul (ternary 1024 1 (hasSuffix "Gi" $limit)) -}}
{{- if gt (mul $redis.trial.maxMemoryMiB 5) (mul $limitMiB 4) }}
redis.trial.maxMemoryMiB is {{ int $redis.trial.maxMemoryMiB }}, too near to the {{ $limit }} of redis.trial.resources.limits.memory: data take at most four fifths of it, as rewriting the log takes memory too. Raise the limit, or lower the other.
{{- end -}}
{{- end -}}
{{- if and (eq .Values.keys.mode "redis") (not $redis.trial.storage.size) }}
keys.mode is redis, but redis.trial.storage.size is empty, so that a restart would forget all keys: give the volume a size.
{{- end -}}
{{- end -}}
{{- end }}

{{- define "dllm-stack.keyReasons" -}}
{{- if and (eq .Values.keys.mode "file") (not .Values.keys.secret.name) }}
keys.mode is file, but keys.secret.name does not say which Secret holds the key file: make one (`dllm-stack keys create TENANT --entry` prints an entry) and name it.
{{- end -}}
{{- end }}

{{- define "dllm-stack.weightReasons" -}}
{{- $volume := .Values.weights.volume -}}
{{- $kinds := list -}}
{{- range $kind, $value := $volume -}}
{{- if not (kindIs "invalid" $value) -}}
{{- if or $value (ne $kind "emptyDir") -}}
{{- $kinds = append $kinds $kind -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if gt (len $kinds) 1 }}
weights.volume has {{ join " and " $kinds }}, but is one volume: keep one of them, and set the other to null.
{{- end -}}
{{- if and $volume.image (semverCompare "<1.33.0-0" .Capabilities.KubeVersion.Version) }}
weights.volume.image needs Kubernetes 1.33 or later, and this is {{ .Capabilities.KubeVersion.Version }}: use another kind of volume.
{{- end -}}
{{- with dig "sizeLimit" "" (default dict $volume.emptyDir) -}}
{{- range $name, $_ := $.Values.pools -}}
{{- $pool := include "dllm-stack.pool" (dict "root" $ "name" $name) | fromYaml -}}
{{- if and (include "dllm-stack.fetchesAnew" (dict "root" $ "pool" $pool)) (lt (include "dllm-stack.gib" $volume.emptyDir.sizeLimit | float64) (float64 $pool.weightsGiB)) }}
weights.volume.emptyDir.sizeLimit is {{ $volume.emptyDir.sizeLimit }}, and pools.{{ $name }} fetches {{ $pool.weightsGiB }} GiB of weights into it: raise it.
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $volume.pvc -}}
{{- if not (or .claimName .size) }}
weights.volume.pvc has neither claimName nor size: name a claim of yours, or say how large a new one is to be.
{{- end -}}
{{- $fetched := dict -}}
{{- range $name, $_ := $.Values.pools -}}
{{- $pool := include "dllm-stack.pool" (dict "root" $ "name" $name) | fromYaml -}}
{{- if include "dllm-stack.fetches" (dict "root" $ "pool" $pool) -}}
{{- $_ := set $fetched (printf "%s@%s" $pool.modelFile.checkpoint (default "" $pool.modelFile.revision)) $pool.weightsGiB -}}
{{- end -}}
{{- end -}}
{{- $sum := 0 -}}
{{- range $fetched -}}
{{- $sum = add $sum . -}}
{{- end -}}
{{- if and .size (not .claimName) (lt (include "dllm-stack.gib" .size | float64) (float64 $sum)) }}
weights.volume.pvc.size is {{ .size }}, and {{ $sum }} GiB of weights are fetched into it: ask for more.
{{- end -}}
{{- $mode := default "ReadWriteMany" .accessMode -}}
{{- if and (eq $mode "ReadOnlyMany") $.Values.weights.download }}
weights.volume.pvc.accessMode is ReadOnlyMany, so that nothing can be fetched into it: set weights.download to false, or use ReadWriteMany.
{{- end -}}
{{- if hasPrefix "ReadWriteOnce" $mode -}}
{{- $most := 0 -}}
{{- range $name, $_ := $.Values.pools -}}
{{- $pool := include "dllm-stack.pool" (dict "root" $ "name" $name) | fromYaml -}}
{{- $most = add $most (dig "scaling" "max" $pool.replicas (index $.Values.pools $name)) -}}
{{- end -}}
{{- if gt (int $most) 1 }}
weights.volume.pvc.accessMode is {{ $mode }}, but up to {{ $most }} workers use the volume, and it can be on one node only: use a class that can ReadWriteMany, another kind of volume, or one worker (pools.NAME.workersPerNode: 1).
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "dllm-stack.graceReasons" -}}
{{- $given := include "dllm-stack.graceS" . | int -}}
{{- $least := include "dllm-stack.leastGraceS" . | int -}}
{{- if lt $given $least }}
{{ .component }}.terminationGraceS{{ with .pool }} of pools.{{ . }}{{ end }} is {{ $given }}, but stopping in order takes up to {{ $least }} seconds ({{ .what }}), and what runs longer is killed: raise it, or leave it null.
{{- end -}}
{{- end }}

{{/* Takes {root, name}. */}}
{{- define "dllm-stack.poolReasons" -}}
{{- $given := index .root.Values.pools .name -}}
{{- $this := printf "pools.%s" .name -}}
{{- $object := include "dllm-stack.name" (dict "root" .root "component" (printf "worker-%s" .name)) -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" .name) }}
{{ $this }} is no name for a pool, because its objects are named by it: use lower-case letters, digits and dashes.
{{- else if gt (len $object) 63 }}
{{ $this }} makes {{ $object | quote }}, a name of {{ len $object }} characters, and 63 are possible: choose a shorter name.
{{- end -}}
{{- $pool := include "dllm-stack.pool" . | fromYaml -}}
{{- if not (regexMatch "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" $pool.model) }}
models.{{ $pool.model }} is no name for a model, because clients, Redis and metrics know it by that: use at most 64 letters, digits, dots, dashes and underscores.
{{- end -}}
{{- $facts := default dict $pool.modelFile.facts -}}
{{- include "dllm-stack.gpuReasons" (dict "this" $this "pool" $pool "facts" $facts) -}}
{{- include "dllm-stack.checkpointReasons" (dict "this" $this "root" .root "pool" $pool) -}}
{{- include "dllm-stack.revisionReasons" (dict "this" $this "pool" $pool "facts" $facts) -}}
{{- include "dllm-stack.scalingReasons" (dict "this" $this "root" .root "scaling" (default dict $given.scaling)) -}}
{{- include "dllm-stack.graceReasons" (dict "root" .root "component" "worker" "pool" .name "values" $pool.worker "what" "config.worker.drain_s + 30") -}}
{{- include "dllm-stack.envReasons" (dict "component" "worker" "what" (printf "worker (of %s)" $this) "values" $pool.worker) -}}
{{- range list "requests" "limits" -}}
{{- range $resource, $_ := default dict (get (default dict $pool.worker.resources) .) -}}
{{- if contains "/gpu" $resource }}
worker.resources of {{ $this }} has {{ $resource }}, but the chart itself asks for GPUs, one vendor's, as the profile and tp say: remove it.
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .root.Values.products $pool.worker.affinity.nodeAffinity }}
worker.affinity of {{ $this }} has a nodeAffinity, and so does the chart make one of `products`: put both conditions into yours and set products to [], or use worker.nodeSelector.
{{- end -}}
{{- end }}

{{/* GPUs, heads and memory, as worker/engine/preflight.py refuses them too, but before anything is scheduled. */}}
{{- define "dllm-stack.gpuReasons" -}}
{{- $pool := .pool -}}
{{- $profile := $pool.profileFile -}}
{{- $tp := int $pool.tp -}}
{{- $gpus := int $pool.gpus -}}
{{- if lt (int $pool.nodes) 1 }}
{{ .this }}.nodes is {{ $pool.nodes }}: give at least 1, or use {{ .this }}.scaling to have none at times.
{{- end -}}
{{- if lt (int $pool.workersPerNode) 1 }}
{{ .this }}.workersPerNode is {{ $pool.workersPerNode }}: give at least 1.
{{- end -}}
{{- if eq $pool.vendor "cpu" -}}
{{- if gt $tp 1 }}
{{ .this }}.engine.tp is {{ $tp }}, but the profile {{ $profile.name }} has no GPUs: set it to 1.
{{- end -}}
{{- else if gt (mul $tp $pool.workersPerNode) $gpus }}
{{ .this }} puts {{ $pool.workersPerNode }} {{ ternary "worker" "workers" (eq (int $pool.workersPerNode) 1) }} of {{ $tp }} {{ ternary "GPU" "GPUs" (eq $tp 1) }} on a machine, but {{ $profile.name }} has {{ $gpus }} GPUs: lower {{ .this }}.workersPerNode, or engine.tp.
{{- end -}}
{{- if .facts.attention_heads -}}
{{- $heads := int .facts.attention_heads -}}
{{- $kvHeads := int .facts.kv_heads -}}
{{- $choices := list -}}
{{- range $size := untilStep 1 (add1 $heads | int) 1 -}}
{{- if and (eq (mod $heads $size) 0) (or (eq (mod $kvHeads $size) 0) (eq (mod $size $kvHeads) 0)) -}}
{{- $choices = append $choices $size -}}
{{- end -}}
{{- end -}}
{{- if not (has $tp $choices) }}
{{ .this }}.engine.tp is {{ $tp }}, which does not split the {{ $heads }} attention heads and {{ $kvHeads }} KV heads of {{ $pool.model }} evenly: choose one of {{ join ", " $choices }}.
{{- end -}}
{{- end -}}
{{- if and .facts.weights_gb $profile.gpu_memory_gib -}}
{{- $gpuGB := mulf $profile.gpu_memory_gib 1.073741824 -}}
{{- $shareGB := divf .facts.weights_gb $tp -}}
{{- $roomGB := mulf $gpuGB $pool.engine.mem_fraction -}}
{{- if ge $shareGB $roomGB }}
{{ .this }} does not fit: the {{ printf "%.0f" .facts.weights_gb }} GB of {{ $pool.model }} at engine.tp {{ $tp }} are {{ printf "%.0f" $shareGB }} GB a GPU, and engine.mem_fraction {{ $pool.engine.mem_fraction }} leaves {{ printf "%.0f" $roomGB }} of its {{ printf "%.0f" $gpuGB }} GB: raise {{ .this }}.engine.tp, or choose a profile with larger GPUs.
{{- end -}}
{{- end -}}
{{- end }}

{{/* That there will be weights at all. */}}
{{- define "dllm-stack.checkpointReasons" -}}
{{- $checkpoint := .pool.modelFile.checkpoint -}}
{{- $volume := .root.Values.weights.volume -}}
{{- if not (or $volume.pvc $volume.hostPath $volume.image) -}}
{{- if and .pool.onHub (not .root.Values.weights.download) }}
weights.download is false, but weights.volume is an empty folder, so that {{ .this }} would have no weights: set it to true, or weights.volume to where {{ $checkpoint }} is.
{{- else if hasPrefix "/weights" $checkpoint }}
{{ .this }}.checkpoint is {{ $checkpoint }}, but weights.volume, which is mounted there, is an empty folder: set it to where the weights are.
{{- end -}}
{{- end -}}
{{- range concat (default list .pool.engine.args) (dig "worker" "engine_args" list .root.Values.config) -}}
{{- if regexMatch "^--(tp|tp-size|tensor-parallel-size)\\b" . }}
{{ . | quote }} is among the engine arguments of {{ $.this }}, where the chart does not see it when it counts GPUs: set {{ $.this }}.engine.tp.
{{- end -}}
{{- end -}}
{{- end }}

{{/* Architectures whose checkpoints bring code that the engine runs: NEEDS_REMOTE_CODE of worker/engine/architectures.py. */}}
{{- define "dllm-stack.bringCode" -}}
[LLaDA2MoeModelLM]
{{- end }}

{{- define "dllm-stack.revisionReasons" -}}
{{- $model := .pool.modelFile -}}
{{- $bringsCode := or (not .facts.architecture) (has .facts.architecture (include "dllm-stack.bringCode" . | fromYamlArray)) -}}
{{- if and .pool.onHub $bringsCode -}}
{{- if not $model.revision }}
{{ .this }}.revision is not given, and the engine would run whatever code {{ $model.checkpoint }} holds on that day: give the commit to use, 40 hex digits, or a path in {{ .this }}.checkpoint.
{{- else if not (regexMatch "^[0-9a-f]{40}$" $model.revision) }}
{{ .this }}.revision is {{ $model.revision | quote }}, which can change, and the engine runs the code that {{ $model.checkpoint }} holds there: give the commit, 40 hex digits.
{{- end -}}
{{- end -}}
{{- end }}

{{- define "dllm-stack.scalingReasons" -}}
{{- if .scaling -}}
{{- if not .root.Values.keda.enabled }}
{{ .this }}.scaling is given, but keda.enabled is false, so nothing would scale{{ if eq (dig "min" 1 .scaling | int) 0 }}, and nothing bring back the workers of a pool that has none{{ end }}: set keda.enabled to true where KEDA is installed, or remove {{ .this }}.scaling.
{{- end -}}
{{- end -}}
{{- end }}
