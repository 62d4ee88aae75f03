"""Determines the facts that a close reads: those of batches acknowledged when it began, and those without a batch.

Batches arrive while a close runs, and a killed ingest leaves one half-written. So a close fixes at its start which
batches it reads; all its statements read exactly these, and it records them (`close_batches`) before it publishes
anything. A recomputation reads the same batches from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from billing.close.stage import Stage
from billing.working_tables import drop_tables
from warehouse.instants import epoch_ms
from warehouse.store import Params, Store, read_sql

MARGIN = timedelta(days=1)
"""How much later than its acknowledgement says a batch may come to be seen: clocks differ, writing takes time."""


def stage_facts(store: Store, stage: Stage) -> None:
    """Fills the working tables `batches` with what this close reads, and `fresh` with what no close before it read."""
    params = {**stage.names("fresh"), **_read_before(store, stage), "without": []}
    store.command(read_sql(__file__, "stage_fresh"), params)
    store.command(read_sql(__file__, "fresh", read=READ_BY), params)
    _stage(store, stage, read_sql(__file__, "batches_read", read=READ_BY), params)


def fresh_since(store: Store, stage: Stage, read_at: datetime) -> int:
    """From when on (ms) acknowledgements may be such that a close which began to read at `read_at` missed; 0: all may.
    The first close of a UTC day makes sure that none did before, whatever their times say."""
    fresh_ms = epoch_ms(read_at - MARGIN)
    known = {"since_ms": fresh_ms - epoch_span(MARGIN)}
    if not store.value(read_sql(__file__, "all_are_dated"), known):
        return 0
    if read_at.date() != datetime.now(UTC).date():
        params = {**known, **_read_before(store, stage), "fresh_ms": fresh_ms}
        return fresh_ms if store.value(read_sql(__file__, "all_are_read", read=READ_BY), params) else 0
    return fresh_ms


def stage_fresh_facts(store: Store, stage: Stage, read_at: datetime) -> Stage:
    """Fills the working table `fresh` as `stage_facts` does, and `batches` with the same; what else the close needs of
    what was read before it has to ask for (`read_too`). Returns the stage to ask with.

    Reads only the acknowledgements of late, from before a close that began to read at `read_at`. If fewer than the
    unread ones are among them, everything is read: clocks were wrong, no close came for days, or a kill fell between
    the two tables that a batch is acknowledged in.
    """
    stage = replace(stage, fresh_ms=fresh_since(store, stage, read_at))
    if stage.fresh_ms and _all_are_recent(store, stage):
        _stage(store, stage, read_sql(__file__, "batches_fresh"), stage.names("fresh"))
        return stage
    drop_tables(store, [stage("fresh"), stage("recently_read")])
    stage_facts(store, stage)
    return replace(stage, fresh_ms=0)


def _all_are_recent(store: Store, stage: Stage) -> bool:
    """Fills `fresh` and `recently_read` from the acknowledgements since `stage.fresh_ms`. Answers whether these are all
    that no close has read."""
    params = {**stage.names("fresh", "recently_read"), **_read_before(store, stage), "fresh_ms": stage.fresh_ms}
    params["since_ms"] = stage.fresh_ms - epoch_span(MARGIN)
    unread = int(store.value(read_sql(__file__, "unread", read=READ_BY), params))  # first: others are written meanwhile
    store.command(read_sql(__file__, "stage_fresh"), params)
    store.command(read_sql(__file__, "stage_recently_read", engine=store.set_engine), params)
    store.command(read_sql(__file__, "recently_read", read=READ_BY), params)
    store.command(read_sql(__file__, "fresh_not_read"), params)
    return unread <= int(store.value("SELECT count() AS batches FROM {fresh:Identifier}", params))


def read_too(store: Store, stage: Stage, wanted: str, params: Params) -> None:
    """Adds to `batches` what the close reads of some batches.   wanted: a SELECT of them, with its params."""
    if stage.fresh_ms:
        names = {**params, **stage.names("batches", "recently_read"), "fresh_ms": stage.fresh_ms}
        store.command(read_sql(__file__, "read_too", wanted=wanted), names)


def epoch_span(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


def stage_facts_without(store: Store, stage: Stage, whole: Stage, without: Collection[int]) -> None:
    """Fills the working table `batches` with what another stage's close reads, but for some of what is new."""
    params = {**whole.names("fresh"), **_read_before(store, whole), "without": sorted(without)}
    _stage(store, stage, read_sql(__file__, "batches_read", read=READ_BY), params)


def name_facts(store: Store, stage: Stage) -> None:
    """Records which batches this close reads, so that it can be recomputed."""
    follows = run_before(store, stage)
    store.command("INSERT INTO close_named (run) SELECT {run:UInt64}", {"run": stage.run})
    store.command(read_sql(__file__, "name_batches"), {"run": stage.run, "follows": follows, **stage.names("fresh")})


def present_facts(store: Store, stage: Stage) -> None:
    """Fills the working table `batches` with all that is acknowledged now, for readers that close nothing."""
    _stage(store, stage, read_sql(__file__, "batches_present"), {})


def with_before(store: Store, stage: Stage) -> Stage:
    """The stage, which knows what the close that this one follows read."""
    return replace(stage, before=_read_before(store, stage))


def run_before(store: Store, stage: Stage) -> int:
    """The close that this one follows; 0: none."""
    return int(_read_before(store, stage)["last"])


def _read_before(store: Store, stage: Stage) -> Params:
    """Parameters of READ_BY for the close that this one follows; of none (`last` is 0) for the first."""
    if stage.before is not None:
        return stage.before
    before = _named_by(store, stage.run - 1)
    last = max(before, default=0)
    return {"last": last, "others": _others(before, last)}


READ_BY = "run <= {last:UInt64} AND run NOT IN {others:Array(UInt64)}"
"""The rows of close_batches that tell together what a close read, by the parameters of `batches_read`."""


def batches_read(store: Store, run: int) -> Params | None:
    """Parameters of READ_BY for a close; None: it recorded no batches."""
    follows = _named_by(store, run)
    return {"last": run, "others": _others(follows, run)} if run in follows else None


def _named_by(store: Store, run: int) -> dict[int, int]:
    """The closes up to a run that recorded batches, and the close that each follows."""
    rows = store.rows("SELECT run, follows FROM close_batches WHERE run <= {run:UInt64}", {"run": run})
    return {row["run"]: row["follows"] for row in rows}


def _others(follows: Mapping[int, int], run: int) -> list[int]:
    """The closes that the run does not follow, be it by way of others."""
    others, at = set(follows), run
    while at in others:
        others.remove(at)
        at = follows[at]
    return sorted(others)


def _stage(store: Store, stage: Stage, insert: str, params: Params) -> None:
    names = stage.names("batches")
    store.command(read_sql(__file__, "stage_batches", engine=store.set_engine), names)
    store.command(insert, {**params, **names})
