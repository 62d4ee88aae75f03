"""Pods from what kube-state-metrics says: never longer than they held, and by one scrape at most shorter, however the
history is cut into pieces and whoever was away meanwhile."""

from __future__ import annotations

import json
import random
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from collectors.exporters.exposition import Series
from collectors.kubernetes.settings import Settings
from collectors.prometheus.holders import GONE_SCRAPES, MOVED_SECONDS, Answers, Holders
from collectors.prometheus.pods import RESOURCES, PodReport, pod_object, pod_reports, resource_of, sanitized
from collectors.readings import Row

BEGIN, END, PERIOD = 1_790_000_000.0, 1_790_000_000.0 + 6 * 3600, 30.0


@dataclass(frozen=True)
class Life:
    """over: its phase and whether that is stamped, None: it is deleted while it runs.   gone: its object goes."""

    uid: str
    start: float
    end: float
    over: tuple[str, bool] | None
    gone: float

    def report(self, seen: list[float], target: tuple[str, str]) -> PodReport:
        report = PodReport(self.uid, seen[0], seen[-1], target, {("main", False, "nvidia_com_gpu"): 1.0})
        labels = {"namespace": "ml", "pod": self.uid, "node": "n1"}
        report.facts["kube_pod_info"] = labels, 1.0
        report.facts["kube_pod_created"] = labels, self.start - 5
        report.facts["kube_pod_status_scheduled_time"] = labels, self.start
        report.phase = self.phase(seen[-1])
        if self.over is not None and self.over[1] and seen[-1] >= self.end:
            report.facts["kube_pod_completion_time"] = labels, self.end
        return report

    def phase(self, at: float) -> str:
        return self.over[0] if self.over is not None and at >= self.end else "Running"


def lives(draw: random.Random) -> list[Life]:
    found = []
    for number in range(draw.randint(1, 12)):
        start = float(int(draw.uniform(BEGIN - 3600, END - 600)))
        end = float(int(min(start + draw.choice([7, 45, 900, 9000, 90_000]) * draw.uniform(0.5, 2), END + 9000)))
        over = draw.choice([None, ("Succeeded", True), ("Failed", True), ("Failed", False)])
        gone = end if over is None else end + draw.choice([3, 400, 50_000])
        found.append(Life(f"uid-{number}", start, end, over, gone))
    return found


@dataclass(frozen=True)
class Site:
    """scrapes: instant -> who answered; kube-state-metrics may be away, and come back elsewhere."""

    scrapes: list[tuple[float, tuple[str, str]]]
    lives: list[Life]

    def between(self, start: float, end: float) -> Answers:
        """As `Holders.ask` does, of (start, end]."""
        some = [one for one in self.scrapes if start < one[0] <= end]
        reports: dict[str, PodReport] = {}
        alive: dict[str, float] = {}
        for life in self.lives:
            seen = [(at, target) for at, target in some if life.start <= at < life.gone]
            if seen:
                reports[life.uid] = life.report([at for at, _ in seen], seen[-1][1])
                running = [at for at, _ in seen if life.phase(at) == "Running"]
                alive |= {life.uid: running[-1]} if running else {}
        scraped: dict[tuple[str, str], list[float]] = {}
        for at, target in some:
            scraped.setdefault(target, []).append(at)
        over = {uid: at for uid, at in alive.items() if reports[uid].phase != "Running"}
        return Answers(start, reports, scraped, over)


def site(draw: random.Random) -> Site:
    scrapes, at, target, number = [], BEGIN + draw.uniform(0, PERIOD), ("ksm", "a"), 0
    while at < END + 2 * MOVED_SECONDS:
        scrapes.append((round(at, 3), target))
        at += PERIOD
        if draw.random() < 0.004:
            at += draw.choice([90, 600, 4000])  # away
        if draw.random() < 0.004:
            number += 1
            target = "ksm", f"a{number}"  # elsewhere
    return Site(scrapes, lives(draw))


def pieces(draw: random.Random, whole: bool) -> Iterator[tuple[float, float]]:
    at = BEGIN
    while at < END + 2 * MOVED_SECONDS:
        step = 3600.0 if whole else draw.choice([60.0, 61.7, 600.0, 3600.0])
        yield at, at + step
        at += step


def events(where: Site, draw: random.Random, whole: bool) -> list[Row]:
    holders = Holders(Settings(), BEGIN)
    rows: list[Row] = []
    for start, end in pieces(draw, whole):
        rows += holders.take(where.between(start, end)).rows.get("events", [])
        if draw.random() < 0.05:  # begun anew
            kept = json.loads(json.dumps(holders.plain()))
            holders = Holders(Settings(), BEGIN)
            holders.restore(kept)
    return sorted(rows, key=lambda row: (row["ts"], row["allocation_id"], row["event"]))


@pytest.mark.parametrize("seed", range(40))
def test_a_pod_is_never_charged_for_longer_than_it_was_seen(seed: int) -> None:
    draw = random.Random(seed)
    where = site(draw)
    rows = events(where, draw, whole=True)
    instants = [at for at, _ in where.scrapes]
    by_uid: dict[str, dict[str, Row]] = {}
    for row in rows:
        kind = row["event"] if row["event"] in ("submitted", "started") else "ended"
        assert kind not in by_uid.setdefault(row["allocation_id"], {}), "told once"
        by_uid[row["allocation_id"]][kind] = row
    for life in where.lives:
        place = bisect_right(instants, life.start)
        was_over = life.over is not None and life.over[1] and life.end <= BEGIN
        if was_over or place == len(instants) or instants[place] >= life.gone:
            continue  # it was over before, or never seen
        own = by_uid[life.uid]
        start = own["started"]["ts"].timestamp()
        assert start == max(life.start, BEGIN)
        if life.end > END:
            continue
        end = own["ended"]["ts"].timestamp()
        last = instants[max(bisect_right(instants, life.end - 0.001) - 1, 0)]
        exact = life.over is not None and life.over[1] and life.gone > next(at for at in instants if at >= life.end)
        if exact:
            assert end == max(life.end, start) and "estimated" not in own["ended"].get("reason", "")
        else:
            assert "end estimated" in own["ended"]["reason"]
            assert end <= max(life.end, start) and end >= min(last, life.end) - 1, "the last sample in which it ran"


@pytest.mark.parametrize("seed", range(15))
def test_pieces_and_restarts_change_nothing(seed: int) -> None:
    draw = random.Random(seed)
    where = site(draw)
    assert events(where, draw, whole=False) == events(where, draw, whole=True)


def test_who_cannot_be_scraped_ends_nothing() -> None:
    life = Life("uid", BEGIN + 60, END + 9000, None, END + 9000)
    holders = Holders(Settings(), BEGIN)
    some = [(BEGIN + 60 + n * PERIOD, ("ksm", "a")) for n in range(10)]
    holders.take(Site(some, [life]).between(BEGIN, BEGIN + 3600))
    silent = Answers(BEGIN + 3600, {}, {("ksm", "a"): []}, {})
    assert not holders.take(silent).rows  # `up` is 0
    other_job = Answers(BEGIN + 7200, {}, {("dcgm", "b"): [BEGIN + 7300 + n for n in range(99)]}, {})
    assert not holders.take(other_job).rows
    twice = {("ksm", "a"): [BEGIN + 10_800 + n * PERIOD for n in range(GONE_SCRAPES - 1)]}
    assert not holders.take(Answers(BEGIN + 10_000, {}, twice, {})).rows
    (row,) = holders.take(Answers(BEGIN + 11_000, {}, {("ksm", "a"): [BEGIN + 11_030]}, {})).rows["events"]
    assert row["ts"].timestamp() == some[-1][0] and "end estimated" in row["reason"]


RESOURCE_NAMES = (
    "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.10gb.me",
    "nvidia.com/mig-3g.40gb.shared", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "amd.com/gpu",
    "amd.com/gpu_cpx_nps4", "google.com/tpu", "habana.ai/gaudi", "gpu.intel.com/i915", "huawei.com/Ascend910",
    "huawei.com/Ascend310P-2c", "aws.amazon.com/neurondevice", "volcano.sh/vgpu-memory", "koordinator.sh/gpu-core",
    "metax-tech.com/sgpu", "tencent.com/vcuda-core",
)  # fmt: skip


@pytest.mark.parametrize("name", RESOURCE_NAMES)
def test_a_resource_is_named_again_as_the_api_names_it(name: str) -> None:
    assert resource_of(sanitized(name)) == name
    assert re.fullmatch(RESOURCES, sanitized(name))
    assert not re.fullmatch(RESOURCES, "cpu") and not re.fullmatch(RESOURCES, "memory")


def series(name: str, value: float = 1, **labels: str) -> Series:
    own = {"job": "ksm", "instance": "a", "uid": "u1", "namespace": "ml", "pod": "p"}
    return Series(name, {**own, **labels}, value)


def test_partitions_init_containers_and_labels_are_those_of_the_pod() -> None:
    request = "kube_pod_container_resource_requests"
    asked = [
        (BEGIN, series(request, 2, resource="nvidia_com_mig_1g_10gb", container="a", node="")),
        (BEGIN + 30, series(request, 2, resource="nvidia_com_mig_1g_10gb", container="a", node="n1")),
        (BEGIN + 30, series("kube_pod_init_container_resource_requests", 4, resource="nvidia_com_gpu", container="i")),
        (BEGIN + 30, series(request, 1, uid="", resource="nvidia_com_gpu", container="x")),  # before version 2
    ]
    facts = [
        series("kube_pod_labels", 1, label_kueue_x_k8s_io_queue_name="batch"),
        series("kube_pod_info", 1, created_by_kind="Job", created_by_name="sweep", node=""),
        series("kube_pod_status_phase", 1, phase="Running"),
        series("kube_pod_status_phase", 0, phase="Failed"),
        series("kube_pod_status_phase", 1, phase="Failed", instance="old"),  # another target's, from before
        series("kube_pod_info", 1, uid="u2"),
    ]
    reports = pod_reports(asked, facts)
    assert set(reports) == {"u1"} and reports["u1"].phase == "Running"
    pod: Any = pod_object(reports["u1"], 0)
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["spec"]["containers"] == [{"name": "a", "resources": {"requests": {"nvidia.com/mig-1g.10gb": "2"}}}]
    assert pod["spec"]["initContainers"] == [{"name": "i", "resources": {"requests": {"nvidia.com/gpu": "4"}}}]
    holders = Holders(Settings(cluster="c1"), BEGIN)
    rows = holders.take(Answers(BEGIN - 1, reports, {("ksm", "a"): [BEGIN + 30]}, {})).rows["events"]
    assert {(row["cluster"], row["tenant"], row["queue"]) for row in rows} == {("c1", "ml", "batch")}
    started = [row for row in rows if row["event"] == "started"]
    assert sorted(row["allocation_id"] for row in started) == ["u1", "u1/2", "u1/3"]
    assert sum(row["units"] for row in started if row.get("partition_profile") == "1g.10gb") == 2
