"""The decision cycle: which jobs start, shrink, grow or are preempted, and why the others wait.

Owns:      order, admission, gangs, backfill, reservations, elastic sizes, preemption, reasons; the state they need.
Owns not:  where a replica fits best (scheduler.placement), the arithmetic of quotas (scheduler.quota), carrying a plan
           out (scheduler.live, scheduler.simulate).

Words:
    class      pending jobs that no decision tells apart but by their age and time limit: tried once a cycle
    cycle      one call of `plan`: tried on the cluster and the trees, then undone
    promise    capacity kept from a time on for a job that waits, a reservation or a maintenance window
"""
