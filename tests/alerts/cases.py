"""For each shipped rule that is a query: facts on which it fires, and the nearest facts on which it does not.

Each case lies in a cluster of its own, named after it, so that one store and one evaluation serve them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.alerts.facts import (
    GIB,
    Fact,
    device,
    ended,
    found,
    metric,
    sampled,
    served,
    started,
    submitted,
)

QUIET = {"sm_active": 0.0, "power_watts": 72.0, "memory_used_bytes": 30 * GIB}


@dataclass(frozen=True)
class Case:
    """fires: identities without the cluster, as `label=value` words; empty: the rule says nothing here."""

    rule: str
    name: str
    facts: list[Fact] = field(repr=False)
    fires: tuple[str, ...] = ()

    @property
    def cluster(self) -> str:
        return f"{self.rule} {self.name}"


def holder(idle_minutes: int, held: int = 400, **samples: object) -> list[Fact]:
    """A job that was busy until so many minutes ago and has done nothing since."""
    busy = sampled("GPU-0", 240, idle_minutes, 0.9, sm_active=0.8, power_watts=500.0, memory_used_bytes=30 * GIB)
    idle = sampled("GPU-0", idle_minutes - 1, 0, 0.0, **{**QUIET, **samples})
    return [*device(), *started("job", held), *busy, *idle]


def _idle() -> Iterator[Case]:
    job = "allocation_id=job"
    yield Case("idle-holder-notice", "sixteen minutes", holder(16), (job,))
    yield Case("idle-holder-notice", "fourteen minutes", holder(14))
    yield Case("idle-holder", "an hour", holder(61), (job,))
    yield Case("idle-holder", "less than an hour", holder(59))
    yield Case("idle-holder-reclaim", "two hours", holder(121), (job,))
    yield Case("idle-holder-reclaim", "less than two hours", holder(119))
    flat = {"sm_active": None, "state": "ok", "power_watts": 71.0}
    yield Case("idle-holder", "two signals without the driver's word", holder(70, **flat), (job,))
    yield Case("idle-holder", "one signal alone", holder(70, **{**flat, "power_watts": None}))
    swinging = [
        (record, {**row, "power_watts": 60.0 + 200 * (n % 2)} if record == "samples" else row)
        for n, (record, row) in enumerate(holder(70, **flat))
    ]
    yield Case("idle-holder", "power that swings", swinging)
    yield Case("idle-holder", "engines that work while utilization reads zero", holder(70, sm_active=0.2))
    gap = [fact for fact in holder(70) if fact[0] != "samples" or not 30 < _minutes(fact) < 60]
    yield Case("idle-holder", "too little of it measured", gap)
    blank = [*holder(240)[:2], *sampled("GPU-0", 240, 0, None)]
    yield Case("idle-holder", "nothing known", blank)
    young = [*device(), *started("job", 65), *sampled("GPU-0", 200, 0, 0.0, **QUIET)]
    yield Case("idle-holder", "grace after the start", young)
    older = [*device(), *started("job", 71), *sampled("GPU-0", 200, 0, 0.0, **QUIET)]
    yield Case("idle-holder", "an hour after the grace", older, (job,))
    over = [*holder(100), *ended("job", 1)]
    yield Case("idle-holder", "ended a minute ago", over)
    suspended = [*holder(100), *ended("job", 80, "suspended")]
    yield Case("idle-holder", "suspended", suspended)
    serving = [*holder(100), *served(5, "requests_per_second", 0.5, workload_id="job")]
    yield Case("idle-holder", "a replica with requests", serving)
    waiting = [*holder(100), *served(5, "requests_per_second", 0.0, workload_id="job")]
    yield Case("idle-holder", "a replica without requests", waiting, (job,))
    gang = [
        *device(),
        *device("GPU-1"),
        *started("job", 300, "GPU-0", "GPU-1"),
        *sampled("GPU-0", 240, 0, 0.0, **QUIET),
    ]
    yield Case("idle-holder", "one of two busy", [*gang, *sampled("GPU-1", 240, 0, 0.7)])
    yield Case("idle-holder", "one of two unknown", gang)
    yield Case("idle-holder", "both of two idle", [*gang, *sampled("GPU-1", 240, 0, 0.0, **QUIET)], (job,))
    yield Case("idle-holder", "a device that no inventory has", holder(70)[1:], (job,))
    halves = [*device(units=2), *started("a", 300, units=1), *started("b", 300, units=1)]
    mine = [*sampled("GPU-0", 240, 0, 0.0, workload_id="a"), *sampled("GPU-0", 240, 0, 0.8, workload_id="b")]
    yield Case("idle-holder", "one of two that share", [*halves, *mine], ("allocation_id=a",))
    yield Case("idle-holder", "two that share and are not told apart", [*halves, *sampled("GPU-0", 240, 0, 0.0)])
    whole = [*device(), *started("job", 500), *sampled("GPU-0", 360, 0, 0.49)]
    yield Case("low-utilization", "forty-nine percent", whole, (job,))
    yield Case("low-utilization", "fifty percent", [*whole[:2], *sampled("GPU-0", 360, 0, 0.5)])
    yield Case("low-utilization", "half of it unknown", [*whole[:2], *sampled("GPU-0", 180, 0, 0.1)])
    quarter = [*device(units=4), *started("job", 500, units=1, partition_id="GPU-0::0")]
    full = sampled("GPU-0", 360, 0, 0.2, workload_id="job")
    yield Case("low-utilization", "a quarter of a device that is used by four fifths", [*quarter, *full])
    little = sampled("GPU-0", 360, 0, 0.12, workload_id="job")
    yield Case("low-utilization", "a quarter of a device of which half is used", [*quarter, *little], (job,))
    both = [*quarter, *started("job", 500, units=1, partition_id="GPU-0::1")]
    yield Case(
        "low-utilization", "two quarters, told as one", [*both, *sampled("GPU-0", 360, 0, 0.26, workload_id="job")]
    )
    yield Case("low-utilization", "two quarters, of which a half is used", [*both, *full], (job,))
    # Sixty minutes ago it became a device of four units, of which the job keeps its one.
    parted = [*device(), *started("job", 500), *device(since=60, units=4), *full]
    yield Case("low-utilization", "a whole device that is a quarter of it since", parted)
    yield Case("low-utilization", "a device that no inventory has", whole[1:])
    yield Case("low-utilization", "held for too short", [*device(), *started("job", 365), *whole[2:]])


def _scheduling() -> Iterator[Case]:
    queue = ("queue=train",)
    running = [*device(), *started("other", 500), *sampled("GPU-0", 20, 0, 0.9)]
    yield Case("long-queue", "an hour", [*running, *submitted("job", 60, gpus=1.0)], queue)
    yield Case("long-queue", "fifty-nine minutes", [*running, *submitted("job", 59, gpus=1.0)])
    yield Case("long-queue", "started a minute ago", [*running, *submitted("job", 90), *started("job", 1, "GPU-1")])
    yield Case("long-queue", "given up", [*running, *submitted("job", 90), *ended("job", 2, "cancelled")])
    waits = [fact for n in range(12) for fact in (*submitted(f"w{n}", 200 + n), *started(f"w{n}", 195 + n, f"D{n}"))]
    late = [fact for n in range(3) for fact in (*submitted(f"l{n}", 150), *started(f"l{n}", 30, f"E{n}"))]
    yield Case("queue-wait-burn", "three of fifteen late", [*waits, *late], queue)
    yield Case("queue-wait-burn", "late, but long ago", [*waits, *_earlier(late, 300)])
    few = [*waits[:4], *late]
    yield Case("queue-wait-burn", "too few to judge", few)
    gone = [fact for n in range(3) for fact in (*submitted(f"l{n}", 150), *ended(f"l{n}", 140, "cancelled"))]
    yield Case("queue-wait-burn", "cancelled before the bound", [*waits, *gone])
    passed = [fact for n in range(5) for fact in (*submitted(f"p{n}", 90 - n), *started(f"p{n}", 60, f"D{n}"))]
    yield Case("starvation", "five passed", [*submitted("big", 121, gpus=8.0), *passed], ("allocation_id=big",))
    yield Case("starvation", "four passed", [*submitted("big", 121, gpus=8.0), *passed[:8]])
    first = [*submitted("big", 121, priority=1), *[(record, {**row, "priority": 9}) for record, row in passed]]
    yield Case("starvation", "passed by those of higher priority", first)
    yield Case("starvation", "not for long", [*submitted("big", 119), *passed])
    storm = [fact for n in range(5) for fact in ended(f"v{n}", 10 + n, "preempted", reason="HigherPriority")]
    yield Case("preemption-storm", "five in an hour", storm, queue)
    yield Case("preemption-storm", "one five times", [f for n in range(5) for f in ended("v", n + 1, "preempted")])
    yield Case("preemption-storm", "five, the first an hour ago", [*storm[1:], *ended("v0", 60, "preempted")])
    two_nodes = [
        fact for node in ("n1", "n2") for gpu in range(4) for fact in device(f"{node}-{gpu}", node=node, pool="train")
    ]
    scattered = [*two_nodes, *started("a", 300, "n1-0", "n1-1"), *started("b", 300, "n2-0", "n2-1")]
    yield Case(
        "fragmentation", "two and two free", [*scattered, *submitted("job", 20, gpus=4.0)], ("allocation_id=job",)
    )
    yield Case("fragmentation", "more than are free", [*scattered, *submitted("job", 20, gpus=8.0)])
    together = [*two_nodes, *started("a", 300, "n1-0", "n1-1", "n1-2", "n1-3")]
    yield Case("fragmentation", "four free on one node", [*together, *submitted("job", 20, gpus=4.0)])
    yield Case("fragmentation", "just come", [*scattered, *submitted("job", 14, gpus=4.0)])
    used = [*device(), *sampled("GPU-0", 20, 0, 0.5)]
    yield Case("usage-without-allocation", "nobody holds it", used, ("device_id=GPU-0", "node=n1"))
    yield Case("usage-without-allocation", "held", [*used, *started("job", 60)])
    yield Case(
        "usage-without-allocation", "held until five minutes ago", [*used, *started("job", 60), *ended("job", 5)]
    )
    yield Case(
        "usage-without-allocation",
        "given back twenty minutes ago",
        [*used, *started("job", 60), *ended("job", 20)],
        ("device_id=GPU-0", "node=n1"),
    )
    yield Case("usage-without-allocation", "a flicker", [*device(), *sampled("GPU-0", 20, 0, 0.04)])
    reported = [*device(), *found("process_without_allocation", 5, "warning", message="pid 42 of ann")]
    yield Case("usage-without-allocation", "a collector found a process", reported, ("device_id=GPU-0", "node=n1"))


def _hardware() -> Iterator[Case]:
    gpu = ("device_id=GPU-0", "node=n1")
    for rule, name, above, below in (
        ("thermal-throttling", "throttle_thermal_seconds", 6.6, 5.4),
        ("power-throttling", "throttle_power_seconds", 31.0, 29.0),
        ("hardware-throttling", "throttle_hardware_seconds", 3.3, 2.7),
    ):
        yield Case(rule, "above", [*device(), *metric(name, [(n, above) for n in range(40)])], gpu)
        yield Case(rule, "below", [*device(), *metric(name, [(n, below) for n in range(40)])])
        yield Case(rule, "unknown", [*device(), *metric(name, [(n, None) for n in range(40)])])
    yield Case(
        "thermal-throttling",
        "for a moment",
        [*device(), *metric("throttle_thermal_seconds", [(n, 30.0 if n < 3 else 0.0) for n in range(40)])],
    )
    hot = {"temperature_celsius": 87.0}
    yield Case("overheating", "87 degrees", [*device(), *sampled("GPU-0", 20, 0, 0.9, **hot)], gpu)
    yield Case("overheating", "86 degrees", [*device(), *sampled("GPU-0", 20, 0, 0.9, temperature_celsius=86.0)])
    yield Case(
        "overheating", "one sample", [*device(), *sampled("GPU-0", 20, 1, 0.9), *sampled("GPU-0", 0, 0, 0.9, **hot)]
    )
    memory = "memory_temperature_celsius"
    yield Case("memory-overheating", "95 degrees", [*device(), *metric(memory, [(n, 95.0) for n in range(9)])], gpu)
    yield Case("memory-overheating", "94 degrees", [*device(), *metric(memory, [(n, 94.0) for n in range(9)])])
    for rule, name, step in (
        ("ecc-uncorrected", "ecc_uncorrected_total", 1.0),
        ("ecc-corrected", "ecc_corrected_total", 1000.0),
        ("rows-remapped", "rows_remapped_uncorrected_total", 1.0),
    ):
        yield Case(rule, "rose", [*device(), *metric(name, [(600, 7.0), (300, 7.0), (1, 7.0 + step)])], gpu)
        yield Case(rule, "always that high", [*device(), *metric(name, [(600, 7000.0), (1, 7000.0)])])
        yield Case(
            rule, "rose the day before", [*device(), *metric(name, [(1500, 7.0), (1430, 7.0 + step), (1, 7.0 + step)])]
        )
        yield Case(rule, "unknown in between", [*device(), *metric(name, [(600, 7.0), (300, None), (1, 7.0)])])
    for rule, name in (("row-remap-pending", "row_remap_pending"), ("row-remap-failure", "row_remap_failure")):
        yield Case(rule, "says so", [*device(), *metric(name, [(10, 0.0), (1, 1.0)])], gpu)
        yield Case(rule, "no longer", [*device(), *metric(name, [(10, 1.0), (1, 0.0)])])
    for rule, code, other in (("xid-hardware", 79, 31), ("xid-application", 31, 79), ("xid-unknown", 555, 63)):
        message = f"XID {code}: what it means (pid=1)"
        alert = (f"code={code}", *gpu)
        yield Case(rule, "reported", [*device(), *found("xid", 30, message=message)], alert)
        yield Case(rule, "another class", [*device(), *found("xid", 30, message=f"XID {other}: else")])
        yield Case(rule, "long ago", [*device(), *found("xid", 361, message=message)])
    lost = [*device(), *sampled("GPU-0", 60, 30, 0.9), *found("gpu_lost", 29, message="fallen off the bus")]
    yield Case("gpu-lost", "and silent since", lost, gpu)
    yield Case("gpu-lost", "and back", [*lost, *sampled("GPU-0", 5, 0, 0.2)])
    down = [*device(), *device(since=15, state="unavailable")]
    yield Case("device-unavailable", "a quarter of an hour", down, gpu)
    yield Case("device-unavailable", "fourteen minutes", [*device(), *device(since=14, state="unavailable")])
    yield Case(
        "device-unavailable", "available again", [*device(), *device(since=60, state="unavailable"), *device(since=1)]
    )
    yield Case(
        "device-unavailable",
        "removed",
        [*device(), *device(since=60, state="unavailable"), *device(since=1, state="removed")],
    )
    again = [*device(since=90, state="unavailable"), *device(since=20, state="unavailable"), *device()]
    yield Case("device-unavailable", "said twice", again, gpu)
    pair = [*device(), *device("GPU-1"), *device(since=9, state="unavailable")]
    yield Case(
        "node-unavailable",
        "both for five minutes",
        [*pair, *device("GPU-1", since=5, state="unavailable")],
        ("node=n1",),
    )
    yield Case("node-unavailable", "the second for four", [*pair, *device("GPU-1", since=4, state="unavailable")])
    yield Case("node-unavailable", "one of two", pair)


def _telemetry() -> Iterator[Case]:
    node, gpu = ("node=n1",), ("device_id=GPU-0", "node=n1")
    yield Case("exporter-gap", "ten minutes", [*device(), *sampled("GPU-0", 60, 10, 0.9)], node)
    yield Case("exporter-gap", "nine minutes", [*device(), *sampled("GPU-0", 60, 9, 0.9)])
    yield Case("exporter-gap", "never a word", device(), node)
    yield Case("exporter-gap", "new", device(since=9))
    yield Case("exporter-gap", "unavailable", [*device(), *device(since=200, state="unavailable")])
    yield Case("exporter-gap", "refused is not silent", [*device(), *sampled("GPU-0", 60, 0, None)])
    others = [*device("GPU-1"), *sampled("GPU-1", 60, 0, 0.9)]
    yield Case("gpu-silent", "a quarter of an hour", [*others, *device(), *sampled("GPU-0", 60, 15, 0.9)], gpu)
    yield Case("gpu-silent", "fourteen minutes", [*others, *device(), *sampled("GPU-0", 60, 14, 0.9)])
    yield Case("gpu-silent", "as the whole node", [*device(), *device("GPU-1"), *sampled("GPU-1", 60, 20, 0.9)])
    held = [*device(), *started("job", 600)]
    yield Case(
        "unmetered-share", "a quarter", [*held, *sampled("GPU-0", 200, 15, 0.9), *sampled("GPU-0", 14, 0, None)], node
    )
    yield Case("unmetered-share", "a sixth", [*held, *sampled("GPU-0", 200, 10, 0.9), *sampled("GPU-0", 9, 0, None)])
    back = [*held, *device(since=100, state="unavailable"), *device(since=20)]
    yield Case("unmetered-share", "measured since it was available again", [*back, *sampled("GPU-0", 20, 0, 0.9)])
    yield Case("unmetered-share", "of nobody", [*device(), *sampled("GPU-0", 200, 0, None)])
    yield Case(
        "collector-finding",
        "no permission",
        found("no_permission", 30, "warning"),
        ("finding=no_permission", "node=n1"),
    )
    yield Case("collector-finding", "over an hour ago", found("no_permission", 61, "warning"))
    yield Case("collector-finding", "for information", found("inventory_changed", 30, "info"))


def _earlier(facts: list[Fact], minutes: int) -> list[Fact]:
    from datetime import timedelta

    return [(record, {**row, "ts": row["ts"] - timedelta(minutes=minutes)}) for record, row in facts]


def _minutes(fact: Fact) -> float:
    from tests.alerts.facts import NOON

    return (NOON - fact[1]["ts"]).total_seconds() / 60


CASES = [*_idle(), *_scheduling(), *_hardware(), *_telemetry()]
