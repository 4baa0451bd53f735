{{/* The prefix of all names: cronflow for a release of that name, otherwise the name of the release and cronflow. */}}
{{- define "cronflow.name" -}}
{{- if eq .Release.Name "cronflow" }}cronflow{{ else }}{{ printf "%s-cronflow" .Release.Name | trunc 50 }}{{ end -}}
{{- end }}

{{/* The labels that select the pods of a component: (list . "node"). */}}
{{- define "cronflow.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: cronflow
app.kubernetes.io/component: {{ index . 1 }}
{{- if ne $root.Release.Name "cronflow" }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- end }}
{{- end }}

{{- define "cronflow.labels" -}}
{{ include "cronflow.selector" . }}
{{- $root := index . 0 }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{- define "cronflow.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The settings as environment variables: (list . .Values.nodes.settings). */}}
{{- define "cronflow.settings" -}}
{{- $root := index . 0 -}}
{{- $settings := merge (dict) (index . 1) $root.Values.settings -}}
{{- range $name, $value := $settings }}
- {name: CRONFLOW_{{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end }}

{{/* What the pods of both components have in common: (list . "node" 90). */}}
{{- define "cronflow.pod" -}}
{{- $root := index . 0 -}}
{{- $component := index . 1 -}}
terminationGracePeriodSeconds: {{ index . 2 }}
# Kubernetes would add variables such as CRONFLOW_API_PORT for its Services, which are not valid settings.
enableServiceLinks: false
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "cronflow.selector" (list $root $component) | nindent 8 }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $own := ternary $root.Values.nodes $root.Values.api (eq $component "node") }}
{{- with $own.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $own.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "cronflow.container" -}}
image: {{ include "cronflow.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* The secrets that a process reads, as files: (list . "REDIS_URL" …). */}}
{{- define "cronflow.secrets" -}}
- name: secrets
  secret:
    secretName: {{ (first .).Values.existingSecret }}
    defaultMode: 0440
    items:
      {{- range rest . }}
      - {key: {{ . }}, path: {{ . }}}
      {{- end }}
{{- end }}
