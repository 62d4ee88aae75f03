"""A drawn fleet and its day, known to the second: what each device does, who holds it, and the pages of its exporters.

Nodes: n1 has names and units of DCGM 4.5, behind a target with a pod of its own; n2 is upgraded to those of 4.7 in the
middle of the day; n3 shows ratios under old names, as some collectors do; n4 has a GPU under MIG, which is divided
anew, and one that is whole.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

NODES = ("n1", "n2", "n3", "n4")
LEVELS = (0.0, 0.0, 0.07, 0.4, 0.87, 0.93, 1.0)
"""What a device may do, in whole percents."""
MIG = "GPU-n4-0"
DIVIDED: tuple[dict[str, tuple[str, int]], ...] = (
    {"1": ("3g.20gb", 3), "5": ("2g.10gb", 2), "13": ("1g.5gb", 1)},
    {"2": ("4g.20gb", 4), "5": ("2g.10gb", 2)},
)
"""How MIG's device is divided before and after: instance -> profile and slices."""

Page = dict[tuple[str, tuple[tuple[str, str], ...]], str]
"""(name, labels in their order) -> value."""
Part = tuple[str, str]
"""A device and its instance, which is empty where the whole is meant."""


@dataclass(frozen=True)
class Holding:
    """Who holds what in [begun, over), seconds since 1970."""

    name: str
    part: Part
    begun: float
    over: float
    profile: str = ""
    units: int | None = None


@dataclass(frozen=True)
class Course:
    """What something does: steps[n] from times[n] on."""

    times: tuple[float, ...]
    steps: tuple[float, ...]

    def at(self, when: float) -> float:
        place = bisect_right(self.times, when) - 1
        return self.steps[place] if place >= 0 else 0.0

    def integral(self, start: float, end: float) -> float:
        edges = [start, *(one for one in self.times if start < one < end), end]
        return sum(self.at(one) * (other - one) for one, other in pairwise(edges))


@dataclass
class Day:
    """start, end: seconds since 1970.   upgraded_at: of n2.   divided_at: when MIG's device is divided anew."""

    chance: random.Random
    start: float
    end: float
    courses: dict[Part, Course] = field(default_factory=dict)
    holdings: list[Holding] = field(default_factory=list)

    def __post_init__(self) -> None:
        length = self.end - self.start
        self.upgraded_at, self.divided_at = self.start + 0.45 * length, self.start + 0.6 * length
        parts: list[tuple[Part, str, int | None, float, float]] = [
            ((f"GPU-{node}-{n}", ""), "", None, self.start, self.end)
            for node, many in (("n1", 3), ("n2", 2), ("n3", 2))
            for n in range(many)
        ]
        parts.append((("GPU-n4-1", ""), "", None, self.start, self.end))
        lives = ((self.start, self.divided_at), (self.divided_at, self.end))
        for instances, (begin, end) in zip(DIVIDED, lives, strict=True):
            parts += [((MIG, number), name, many, begin, end) for number, (name, many) in instances.items()]
        for part, profile, units, begin, end in parts:
            if part not in self.courses:
                self.courses[part] = self._course()
            self.holdings += self._holdings(part, profile, units, begin, end)

    def _course(self) -> Course:
        times, at = [], self.start - 60
        while at < self.end:
            times.append(at)
            at += self.chance.uniform(180, 5400)
        return Course(tuple(times), tuple(self.chance.choice(LEVELS) for _ in times))

    def _holdings(self, part: Part, profile: str, units: int | None, begin: float, end: float) -> Iterator[Holding]:
        longest = max(300.0, (end - begin) / 6)
        at = begin + self.chance.uniform(30, longest)
        while True:
            over = at + self.chance.uniform(longest / 20, longest)
            if over > end - 30:
                return
            name = f"job-{part[0]}-{part[1]}-{round(at)}"
            yield Holding(name, part, round(at, 3), round(over, 3), profile, units)
            at = over + self.chance.choice([0.0, 1.0, self.chance.uniform(30, longest / 4)])

    def events(self, cluster: str) -> list[dict[str, Any]]:
        rows = []
        for one in self.holdings:
            device, instance = one.part
            about = {"cluster": cluster, "allocation_id": f"{cluster}-{one.name}"}
            about |= {"workload_id": one.name, "tenant": "t"}
            where = {
                "device_id": device,
                "partition_id": f"{device}/{instance}" if instance else "",
                "partition_profile": one.profile,
                "units": one.units,
            }
            rows.append({**about, **where, "ts": datetime.fromtimestamp(one.begun, UTC), "event": "started"})
            ended = {"device_id": "", "partition_id": "", "partition_profile": "", "units": None}
            rows.append({**about, **ended, "ts": datetime.fromtimestamp(one.over, UTC), "event": "finished"})
        return rows

    def parts_at(self, at: float) -> set[Part]:
        now = DIVIDED[at >= self.divided_at]
        return {part for part in self.courses if not part[1] or part[1] in now}

    def page(self, node: str, at: float) -> Page:
        """As its exporter shows it."""
        found: Page = {}
        for part in sorted(self.parts_at(at)):
            device, instance = part
            if device.split("-")[1] != node:
                continue
            model = "NVIDIA A100" if node == "n4" else "NVIDIA H100"
            labels = {"gpu": device[-1], "UUID": device, "modelName": model}
            if instance:
                labels |= {"GPU_I_PROFILE": DIVIDED[at >= self.divided_at][instance][0], "GPU_I_ID": instance}
            new = node == "n2" and at >= self.upgraded_at
            labels |= {"Hostname": node, "DCGM_FI_DRIVER_VERSION": "590.1" if new else "550.90"}
            holder = self.holder(part, at)
            if holder:
                labels |= {"container": "main", "namespace": "ml", "pod": holder, "pod_uid": holder}
            for name, value in self._values(node, part, at).items():
                found[name, tuple(labels.items())] = value
        return found

    def holder(self, part: Part, at: float) -> str:
        return next((one.name for one in self.holdings if one.part == part and one.begun <= at < one.over), "")

    def _values(self, node: str, part: Part, at: float) -> dict[str, str]:
        course = self.courses[part]
        used = course.at(at)
        watts = 80 + 600 * used
        joules = 1000 + 80 * (at - self.start) + 600 * course.integral(self.start, at)
        mebibytes = round(80_000 * used)
        if part[1]:
            return {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": f"{used:.6f}", "DCGM_FI_DEV_FB_USED": f"{mebibytes // 8}"}
        if node == "n2" and at >= self.upgraded_at:
            return {
                "DCGM_FI_DEV_GPU_UTIL_RATIO": f"{used:.2f}",
                "DCGM_FI_DEV_FB_USED_BYTES": f"{mebibytes << 20}",
                "DCGM_FI_DEV_BOARD_POWER_WATTS": f"{watts:.3f}",
                "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL": f"{joules:.0f}",
            }
        return {
            "DCGM_FI_DEV_GPU_UTIL": f"{used:.2f}" if node == "n3" else f"{round(100 * used)}",
            "DCGM_FI_DEV_FB_USED": f"{mebibytes}",
            "DCGM_FI_DEV_POWER_USAGE": f"{watts:.3f}",
            "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": f"{joules * 1000:.0f}",
        }


def text(page: Page) -> bytes:
    lines = []
    for (name, labels), value in page.items():
        shown = ",".join(f'{label}="{said}"' for label, said in labels)
        lines.append(f"{name}{{{shown}}} {value}\n")
    return "".join(lines).encode()
