"""The decision cycle: which jobs start, shrink, grow or are preempted, and why the others wait.

Owns:      order, admission, gangs, backfill, reservations, elastic sizes, preemption, reasons; the state they need.
Owns not:  where a replica fits best (scheduler.placement), the arithmetic of quotas (scheduler.quota), carrying a plan
           out (scheduler.live, scheduler.simulate).

Words:
    class      pending jobs that differ only in age and time limit, and are tried together, once a cycle
    cycle      one call of `plan`: tried out on the cluster and the quota trees, then undone
    head       the job of a queue (or class, or tenant) that is next
    promise    capacity held from a future time on for a pending job
    trial      the changes of a cycle before they are undone
"""
