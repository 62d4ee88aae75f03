"""Which facts a close reads: those of the batches that were acknowledged when it began, and those of no batch.

Batches are written while a close runs, and a killed ingest leaves one half written. So a close names the batches that
it reads, once and at its beginning (`close_batches`), and all its statements read these and no others. What computes
it again reads the same ones by that name.
"""

from __future__ import annotations

from billing.close.claims import Stage
from warehouse.store import Params, Store, read_sql


def name_facts(store: Store, stage: Stage) -> None:
    """Names what this close reads, and fills the working table `batches` with it."""
    last = int(store.value("SELECT max(run) AS last FROM close_batches WHERE run < {run:UInt64}", {"run": stage.run}))
    known = batches_read(store, last) or _NONE
    store.command(read_sql(__file__, "name_batches"), {"run": stage.run, "follows": last, **known})
    own = batches_read(store, stage.run)
    _stage(store, stage, "SELECT arrayJoin(batches) FROM close_batches WHERE {own}".replace("{own}", READ_BY), own)


def present_facts(store: Store, stage: Stage) -> None:
    """Fills the working table `batches` with all that is acknowledged now, for what closes nothing."""
    _stage(store, stage, "SELECT batch FROM ingest_batches UNION DISTINCT SELECT toUInt64(0) AS batch", None)


READ_BY = "run <= {last:UInt64} AND run NOT IN {others:Array(UInt64)}"
"""The rows of close_batches that tell together what a close read, by the parameters of `batches_read`."""
_NONE: Params = {"last": 0, "others": []}


def batches_read(store: Store, run: int) -> Params | None:
    """Parameters of READ_BY for a close; None: it named no batches."""
    follows = {
        row["run"]: row["follows"]
        for row in store.rows("SELECT run, follows FROM close_batches WHERE run <= {run:UInt64}", {"run": run})
    }
    if run not in follows:
        return None
    others, at = set(follows), run
    while at in others:
        others.remove(at)
        at = follows[at]
    return {"last": run, "others": sorted(others)}


def _stage(store: Store, stage: Stage, batches: str, params: Params | None) -> None:
    names = stage.names("batches")
    store.command("CREATE TABLE {batches:Identifier} (batch UInt64) ENGINE = Set SETTINGS persistent = 0", names)
    store.command("INSERT INTO {batches:Identifier} " + batches, {**names, **(params or {})})
