"""Placement: free capacity, scores, gangs, topology, MIG, reasons, and moves that make room.

Owns not:  who may have it (quotas, queues), in which order, and when it ends.

    cluster                        free capacity and its exact bookkeeping, with rollback
    shapes                         what a request means on the cluster's nodes; mig: legal MIG placements
    engine                         places a replica or a gang by a policy's scores; topology: which nodes for a gang
    packing, fgd, interference     the policies: packing scores, least fragmentation, least interference
    fragmentation, headroom        what is measured for them: fragmentation, and capacity that pools reserve
    reasons                        why a request does not fit, and what would
    consolidation, holdings        moves of running replicas that make room
"""
