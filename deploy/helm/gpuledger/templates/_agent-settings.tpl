{{- /* Made of deploy/kubernetes/base/agent-settings.yaml by deploy/helm/build.py: change those. */ -}}
{{- define "gpuledger.agentDefaults" -}}
# docs/agent.md. $NAME is taken from the environment; the node's name is GPULEDGER_NODE.
cluster: {{ .Values.cluster | quote }}
deliver:
  url: https://gpuledger.{{ .Release.Namespace }}.svc:8443
  token_file: /etc/gpuledger-token/token
  ca_file: /etc/gpuledger-token/ca.crt
spool:
  folder: /var/lib/gpuledger/spool
metrics:
  host: 0.0.0.0      # the network policy says who may ask
  port: 9108
sources:
  nvml:
    interval_seconds: 60
    kernel_log: null  # a container has no /dev/kmsg
    kubelet_url: https://$NODE_IP:10250
    kubelet_token_file: /var/run/secrets/kubernetes.io/serviceaccount/token
    kubelet_ca_file: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
{{- end }}
