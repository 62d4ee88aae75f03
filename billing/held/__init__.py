"""Deciding on held pushes: the effect of accepting one on the books, and the decision with its audit entry.

Owns not: which rows are held, and why (ingest.issued_months, ingest.held).
"""

from billing.held.decisions import accept, refuse
from billing.held.effect import Change, Effect, effect

__all__ = ["Change", "Effect", "accept", "effect", "refuse"]
