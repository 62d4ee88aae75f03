"""The Kubernetes API: pods become events, nodes and ResourceSlices become device rows.

Owns:      the connection (`connection`, `api`), following a resource without a gap (`follow`), what a pod asks for
           (`resources`, `claims`), what its object says of its life (`pods`, `endings`, `kueue`), what nodes say of
           their devices (`nodes`), where a watch left off (`state`), and the loop (`watcher`).
Owns not:  which device a pod got, where only the kubelet knows it (attribution, on the node); the store.
Words:     Kubernetes' own: pod, node, claim, slice, condition. A pod is a workload, and its UID identifies it; its
           allocations carry the UID too. To *tell* is to hand an event row on: each is reported once.
Source:    https://kubernetes.io/docs/reference/using-api/api-concepts/, .../docs/concepts/workloads/pods/pod-lifecycle/
"""
