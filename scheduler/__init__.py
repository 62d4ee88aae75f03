"""The reference scheduler: pure decisions over (state, now), a simulator, a live loop.

Owns:      queues, quotas, placement, preemption and the reason for each; the allocation events that billing reads.
Owns not:  what an allocation costs (billing), how events are stored (ingest, warehouse).

    cycle       one decision: what starts, shrinks, grows, gives way, and why the rest waits
    placement   where a request fits: free capacity, scores, topology, MIG, moves
    quota       who may hold how much: tenants, borrowing, fair shares
    records     what is written down: events, the log, decisions
    live        the same decisions on the wall clock: the loop, executors, HTTP
    kubernetes  jobs as pods: ElasticJobs, the executor that owns their pods, and the loop around both
    simulate    the same decisions on virtual time, over a trace

See docs/scheduler.md, docs/placement.md, docs/operator.md.
"""
