"""Quotas: the tree of tenants with borrowing and lending, fair shares, and past usage.

Owns:      arithmetic of quotas and shares, in whole device units; nothing here knows of nodes, jobs or time limits.
Owns not:  who starts next and who gives way (scheduler.cycle).

Words:
    nominal    what a tenant is guaranteed; an inner tenant's own comes on top of its children's
    subtree    a tenant's nominal and what its children put in common
    local      the part of it that a lending limit keeps from everybody else
    borrowing  holding more than the subtree's
"""
