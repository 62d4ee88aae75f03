"""Samples for a replayed schedule, drawn from published distributions of real telemetry.

A sample ends at every multiple of the interval and at the allocation's end; together they cover the allocation.
A job has a level of its own around which its samples move (a Gaussian copula), so all samples together follow the
published distribution and one job's samples resemble each other.

Source:  quantile functions of Acme (Hu et al., NSDI 2024, https://github.com/InternLM/AcmeTrace data/utilization),
         which include those of Philly and PAI.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from collectors.errors import CollectorError
from collectors.tables import TABLE_ROWS, Records, table, words
from collectors.traces.files import read_rows
from collectors.traces.schedule import Schedule
from warehouse.records import MAX_INTERVAL_SECONDS, SAMPLES

INTERVALS = (300, 600, 900, 1800, MAX_INTERVAL_SECONDS)
MOST_ROWS = 30_000_000
DAY_MS = 86_400_000
OWN_LEVEL = 0.8
"""Correlation of the samples of one job."""
ALIKE = 0.9
"""Correlation of power, memory and temperature with utilization."""

_NORMAL = np.linspace(-5.0, 5.0, 4001)
_PROBABILITY = np.array([0.5 * (1 + math.erf(z / math.sqrt(2))) for z in _NORMAL])


@dataclass(frozen=True)
class Distributions:
    """Quantile functions by (cluster, metric), as values at the points of a normal variable."""

    path: Path
    at_normal: Mapping[tuple[str, str], np.ndarray]

    def draw(self, cluster: str, metric: str, normal: np.ndarray) -> np.ndarray:
        """Values in the metric's own unit (percent, watts, degrees).

        Errors: CollectorError if the file has no such distribution.
        """
        if (cluster, metric) not in self.at_normal:
            found = ", ".join(sorted({f"{c}/{m}" for c, m in self.at_normal}))
            raise CollectorError(str(self.path), f"no distribution {cluster}/{metric}", f"It has {found}")
        return np.asarray(np.interp(normal, _NORMAL, self.at_normal[cluster, metric]))


def read_distributions(path: Path) -> Distributions:
    """Reads rows of cluster, metric, cdf_pct (0-100), value."""
    points: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for key, point in read_rows(path, ("cluster", "metric", "cdf_pct", "value"), (), _point):
        points[key].append(point)
    return Distributions(path, {key: _at_normal(sorted(values)) for key, values in points.items()})


def _point(row: dict[str, str]) -> tuple[tuple[str, str], tuple[float, float]]:
    return (row["cluster"], row["metric"]), (float(row["cdf_pct"]), float(row["value"]))


def _at_normal(points: Sequence[tuple[float, float]]) -> np.ndarray:
    percent, value = np.array(points).T
    return np.asarray(np.interp(_PROBABILITY * 100, percent, value))


@dataclass(frozen=True)
class Telemetry:
    """How to draw samples.

    utilization_of: whose distribution of GPU utilization.   others_of: whose of power, memory and temperature.
    interval_seconds: 0 = the shortest of INTERVALS that stays under MOST_ROWS rows.
    """

    distributions: Distributions
    utilization_of: str = "seren"
    others_of: str = "seren"
    interval_seconds: int = 0
    seed: int = 7

    @property
    def source(self) -> str:
        """What `utilization_source` says of every sample."""
        return f"acme-2023-cdf:{self.utilization_of}/gpu_util_pct"

    def interval_of(self, schedule: Schedule) -> int:
        """Seconds between samples."""
        if self.interval_seconds:
            if not 1 <= self.interval_seconds <= MAX_INTERVAL_SECONDS:
                raise CollectorError(
                    f"--interval {self.interval_seconds}", "out of range", f"Use 1 to {MAX_INTERVAL_SECONDS} seconds"
                )
            return self.interval_seconds
        holdings = _holdings(schedule)
        fitting = (seconds for seconds in INTERVALS if holdings.rows(seconds * 1000) <= MOST_ROWS)
        return next(fitting, INTERVALS[-1])

    def rows(self, schedule: Schedule) -> int:
        """How many samples there will be."""
        return _holdings(schedule).rows(self.interval_of(schedule) * 1000)

    def note(self, schedule: Schedule) -> str:
        """The sentence to show wherever the samples are shown."""
        seconds = self.interval_of(schedule)
        return (
            f"telemetry is drawn, not measured: {self.rows(schedule):,} samples of {seconds} s; "
            f"utilization from the real distribution of {self.utilization_of}; memory, power and temperature from "
            f"{self.others_of} (A100); seed {self.seed}"
        )

    def samples(self, schedule: Schedule) -> Records:
        """Samples in time order. The same seed gives the same bytes."""
        interval_ms = self.interval_of(schedule) * 1000
        pending: list[pa.Table] = []
        for part in self._windows(schedule, interval_ms):
            if pending and sum(t.num_rows for t in pending) + part.num_rows > TABLE_ROWS:
                yield SAMPLES, pa.concat_tables(pending).combine_chunks()
                pending = []
            pending.append(part)
        if pending:
            yield SAMPLES, pa.concat_tables(pending).combine_chunks()

    def _windows(self, schedule: Schedule, interval_ms: int) -> Iterator[pa.Table]:
        holdings = _holdings(schedule)
        if not len(holdings.start):
            return
        level = np.random.default_rng(self.seed).standard_normal(len(schedule.allocations))
        per_window = max(1, DAY_MS // interval_ms)
        first, last = int(holdings.start.min()) // interval_ms, -(-int(holdings.end.max()) // interval_ms)
        for window in range(first // per_window, -(-last // per_window)):
            which, ts, seconds = holdings.points(window * per_window, (window + 1) * per_window, interval_ms)
            if len(which):
                random = np.random.default_rng([self.seed, window])
                yield self._table(schedule, holdings, which, ts, seconds, level, random)

    def _table(
        self,
        schedule: Schedule,
        holdings: _Holdings,
        which: np.ndarray,
        ts: np.ndarray,
        seconds: np.ndarray,
        level: np.ndarray,
        random: np.random.Generator,
    ) -> pa.Table:
        rows = len(which)
        device, job = holdings.device[which], holdings.job[which]
        own = OWN_LEVEL**0.5 * level[job] + (1 - OWN_LEVEL) ** 0.5 * random.standard_normal(rows)

        def draw(metric: str) -> np.ndarray:
            alike = ALIKE * own + (1 - ALIKE**2) ** 0.5 * random.standard_normal(rows)
            return self.distributions.draw(self.others_of, metric, alike)

        busy = self.distributions.draw(self.utilization_of, "gpu_util_pct", own) / 100 * holdings.share[which]
        utilization = np.round(np.clip(busy, 0, holdings.share[which]), 4)
        total = np.array([d.memory_bytes or np.nan for d in schedule.devices])[device]
        used = total * np.clip(draw("gpu_mem_used_pct") / 100, 0, 1) * holdings.share[which]
        power = np.round(draw("gpu_power_w") * holdings.share[which], 1)
        return table(
            SAMPLES,
            rows,
            {
                "ts": ts,
                "interval_seconds": seconds,
                "cluster": schedule.cluster,
                "node": words(device, [d.node for d in schedule.devices]),
                "device_id": words(device, [d.device_id for d in schedule.devices]),
                "workload_id": words(job, [a.allocation_id for a in schedule.allocations]),
                "state": words((utilization > 0).astype(np.int32), ("idle", "ok")),
                "utilization": utilization,
                "utilization_source": self.source,
                "memory_used_bytes": _bytes(used),
                "memory_total_bytes": _bytes(total),
                "power_watts": power,
                "energy_joules": np.round(power * seconds, 1),
                "temperature_celsius": np.round(draw("gpu_temp_c"), 1),
            },
        )


def _bytes(values: np.ndarray) -> pa.Array:
    """Whole MiB as uint64; NaN is null."""
    known = ~np.isnan(values)
    return pa.array((np.where(known, values, 0) // 1_048_576 * 1_048_576).astype(np.uint64), mask=~known)


@dataclass(frozen=True)
class _Holdings:
    """An entry per allocation and device: places in the schedule's lists, times in ms, share of the device (0-1)."""

    job: np.ndarray
    device: np.ndarray
    start: np.ndarray
    end: np.ndarray
    share: np.ndarray

    def rows(self, interval_ms: int) -> int:
        return int((-(-self.end // interval_ms) - self.start // interval_ms).sum())

    def points(self, first: int, last: int, interval_ms: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Samples of the intervals numbered (first, last]: (entry, end of the interval in ms, length in seconds)."""
        begin = np.maximum(self.start // interval_ms, first)
        counts = np.maximum(np.minimum(-(-self.end // interval_ms), last) - begin, 0)
        which = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        number = begin[which] + within + 1
        ts = np.minimum(number * interval_ms, self.end[which])
        seconds = (ts - np.maximum((number - 1) * interval_ms, self.start[which])) / 1000
        order = np.argsort(ts, kind="stable")
        return which[order], ts[order], seconds[order]


def _holdings(schedule: Schedule) -> _Holdings:
    entries = [
        (number, device, allocation.start_ms, allocation.end_ms, allocation.units)
        for number, allocation in enumerate(schedule.allocations)
        if allocation.start_ms is not None
        for device in allocation.devices
    ]
    job, device, start, end, units = np.array(entries, dtype=np.int64).reshape(-1, 5).T
    whole = np.array([d.units for d in schedule.devices])
    return _Holdings(job, device, start, end, units / whole[device])
