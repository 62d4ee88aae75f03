"""A store on two shards of which the other has nothing, and refuses statements that need what a shard lacks.

So each statement on a sharded table is shown to need the tables of its shard alone, and what is sent with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from alerts.interference.measure import measure
from billing.insights.now import asking, held
from tests.billing.hand_ledger import at
from tests.draws import seldom
from tests.warehouse.cluster_over_http import CLUSTER
from tests.warehouse.engine_over_http import serving
from tests.warehouse.life import life
from tests.warehouse.recorder import Recorder, recording
from tests.warehouse.shards_over_http import EmptyShardServer
from warehouse import sql
from warehouse.cluster import SHARDED
from warehouse.errors import StoreError
from warehouse.store import ServerStore, migrate, open_store

pytestmark = [pytest.mark.timeout(1800), seldom(4, "a life beside an empty shard", 2)]
ROOT = Path(__file__).parents[2]
READS = re.compile(rf"\b(?:FROM|JOIN) ({'|'.join((*SHARDED, 'held_streams'))})\b|^ *FROM \$table\b", re.M)
NEVER_ALONE = {
    "alerts/interference/windows.sql": "measured below",
    "billing/insights/now/held.sql": "composed of others, asked for below",
    "billing/verify/links.sql": "of chains, which are on all nodes",
    "warehouse/chained/beginning.sql": "of chains",
    "warehouse/chained/last_link.sql": "of chains",
}
WORKING = """
CREATE TABLE close_1_batches ENGINE = Memory AS SELECT DISTINCT batch FROM ingest_batches;
CREATE TABLE close_1_fresh ENGINE = Memory AS
SELECT DISTINCT batch, true AS is_of_samples, CAST([], 'Array(DateTime)') AS hours FROM ingest_batches;
CREATE TABLE close_1_silent ENGINE = Memory AS
SELECT toUInt64(1) AS claim, '' AS cluster, 'h1' AS device_id, 'x1' AS workload_id, toInt64(0) AS start_ms;
CREATE TABLE close_1_settled ENGINE = Memory AS
SELECT *, 'x1' AS allocation_id, '' AS estimated, toInt64(4611686018427387904) AS end_ms FROM close_1_silent
"""
"""Working tables of a close, of statements that it has for rare cases."""
WORKED_ON = {"batches", "fresh", "silent", "settled"}


@dataclass
class BesideEmpty:
    """read: files with statements that were read for it."""

    store: ServerStore
    recorder: Recorder
    read: frozenset[Path]


@pytest.fixture(scope="module")
def beside_empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BesideEmpty]:
    """A store that has led its life beside a shard that has nothing."""
    reads, read = Path.read_text, set()

    def noted(path: Path, *args: Any, **named: Any) -> str:
        if path.suffix == ".sql":
            read.add(path.resolve())
        return reads(path, *args, **named)

    with recording() as recorder, pytest.MonkeyPatch.context() as patch:
        kind = partial(EmptyShardServer, recorder=recorder)
        with serving(tmp_path_factory.mktemp("empty"), kind) as (url, _), open_store(url) as store:
            assert isinstance(store, ServerStore)
            migrate(store, CLUSTER)
            patch.setattr(Path, "read_text", noted)
            sql._text.cache_clear()  # what other tests have read is read again
            life(store)
            yield BesideEmpty(store, recorder, frozenset(read))


def test_a_shard_is_sent_no_statement_that_needs_what_it_lacks(beside_empty: BesideEmpty) -> None:
    """Each statement on sharded tables is sent, most by the life, the others with any parameters."""
    store, tried = beside_empty.store, 0
    store.script(WORKING)
    left = set()
    for path in sorted(ROOT.glob("[abcdgisw]*/**/*.sql")):
        name, text = str(path.relative_to(ROOT)), re.sub(r"--[^\n]*", "", path.read_text())
        if name.split("/")[0] in ("bench", "build", "docs") or "/migrations/" in name or not READS.search(text):
            continue
        if path.resolve() in beside_empty.read or name in NEVER_ALONE:
            continue
        text = text.replace("$table", "samples").replace("$columns", "ts")
        if set(re.findall(r"\{(\w+):Identifier\}", text)) - WORKED_ON or re.search(r"\$\w|\(\{\w+\}\)", text):
            left.add(name)
            continue
        params = {one: _any(kind) for one, kind in re.findall(r"\{(\w+):([^{}]+)\}", text)}
        store.rows(text, {**params, **{name: f"close_1_{name}" for name in WORKED_ON}})
        tried += 1
    assert left == set(), "the life does not come by these"
    measure(store, at("2026-10-08 00:00"))
    held(store, asking(store), at("2026-10-07 12:00"), 10)
    assert tried > 15
    assert beside_empty.recorder.refused == []
    assert len(beside_empty.recorder.sent) > 100


def test_a_recorder_refuses_what_a_shard_lacks(beside_empty: BesideEmpty) -> None:
    """Else the test above would show nothing."""
    lacks = r"the other shard has no (ingest_batches|allocations)"
    for lacking in (
        "batch IN (SELECT batch FROM ingest_batches)",
        "device_id NOT IN (SELECT device_id FROM allocations)",
    ):
        with pytest.raises(StoreError, match=lacks):
            beside_empty.store.value(f"SELECT count() AS n FROM samples WHERE {lacking}")
    assert beside_empty.recorder.refused
    beside_empty.recorder.refused.clear()


def _any(kind: str) -> Any:
    """A value of a parameter's type."""
    if kind.startswith("Array("):
        return [_any(kind.removeprefix("Array(").removesuffix(")"))]
    if kind.startswith("DateTime"):
        return at("2026-10-08 00:00")
    return {"String": "h1", "Float64": 0.5, "Bool": True, "Date": "2026-10-08"}.get(kind, 1)
