"""The analysts' views (docs/sql.md) row by row, also for tenants: the scope is a typed parameter of the query."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from api.caller import Caller, PeriodText, See, Tenant
from api.paging import Limit, Offset, Page, next_page
from api.problems import NotFoundError
from api.strict import StrictRoute
from billing.ledger_report import billing_timezone
from billing.periods import PeriodError
from gpuledger import documents
from warehouse.json_values import as_json
from warehouse.store import identifier, read_sql

router = APIRouter(tags=["views"], route_class=StrictRoute)
TIME_OF = {
    "v_usage_hourly": "hour",
    "v_charges": "charge_period_start",
    "v_allocations": "start_at",
    "v_queue_wait": "submitted_at",
    "v_events": "ts",
    "v_invoices": "month",
    "v_invoice_lines": "month",
    "v_energy": "hour",
}
"""The views whose rows are a tenant's, and the time by which a period cuts them: of a month, its beginning."""
FLEET_TIME_OF = {"v_capacity_hourly": "hour", "v_devices": ""}
"""Those about the fleet as a whole; empty: there is no time to cut by."""

_MONTH_BEGINS = "toDateTime64(concat(month, '-01 00:00:00'), 3, {zone:String})"


@router.get("/views")
def views(caller: See) -> list[documents.ViewDocument]:
    """The views that you may read, with their columns."""
    found: dict[str, documents.ViewDocument] = {}
    for row in caller.store.rows(read_sql(__file__, "views"), {"views": sorted(_readable(caller))}):
        view = found.setdefault(
            row["view"], documents.ViewDocument(name=row["view"], comment=row["view_comment"], columns=[])
        )
        view.columns.append(documents.ViewColumn(name=row["name"], type=row["type"], comment=row["comment"]))
    return list(found.values())


@router.get("/views/{view}")
def rows(
    request: Request,
    caller: See,
    view: str,
    period: PeriodText = None,
    tenant: Tenant = None,
    columns: Annotated[str, Query(max_length=2000, description="Names, separated by commas; by default all.")] = "",
    limit: Limit = 1000,
    offset: Offset = 0,
) -> Page[dict[str, Any]]:
    """A view's rows, in the order of time and then of their columns. Invoices are of a period if their month begins in
    it."""
    times = _readable(caller)
    if view not in times:
        raise NotFoundError(f"view {view!r}", "does not exist, or you don't have access to it", "See: /api/v1/views")
    caller.check_tenant(tenant)
    known = [row["name"] for row in caller.store.rows(read_sql(__file__, "views"), {"views": [view]})]
    wanted = [name.strip() for name in columns.split(",") if name.strip()] or known
    for name in wanted:
        if name not in known:
            raise NotFoundError(f"column {name!r}", f"{view} has no such column", f"It has {', '.join(known)}")
    asked = caller.period(period)
    where, params = _where(caller, view, times[view], tenant)
    if asked is not None:
        if not times[view]:
            raise PeriodError(view, "has no time column for a period", "Leave the period out")
        time = _MONTH_BEGINS if times[view] == "month" else times[view]
        where.append(f"{time} >= {{start:DateTime64(3, 'UTC')}} AND {time} < {{end:DateTime64(3, 'UTC')}}")
        params |= {"start": asked.start, "end": asked.end, "zone": billing_timezone(caller.store)}
    source = {"view": identifier(view), "where": " AND ".join(where)}
    total = int(caller.store.value(read_sql(__file__, "view_count", **source), params))
    order = ", ".join(dict.fromkeys([*([times[view]] if times[view] else []), *map(identifier, known)]))
    chosen = {"columns": ", ".join(map(identifier, wanted)), "order": order}
    sql = read_sql(__file__, "view_rows", **source, **chosen)
    found = caller.store.rows(sql, {**params, "limit": limit, "offset": offset})
    return Page(rows=[as_json(row) for row in found], total=total, next=next_page(request, total, limit, offset))


def _readable(caller: Caller) -> dict[str, str]:
    return {**TIME_OF, **(FLEET_TIME_OF if caller.principal.sees_all else {})}


def _where(caller: Caller, view: str, time: str, tenant: str | None) -> tuple[list[str], dict[str, Any]]:
    if view in FLEET_TIME_OF:
        return ["1"], {}
    params = caller.principal.params()
    where = ["({all_tenants:Bool} OR has({tenants:Array(String)}, tenant))"]
    if tenant is not None:
        where.append("tenant = {tenant:String}")
        params["tenant"] = tenant
    return where, params
