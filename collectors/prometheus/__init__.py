"""The history that a Prometheus holds of a cluster: devices, their use, and which pods held them.

pods       kube-state-metrics' series of a pod -> the object that the API server would have shown
holders    those objects over time -> the events of their allocations
history    both, and the exporters' measurements, in pieces from the oldest on; a restart resumes where it was
"""
