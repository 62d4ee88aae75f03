"""What the ledger recommends: how well allocations were used, how they could cost less, and which days stand out.

Owns:      efficiency (`efficiency`), what changed since another period and why (`changes`), recommendations with their
           evidence (`savings`), unusual costs (`anomalies`), the MIG profiles that exist (`mig_profiles`).
Owns not:  the books (billing/close), acting on a recommendation (people), notifying somebody (alerts).
Words:     something is *judged* if enough is known about it; the rest is listed as *not judged*, with the reason, and
           never recommended, flagged or taken for idle.

    savings:  holders ─▶ proposals ─▶ outlook ─▶ savings (and waste, sentences)
"""
