"""`kubectl gpuledger`: what kubectl's users ask of the books, where they already are.

Owns:      the commands (`cli`), what is read of the cluster (`cluster`), and each answer (`explain`, `cost`, `who`).
Owns not:  the connection (collectors.kubernetes.connection), the server's answers (gpuledger.client); it changes
           nothing.
Words:     Kubernetes' own: namespace, pod, node. A namespace is a project of the books.
Source:    https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/
"""
