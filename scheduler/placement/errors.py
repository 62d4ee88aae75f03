"""The error of this package."""

from __future__ import annotations

from warehouse.errors import LedgerError


class PlacementError(LedgerError):
    """A cluster that contradicts itself, or a grant that does not fit it: where, what and the next step."""
