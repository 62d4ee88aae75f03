"""The parameters that statements over the books have in common."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from billing.periods import Period


def period_params(period: Period) -> dict[str, datetime]:
    return {"start": period.start, "end": period.end}


def tenant_params(tenant: str | None) -> dict[str, Any]:
    """None: all tenants."""
    return {"all_tenants": int(tenant is None), "tenant": tenant or ""}
