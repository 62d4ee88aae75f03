"""Which workload uses a device, and which one may: processes by their cgroup, allocations by the kubelet.

Owns:      pid -> owner (`cgroup`, `processes`), the kubelet's allocations (`podresources`), the devices that a claim's
           names mean (`slices`), pod names -> UIDs (`kubelet`), and the join of both with a device's readings
           (`attribute`, `node`).
Owns not:  reading devices and their processes (the vendors' collectors), when allocations began and ended (events),
           what use means in money (billing).
Words:     an *owner* is the pod or Slurm job that a process belongs to; an *allocation* is what the kubelet says a
           pod may use; a *place* is a device or one partition of it; a *replica* is one of N equal claims on a device;
           a
           *breach* is use without an allocation; the *residual* is activity of a device that no known owner explains.
"""
