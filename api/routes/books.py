"""The books as a whole: their health, the close, the proof, the audit trail and exports."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from access.principal import ForbiddenError
from api.caller import Close, MonthText, See, SeeAudit, SeeFleet, Tenant
from api.heavy import HEAVY
from api.paging import Limit, Offset, Page, page_of
from api.strict import Body, StrictRoute
from api.values import aware
from billing import audit
from billing.close import close
from billing.closed import closed_period
from billing.exports.focus import FocusOptions, export_focus
from billing.refused import refused_claims
from billing.verify import verify
from gpuledger import documents
from ingest.quarantine import quarantined
from warehouse.records import RECORD_TYPES
from warehouse.store import identifier

router = APIRouter(tags=["books"], route_class=StrictRoute)
FILES = {"csv": "text/csv", "csv.gz": "application/gzip", "parquet": "application/vnd.apache.parquet"}


@router.get("/health")
def health(caller: SeeFleet) -> documents.Health:
    """What the store holds, what it kept out and why, and how far the books are closed."""
    closed, store = closed_period(caller.store), caller.store
    (last,) = store.rows("SELECT maxOrNull(finished_at) AS at FROM close_runs")
    return documents.Health(
        rows={name: int(store.value(f"SELECT count() AS n FROM {identifier(name)}")) for name in RECORD_TYPES},
        quarantine=[documents.QuarantineGroup(**group) for group in quarantined(store)],
        refused_claims=[documents.RefusedClaims(**row) for row in refused_claims(store)],
        closed=documents.Span(start=closed and closed.start, end=closed and closed.end),
        last_close_at=last["at"],
    )


class WantedClose(Body):
    """until: all hours before it, also those that facts do not reach; else as far as those reach."""

    until: datetime | None = None


AS_FAR_AS_FACTS = WantedClose()


@router.post("/close")
def close_(caller: Close, wanted: WantedClose = AS_FAR_AS_FACTS) -> documents.Closed:
    """Closes what can be closed now; doing it again changes nothing."""
    until, actor = wanted.until and aware(wanted.until), caller.principal.actor
    with (
        caller.writing() as store,
        audit.around(store, caller.now, actor, "books.close", "books", "", {"until": until}) as outcome,
    ):
        report = close(store, until, caller.now)
        outcome["run"] = str(report.run)
    return documents.Closed.model_validate(report)


@router.get("/proof", dependencies=[HEAVY])
def proof(caller: SeeFleet) -> documents.Proof:
    """Whether the books are true: quantities and prices computed again by another way, documents and chains walked."""
    found = verify(caller.store)
    failures = [documents.ProofFailure.model_validate(one) for one in found.failures]
    return documents.Proof(
        hours=found.hours, device_hours=found.device_hours, documents=found.documents, balanced=found.balanced,
        failures=failures, waiting=found.waiting,
    )  # fmt: skip


@router.get("/audit")
def audit_(
    request: Request, caller: SeeAudit, action: str = "", object: str = "", limit: Limit = 100, offset: Offset = 0
) -> Page[documents.AuditEntry]:
    """Who did what to prices, tenants, credits, invoices and access, the newest first."""
    found = audit.history(caller.store, action, object)[::-1]
    return page_of(request, found, _entry, limit, offset)


@router.get(
    "/exports/focus",
    response_class=FileResponse,
    responses={200: {"content": {media: {} for media in FILES.values()}}},
    dependencies=[HEAVY],
)
def focus(
    caller: See,
    month: MonthText,
    tenant: Tenant = None,
    format: Annotated[Literal["csv", "csv.gz", "parquet"], Query()] = "csv",
    which: Annotated[Literal["all", "invoiced", "draft"], Query()] = "all",
    version: Annotated[Literal["1.2", "1.3"], Query()] = "1.2",
    grain: Annotated[Literal["hour", "day", "month"], Query()] = "hour",
    platform: bool = False,
    skip_unpriced: bool = False,
) -> FileResponse:
    """A month's costs as FinOps FOCUS rows (docs/focus.md)."""
    seen = caller.principal.tenants
    if not caller.principal.sees_all:
        if tenant is None and len(seen) == 1:
            (tenant,) = seen
        if tenant is None or platform:
            what = "the platform's own time is not yours to see" if platform else "which tenant?"
            raise ForbiddenError("export focus", what, f"Add ?tenant= one of {', '.join(sorted(seen))}")
    caller.check_tenant(tenant)
    folder = tempfile.TemporaryDirectory(prefix="gpuledger-export-")
    path = Path(folder.name) / f"focus-{month}.{format}"
    try:
        asked = FocusOptions(tenant, which, version, grain, platform, skip_unpriced)
        # Drafts of one tenant rest on what all held; the export keeps to the tenant by itself.
        with caller.whole_store() as store:
            export_focus(store, caller.month(month), path, asked)
    except BaseException:
        folder.cleanup()
        raise
    return FileResponse(path, media_type=FILES[format], filename=path.name, background=BackgroundTask(folder.cleanup))


def _entry(row: Mapping[str, Any]) -> documents.AuditEntry:
    return documents.AuditEntry(**{**row, "inputs": json.loads(row["inputs"] or "{}")})
