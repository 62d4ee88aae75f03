"""A day of dcgm-exporter and kube-state-metrics, as a Prometheus keeps it; and Debian's Prometheus that has it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_port

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
DAY = datetime(2026, 10, 6, tzinfo=UTC)
PERIOD = 120
"""Seconds between two scrapes of a target."""
DCGM_OFFSET, KSM_OFFSET = 7, 23
"""When in the period they are scraped."""
END = DAY + timedelta(days=1, minutes=5)
NOW = DAY + timedelta(days=1, minutes=30)
MODEL = "NVIDIA H100 80GB HBM3"


def at(text: str) -> datetime:
    """A time of the day; 24:00:00 is its end."""
    hours, minutes, seconds = map(int, text.split(":"))
    return DAY + timedelta(hours=hours, minutes=minutes, seconds=seconds)


@dataclass(frozen=True)
class Pod:
    """devices: what dcgm-exporter names it on.   until: when its object goes, None: it stays.   done: (phase, when).
    completed: what kube_pod_completion_time says."""

    name: str
    namespace: str
    uid: str
    node: str
    gpus: int
    scheduled: datetime
    devices: tuple[str, ...] = ()
    until: datetime | None = None
    done: tuple[str, datetime] | None = None
    completed: datetime | None = None
    reason: str = ""

    def is_there(self, when: datetime) -> bool:
        return self.created <= when and (self.until is None or when < self.until)

    def holds(self, when: datetime) -> bool:
        return self.scheduled <= when and self.is_there(when) and (self.done is None or when < self.done[1])

    def phase(self, when: datetime) -> str:
        if self.done is not None and when >= self.done[1]:
            return self.done[0]
        return "Running" if when >= self.scheduled else "Pending"

    @property
    def created(self) -> datetime:
        return self.scheduled - timedelta(seconds=6)


PODS = (
    Pod("train-0", "vision", "uid-train", "n0", 2, at("1:10:11"), ("GPU-0", "GPU-1"), at("11:00:00"),
        ("Succeeded", at("9:30:41")), at("9:30:40")),
    Pod("nb-0", "chem", "uid-nb-old", "n1", 1, DAY - timedelta(hours=9), ("GPU-2",), at("15:00:50")),
    Pod("nb-0", "chem", "uid-nb-new", "n1", 1, at("16:00:10"), ("GPU-2",)),
    Pod("fold-7", "bio", "uid-fold", "n1", 1, at("10:00:00"), ("GPU-3",), None, ("Failed", at("12:00:30")), None,
        "Evicted"),
    Pod("silent-0", "ops", "uid-silent", "n0", 1, at("13:00:00"), (), at("14:00:05"),
        ("Succeeded", at("14:00:00")), at("14:00:00")),
    Pod("web-0", "ops", "uid-web", "n1", 0, at("2:00:00")),
)  # fmt: skip
DEVICES: Mapping[str, str] = {"GPU-0": "n0", "GPU-1": "n0", "GPU-2": "n1", "GPU-3": "n1"}
OUTAGE = at("3:00:00"), at("3:20:00")
"""Nobody can scrape kube-state-metrics."""
MOVED = at("18:00:00"), at("18:04:00")
"""It is gone from one address, and then at another."""


def openmetrics() -> str:
    """The samples of all scrapes, each series in the order of time."""
    lines: dict[str, list[str]] = {}

    def put(when: datetime, name: str, value: float, **labels: str) -> None:
        series = name + "{" + ",".join(f'{label}="{text}"' for label, text in labels.items()) + "}"
        lines.setdefault(series, []).append(f"{series} {value} {when.timestamp():.3f}")

    for scrape in range(int((END - DAY).total_seconds()) // PERIOD):
        _dcgm(DAY + timedelta(seconds=scrape * PERIOD + DCGM_OFFSET), scrape, put)
        _kube_state_metrics(DAY + timedelta(seconds=scrape * PERIOD + KSM_OFFSET), put)
    return "\n".join(line for some in lines.values() for line in some) + "\n# EOF\n"


def _dcgm(when: datetime, scrape: int, put) -> None:  # type: ignore[no-untyped-def]
    for node in ("n0", "n1"):
        put(when, "up", 1, job="dcgm", instance=f"{node}:9400")
    for number, (device, node) in enumerate(DEVICES.items()):
        labels = {"gpu": str(number % 2), "UUID": device, "modelName": MODEL, "Hostname": node}
        labels |= {"job": "dcgm", "instance": f"{node}:9400"}
        holder = next((pod for pod in PODS if device in pod.devices and pod.holds(when)), None)
        if holder is not None:
            labels |= {"namespace": holder.namespace, "pod": holder.name, "container": "main"}
        busy = 40 + (scrape * 7 + number) % 50 if holder is not None and holder.name != "nb-0" else 0
        put(when, "DCGM_FI_DEV_GPU_UTIL", busy, **labels)
        put(when, "DCGM_FI_DEV_FB_USED", 30000 if holder is not None else 4, **labels)
        put(when, "DCGM_FI_DEV_FB_FREE", 51559 if holder is not None else 81555, **labels)
        put(when, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 1e9 + PERIOD * scrape * (number + 1) * 100_000, **labels)


def _kube_state_metrics(when: datetime, put) -> None:  # type: ignore[no-untyped-def]
    target = {"job": "kube-state-metrics", "instance": "10.0.0.5:8080" if when < MOVED[1] else "10.0.0.9:8080"}
    if MOVED[0] <= when < MOVED[1]:
        return
    is_up = not OUTAGE[0] <= when < OUTAGE[1]
    put(when, "up", int(is_up), **target)
    for pod in PODS if is_up else ():
        if not pod.is_there(when):
            continue
        # As without honor_labels: the target's own namespace and pod stand before those of the series.
        own = {"namespace": "monitoring", "pod": "kube-state-metrics-0", **target}
        base = {"exported_namespace": pod.namespace, "exported_pod": pod.name, "uid": pod.uid, **own}
        node = {"node": pod.node} if when >= pod.scheduled else {}
        resource, asked = ("nvidia_com_gpu", pod.gpus) if pod.gpus else ("cpu", 2)
        put(when, "kube_pod_container_resource_requests", asked, **base, **node, exported_container="main",
            resource=resource, unit="integer")  # fmt: skip
        put(when, "kube_pod_info", 1, **base, **node, created_by_kind="Job", created_by_name=pod.name)
        put(when, "kube_pod_created", pod.created.timestamp(), **base)
        if when >= pod.scheduled:
            put(when, "kube_pod_status_scheduled_time", pod.scheduled.timestamp(), **base)
        if pod.completed is not None and when >= pod.completed:
            put(when, "kube_pod_completion_time", pod.completed.timestamp(), **base)
        for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
            put(when, "kube_pod_status_phase", int(phase == pod.phase(when)), **base, phase=phase)
        if pod.reason and pod.phase(when) == "Failed":
            put(when, "kube_pod_status_reason", 1, **base, reason=pod.reason)


@contextmanager
def prometheus(folder: Path, text: str) -> Iterator[str]:
    """One that has these samples and scrapes nothing; its address."""
    assert PROMETHEUS is not None and PROMTOOL is not None
    (folder / "samples.txt").write_text(text)
    data = folder / "data"
    subprocess.run(
        [PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", "--quiet", str(folder / "samples.txt"), str(data)],
        check=True, capture_output=True,
    )  # fmt: skip
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": []}))
    url = f"127.0.0.1:{free_port()}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [PROMETHEUS, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={data}",
             "--storage.tsdb.retention.time=100y", f"--web.listen-address={url}"],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        until(lambda: _is_ready(url), (folder / "log").read_text, every=0.1)
        yield f"http://{url}"
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"http://{url}/-/ready").status_code == 200
    except httpx.HTTPError:
        return False
