"""Measures interference: writes samples for new windows, and again for windows affected by newer facts.

It works on whole hours, so that a run replaces an hour's samples at once; a kill leaves at most invisible rows or a
scratch table. Batches and closed hours, not a clock, show which facts are new.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from alerts.interference.settings import DEFAULT, Settings
from warehouse.store import Store, read_sql

PIECE = timedelta(days=1)
"""Of a long span, measured in one go: bounds the memory that it takes."""


def measure(
    store: Store,
    at: datetime,
    settings: Settings = DEFAULT,
    now: datetime | None = None,
    since: datetime | None = None,
    at_most: timedelta | None = None,
) -> int:
    """Measures up to `at` (data time); returns how many hours were measured.   at_most: as far back as this alone."""
    (there,) = store.rows(read_sql(__file__, "available_facts"))
    found = store.rows(read_sql(__file__, "last_run"))
    earliest = max(there["since"], at - min(settings.history, at_most or settings.history))
    start, run = earliest, int((now or at).timestamp() * 1e6)
    if found:
        last = found[0]
        params = {"facts_until": last["facts_until"], "books_run": last["books_run"]}
        (newest,) = store.rows(read_sql(__file__, "oldest_change"), params)
        start = max(earliest, min(last["until"], newest["facts_since"], newest["books_since"]))
        run = max(run, last["run"] + 1)
    if since is not None:
        start = max(there["since"], min(start, since))
    start = start.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if start >= at:
        return 0
    first = start
    while first < at:
        last_of_piece = min(first + PIECE, at)
        _piece(store, run, first, last_of_piece, settings)
        first = last_of_piece
    _record(store, run, start, at, there["facts_until"], there["books_run"], settings)
    return -int((start - at) // timedelta(hours=1))


def _piece(store: Store, run: int, since: datetime, until: datetime, settings: Settings) -> None:
    scratch = f"interference_{uuid.uuid4().hex}"
    params = {**settings.params(), "scratch": scratch, "run": run, "since": since, "until": until}
    try:
        for statement in ("windows", "baselines", "samples", "hours"):
            store.command(read_sql(__file__, statement), params)
    finally:
        store.command("DROP TABLE IF EXISTS {scratch:Identifier}", {"scratch": scratch})


def _record(
    store: Store, run: int, since: datetime, until: datetime, facts_until: datetime, books_run: int, settings: Settings
) -> None:
    import pyarrow as pa

    instant = pa.timestamp("ms", "UTC")
    store.insert(
        "interference_runs",
        pa.table(
            {
                "run": pa.array([run], pa.uint64()),
                "since": pa.array([since], instant),
                "until": pa.array([until], instant),
                "facts_until": pa.array([facts_until], instant),
                "books_run": pa.array([books_run], pa.uint64()),
                "settings": pa.array([settings.canonical()], pa.string()),
            }
        ),
    )


def newest_baselines(store: Store) -> list[dict[str, Any]]:
    """What everything does alone, a row each; see interference_baselines."""
    return store.rows(read_sql(__file__, "newest_baselines"))
