"""The error of this package."""

from __future__ import annotations

from warehouse.errors import LedgerError


class AlertError(LedgerError):
    """A rule, a routing file, a silence or a secret is of no use: where, what and the next step."""
