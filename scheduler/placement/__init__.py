"""Placement: free capacity, scores, gangs, topology, MIG, reasons, and moves that make room.

Owns:      free capacity and its exact bookkeeping (cluster), the choice of nodes and devices (engine and the policies),
           the reasons why something does not fit, proposals of moves.
Owns not:  who may have it (quotas, queues), in which order, and when it ends.
"""
