"""The error of this package."""

from __future__ import annotations

from warehouse.errors import LedgerError


class ExportError(LedgerError):
    """Something that cannot be exported, or a file that cannot be written or read."""
