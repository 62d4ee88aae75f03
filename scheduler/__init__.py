"""The reference scheduler: pure decisions over (state, now), a simulator, a live loop.

Owns:      queues, quotas, placement, preemption and the reason for each; the allocation events that billing reads.
Owns not:  what an allocation costs (billing), how events are stored (ingest, warehouse).
See docs/scheduler.md, docs/placement.md.
"""
