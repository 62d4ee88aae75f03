"""Slurm: which job was allocated which GPUs, from accounting, the controller or the REST interface.

Owns:      reading `sacct`, `squeue`, `scontrol` and slurmrestd; mapping Slurm's terms to ours.
Owns not:  who pays (the tenant mapping), processes on a node (attribution), what was used (samples).
Words:     a *job* is one record of a run: a requeued job has several. Its *raw* id is the one in cgroups. A *gres
           index* numbers a node's GPUs the way Slurm does; an *inventory* maps it to a device.

    sacct JSON, text ───┐
    slurmdb JSON ───────┼─▶ Job ─▶ events: submitted, started (node only), ended
    squeue JSON ────────┤      └─▶ events: resized (the devices, once their indices are reported), reasons for waiting
    slurmctld JSON ─────┘
    nodes, and when jobs were on them ─▶ devices that are unavailable, findings
"""
