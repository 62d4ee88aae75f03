{{- /* Made of deploy/kubernetes/base/senders.yaml by deploy/helm/build.py: change those. */ -}}
{{- define "gpuledger.senderAccounts" -}}
# Who may push what (docs/agent.md). Accounts are reviewed by the API server: there is no secret here, and what comes from
# other clusters or machines is added below `senders` with the hash of its token.
{{- if or .Values.agent.enabled .Values.watch.enabled }}
kubernetes:
  audience: gpuledger
  accounts:
    {{- if .Values.agent.enabled }}
    # Each agent, of its own node alone.
    - account: {{ .Release.Namespace }}/gpuledger-agent
      records: [samples, metrics, findings, devices]
      clusters: [{{ .Values.cluster | quote }}]
      nodes: own
      {{- end }}
    {{- if .Values.watch.enabled }}
    # Who was given what, and which nodes are away. When it is first asked it tells of what runs from its beginning on.
    - account: {{ .Release.Namespace }}/gpuledger-watch
      records: [events, devices, findings, service_levels]
      services: [kueue/*, volcano/*]
      clusters: [{{ .Values.cluster | quote }}]
      nodes: all
      back: 366d
      inventory: true
      {{- end }}
      {{- end }}
{{- end }}
