"""What a Prometheus already holds of a cluster, read backwards in time: devices, their use, and who held them.

pods       what kube-state-metrics says of a pod -> the object that the API server would show
holders    those objects over time -> the events of their allocations
history    both, and what the exporters measured, in pieces from the oldest on; a restart goes on where it was
"""
