"""What schedulers guarantee tenants, and what they hold and ask for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from billing.insights.now.asking import Ask


def quotas(ask: Ask, at: datetime) -> Sequence[dict[str, Any]]:
    """The rows of quotas.sql, each with what is owed (guaranteed, asked for and not held) and what is borrowed (held
    beyond the guarantee); None where something of it is not reported."""
    return [{**row, **_compared(row["guaranteed"], row["held"], row["asked"])} for row in ask("quotas", at=at)]


def _compared(guaranteed: float | None, held: float | None, asked: float | None) -> dict[str, float | None]:
    if guaranteed is None or held is None or asked is None:
        return {"owed": None, "borrowed": None}
    return {"owed": max(0.0, min(guaranteed, held + asked) - held), "borrowed": max(0.0, held - guaranteed)}
