"""The base error of the collectors."""

from __future__ import annotations

from warehouse.errors import LedgerError


class CollectorError(LedgerError):
    """A source's file or option cannot be used: where, what and the next step."""
