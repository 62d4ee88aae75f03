"""`GET /metrics`: metrics of the books and the alerting in Prometheus's text format, for a token that may see the
fleet.
"""

from __future__ import annotations

import asyncio

from fastapi import FastAPI
from starlette.responses import PlainTextResponse, Response

from access.current import current
from access.gate import problem
from access.principal import ForbiddenError, Principal
from access.roles import Action
from access.scope import Stores
from alerts import metrics
from collectors.agent.exposition import Family, render
from warehouse.backup import BackupError, backups, copied_to
from warehouse.bucket import bucket_of
from warehouse.errors import LedgerError
from warehouse.leads import Leads
from warehouse.store import EmbeddedStore, Store, read_sql

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def add_routes(server: FastAPI, stores: Stores, leads: Leads) -> None:
    """Adds the route; the store is asked on a worker thread."""

    def text(principal: Principal) -> Response:
        try:
            principal.require(Action.see_fleet)
            with stores.scoped_to(principal) as store:
                found = [leader(leads), *families(store), *of_backups(store), *metrics.families(store)]
                return PlainTextResponse(render(found), media_type=MEDIA_TYPE)
        except ForbiddenError as error:
            return problem(403, str(error))
        except LedgerError as error:
            return problem(503, str(error))

    @server.get("/metrics")
    async def exposition() -> Response:
        return await asyncio.to_thread(text, current())


def leader(leads: Leads) -> Family:
    """Whether this server does the background work."""
    family = Family("gpuledger_leader", "gauge", "1 where this server closes the books, evaluates alerts and sends.")
    family.add(float(leads.leading()))
    return family


def families(store: Store) -> list[Family]:
    """Metrics of the books. An unknown time has no series."""
    (row,) = store.rows(read_sql(__file__, "metrics"))
    until = Family("gpuledger_closed_until_timestamp_seconds", "gauge", "End of the last closed hour.")
    last = Family(
        "gpuledger_last_close_timestamp_seconds", "gauge", "When the last close that had anything to do was over."
    )
    for family, at in ((until, row["closed_until"]), (last, row["last_close_at"])):
        if at is not None:
            family.add(at.timestamp())
    quarantined = Family("gpuledger_quarantined_rows", "gauge", "Rows that were kept out (gpuledger doctor).")
    quarantined.add(row["quarantined"])
    return [until, last, quarantined]


def of_backups(store: Store) -> list[Family]:
    """Of a server that was started with a folder for them. Where there is none, or none can be read, there is no
    series."""
    made = Family("gpuledger_last_backup_timestamp_seconds", "gauge", "When the newest backup in the folder was made.")
    copied = Family(
        "gpuledger_last_copied_backup_timestamp_seconds",
        "gauge",
        "When the newest backup that is in the bucket as well was made.",
    )
    if not isinstance(store, EmbeddedStore) or store.backups is None:
        return []
    try:
        made_at = {one.name: one.made_at.timestamp() for one in backups(store.backups)}
        name = copied_to(store.backups, bucket_of(store.bucket).url) if store.bucket else ""
    except BackupError:
        return []
    if made_at:
        made.add(max(made_at.values()))
    if name in made_at:
        copied.add(made_at[name])
    return [made, copied]
