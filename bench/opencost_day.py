"""A day of a fleet whose every figure is known by construction, written for both: OpenMetrics and Parquet.

Each thing that may go wrong has a namespace (and, for idle time, a node) of its own; the rest of the fleet runs
ordinary jobs. Both programs get the same scrapes: one a minute, on the minute.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

START = datetime(2026, 10, 1, tzinfo=UTC)
DAY_MS = 86_400_000
MINUTE_MS = 60_000
NOON_MS = DAY_MS // 2
GPUS_A_NODE = 8
CASE_NODES = 4
CLUSTER = "bench"
MODEL = "NVIDIA H100 80GB HBM3"
PRICE, PRICE_AFTER_NOON = Fraction(2), Fraction(3)
EIGHT, IDLE, MIXED, REPRICED = range(CASE_NODES)
"""Nodes with a part to play: a pod with eight GPUs, nobody at all, small cases, a price that changes at noon."""


@dataclass(frozen=True)
class Job:
    """A pod that holds GPUs during [start_ms, end_ms) of the day.

    share:        of each GPU that it holds.
    utilization:  of the share, 0-1.
    as_requested: what OpenCost's exporter says the container was given, in GPUs; None: it says nothing.
    """

    namespace: str
    pod: str
    uid: str
    node: int
    gpus: tuple[int, ...]
    start_ms: int
    end_ms: int
    utilization: Fraction
    share: Fraction = Fraction(1)
    as_requested: int | None = 1

    @property
    def scrapes(self) -> range:
        """The minutes of the day at which a scrape finds it running."""
        return range(-(-self.start_ms // MINUTE_MS), -(-self.end_ms // MINUTE_MS))

    @property
    def gpu_hours(self) -> Fraction:
        return Fraction(self.end_ms - self.start_ms, 3_600_000) * len(self.gpus) * self.share

    @property
    def cost(self) -> Fraction:
        before = max(0, min(self.end_ms, NOON_MS) - self.start_ms) if self.node == REPRICED else 0
        rest = self.end_ms - self.start_ms - before
        price = PRICE_AFTER_NOON if self.node == REPRICED else PRICE
        return Fraction(before * PRICE + rest * price, 3_600_000) * len(self.gpus) * self.share


@dataclass(frozen=True)
class Day:
    """The fleet and its jobs."""

    nodes: int
    jobs: tuple[Job, ...]
    shared: frozenset[int] = field(default_factory=frozenset)

    @property
    def gpus(self) -> int:
        return self.nodes * GPUS_A_NODE

    def node_cost(self, node: int) -> Fraction:
        """What the node's GPUs cost in the day."""
        price = (PRICE + PRICE_AFTER_NOON) / 2 if node == REPRICED else PRICE
        return 24 * GPUS_A_NODE * price


def make_day(gpus: int, seed: int) -> Day:
    """The cases on four nodes, ordinary jobs on the others."""
    nodes = math.ceil(gpus / GPUS_A_NODE)
    chance = random.Random(seed)
    shared = frozenset({MIXED * GPUS_A_NODE + 1, MIXED * GPUS_A_NODE + 2})
    return Day(nodes, (*_cases(chance), *_ordinary(chance, nodes)), shared)


def _cases(chance: random.Random) -> Iterator[Job]:
    first = EIGHT * GPUS_A_NODE
    eight = tuple(range(first, first + GPUS_A_NODE))
    whole, tenth = Fraction(1), Fraction(11, 100)
    yield Job("eight", "eight", "eight-0", EIGHT, eight, _at(2), _at(14), whole, as_requested=GPUS_A_NODE)
    gpu = MIXED * GPUS_A_NODE
    yield Job("eleven", "eleven", "eleven-0", MIXED, (gpu,), _at(3), _at(13), tenth)
    for name, slot, requested in (("hami", gpu + 1, 1), ("sliced", gpu + 2, None)):
        for number in range(4):
            pod = f"{name}-{number}"
            use, share = Fraction(8, 10), Fraction(1, 4)
            yield Job(name, pod, pod, MIXED, (slot,), _at(4), _at(10), use, share, requested)
    for number, hour in enumerate((1, 20)):
        yield Job("twice", "twice-0", f"twice-0-{number}", MIXED, (gpu + 3,), _at(hour), _at(hour + 2), whole)
    for number in range(40):
        start = number * 30 * MINUTE_MS + chance.randrange(28 * MINUTE_MS)
        yield Job(
            "short", f"short-{number}", f"short-{number}", MIXED, (gpu + 4,), start, start + 90_000, Fraction(1, 2)
        )
    gpu = REPRICED * GPUS_A_NODE
    for number, (name, since, until) in enumerate((("early", 2, 10), ("late", 13, 21), ("across", 6, 14))):
        yield Job(name, name, name, REPRICED, (gpu + number,), _at(since), _at(until), whole)


def _ordinary(chance: random.Random, nodes: int) -> Iterator[Job]:
    """Jobs of a quarter of an hour to eight hours, short ones more often, with up to 20 minutes between them."""
    for gpu in range(CASE_NODES * GPUS_A_NODE, nodes * GPUS_A_NODE):
        at = chance.randrange(30 * MINUTE_MS)
        number = 0
        while True:
            length = round(math.exp(chance.uniform(math.log(15), math.log(480))) * MINUTE_MS)
            if at + length >= DAY_MS:
                break
            pod = f"job-{gpu}-{number}"
            use = Fraction(chance.randrange(5, 101), 100)
            yield Job("ordinary", pod, pod, gpu // GPUS_A_NODE, (gpu,), at, at + length, use)
            at += length + chance.randrange(20 * MINUTE_MS)
            number += 1


def _at(hour: int) -> int:
    return hour * 60 * MINUTE_MS + 20_000


def device_id(gpu: int) -> str:
    return f"GPU-{gpu:08d}-0000-4000-8000-000000000000"


def node_name(node: int) -> str:
    return f"node-{node}"


# For Prometheus: what kube-state-metrics, OpenCost's exporter and dcgm-exporter would have been scraped for.


def write_openmetrics(day: Day, path: Path) -> int:
    """Answers how many samples it wrote."""
    written = 0
    seconds = int(START.timestamp())
    with path.open("w", encoding="utf-8") as file:
        for name, series in _families(day):
            file.write(f"# TYPE {name} gauge\n")
            for labels, points in series:
                head = f"{name}{{{labels}}} "
                lines = [f"{head}{value} {seconds + 60 * minute}\n" for minute, value in points]
                file.writelines(lines)
                written += len(lines)
        file.write("# EOF\n")
    return written


Points = Iterator[tuple[int, str]]


def _families(day: Day) -> Iterator[tuple[str, Iterator[tuple[str, Points]]]]:
    yield "kube_pod_container_status_running", ((_pod(job), _running(job)) for job in day.jobs)
    given = [job for job in day.jobs if job.as_requested is not None]
    yield "container_gpu_allocation", ((_pod(job, node=node_name(job.node)), _constant(job)) for job in given)
    extra = {"resource": "nvidia_com_gpu", "unit": "integer"}
    yield (
        "kube_pod_container_resource_requests",
        ((_pod(job, node=node_name(job.node), **extra), _constant(job)) for job in given),
    )
    for name in ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_DEC_UTIL"):
        yield name, ((_dcgm(job, gpu), _activity(day, job, gpu)) for job in day.jobs for gpu in job.gpus)
    for name, scale in (("node_gpu_hourly_cost", 1), ("node_gpu_count", None), ("node_total_hourly_cost", GPUS_A_NODE)):
        yield name, ((_node(node), _of_node(node, scale)) for node in range(day.nodes))


def _pod(job: Job, **more: str) -> str:
    return _labels(namespace=job.namespace, pod=job.pod, container="main", uid=job.uid, cluster_id=CLUSTER, **more)


def _dcgm(job: Job, gpu: int) -> str:
    slot = str(gpu % GPUS_A_NODE)
    return _pod(job, UUID=device_id(gpu), gpu=slot, device=f"nvidia{slot}", modelName=MODEL)


def _node(node: int) -> str:
    name = node_name(node)
    return _labels(node=name, instance_type="h100x8", provider_id=name, cluster_id=CLUSTER)


def _labels(**labels: str) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels.items())


def _running(job: Job) -> Points:
    """1 while it runs, 0 at the next scrape, as kube-state-metrics has it."""
    for minute in job.scrapes:
        yield minute, "1"
    if job.scrapes.stop <= DAY_MS // MINUTE_MS:
        yield job.scrapes.stop, "0"


def _constant(job: Job) -> Points:
    return ((minute, str(job.as_requested)) for minute in job.scrapes)


def _activity(day: Day, job: Job, gpu: int) -> Points:
    """Of the whole GPU: every pod on a shared one is told what all of them do (dcgm-exporter's virtual GPUs)."""
    value = str(float(job.utilization if gpu in day.shared else job.utilization * job.share))
    return ((minute, value) for minute in job.scrapes)


def _of_node(node: int, scale: int | None) -> Points:
    for minute in range(DAY_MS // MINUTE_MS + 1):
        dearer = node == REPRICED and minute * MINUTE_MS >= NOON_MS
        price = PRICE_AFTER_NOON if dearer else PRICE
        yield minute, str(GPUS_A_NODE if scale is None else float(price * scale))


# For gpuledger: devices, events and samples.


def write_parquet(day: Day, folder: Path) -> int:
    """devices, events and samples as Parquet. Answers how many samples there are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = {"devices": _devices(day), "events": _events(day), "samples": _samples(day)}
    for name, rows in tables.items():
        columns = {key: [row.get(key) for row in rows] for key in dict.fromkeys(key for row in rows for key in row)}
        table = pa.table(columns)
        at = table.column_names.index("ts")
        pq.write_table(
            table.set_column(at, "ts", table["ts"].cast(pa.timestamp("ms", "UTC"))), folder / f"{name}.parquet"
        )
    return len(tables["samples"])


def _devices(day: Day) -> list[dict[str, Any]]:
    return [
        {
            "ts": START,
            "cluster": CLUSTER,
            "node": node_name(gpu // GPUS_A_NODE),
            "device_id": device_id(gpu),
            "vendor": "nvidia",
            "model": MODEL,
            "units": 4 if gpu in day.shared else 1,
            "pool": "repriced" if gpu // GPUS_A_NODE == REPRICED else "plain",
            "state": "available",
        }
        for gpu in range(day.gpus)
    ]


def _events(day: Day) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for job in day.jobs:
        of_job = {
            "cluster": CLUSTER,
            "source": "kubernetes",
            "allocation_id": job.uid,
            "workload_id": job.uid,
            "tenant": job.namespace,
            "project": job.namespace,
        }
        units = 1 if job.share < 1 else None
        start, end = (START + timedelta(milliseconds=ms) for ms in (job.start_ms, job.end_ms))
        rows += [
            {**of_job, "ts": start, "event": "started", "device_id": device_id(gpu), "units": units} for gpu in job.gpus
        ]
        rows.append({**of_job, "ts": end, "event": "finished", "device_id": "", "units": None})
    return rows


def _samples(day: Day) -> list[dict[str, Any]]:
    return [
        {
            "ts": START + timedelta(minutes=minute),
            "interval_seconds": 60.0,
            "cluster": CLUSTER,
            "node": node_name(job.node),
            "device_id": device_id(gpu),
            "workload_id": job.uid,
            "state": "ok",
            "utilization": float(job.utilization * job.share),
            "utilization_source": "bench",
        }
        for job in day.jobs
        for gpu in job.gpus
        for minute in job.scrapes
    ]


def rate_card() -> dict[str, Any]:
    """The same prices as a rate card."""
    noon = START + timedelta(milliseconds=NOON_MS)
    repriced = {"sku": "h100-repriced", "match": {"pool": "repriced"}}
    return {
        "currency": "USD",
        "rates": [
            {"sku": "h100", "match": {"pool": "plain"}, "price_per_gpu_hour": str(PRICE), "effective_from": START},
            {**repriced, "price_per_gpu_hour": str(PRICE), "effective_from": START, "effective_to": noon},
            {**repriced, "price_per_gpu_hour": str(PRICE_AFTER_NOON), "effective_from": noon},
        ],
    }
