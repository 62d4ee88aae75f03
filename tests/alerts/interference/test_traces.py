"""Published co-location measurements fed in as facts: what was published comes back out.

None of the tables holds device telemetry: who was on a device when is composed here, the speeds are the recorded ones.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median, median_high
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from alerts.interference.definitions import jitter, tail
from alerts.interference.episodes import episodes
from alerts.interference.factors import colocation_factors
from alerts.interference.measure import measure, newest_baselines
from alerts.interference.ranking import victims
from tests.alerts.facts import GIB, NOON
from tests.alerts.interference.sharing import STEPS
from warehouse.store import Store

TRACES = Path(__file__).resolve().parents[4] / "shared" / "traces"


def trace(name: str) -> Path:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"the trace {name} is not beside this checkout")
    return path


class Lab:
    """Places workloads minute by minute and writes it all at once."""

    def __init__(self) -> None:
        self.samples: list[tuple[datetime, str, str]] = []
        self.levels: list[tuple[datetime, str, float]] = []
        self.devices: dict[str, str] = {}

    def place(self, device: str, workload: str, at: datetime, speed: float | None, model: str = "V100") -> None:
        """In the window that ends at `at`; speed None: it does not tell."""
        self.devices[device] = model
        self.samples.append((at, device, workload))
        if speed is not None:
            self.levels.append((at, workload, speed))

    def write(self, store: Store) -> None:
        instant = pa.timestamp("ms", "UTC")
        started = min(row[0] for row in self.samples) - timedelta(hours=1)
        count = len(self.devices)
        store.insert(
            "devices",
            pa.table(
                {
                    "ts": pa.array([started] * count, instant),
                    "device_id": list(self.devices),
                    "model": list(self.devices.values()),
                    "units": pa.array([2] * count, pa.uint32()),
                    "state": ["available"] * count,
                }
            ),
        )
        count = len(self.samples)
        store.insert(
            "samples",
            pa.table(
                {
                    "ts": pa.array([row[0] for row in self.samples], instant),
                    "device_id": [row[1] for row in self.samples],
                    "workload_id": [row[2] for row in self.samples],
                    "interval_seconds": [60.0] * count,
                    "state": ["ok"] * count,
                    "memory_used_bytes": pa.array([GIB] * count, pa.uint64()),
                }
            ),
        )
        count = len(self.levels)
        store.insert(
            "service_levels",
            pa.table(
                {
                    "ts": pa.array([row[0] for row in self.levels], instant),
                    "workload_id": [row[1] for row in self.levels],
                    "value": [row[2] for row in self.levels],
                    "interval_seconds": [60.0] * count,
                    "service": ["training"] * count,
                    "metric": [STEPS] * count,
                }
            ),
        )


def gavel(gpu: str) -> tuple[dict[str, float], dict[tuple[str, str], tuple[float, float]]]:
    """Of single-GPU jobs, simulation table: steps/s alone; and of pairs, where both ran."""
    table = pa_csv.read_csv(trace("gavel_colocation_throughputs.csv.gz"))
    rows = table.filter(
        pc.and_(
            pc.and_(pc.equal(table["table"], "simulation"), pc.equal(table["gpu"], gpu)), pc.equal(table["gpus"], 1)
        )
    ).to_pylist()
    alone: dict[str, float] = {}
    pairs: dict[tuple[str, str], tuple[float, float]] = {}
    for row in rows:
        if not row["other_job"]:
            alone[row["job"]] = row["steps_per_s"]
        elif (
            row["other_gpus"] == 1
            and row["steps_per_s"]
            and row["other_steps_per_s"]
            and row["job"] != row["other_job"]
        ):
            pairs[row["job"], row["other_job"]] = (row["steps_per_s"], row["other_steps_per_s"])
    return alone, pairs


def test_the_published_slowdowns_of_gavels_pairs_come_back(facts: Store) -> None:
    alone, pairs = gavel("v100")
    assert len(pairs) > 400
    lab = Lab()
    start = NOON - timedelta(hours=30)
    at = start
    for n, (job, speed) in enumerate(sorted(alone.items())):
        for minute in range(5):
            lab.place(f"GPU-alone-{n}", job, start + timedelta(minutes=minute), speed)
    at = start + timedelta(minutes=5)
    for one, other in sorted(pairs):
        if one < other:  # one pair a minute on a device of its own: nobody is beside two at once
            lab.place(f"GPU-{one}", one, at, pairs[one, other][0])
            lab.place(f"GPU-{one}", other, at, pairs[one, other][1])
            at += timedelta(minutes=1)
    lab.write(facts)
    measure(facts, NOON)
    found = colocation_factors(facts, start - timedelta(hours=1), NOON)
    published = {}
    for (one, other), (speed, other_speed) in pairs.items():
        if one < other:
            published[one, other] = speed / alone[one]
            published[other, one] = other_speed / alone[other]
    assert found.keys() == published.keys()
    assert max(abs(found[pair].speed - speed) for pair, speed in published.items()) < 1e-9
    disturbed = facts.value("SELECT count() FROM interference WHERE disturbed = true")
    assert disturbed == sum(1 / speed >= 1.1 for speed in published.values())


def pai(job: int) -> dict[str, list[tuple[int, float]]]:
    """worker -> (second, normalised seconds of a mini-batch), in order."""
    with gzip.open(trace("pai_2020_minibatch_times.csv.gz"), "rb") as file:
        table = pa_csv.read_csv(file)
    workers: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for row in table.filter(pc.equal(table["job"], job)).to_pylist():
        workers[f"worker-{row['worker']}"].append((row["time"], float(row["batch_time_norm"])))
    return {name: sorted(times) for name, times in workers.items()}


def test_the_stragglers_of_a_pai_job_are_its_only_victims(facts: Store) -> None:
    """Job 3: for most of the time all workers keep their own pace; at the end some take a quarter longer.

    Composed: each worker has a GPU to itself until then, and a neighbour that tells nothing from then on.
    """
    workers = pai(3)
    end = max(time for times in workers.values() for time, _ in times)
    arrival = end * 0.9
    lab = Lab()
    expected: dict[str, float] = {}
    for name, times in workers.items():
        by_minute: dict[int, list[float]] = defaultdict(list)
        for second, batch in times:
            by_minute[second // 60].append(batch)
        for minute, batches in by_minute.items():
            at = NOON - timedelta(seconds=end) + timedelta(minutes=minute + 1)
            at = at.replace(second=0)
            lab.place(f"GPU-{name}", name, at, len(batches) / sum(batches))
            if minute * 60 >= arrival:
                lab.place(f"GPU-{name}", f"beside-{name}", at, None)
        rates = {minute: len(batches) / sum(batches) for minute, batches in by_minute.items()}
        alone = median_high(rate for minute, rate in rates.items() if minute * 60 < arrival)
        slowed = [alone / rate for minute, rate in rates.items() if minute * 60 >= arrival and alone / rate >= 1.1]
        if len(slowed) >= 3:
            expected[name] = max(slowed)
    lab.write(facts)
    until = NOON + timedelta(minutes=30)
    measure(facts, until)
    found = victims(facts, NOON - timedelta(hours=2), until)
    assert {one.identity: round(one.max_slowdown or 0, 6) for one in found} == {
        name: round(value, 6) for name, value in expected.items()
    }
    assert set(expected) == {"worker-6", "worker-7", "worker-8", "worker-9"}
    assert {one.neighbours for one in episodes(facts, NOON - timedelta(hours=2), until)} == {
        (f"beside-{name}",) for name in expected
    }


def miso(workload: str, profile: str) -> Sequence[float]:
    """Seconds of the steps after the first of each epoch, which loads."""
    table = pq.read_table(
        trace("miso_a100_mig_step_times.parquet"), filters=[("workload", "=", workload), ("slice", "=", profile)]
    )
    return [row["seconds"] for row in table.to_pylist() if row["step"] > 0]


def test_a_mig_slice_is_compared_with_its_own_kind(facts: Store) -> None:
    """A slice of a seventh is 2.6 times slower than the whole: that is what it is, not interference."""
    fast, slow = (median(miso("resnet_train128", profile)) for profile in ("7g.40gb", "1g.5gb"))
    assert slow / fast == pytest.approx(2.19, abs=0.01)
    lab = Lab()
    held: list[dict[str, Any]] = []
    for n, (profile, seconds) in enumerate((("7g.40gb", fast), ("1g.5gb", slow))):
        start = NOON - timedelta(minutes=60 - 20 * n)
        for minute in range(20):
            lab.place(f"GPU-{profile}", "resnet", start + timedelta(minutes=minute + 1), 1 / seconds, "A100")
        held.append({"profile": profile, "start": start, "end": start + timedelta(minutes=20)})
    lab.write(facts)
    instant = pa.timestamp("ms", "UTC")
    facts.insert(
        "allocations",
        pa.table(
            {
                "allocation_id": [one["profile"] for one in held],
                "workload_id": ["resnet"] * 2,
                "device_id": [f"GPU-{one['profile']}" for one in held],
                "partition_profile": [one["profile"] for one in held],
                "units": pa.array([2, 1], pa.uint32()),
                "start_at": pa.array([one["start"] for one in held], instant),
                "end_at": pa.array([one["end"] for one in held], instant),
            }
        ),
    )
    measure(facts, NOON)
    assert facts.rows("SELECT DISTINCT slowdown FROM interference") == [{"slowdown": 1.0}]
    values = {row["partition_profile"]: 1 / row["value"] for row in newest_baselines(facts)}
    assert values == {"7g.40gb": pytest.approx(fast), "1g.5gb": pytest.approx(slow)}


def test_jitter_of_recorded_steps_and_its_refusal() -> None:
    whole, seventh = miso("resnet_train128", "7g.40gb"), miso("resnet_train128", "1g.5gb")
    ordered = sorted(whole)
    assert tail(whole) == ordered[int(0.99 * len(ordered))] / ordered[len(ordered) // 2]
    found = jitter(whole, seventh)
    assert found is not None
    assert found < 1  # a slice keeps its pace better than the whole
    assert len(miso("deepspeech2_train4", "1g.5gb")) < 300
    assert jitter(miso("deepspeech2_train4", "7g.40gb"), miso("deepspeech2_train4", "1g.5gb")) is None
