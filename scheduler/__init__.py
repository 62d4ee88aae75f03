"""The reference scheduler: pure decisions over (state, now), a simulator, a live loop.

Owns:      queues, quotas, placement, preemption and the reason for each; the allocation events that billing reads.
Owns not:  what an allocation costs (billing), how events are stored (ingest, warehouse).

    cycle       one scheduling cycle: which jobs start, resize or are preempted, and why the others wait
    placement   where a request fits: free capacity, scores, topology, MIG, consolidation
    quota       how much each tenant may hold: guarantees, borrowing, fair shares
    records     what is recorded: the crash-safe log, allocation events, decisions and their replay
    live        decisions in real time: the loop, executors, HTTP
    kubernetes  jobs as pods: ElasticJobs, the executor that owns their pods, and the operator's loop
    simulate    decisions in virtual time, over a trace or a store's books

A new scheduling policy: cycle/order.py orders jobs, cycle/rights.py has the rights to preempt, placement chooses nodes
and devices (CONTRIBUTING.md has the steps).

See docs/scheduler.md, docs/placement.md, docs/operator.md.
"""
