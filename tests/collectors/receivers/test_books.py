"""Hours that are pushed in pieces, twice and out of order, make the books that the same pages make when scraped.

GPULEDGER_HOURS=24 takes a whole day; GPULEDGER_HISTORY=4711 repeats one.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from billing.close import close
from collectors.exporters.exposition import parse
from collectors.exporters.inventory import ExporterInventory
from collectors.exporters.observations import Reader
from collectors.exporters.profile import profile_of
from collectors.exporters.rows import rows
from collectors.exporters.tracker import Tracker
from collectors.exporters.units import SourceUnits
from ingest import ingest_tables
from tests.collectors.receivers.pushing import Given, receiving, snappy, write_v1
from tests.draws import drawn_seed
from tests.ingest.receiving import tokens_file
from tests.stores import fresh_store
from warehouse.records import EVENTS, RECORD_TYPES
from warehouse.store import Store

PERIOD = 60
DAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
HOURS = int(os.environ.get("GPULEDGER_HOURS", "3"))
SEED = int(os.environ.get("GPULEDGER_HISTORY") or drawn_seed("books of receivers"))
DEVICE_COUNT = 3
INSTANTS = HOURS * 3600 // PERIOD


def pages(chance: random.Random) -> list[tuple[int, str]]:
    """Pages of a dcgm-exporter, by their seconds: some are missing, as of an exporter that did not answer."""
    found, energy = [], 0
    for n in range(1, INSTANTS + 1):
        energy += chance.randrange(40_000_000)
        if chance.random() < 0.03:
            continue
        lines = []
        for device in range(DEVICE_COUNT):
            labels = f'{{UUID="GPU-{device}",Hostname="n1",modelName="H100"'
            labels += ',pod="p",namespace="ml",pod_uid="uid-1"}' if device == n // 60 % DEVICE_COUNT else "}"
            lines += [
                f"DCGM_FI_DEV_GPU_UTIL{labels} {chance.choice([0, 40, 100, 808334905])}",
                f"DCGM_FI_DEV_FB_USED{labels} {chance.randrange(80_000)}",
                f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{labels} {energy}",
            ]
        found.append((n * PERIOD, "\n".join(lines) + "\n"))
    return found


def scrape(store: Store, some: list[tuple[int, str]]) -> None:
    """As a collector does: the units are doubted where the exporter was away."""
    units, inventory, before = SourceUnits(), ExporterInventory("scraped"), 0
    reader, tracker = Reader(profile_of("dcgm")), Tracker("NVIDIA", PERIOD, units=units)
    reported: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for seconds, page in some:
        if seconds - before > PERIOD:
            units.doubt()
        before = seconds
        seen = reader.read(parse(page).series, DAY.timestamp() + seconds, units=units)
        observed = tracker.advance(seen)
        reported["devices"] += inventory.take(observed, reader.profile)
        for record, found in rows(observed, cluster="scraped").rows.items():
            reported[record] += found
    for record, found in reported.items():
        put(store, record, found)


def put(store: Store, record: str, found: list[dict[str, Any]]) -> None:
    names = dict.fromkeys(name for row in found for name in row)
    table = pa.table({name: [row.get(name) for row in found] for name in names})
    ingest_tables(store, RECORD_TYPES[record], "test", [table])


def requests(chance: random.Random, some: list[tuple[int, str]]) -> list[bytes]:
    """As Prometheus makes them: each series has its shard, a shard sends in order, shards do not wait for each other,
    and what was not answered in time is sent again."""
    shards: dict[int, list[Given]] = defaultdict(list)
    shard_of: dict[str, int] = defaultdict(lambda: chance.randrange(3))
    for seconds, page in some:
        for series in parse(page).series:
            given = {
                "__name__": series.name,
                "job": "dcgm",
                "instance": "n1:9400",
                "cluster": "pushed",
                **series.labels,
            }
            at = round((DAY.timestamp() + seconds) * 1000)
            shards[shard_of[f"{series.name}{series.labels}"]].append((given, [(at, float(series.value))]))
    batches = {shard: [some[n : n + 150] for n in range(0, len(some), 150)] for shard, some in shards.items()}
    found = []
    while any(batches.values()):
        shard = chance.choice([shard for shard, some in batches.items() if some])
        body = snappy(write_v1(batches[shard].pop(0)))
        found += [body] * (2 if chance.random() < 0.05 else 1)
    return found


def test_a_day_that_is_pushed_makes_the_books_of_a_day_that_is_scraped(tmp_path: Path) -> None:
    print(f"GPULEDGER_HISTORY={SEED}")
    chance = random.Random(SEED)
    some = pages(chance)
    with fresh_store(tmp_path / "store") as store, receiving(store, tokens_file(tmp_path)) as pushed:
        for cluster in ("scraped", "pushed"):
            about = {"cluster": cluster, "allocation_id": f"{cluster}-1", "workload_id": "uid-1", "tenant": "ml"}
            begun, over = DAY + timedelta(minutes=20), DAY + timedelta(hours=HOURS, minutes=-30)
            events = [{**about, "ts": begun, "event": "started", "device_id": f"GPU-{n}"} for n in range(2)]
            events.append({**about, "ts": over, "event": "finished", "device_id": ""})
            ingest_tables(store, EVENTS, "test", [pa.Table.from_pylist(events)])
        scrape(store, some)
        bodies = requests(chance, some)
        for n, body in enumerate(bodies):
            assert pushed.write(body).status_code == 204
            if n in (len(bodies) // 2, len(bodies) - 1):  # also while instants are not complete
                pushed.assemble()
        close(store, until=DAY + timedelta(hours=HOURS), now=DAY + timedelta(hours=HOURS + 1))
        books = {cluster: ledger(store, cluster) for cluster in ("scraped", "pushed")}
        # A shard that was behind tells of a device for an earlier time: its first row says nothing new then.
        devices = (
            "SELECT min(ts), device_id, node, model, vendor, units, toString(state) FROM devices WHERE cluster = '{}'"
            " GROUP BY ALL ORDER BY ALL"
        )
        reported = {cluster: store.rows(devices.format(cluster)) for cluster in books}
        assert reported["pushed"] == reported["scraped"] and len(reported["pushed"]) == DEVICE_COUNT
        assert books["pushed"] == books["scraped"] and len(books["pushed"]) >= HOURS * DEVICE_COUNT
        kinds = {name: sum(row[name] for row in books["pushed"]) for name in QUANTITIES}
        assert all(
            kinds[name] > 0 for name in ("used_unit_ms", "idle_unit_ms", "unmetered_unit_ms", "unallocated_unit_ms")
        )


QUANTITIES = ("used_unit_ms", "idle_unit_ms", "unmetered_unit_ms", "unallocated_unit_ms")


def ledger(store: Store, cluster: str) -> list[dict[str, Any]]:
    columns = ", ".join(QUANTITIES)
    sql = f"SELECT hour, device_id, workload_id, {columns} FROM ledger WHERE cluster = {{cluster:String}} ORDER BY ALL"
    return store.rows(sql, {"cluster": cluster})
