"""Debian's Prometheus pushes a whole day: the books are those of the same pages when scraped, and of a reckoning.

A minute of the day is a second here: Prometheus runs under a wall clock that goes sixty times as fast
(another_clock.py), asks four exporters each half second of ours, and pushes to `gpuledger server`. Both are stopped and
killed meanwhile, the network is cut, answers are lost, exporters are away, upgraded, and divided anew.

GPULEDGER_DAY_HOURS=24 takes a day, in 24 minutes; GPULEDGER_SEED repeats one.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from billing.close import close
from collectors.exporters.inventory import ExporterInventory
from collectors.exporters.memory import Memory
from collectors.exporters.rows import rows
from collectors.exporters.scrape import ExporterCollector
from collectors.receivers.remote_write_pb2 import TimeSeries
from collectors.receivers.snappy import decompressed
from collectors.receivers.wire import parts
from ingest import ingest_tables
from tests.billing import oracle
from tests.collectors.exporters.serving import serving
from tests.collectors.receivers.another_clock import AnotherClock, missing
from tests.collectors.receivers.days import MIG, NODES, Day, Page, text
from tests.collectors.receivers.pushing import receiving
from tests.draws import keep_seed, seldom
from tests.ingest.receiving import REPO, TOKEN, tokens_file
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_port
from tests.stores import fresh_store
from warehouse.records import EVENTS, RECORD_TYPES
from warehouse.store import Store, open_store

PROMETHEUS = shutil.which("prometheus")
HOURS = float(os.environ.get("GPULEDGER_DAY_HOURS", "0.25"))
SEED = int(os.environ.get("GPULEDGER_SEED") or random.Random(keep_seed()).randrange(10**6))
SPEED = 60.0
PERIOD = 30.0
"""Between two scrapes, by the clock that Prometheus has."""
EARLY, LATE = 2.0, 120.0
"""Seconds of that clock by which a page may seem older, or be newer, than the instant that Prometheus gives it."""
QUIET_SECONDS = 5.0
"""Of ours, without a push, after which Prometheus has sent what it had."""

Point = tuple[str, float, str, frozenset[tuple[str, str]]]
"""A target, an instant, and a series without what Prometheus adds."""
Books = dict[tuple[str, str], dict[str, float]]
"""Device and allocation -> unit-seconds of each kind."""
EXPORTER_POD = {"pod": "nvidia-dcgm-exporter-x7", "namespace": "monitoring"}


# --- the exporters


@dataclass
class Exporters:
    """Served at /node. served: node -> its pages by the time at which they were served.   away: node -> how: an
    error, or an answer that does not come."""

    day: Day
    clock: AnotherClock
    url: str = ""
    served: dict[str, list[tuple[float, Page]]] = field(default_factory=lambda: defaultdict(list))
    away: dict[str, str] = field(default_factory=dict)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        node = handler.path.strip("/")
        how = self.away.get(node)
        if how == "hangs":
            time.sleep(0.6)
        if how is not None:
            handler.send_error(500)
            return
        at = self.clock.now()
        page = self.day.page(node, at)
        self.served[node].append((at, page))
        body = text(page)
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain; version=0.0.4")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


# --- the way between


@dataclass
class Way:
    """Between Prometheus and the server. how: "open", "cut", "503", "lost" (the server has it, and its answer does not
    come), "slow".   sent, taken: bodies that went to the server, and those that it acknowledged."""

    port: int
    url: str = ""
    how: str = "open"
    sent: list[bytes] = field(default_factory=list)
    taken: list[bytes] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    last_at: float = 0.0

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        how = self.how
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        if how == "cut":
            self.answers["cut"] += 1
            self._hang_up(handler)
            return
        if how == "503":
            self.answers["503 of the way"] += 1
            handler.send_error(503)
            return
        if how == "slow":
            time.sleep(random.random())
        self.sent.append(body)
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            connection.request("POST", handler.path, body, dict(handler.headers))
            answer = connection.getresponse()
            said = answer.read()
            connection.close()
        except (OSError, http.client.HTTPException):
            self.answers["no server"] += 1
            self._hang_up(handler)
            return
        self.answers[str(answer.status)] += 1
        if answer.status == 204:
            self.taken.append(body)
            self.last_at = time.monotonic()
        if how == "lost":
            self._hang_up(handler)
            return
        handler.send_response(answer.status)
        handler.send_header("Content-Length", str(len(said)))
        handler.end_headers()
        handler.wfile.write(said)

    @staticmethod
    def _hang_up(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True
        handler.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def answered_by(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            return

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            return  # whoever asked is killed now and then

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


# --- those who are killed


@dataclass
class Process:
    command: list[str]
    log: Path
    running: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        if self.running is not None:
            self.end()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(self.command, cwd=REPO, stdout=log, stderr=log)

    def end(self, number: int = signal.SIGTERM) -> None:
        assert self.running is not None
        self.running.send_signal(number)
        self.running.wait(PATIENCE_SECONDS)
        self.running = None


def prometheus(folder: Path, exporters: str, way: str, clock: AnotherClock) -> Process:
    assert PROMETHEUS is not None
    static = [
        {
            "targets": [exporters.removeprefix("http://")],
            "labels": {"__metrics_path__": f"/{node}", "instance": f"{node}:9400"}
            | (EXPORTER_POD if node == "n1" else {}),
        }
        for node in NODES
    ]  # fmt: skip
    config = {
        "global": {
            "scrape_interval": f"{PERIOD / SPEED * 1000:.0f}ms", "scrape_timeout": "400ms",
            "external_labels": {"cluster": "pushed"},
        },
        "scrape_configs": [{"job_name": "dcgm", "static_configs": static}],
        "remote_write": [{
            "url": f"{way}/api/v1/write",
            "authorization": {"type": "Bearer", "credentials": TOKEN},
            "queue_config": {"min_shards": 3, "max_samples_per_send": 100, "batch_send_deadline": "1s"},
        }],
    }  # fmt: skip
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    command = [
        PROMETHEUS, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{free_port()}",
    ]  # fmt: skip
    return Process(clock.before(command, folder), folder / "prometheus.log")


def server(folder: Path, store: str, port: int) -> Process:
    command = [sys.executable, "-m", "gpuledger", "server", "--store", store, "--tokens", str(tokens_file(folder)),
               "--no-dashboard", "--port", str(port)]  # fmt: skip
    return Process(command, folder / "server.log")


@dataclass
class Faults:
    """What happens in the day, one after another."""

    chance: random.Random
    exporters: Exporters
    way: Way
    prometheus: Process
    server: Process
    done: Counter[str] = field(default_factory=Counter)

    def until(self, end: float) -> None:
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, self.chance.uniform(2, 16)))
            fault, longest = self.chance.choice([
                (self.killed_server, 10), (self.stopped_server, 10), (self.killed_prometheus, 8),
                (self.stopped_prometheus, 8), (self.away, 8), (self.away, 8), (self.hanging, 6),
                (self.cut, 30), (self.refused, 30), (self.lost, 15), (self.slow, 15),
            ])  # fmt: skip
            seconds = self.chance.uniform(0.2, longest)
            if seconds < end - time.monotonic() - 1:
                fault(seconds)
                self.done[fault.__name__] += 1

    def killed_server(self, seconds: float) -> None:
        self._again(self.server, signal.SIGKILL, seconds)

    def stopped_server(self, seconds: float) -> None:
        self._again(self.server, signal.SIGTERM, seconds)

    def killed_prometheus(self, seconds: float) -> None:
        self._again(self.prometheus, signal.SIGKILL, seconds)

    def stopped_prometheus(self, seconds: float) -> None:
        self._again(self.prometheus, signal.SIGTERM, seconds)

    @staticmethod
    def _again(process: Process, number: int, seconds: float) -> None:
        process.end(number)
        time.sleep(seconds)
        process.start()

    def away(self, seconds: float) -> None:
        self._exporter("error", seconds)

    def hanging(self, seconds: float) -> None:
        self._exporter("hangs", seconds)

    def _exporter(self, how: str, seconds: float) -> None:
        node = self.chance.choice(NODES)
        self.exporters.away[node] = how
        time.sleep(seconds)
        del self.exporters.away[node]

    def cut(self, seconds: float) -> None:
        self._way("cut", seconds)

    def refused(self, seconds: float) -> None:
        self._way("503", seconds)

    def lost(self, seconds: float) -> None:
        self._way("lost", seconds)

    def slow(self, seconds: float) -> None:
        self._way("slow", seconds)

    def _way(self, how: str, seconds: float) -> None:
        self.way.how = how
        time.sleep(seconds)
        self.way.how = "open"


# --- what was pushed


def points(bodies: list[bytes]) -> dict[Point, float]:
    """Of devices, and `up`, as the exporters said it."""
    found = {}
    for body in bodies:
        for number, part in parts(memoryview(decompressed(body, 1 << 25))):
            if number != 1 or part is None:
                continue  # metadata
            series = TimeSeries.FromString(bytes(part))
            labels = {label.name: label.value for label in series.labels}
            name, target = labels.pop("__name__"), labels.pop("instance").partition(":")[0]
            for added in ("job", "cluster"):
                labels.pop(added)
            if name != "up" and "UUID" not in labels:
                continue
            for sample in series.samples:
                found[target, sample.timestamp / 1000, name, as_exported(labels, target)] = sample.value
    return found


def as_exported(labels: dict[str, str], target: str) -> frozenset[tuple[str, str]]:
    if target == "n1":
        labels = {name: said for name, said in labels.items() if name not in EXPORTER_POD}
    return frozenset((name.removeprefix("exported_"), said) for name, said in labels.items())


def logged(store: Store) -> set[Point]:
    """What the server has taken in: values, and ends of series."""
    found = set()
    sql = "SELECT target, ts, name, labels FROM pushed_points"
    for row in store.rows(sql):
        labels = json.loads(row["labels"])
        for added in ("__name__", "job", "cluster", "instance"):
            labels.pop(added, None)
        node = next(node for node in NODES if f"{node}:9400" in row["target"])
        found.add((node, row["ts"].timestamp(), row["name"], as_exported(labels, node)))
    return found


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> AnotherClock:
    if PROMETHEUS is None:
        pytest.skip("no prometheus binary here (Debian: prometheus)")
    if why := missing(tmp_path_factory.mktemp("clock")):
        pytest.skip(why)
    began = time.time()
    return AnotherClock(began, began - HOURS * 3600 - 120, SPEED)


@pytest.mark.timeout(HOURS * 3600 / SPEED + 900)
@seldom(8, "a whole day is pushed")
def test_a_day_that_prometheus_pushes_makes_the_books_of_a_day_that_is_scraped(
    tmp_path: Path, clock: AnotherClock
) -> None:
    print(f"GPULEDGER_SEED={SEED}")
    chance = random.Random(SEED)
    day = Day(chance, clock.start, clock.start + HOURS * 3600)
    with fresh_store(tmp_path / "store") as store:
        for cluster in ("pushed", "scraped"):
            ingest_tables(store, EVENTS, "test", [pa.Table.from_pylist(day.events(cluster))])
    way, exporters = Way(free_port()), Exporters(day, clock)
    with answered_by(way.answer) as way.url, answered_by(exporters.answer) as exporters.url:
        serve = server(tmp_path, f"chdb://{tmp_path / 'store'}", way.port)
        push = prometheus(tmp_path, exporters.url, way.url, clock)
        faults = Faults(chance, exporters, way, push, serve)
        with serve, push:
            until(lambda: way.taken, every=0.1)
            faults.until(time.monotonic() + HOURS * 3600 / SPEED)
            push.end()
            until(lambda: time.monotonic() - way.last_at > QUIET_SECONDS, every=0.5)
    print(dict(faults.done), dict(way.answers))
    assert not (way.answers.keys() - {"204", "503", "cut", "503 of the way", "no server"}), way.answers
    with open_store(f"chdb://{tmp_path / 'store'}") as store:
        with receiving(store, tokens_file(tmp_path)) as another:  # goes on where the server has ended
            another.assemble()
        sent, taken, log = points(way.sent), points(way.taken), logged(store)
        assert taken.keys() <= log <= sent.keys()
        print(f"{len(log)} points in {len(way.sent)} requests")
        scrapes = Scrapes.of(exporters, sent)
        scrape(store, scrapes, log, sent)
        close(store, until=datetime.fromtimestamp(closed_until(day), UTC), now=datetime.now(UTC) + timedelta(hours=2))
        compare(store, day, Seen.of(day, scrapes, log, sent))


@dataclass
class Scrapes:
    """The page that each scrape got: of those served about its instant the one that says what Prometheus pushed. (An
    answer may come too late for the scrape that asked for it.)"""

    pages: dict[tuple[str, float], tuple[float, Page]] = field(default_factory=dict)

    @classmethod
    def of(cls, exporters: Exporters, sent: dict[Point, float]) -> Scrapes:
        said: dict[tuple[str, float], dict[tuple[str, frozenset[tuple[str, str]]], float]] = defaultdict(dict)
        for (node, at, name, labels), value in sent.items():
            if name != "up" and not math.isnan(value):
                said[node, at][name, labels] = value
        found = cls()
        for (node, at), series in said.items():
            served = exporters.served[node]
            place = bisect_left(served, at - EARLY, key=lambda one: one[0])
            about = [one for one in served[place : place + 9] if one[0] <= at + LATE]
            found.pages[node, at] = next((one for one in about if says(one[1], series)), (0.0, {}))
            assert found.pages[node, at][1], f"Prometheus pushed what {node} did not serve: {series} of {at}"
        return found


def says(page: Page, series: dict[tuple[str, frozenset[tuple[str, str]]], float]) -> bool:
    shown = {(name, frozenset(labels)): float(value) for (name, labels), value in page.items()}
    return all(shown.get(key) == value for key, value in series.items())


def scrape(store: Store, scrapes: Scrapes, log: set[Point], sent: dict[Point, float]) -> None:
    """What a collector makes that asks at the same instants, and hears of each page what came through."""
    inventory = ExporterInventory("scraped")
    came: dict[tuple[float, str], set[tuple[str, frozenset[tuple[str, str]]]]] = defaultdict(set)
    for node, at, name, labels in log:
        if sent[node, at, name, labels] == sent[node, at, name, labels]:
            came[at, node].add((name, labels))
        elif name != "up":
            came.setdefault((at, node), set())
    reported: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with serving() as served:
        collectors = {
            node: ExporterCollector(
                f"{served.url}/{node}", cluster="scraped", period_seconds=PERIOD, memory=Memory(inventory=inventory)
            )
            for node in NODES
        }
        before: dict[str, float] = {}
        for (at, node), series in sorted(came.items()):
            if series - {("up", frozenset())}:
                page = scrapes.pages[node, at][1]
                body = text({key: value for key, value in page.items() if (key[0], frozenset(key[1])) in series})
                served.status, served.body = 200, body
            else:
                served.status, served.body = 500, b""
            if at - before.get(node, at) > 1.5 * PERIOD:
                collectors[node].memory.units(f"{served.url}/{node}").doubt()
            before[node] = at
            found = collectors[node].collect(datetime.fromtimestamp(at, UTC))
            found.collected += rows(found.observed, cluster="scraped")
            for record, some in found.collected.rows.items():
                reported[record] += some
        for collector in collectors.values():
            collector.close()
    for record, some in reported.items():
        names = dict.fromkeys(name for row in some for name in row)
        table = pa.table({name: [row.get(name) for row in some] for name in names})
        ingest_tables(store, RECORD_TYPES[record], "test", [table])


# --- the books


SAMPLES = """
SELECT toUnixTimestamp64Milli(ts) AS ts, device_id, partition_id, workload_id, toString(state) AS state, utilization,
    interval_seconds, memory_used_bytes, power_watts, energy_joules
FROM samples WHERE cluster = {cluster:String} ORDER BY ALL
"""
BOOKS = """
SELECT device_id, allocation_id, sum(used_unit_ms) AS used, sum(idle_unit_ms) AS idle,
    sum(unmetered_unit_ms) AS unmetered, sum(unallocated_unit_ms) AS unallocated
FROM ledger WHERE cluster = {cluster:String} GROUP BY device_id, allocation_id
"""
KINDS = ("used", "idle", "unmetered", "unallocated")
Key = tuple[int, str, str, str]
"""A sample's milliseconds, device, partition and workload."""


def booked(store: Store, cluster: str) -> Books:
    """Unit-seconds."""
    found = store.rows(BOOKS, {"cluster": cluster})
    return {
        (row["device_id"], row["allocation_id"].removeprefix(f"{cluster}-")): {
            kind: float(row[kind]) / 1000 for kind in KINDS
        }
        for row in found
    }


def sampled(store: Store, cluster: str) -> dict[Key, dict[str, Any]]:
    """Of several rows of an instant the one that counts (docs/contracts.md)."""
    found: dict[Key, dict[str, Any]] = {}
    for row in store.rows(SAMPLES, {"cluster": cluster}):
        key = row.pop("ts"), row.pop("device_id"), row.pop("partition_id"), row.pop("workload_id")
        if key not in found or rank(row) > rank(found[key]):
            found[key] = row
    return found


def rank(row: dict[str, Any]) -> tuple[bool, float, float]:
    return row["state"] in oracle.USABLE, row["utilization"] or 0.0, row["interval_seconds"]


@dataclass
class Seen:
    """What came of the day's pages, and what each row must say. parts: (milliseconds, device, instance) -> who held
    it, what it did, and how long ago it was seen before.   first: device -> its first instant."""

    parts: dict[tuple[int, str, str], tuple[str, float, float]] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, day: Day, scrapes: Scrapes, log: set[Point], sent: dict[Point, float]) -> Seen:
        found, before = cls(), dict[tuple[str, str], float]()
        came: dict[tuple[float, str, str, str], set[str]] = defaultdict(set)
        for node, at, name, labels in log:
            if name != "up" and sent[node, at, name, labels] == sent[node, at, name, labels]:
                said = dict(labels)
                came[at, node, said["UUID"], said.get("GPU_I_ID", "")].add(name)
        for (at, node, device, instance), names in sorted(came.items()):
            part = device, instance
            gap, before[part] = at - before.get(part, -1e9), at
            found.first.setdefault(device, round(at * 1000))
            if any("UTIL" in name or "ACTIVE" in name for name in names):
                shown = scrapes.pages[node, at][0]
                held = day.holder(part, shown)
                found.parts[round(at * 1000), device, instance] = held, day.courses[part].at(shown), gap
        return found


def closed_until(day: Day) -> int:
    return math.ceil(day.end / 3600) * 3600


def compare(store: Store, day: Day, seen: Seen) -> None:
    samples = {cluster: sampled(store, cluster) for cluster in ("pushed", "scraped")}
    for some in samples.values():
        check_samples(some, seen)
    books = {cluster: booked(store, cluster) for cluster in samples}
    by_hand = {cluster: reckoned(day, seen, some) for cluster, some in samples.items()}
    report(day, books["pushed"], books["scraped"], by_hand["pushed"])
    alike = [key for key, row in samples["pushed"].items() if samples["scraped"].get(key) == row]
    print(f"{len(samples['pushed'])} samples, {len(alike)} of them the same in all columns")
    assert books["pushed"].keys() == books["scraped"].keys()
    for cluster, due in by_hand.items():
        assert books[cluster].keys() == due.keys(), cluster
        for holder, kinds in due.items():
            assert books[cluster][holder] == pytest.approx(kinds, abs=0.002), (cluster, holder)
    # A page shows at once that a device's best measure is gone; of what is pushed nobody knows for a while.
    blank = {key[1] for some in samples.values() for key, row in some.items() if row["state"] == "blank"}
    for holder, kinds in books["scraped"].items():
        # Periods that are learned from gaps that jitter, where one was missed.
        alike = pytest.approx(kinds, rel=0.01, abs=2 * SLACK)
        assert books["pushed"][holder] == alike or holder[0] in blank, (holder, kinds)


def check_samples(some: dict[Key, dict[str, Any]], seen: Seen) -> None:
    """Each says what its device did, or that nobody knows; and nothing that came is missing."""
    usable = {key: row for key, row in some.items() if row["state"] in oracle.USABLE}
    expected = {}
    for (ts, device, instance), (held, did, gap) in seen.parts.items():
        for workload in {"", held}:
            expected[ts, device, f"{device}/{instance}" if instance else "", workload] = did, gap
    assert usable.keys() <= expected.keys(), sorted(usable.keys() - expected.keys())[:5]
    unknown = {key for key in expected.keys() - usable.keys() if some[key]["state"] == "blank"}
    assert expected.keys() - usable.keys() == unknown
    print(f"{len(expected)} samples expected, {len(unknown)} of them blank", Counter(key[1] for key in unknown))
    for key, row in usable.items():
        did, gap = expected[key]
        assert row["utilization"] == pytest.approx(did, abs=1e-6), (key, row, did)
        covers = row["interval_seconds"]
        since_last = covers == pytest.approx(gap, abs=2e-3)
        # After more than a missed look, and where its exporter was away in between.
        one_period = abs(covers - PERIOD) <= SLACK and (gap > 2.1 * PERIOD or abs(gap - PERIOD) <= SLACK)
        # Told before what lay in between had come; the ledger ends it there.
        from_before = gap < covers <= 2.1 * PERIOD
        assert since_last or one_period or from_before, (key, gap, covers)


SLACK = 3.0
"""Seconds by which a gap, and a period that is learned from gaps, may differ from PERIOD: 50 ms of ours."""


def reckoned(day: Day, seen: Seen, samples: dict[Key, dict[str, Any]]) -> Books:
    """The books by brute force: what the devices did, for the intervals of samples that were checked."""
    about = {"cluster": "pushed", "model": "m", "pool": ""}
    devices = [
        {**about, "ts": at, "device_id": device, "units": 7 if device == MIG else 1, "state": "available"}
        for device, at in seen.first.items()
    ]
    events = [
        {"project": "", **row, "ts": oracle.ms(row["ts"]), "partition_profile": row["partition_profile"] or ""}
        for row in day.events("pushed")
    ]
    rows = []
    for key, row in samples.items():
        ts, device, partition, workload = key
        names = {"cluster": "pushed", "ts": ts, "device_id": device, "partition_id": partition, "workload_id": workload}
        did = seen.parts.get((ts, device, partition.removeprefix(device).strip("/")))
        rows.append({**names, **row, "utilization": did[1] if did and row["state"] in oracle.USABLE else None})
    found: Books = defaultdict(lambda: dict.fromkeys(KINDS, 0.0))
    for entry, kinds in oracle.books(oracle.Facts(devices, events, rows), [], closed_until(day) * 1000).items():
        line = found[entry.device, entry.allocation.removeprefix("pushed-")]
        for kind in KINDS:
            line[kind] += float(getattr(kinds, kind)) / 1000
    return dict(found)


def report(day: Day, pushed: Books, scraped: Books, by_hand: Books) -> None:
    """What each holding was: pushed, scraped, by hand from what came, and in truth."""
    held = {(one.part[0], one.name): one for one in day.holdings}
    worst: dict[str, float] = defaultdict(float)
    for holder in sorted(pushed):
        kinds = {kind: [book.get(holder, {}).get(kind, 0.0) for book in (pushed, scraped, by_hand)] for kind in KINDS}
        for kind, (one, other, own) in kinds.items():
            worst[f"{kind}: pushed, scraped"] = max(worst[f"{kind}: pushed, scraped"], abs(one - other))
            worst[f"{kind}: pushed, by hand"] = max(worst[f"{kind}: pushed, by hand"], abs(one - own))
        one = held.get(holder)
        truth = day.courses[one.part].integral(one.begun, one.over) * (one.units or 1) if one else 0.0
        reported = {kind: [round(value, 3) for value in values] for kind, values in kinds.items() if any(values)}
        length = (one.over - one.begun) * (one.units or 1) if one else 0.0
        print(*holder, reported, f"in truth used {truth:.0f} of {length:.0f}")
    print({name: round(value, 3) for name, value in worst.items()})
