"""The error of this package."""

from __future__ import annotations

from warehouse.errors import LedgerError


class IngestError(LedgerError):
    """A file or table of which nothing can be used. A bad row is never an error: it is a `Reject`."""
