"""Quotas: the tree of tenants with borrowing and lending, fair shares, and past usage.

Owns:      the arithmetic of quotas and shares, in whole device units, without nodes, jobs or time limits.
Owns not:  which job starts next and which is preempted (scheduler.cycle).

    tree    guarantees, limits, borrowing and lending
    shares  dominant share, fair share, runtime quota
    usage   decaying past usage

Words:
    nominal    what a tenant is guaranteed; an inner tenant's own comes on top of its children's
    subtree    a tenant's nominal and what its children put in common
    local      the part of it that a lending limit reserves for itself
    borrowing  holding more than the subtree's
"""
