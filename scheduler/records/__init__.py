"""The scheduler's records: events for billing, the crash-safe log, and the record of each decision.

Owns:      the rows of the events contract, the log's file, what is kept of a decision and how it is played again.
Owns not:  what is decided (scheduler.cycle), what an allocation costs (billing).
Words:     an *entry* is one line of the log: something that happened, in an order that never changes. An *attempt* is
           one run of a job: the second begins when the first was preempted, and is an allocation of its own.
"""
