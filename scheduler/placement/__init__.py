"""Where a request goes: what is free, scores, gangs, topology, MIG, why not, and what to move to make room.

Owns:      free capacity and its exact bookkeeping (cluster), the choice of nodes and devices (engine and the policies),
           the reasons why something does not fit, proposals of moves.
Owns not:  who may have it (quotas, queues), in which order, and when it ends.
"""
