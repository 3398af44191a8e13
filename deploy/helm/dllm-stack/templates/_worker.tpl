{{/* Of workers and of the Jobs that fetch what they serve. All take {root, pool}, the pool as `dllm-stack.pool` has it. */}}

{{/* Only nodes of the profile's machine. */}}
{{- define "dllm-stack.workerPlacement" }}
{{- $worker := .pool.worker }}
{{- $affinity := deepCopy $worker.affinity -}}
{{- if and .root.Values.products .pool.productLabel -}}
{{- $isOne := dict "key" .pool.productLabel "operator" "In" "values" .root.Values.products -}}
{{- $terms := list (dict "matchExpressions" (list $isOne)) -}}
{{- $_ := set $affinity "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms)) -}}
{{- end -}}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or .pool.gpuResource $worker.tolerations }}
tolerations:
  {{- with .pool.gpuResource }}
  - {key: {{ . }}, operator: Exists, effect: NoSchedule}
  {{- end }}
  {{- with $worker.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Of the worker, and of what fetches its checkpoint. */}}
{{- define "dllm-stack.modelEnv" -}}
- name: DLLM_CONFIG
  value: /etc/dllm/settings.yaml
- name: DLLM_LOG_FORMAT
  value: json
- name: DLLM_WORKER__MODEL
  value: /etc/dllm/model.yaml
- name: HF_HUB_CACHE
  value: /weights/hub
# What is compiled or generated at run time, the checkpoint's code among it, is the pod's own.
- name: HOME
  value: /var/lib/dllm
- name: HF_HOME
  value: /var/lib/dllm/huggingface
{{- end }}

{{/* Whether the checkpoint is fetched from the hub: nothing, or "true". */}}
{{- define "dllm-stack.fetches" -}}
{{- if and .pool.onHub .root.Values.weights.download (not .root.Values.weights.volume.image) }}true{{ end -}}
{{- end }}

{{/* Whether each pod has a copy of its own, which goes with it: nothing, or "true". */}}
{{- define "dllm-stack.fetchesAnew" -}}
{{- if and (include "dllm-stack.fetches" .) (not (or .root.Values.weights.volume.pvc .root.Values.weights.volume.hostPath)) }}true{{ end -}}
{{- end }}

{{/* How long a pool without workers takes jobs: its last one may be followed by one that has to fetch and read the weights
first, as in the upgrade of a pool that has one. Takes {root, pools}, and says the same to all that ask for it. */}}
{{- define "dllm-stack.workerGraceEnv" -}}
{{- if not (hasKey (default dict .root.Values.config.queue) "worker_grace_s") -}}
{{- $most := 0 -}}
{{- range .pools -}}
{{- $fetchS := ternary .fetchS 0 (eq (include "dllm-stack.fetchesAnew" (dict "root" $.root "pool" .)) "true") -}}
{{- $most = max $most (add .readS $fetchS) -}}
{{- end -}}
- name: DLLM_QUEUE__WORKER_GRACE_S
  value: {{ include "dllm-stack.setting" (dict "root" .root "group" "queue" "name" "worker_grace_s") | int | add $most | quote }}
{{- end -}}
{{- end }}

{{- define "dllm-stack.fetchContainer" -}}
- name: weights
  image: {{ include "dllm-stack.image" (dict "root" .root "repository" (get .root.Values.image.worker .pool.vendor)) }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args: [fetch]
  securityContext:
    {{- include "dllm-stack.securityContext" . | nindent 4 }}
  env:
    {{- include "dllm-stack.modelEnv" . | nindent 4 }}
    {{- with .root.Values.weights.endpoint }}
    - name: HF_ENDPOINT
      value: {{ . | quote }}
    {{- end }}
    {{- with .root.Values.weights.hubSecret }}
    {{- if .name }}
    - name: HF_TOKEN
      valueFrom:
        secretKeyRef: {name: {{ quote .name }}, key: {{ quote .key }}}
    {{- end }}
    {{- end }}
    {{- with .pool.worker.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  resources:
    requests: {cpu: "1", memory: 1Gi}
    limits: {memory: 4Gi}
  volumeMounts:
    {{- include "dllm-stack.workerMounts" (merge (dict "writes" true) .) | nindent 4 }}
{{- end }}

{{/* The pod of a Job that fetches ahead of the workers. Takes {root, pool, values}. */}}
{{- define "dllm-stack.fetchPod" -}}
{{ include "dllm-stack.podSpec" . }}
# Where the workers will be: a volume may be bound to the place of its first pod.
{{ include "dllm-stack.workerPlacement" . | trim }}
restartPolicy: OnFailure
containers:
  {{- include "dllm-stack.fetchContainer" . | nindent 2 }}
volumes:
  {{- include "dllm-stack.workerVolumes" . | nindent 2 }}
{{- end }}

{{- define "dllm-stack.workerMounts" -}}
{{ include "dllm-stack.mounts" .root }}
- name: home
  mountPath: /var/lib/dllm
- name: weights
  mountPath: /weights
  {{- if not .writes }}
  readOnly: true
  {{- end }}
{{- with .pool.worker.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "dllm-stack.workerVolumes" -}}
- name: config
  projected:
    sources:
      - configMap:
          name: {{ include "dllm-stack.name" (dict "root" .root "component" "settings") }}
      - configMap:
          name: {{ include "dllm-stack.name" (dict "root" .root "component" (printf "worker-%s" .pool.name)) }}
- name: home
  emptyDir: {}
- name: weights
  {{- with .root.Values.weights.volume }}
  {{- if .pvc }}
  persistentVolumeClaim:
    claimName: {{ default (include "dllm-stack.name" (dict "root" $.root "component" "weights")) .pvc.claimName | quote }}
  {{- else if .hostPath }}
  hostPath: {path: {{ quote .hostPath }}, type: Directory}
  {{- else if .image }}
  image: {reference: {{ quote .image }}, pullPolicy: IfNotPresent}
  {{- else }}
  emptyDir: {{ toJson (default dict .emptyDir) }}
  {{- end }}
  {{- end }}
{{ include "dllm-stack.volumes" .root }}
{{- with .pool.worker.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The values' resources over the chart's own, and the GPUs. */}}
{{- define "dllm-stack.workerResources" -}}
{{- $given := .pool.worker.resources -}}
{{- $requests := dict "cpu" (mul 4 .pool.tp | toString) "memory" (printf "%dGi" (mul 16 .pool.tp)) -}}
{{- if include "dllm-stack.fetchesAnew" . -}}
{{- /* Else the node's disk would run full, and it would throw pods out. */ -}}
{{- $_ := set $requests "ephemeral-storage" (printf "%dGi" (add 2 .pool.weightsGiB)) -}}
{{- end -}}
{{- $gpus := dict -}}
{{- with .pool.gpuResource -}}
{{- $_ := set $gpus . (int $.pool.tp) -}}
{{- end -}}
requests:
  {{- include "dllm-stack.over" (list $requests (default dict $given.requests)) | nindent 2 }}
{{- with include "dllm-stack.over" (list $gpus (default dict $given.limits)) | fromYaml }}
limits:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
