"""The base error of objectives."""

from __future__ import annotations

from warehouse.errors import LedgerError


class SloError(LedgerError):
    """An objectives file, or a question about objectives, cannot be used: where, what and the next step."""
