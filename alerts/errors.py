"""The base error of the alerting."""

from __future__ import annotations

from warehouse.errors import LedgerError


class AlertError(LedgerError):
    """A rule, a routing file, a silence or a secret cannot be used: where, what and the next step."""
