"""NVIDIA GPUs through NVML: readings of devices and MIG instances over each interval, and findings about them.

Owns:      every call of the driver's library, averaging over the interval, cumulative counters, XIDs, the inventory.
Owns not:  whose processes they are and which activity is billed (collectors.attribution), the cycle (the agent).
Words:     NVML's own: a *device*, a *MIG device* (here partition), a *GPU instance* (`gi`), a *compute instance*
           (`ci`), a *sample buffer*, a *field*, *GPM* (GPU performance monitoring, Hopper and newer), an *XID*.

Modules:   library (the only one that touches pynvml) -> inventory, activity, gpm, counters, gauges, events, expected
           -> meter (readings of an interval) -> collector (the cycle); record saves a real run as a fixture. Which
           metric is read from where: docs/nvml.md.
"""
