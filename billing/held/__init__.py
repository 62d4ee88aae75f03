"""Held pushes, as the person who decides sees them: what a yes would do to the books, and the decision with its audit.

Owns not: which rows are held, and why (ingest.issued_guard, ingest.held).
"""

from billing.held.decisions import accept, refuse
from billing.held.effect import Change, Effect, effect

__all__ = ["Change", "Effect", "accept", "effect", "refuse"]
