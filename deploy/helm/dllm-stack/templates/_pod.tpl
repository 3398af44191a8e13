{{/* What pods have in common. */}}

{{- define "dllm-stack.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "dllm-stack.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Of what a service reads only when it starts. */}}
{{- define "dllm-stack.checksums" -}}
checksum/settings: {{ toYaml .Values.config | sha256sum }}
{{- if and (eq .Values.redis.mode "external") .Values.redis.external.url }}
checksum/redis: {{ sha256sum .Values.redis.external.url }}
{{- end }}
{{- end }}

{{/* A pod template's metadata. Takes {root, component, pool, annotations}. */}}
{{- define "dllm-stack.podMetadata" -}}
labels:
  {{- include "dllm-stack.selector" . | nindent 2 }}
  {{- with .root.Values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (default dict .annotations) (default dict .values.podAnnotations) .root.Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A pod's spec as far as all have it. Takes {root, values}, and token where it may ask the cluster. */}}
{{- define "dllm-stack.podSpec" -}}
# What the pods of a namespace are told of its Services is not needed, and could be taken for settings.
enableServiceLinks: false
automountServiceAccountToken: {{ default false .token }}
securityContext:
  {{- include "dllm-stack.podSecurityContext" . | nindent 2 }}
  {{- with .values.supplementalGroups }}
  supplementalGroups: {{ toJson . }}
  {{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ quote . }}
  {{- end }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ quote . }}
{{- end }}
{{- with .values.runtimeClassName }}
runtimeClassName: {{ quote . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Spread over nodes, unless the values say otherwise. Takes {root, component, values, zones}. */}}
{{- define "dllm-stack.spread" -}}
topologySpreadConstraints:
{{- with .values.topologySpreadConstraints }}
  {{- toYaml . | nindent 2 }}
{{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "dllm-stack.selector" . | nindent 8 }}
  {{- if gt (int (default 1 .zones)) 1 }}
  - maxSkew: 1
    minDomains: {{ int .zones }}
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: DoNotSchedule
    labelSelector:
      matchLabels:
        {{- include "dllm-stack.selector" . | nindent 8 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The environment of every service. */}}
{{- define "dllm-stack.env" -}}
- name: DLLM_CONFIG
  value: /etc/dllm/settings.yaml
- name: DLLM_LOG_FORMAT
  value: json
{{ include "dllm-stack.redisEnv" . }}
{{- end }}

{{- define "dllm-stack.redisEnv" -}}
{{- if eq .Values.redis.mode "trial" -}}
- name: REDIS_PASSWORD
  valueFrom:
    secretKeyRef: {{ include "dllm-stack.redisPassword" . }}
- name: DLLM_REDIS__URL
  value: redis://:$(REDIS_PASSWORD)@{{ include "dllm-stack.name" (dict "root" . "component" "redis") }}:6379/0
{{- else -}}
- name: DLLM_REDIS__URL
  valueFrom:
    {{- if .Values.redis.external.secret.name }}
    secretKeyRef: {name: {{ quote .Values.redis.external.secret.name }}, key: {{ quote .Values.redis.external.secret.key }}}
    {{- else }}
    secretKeyRef: {name: {{ include "dllm-stack.name" (dict "root" . "component" "redis") }}, key: url}
    {{- end }}
{{- end }}
{{- end }}

{{- define "dllm-stack.redisPassword" -}}
{{- with .Values.redis.trial.passwordSecret -}}
{{- if .name -}}
{name: {{ quote .name }}, key: {{ quote .key }}}
{{- else -}}
{name: {{ include "dllm-stack.name" (dict "root" $ "component" "redis") }}, key: password}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Mounts of every service, beside /etc/dllm. */}}
{{- define "dllm-stack.mounts" -}}
- name: config
  mountPath: /etc/dllm
  readOnly: true
- name: tmp
  mountPath: /tmp
{{- if and (eq .Values.redis.mode "external") .Values.redis.external.caSecret.name }}
- name: redis-ca
  mountPath: /etc/redis-ca
  readOnly: true
{{- end }}
{{- end }}

{{- define "dllm-stack.volumes" -}}
- name: tmp
  emptyDir: {}
{{- if and (eq .Values.redis.mode "external") .Values.redis.external.caSecret.name }}
- name: redis-ca
  secret:
    secretName: {{ quote .Values.redis.external.caSecret.name }}
    items: [{key: {{ quote .Values.redis.external.caSecret.key }}, path: {{ quote .Values.redis.external.caSecret.key }}}]
{{- end }}
{{- end }}

{{/* Of /readyz, which waits for Redis that long. */}}
{{- define "dllm-stack.readyTimeoutS" -}}
{{ include "dllm-stack.setting" (dict "root" . "group" "redis" "name" "timeout_s") | float64 | ceil | int | add 1 }}
{{- end }}
