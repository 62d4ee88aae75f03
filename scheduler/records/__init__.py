"""The scheduler's records: events for billing, the crash-safe log, and the record of each decision.

Owns:      the rows of the events contract, the log's file, the record of a decision and its replay.
Owns not:  what is decided (scheduler.cycle), what an allocation costs (billing).
Words:     an *entry* is one line of the log: something that happened, in an order that never changes. An *attempt* is
           one run of a job: the second begins when the first was preempted, and is an allocation of its own.

    log      the file of entries; restore: the state from its entries, and replay of recorded plans
    book     applies what happens to jobs to state, metrics and events; cycles: what a cycle passes to later ones
    events   the rows of the events contract
"""
