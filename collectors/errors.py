"""What a collector cannot use."""

from __future__ import annotations

from warehouse.errors import LedgerError


class CollectorError(LedgerError):
    """A source's file or option is of no use: where, what and the next step."""
