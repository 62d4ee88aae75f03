"""`kubectl gpuledger`: what kubectl's users ask of the books, where they already are.

Owns:      the commands (`cli`) and each answer (`explain`, `cost`, `who`).
Owns not:  what is asked of the cluster (collectors.kubernetes.direct), the server's answers (gpuledger.client).
           It changes nothing.
Words:     Kubernetes' own: namespace, pod, node. A namespace is a project of the books.
Source:    https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/
"""
