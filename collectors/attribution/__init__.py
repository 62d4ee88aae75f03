"""Who uses a device and who may: processes by their cgroup, allocations by the kubelet.

Owns:      pid -> owner (`cgroup`, `processes`), what the kubelet handed out (`podresources`), which devices a
           claim's names mean (`slices`), pod names -> UIDs (`kubelet`), and the join of both with what a device did
           (`attribute`, `node`).
Owns not:  reading devices and their processes (collectors of a vendor), when allocations began and ended (events),
           what use means in money (billing).
Words:     an *owner* is the pod or Slurm job that a process belongs to; an *allocation* is what the kubelet says a
           pod may use; a *replica* is one of N equal claims on a device; a *breach* is use without an allocation; the
           *residual* is activity of a device that no known owner's process explains.
"""
