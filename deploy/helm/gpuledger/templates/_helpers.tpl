{{- define "gpuledger.labels" -}}
app.kubernetes.io/part-of: gpuledger
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{- define "gpuledger.image" -}}
{{ .of.repository }}:{{ .of.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- /* Where a program's pods may run, and what pulls their images. */ -}}
{{- define "gpuledger.scheduling" -}}
{{- with .of.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "gpuledger.replicas" -}}
{{- $replicas := int .Values.server.replicas -}}
{{- if and .Values.maintenance .Values.clickhouse.enabled -}}
{{- fail "maintenance: is for the embedded store, and clickhouse.enabled is true. Next: maintenance: false" -}}
{{- end -}}
{{- if and (gt $replicas 1) (not .Values.clickhouse.enabled) -}}
{{- fail "server.replicas: the embedded store belongs to one process. Next: clickhouse.enabled: true, or replicas: 1" -}}
{{- end -}}
{{- if and (gt $replicas 1) (not (get .Values.server.settings "GPULEDGER_ACCESS_STORE")) -}}
{{- fail "server.replicas: several servers need one access store. Next: server.settings.GPULEDGER_ACCESS_STORE: postgresql://..." -}}
{{- end -}}
{{- if .Values.maintenance }}0{{ else }}{{ $replicas }}{{ end -}}
{{- end }}

{{- define "gpuledger.budgetFits" -}}
{{- if lt (int .Values.server.replicas) 2 -}}
{{- fail "podDisruptionBudget: for one server it would stop every drain of its node. Next: server.replicas: 2" -}}
{{- end -}}
{{- end }}

{{- define "gpuledger.agentSettings" -}}
{{- $settings := include "gpuledger.agentDefaults" . | fromYaml -}}
{{- if hasKey .Values.agent.settings "sources" -}}
{{- $_ := unset $settings "sources" -}}
{{- end -}}
{{- mustMergeOverwrite $settings (deepCopy .Values.agent.settings) | toYaml -}}
{{- end }}

{{- define "gpuledger.senders" -}}
{{ include "gpuledger.senderAccounts" . }}
{{- with .Values.server.senders }}
senders: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
