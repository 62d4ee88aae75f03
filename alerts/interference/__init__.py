"""Interference on shared GPUs: compares workloads with how they run alone, under the same load.

    samples, metrics, service_levels, allocations ─▶ windows ─▶ baselines (windows alone)
                                                        └──────────┴─▶ interference_samples ─▶ episodes, ranking, speeds

Owns:      baselines, slowdowns and their evidence, episodes, the ranking of victims and aggressors, and the speeds of
           pairs that a scheduler's anti-interference score uses.
Owns not:  the facts, who is notified (alerts/routing), where anything is placed (scheduler).
Words:     slowdown S = T shared / T alone (of a rate: alone / shared); coefficient I = S - 1; jitter J = P99/P50 shared
           by P99/P50 alone. A window is *exclusive* if the workload was the only one with processes on all of its
           devices, *shared* if others had some there too, else *unsure*. An *identity* is what shares a baseline: a
           service, or a workload by itself (trainings). The *grade* is the quality of the evidence: `measured` (its own
           measure against a baseline), `likely` (the device is contended and its own utilization fell while there was
           work), `suspected` (the device is contended), `unknown`.
Traps:     a device without contention proves nothing: without a measure, the result is unknown, not undisturbed.
"""
