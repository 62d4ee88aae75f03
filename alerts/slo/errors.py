"""The error of this package."""

from __future__ import annotations

from warehouse.errors import LedgerError


class SloError(LedgerError):
    """An objectives file or a question about objectives is of no use: where, what and the next step."""
