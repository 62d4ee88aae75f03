"""The scheduler's metrics in two forms: text that Prometheus scrapes, and rows of service_levels for SQL.

Both are made from one list of series, so that a name means the same in both. In SQL, `service` is `scheduler` or
`scheduler/QUEUE`; `tenant` and `quantile` are columns; other labels are part of `metric`, in Prometheus' notation. So
is `tenant`, because its column is not part of the rows' key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from collectors.agent.exposition import escaped
from collectors.readings import Row
from scheduler.metrics import Meter
from scheduler.model import Request
from scheduler.placement.cluster import Cluster
from scheduler.placement.fragmentation import Fragmentation
from scheduler.pools import PARTS, PoolLine
from scheduler.records.events import instant
from scheduler.serverless import Services

PREFIX = "gpuledger_scheduler_"
QUANTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Series:
    """value: None if there is nothing to measure; the series is then left out.   observations: behind a quantile."""

    name: str
    help: str
    kind: Literal["gauge", "counter", "summary"]
    value: float | None
    labels: Mapping[str, str]
    observations: int | None = None


def series(meter: Meter, fragmentation: Fragmentation, shapes: Sequence[Request]) -> list[Series]:
    """All series, as of the meter's time.   shapes: requests whose largest placeable gang is reported."""
    return [
        one
        for part in (_queues(meter), _tenants(meter), _preemptions(meter), _fleet(meter, fragmentation, shapes))
        for one in part
        if one.value is not None
    ]


def _queues(meter: Meter) -> Iterator[Series]:
    for queue, waits in sorted(meter.queues.items()):
        for quantile in QUANTILES:
            labels = {"queue": queue, "quantile": str(quantile)}
            text = "Time from submission to the first start, of all jobs started"
            yield Series("wait_seconds", text, "summary", waits.wait.at(quantile), labels, waits.wait.count)
        yield Series("started_total", "Jobs started for the first time", "counter", waits.wait.count, {"queue": queue})
        for cause, count in sorted(waits.violations.items()):
            labels = {"queue": queue, "cause": cause}
            text = "Jobs that waited longer than their bound, by the reason they had when it passed"
            yield Series("wait_bound_violations_total", text, "counter", count, labels)
    for (queue, outcome), count in sorted(meter.outcomes.items()):
        labels = {"queue": queue, "outcome": outcome}
        yield Series("ended_total", "Jobs that ended, and attempts that were preempted", "counter", count, labels)
    for queue, waiting in meter.waiting().items():
        text = "How long the oldest waiting job waits"
        yield Series("oldest_waiting_seconds", text, "gauge", waiting.oldest, {"queue": queue})
        for cause, count in sorted(waiting.by_cause.items()):
            labels = {"queue": queue, "cause": cause}
            yield Series("pending_jobs", "Waiting jobs, by their first reason", "gauge", count, labels)
            units = waiting.units_by_cause[cause]
            yield Series("pending_units", "Device units that waiting jobs ask for", "gauge", units, labels)


def quota_series(meter: Meter) -> list[Series]:
    """Series of the tenants' accounts that have a guarantee or a limit, as of the meter's time."""
    some = {(tenant, pool) for (tenant, pool), one in meter.accounts().items() if one.guaranteed or one.limit}
    found = _tenants(meter)
    return [one for one in found if one.value is not None and (one.labels["tenant"], one.labels["pool"]) in some]


def _tenants(meter: Meter) -> Iterator[Series]:
    for (tenant, pool), account in sorted(meter.accounts().items()):
        labels = {"tenant": tenant, "pool": pool}
        whole = account.whole
        yield Series("tenant_held_gpus", "GPUs held", "gauge", account.held / whole, labels)
        yield Series("tenant_asked_gpus", "GPUs that waiting jobs ask for", "gauge", account.asked / whole, labels)
        yield Series("tenant_guaranteed_gpus", "GPUs guaranteed", "gauge", account.guaranteed / whole, labels)
        text = "Held of what was guaranteed and asked for, since the start"
        yield Series("quota_redemption_ratio", text, "gauge", account.redemption, labels)
        breach = account.breach_area / whole
        yield Series("breach_gpu_seconds_total", "GPU-seconds held beyond the limit", "counter", breach, labels)


def _preemptions(meter: Meter) -> Iterator[Series]:
    for (victim, preemptor, authority), count in sorted(meter.preemptions.items()):
        labels = {"tenant": victim, "preemptor": preemptor, "authority": authority}
        yield Series("preemptions_total", "Jobs that lost all their replicas", "counter", count.jobs, labels)
        yield Series("preempted_replicas_total", "Replicas taken", "counter", count.replicas, labels)
        lost = count.lost_gpu_seconds
        yield Series("preemption_lost_gpu_seconds_total", "Work since the last checkpoint", "counter", lost, labels)


def _fleet(meter: Meter, fragmentation: Fragmentation, shapes: Sequence[Request]) -> Iterator[Series]:
    rate = fragmentation.measure()
    yield Series("held_gpus", "GPUs held by jobs", "gauge", meter.held_gpus, {})
    yield Series("capacity_gpus", "GPUs that are there", "gauge", meter.capacity_gpus, {})
    yield Series(
        "utilization_ratio", "GPU-seconds held of those there, since the start", "gauge", meter.utilization, {}
    )
    yield Series("fragmentation_ratio", "Of idle GPUs, what the demand cannot use", "gauge", rate.ratio, {})
    text = "Of all GPUs, what is idle and the demand cannot use"
    yield Series("fragmentation_amount_ratio", text, "gauge", rate.amount, {})
    yield Series("fragmented_gpus", "GPUs that are idle and the demand cannot use", "gauge", rate.fragmented, {})
    text = "Jain's index of GPU-seconds received of those held or asked for, over tenants"
    yield Series("jain_ratio", text, "gauge", meter.jain(), {})
    yield from shape_series(fragmentation.cluster, shapes)


def shape_series(cluster: Cluster, shapes: Sequence[Request]) -> list[Series]:
    """Series of the largest gang of each shape that could start now."""
    text = "Replicas of the shape that could start together now"
    return [
        Series("largest_gang_replicas", text, "gauge", largest_gang(cluster, one), {"shape": shape_name(one)})
        for one in shapes
    ]


def pools_series(lines: Sequence[PoolLine]) -> list[Series]:
    """Series of the pools' capacity."""
    found = []
    for line in lines:
        labels = {"pool": line.pool, "model": line.model}
        text = "GPUs of the pool, whatever became of them"
        found.append(Series("pool_capacity_gpus", text, "gauge", line.gpus("total"), labels))
        for part in PARTS:
            text = "GPUs of the pool: allocated, available, reserved or unavailable"
            found.append(Series("pool_gpus", text, "gauge", line.gpus(part), {**labels, "state": part}))
    return found


def idle_series(jobs: Iterable[tuple[str, str]]) -> list[Series]:
    """jobs: (queue, step) of each running job that has been idle (scheduler.records.ladder)."""
    text = "Running jobs that were noticed to be idle, by the last step: noticed, warned, proposed, shrunk or kept"
    return [
        Series("idle_jobs", text, "gauge", count, {"queue": queue, "step": step})
        for (queue, step), count in sorted(Counter(jobs).items())
    ]


def gated_series(reasons: Iterable[str]) -> list[Series]:
    """reasons: of each pod at the gate that is no job."""
    text = "Pods at the scheduling gate that are no job yet, by reason"
    return [
        Series("gated_pods_without_job", text, "gauge", count, {"cause": reason})
        for reason, count in sorted(Counter(reasons).items())
    ]


def elastic_series(reasons: Iterable[str]) -> list[Series]:
    """reasons: of each ElasticJob that is no job."""
    text = "ElasticJobs that are no job yet, by reason"
    return [
        Series("elastic_jobs_without_job", text, "gauge", count, {"cause": reason})
        for reason, count in sorted(Counter(reasons).items())
    ]


def services_series(services: Services) -> list[Series]:
    """Series of services that scale with their queues."""
    found = []
    for name, state in sorted(services.states.items()):
        for what, count in state.by_state().items():
            labels = {"service": name, "state": what}
            found.append(Series("service_replicas", "Replicas: pending, cold or warm", "gauge", count, labels))
        labels, cold = {"service": name}, state.cold_unit_seconds
        found.append(
            Series("service_cold_starts_total", "Replicas that became ready", "counter", state.cold_starts, labels)
        )
        text = "Device units x seconds from start to ready"
        found.append(Series("service_cold_unit_seconds_total", text, "counter", cold, labels))
    return found


def largest_gang(cluster: Cluster, request: Request) -> int:
    """How many replicas of the request fit now, at the same time, on any nodes."""
    shape = cluster.shape(request)
    return shape.together(shape.replicas(np.arange(len(cluster.nodes))))


def shape_name(request: Request) -> str:
    """For people, e.g. '8 GPUs', '1 GPU x 250 units', '1g.10gb'."""
    if request.profile:
        return f"{request.devices} x {request.profile}"
    gpus = f"{request.devices} GPU" + ("" if request.devices == 1 else "s")
    share = f" x {request.units} units" if request.units else ""
    return gpus + share + (f" of {'|'.join(sorted(request.models))}" if request.models else "")


class _Families(Collector):
    """Series as a collector of prometheus_client."""

    def __init__(self, found: Sequence[Series]) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for one in self._found:
            assert one.value is not None
            name = PREFIX + one.name
            family = families.setdefault(name, Metric(name.removesuffix("_total"), one.help, one.kind))
            family.add_sample(name, dict(one.labels), one.value)
        yield from families.values()


def prometheus_text(found: Sequence[Series]) -> bytes:
    """In Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(_Families(found))
    return generate_latest(registry)


def rows(found: Sequence[Series], cluster: str, now: float, interval_seconds: float) -> list[Row]:
    """Rows of service_levels: the values at the end of an interval. Counters count since the scheduler's start."""
    return [
        {
            "ts": instant(now),
            "interval_seconds": interval_seconds,
            "cluster": cluster,
            "service": "/".join(filter(None, ("scheduler", one.labels.get("queue", "")))),
            "tenant": one.labels.get("tenant", ""),
            "metric": one.name + _others(one.labels),
            "quantile": float(one.labels["quantile"]) if "quantile" in one.labels else None,
            "value": one.value,
            "observations": one.observations,
        }
        for one in found
    ]


def _others(labels: Mapping[str, str]) -> str:
    """All labels that neither `service` nor `quantile` has, the tenant last."""
    names = sorted((name for name in labels if name not in ("queue", "quantile")), key=lambda name: name == "tenant")
    rest = [f'{name}="{escaped(labels[name])}"' for name in names]
    return "{" + ",".join(rest) + "}" if rest else ""
