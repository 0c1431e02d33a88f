{{- define "fleet.labels" -}}
app.kubernetes.io/instance: {{ .Values.name }}
{{- end }}

{{- define "fleet.servers" -}}
{{- $name := .Values.name -}}
{{- range $n := until (int .Values.servers) }}{{ if $n }},{{ end }}{{ $name }}-server-{{ $n }}.{{ $name }}:6170{{ end }}
{{- end }}

{{- define "fleet.endpoints" -}}
{{- $name := .Values.name -}}
{{- range $n := until (int .Values.workers) }}{{ if $n }},{{ end }}{{ $name }}-worker-{{ $n }}.{{ $name }}:6180{{ end }}
{{- end }}

{{- define "fleet.variables" -}}
{{- if .Values.servers }}
- name: FLEET_WORKERS
  value: {{ .Values.workers | quote }}
{{- end }}
{{- with .Values.durable.folder }}
- name: FLEET_DURABLE
  value: {{ . | quote }}
- name: FLEET_RECOVERY_TIMEOUT_S
  value: "600"
{{- end }}
{{- with .Values.durable.journal }}
- name: FLEET_JOURNAL
  value: {{ . }}
{{- end }}
- name: PYTHONUNBUFFERED
  value: "1"
- name: FLEET_JOB_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ .Values.name }}-token
      key: token
{{- end }}

{{- define "fleet.resources" -}}
requests:
  cpu: {{ .cpu | quote }}
  memory: {{ .memory | quote }}
limits:
  memory: {{ .memory | quote }}
  {{- with .gpus }}
  nvidia.com/gpu: {{ . | quote }}
  {{- end }}
{{- end }}

{{- define "fleet.mounts" -}}
{{- with .Values.durable.folder }}
volumeMounts:
  - name: kept
    mountPath: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "fleet.claim" -}}
accessModes: [{{ .mode }}]
storageClassName: {{ .durable.storageClass }}
resources:
  requests:
    storage: {{ .durable.storage | quote }}
{{- end }}
