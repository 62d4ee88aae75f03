"""The Kubernetes API: pods become events, nodes and ResourceSlices become device rows.

Owns:      the connection (`connection`, `api`; of a person's single requests `direct`, `contexts`), following a
           resource without a gap (`follow`), what a pod requests (`resources`, `claims`), its lifecycle from its
           object (`pods`, `endings`, `kueue`), a node's devices (`nodes`), what waits in other schedulers' queues and
           their quotas (`waits`, `quotas`, `queues`), where a watch left off (`state`), and the loop (`watcher`).
Owns not:  which device a pod got, if only the kubelet knows it (attribution, on the node); the store.
Words:     Kubernetes' own: pod, node, claim, slice, condition. A pod is a workload, and its UID identifies it; its
           allocations carry the UID too.
Rules:     each event is reported once, with timestamps from the object, so that a second watcher reports the same rows.
Source:    https://kubernetes.io/docs/reference/using-api/api-concepts/, .../docs/concepts/workloads/pods/pod-lifecycle/
"""
