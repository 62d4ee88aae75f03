"""What the ledger advises: how well what was held was used, what could be held cheaper, and which days stand out.

Owns:      efficiency (`efficiency`), what changed since another period and why (`changes`), recommendations with their
           evidence (`savings`), costs out of the ordinary (`anomalies`), the MIG profiles that exist (`mig_profiles`).
Owns not:  the books (billing/close), acting on a recommendation (people), telling somebody (alerts).
Words:     *judged* is what enough is known about; the rest is listed as *not judged*, with the reason, and never
           recommended, flagged or taken for idle.
"""
