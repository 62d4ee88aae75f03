"""Debian's Prometheus scrapes an exporter and pushes what it scraped: the rows are those of whoever asks it."""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from collectors.exporters.prometheus import PrometheusCollector
from collectors.exporters.rows import rows
from tests.collectors.exporters.serving import serving
from tests.collectors.receivers.pushing import Pushed, receiving
from tests.draws import seldom
from tests.ingest.receiving import TOKEN, tokens_file
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_port
from tests.stores import fresh_store

PROMETHEUS = shutil.which("prometheus")
pytestmark = pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus binary here (Debian: prometheus)")

PERIOD = 0.5
DEVICES = 6


@dataclass
class Page:
    """An exporter's page that is another each time: values at random, a device comes and goes, a pod moves."""

    random: random.Random
    energy: float = 5e6
    scrapes: int = 0

    def __call__(self, path: str) -> bytes:
        self.scrapes += 1
        self.energy += self.random.uniform(0, 100)
        lines = []
        for device in range(DEVICES - (self.scrapes % 3 == 0)):
            labels = f'gpu="{device}",UUID="GPU-{device}",modelName="NVIDIA H100",Hostname="n{device % 2}"'
            if device == self.scrapes // 4 % DEVICES:
                labels += ',pod="train-0",namespace="ml",container="main",pod_uid="7c1d"'
            used = self.random.choice([0, 17, 93, 808334905, 2147483632])
            lines += [
                f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {used}",
                f"DCGM_FI_DEV_FB_USED{{{labels}}} {self.random.randrange(80_000)}",
                f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} {self.random.uniform(50, 700):.3f}",
                f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} {self.energy + device:.0f}",
                f"DCGM_FI_PROF_SM_ACTIVE{{{labels}}} {self.random.random():.6f}",
                f"go_goroutines_{device} 12",
            ]
        return ("\n".join(lines) + "\n").encode()


@contextmanager
def prometheus(folder: Path, target: str, remote: dict[str, Any]) -> Iterator[tuple[str, Path]]:
    """One that scrapes the target and pushes; its address, and its log."""
    assert PROMETHEUS is not None
    port = free_port()
    config = {
        "global": {"scrape_interval": f"{PERIOD * 1000:.0f}ms", "scrape_timeout": "400ms"},
        "scrape_configs": [
            {
                "job_name": "dcgm",
                "honor_labels": True,
                "static_configs": [
                    {"targets": [urlsplit(target).netloc], "labels": {"pod": "exporter-x", "cluster": "c1"}}
                ],
            }
        ],
        "remote_write": [remote],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [PROMETHEUS, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}", folder / "log"
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def remote_write(url: str, token: str = TOKEN) -> dict[str, Any]:
    return {
        "url": f"{url}/api/v1/write",
        "authorization": {"type": "Bearer", "credentials": token},
        # Small pieces over several connections: one scrape comes in many requests, out of order.
        "queue_config": {
            "min_shards": 4, "max_shards": 4, "max_samples_per_send": 7, "batch_send_deadline": "100ms",
            "min_backoff": "30ms", "max_backoff": "100ms",
        },
        "metadata_config": {"send": True, "send_interval": "1s"},
    }  # fmt: skip


COLUMNS = (
    "interval_seconds, cluster, node, device_id, workload_id, state, utilization, utilization_source, sm_active,"
    " memory_used_bytes, power_watts, energy_joules"
)


@seldom(6, "what is pushed is what is scraped")
def test_what_is_pushed_is_what_is_scraped(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "store") as store, receiving(store, tokens_file(tmp_path)) as pushed, serving() as page:
        page.route = Page(random.Random(15))
        with prometheus(tmp_path, page.url, remote_write(pushed.url)) as (url, _):
            until(lambda: page.route.scrapes >= 12, every=0.1)  # type: ignore[union-attr]
            end = datetime.now(UTC)
            until(lambda: store.value("SELECT max(ts) FROM pushed_points") > end, every=0.1)
            pushed_until(pushed, end)
            asked = PrometheusCollector(url, cluster="c1", period_seconds=PERIOD).between(
                end - timedelta(seconds=60), end
            )
        pushed.assemble()
        theirs = by_key(rows(asked.observed, cluster="c1").rows["samples"])
        until_end = f"SELECT ts, {COLUMNS} FROM samples WHERE ts <= {{end:DateTime64(3, 'UTC')}} AND state != 'stale'"
        ours = by_key(store.rows(until_end, {"end": end}))  # an asked Prometheus does not tell the ends of series
        assert ours.keys() == theirs.keys() and len(ours) > 12 * DEVICES
        for key, row in ours.items():
            assert row.keys() == theirs[key].keys()
            assert all(alike(value, theirs[key][name]) for name, value in row.items()), (row, theirs[key])
        assert store.value("SELECT count() FROM samples WHERE workload_id = '7c1d'") >= 5


def by_key(found: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Intervals as far as Prometheus keeps to them. Of the device that comes and goes neither interval nor energy:
    whoever asks does not hear that it was gone, and goes on from before."""
    rows = {}
    for row in found:
        reported = {name.strip(): row.get(name.strip()) or None for name in COLUMNS.split(",")}
        reported["interval_seconds"] = round(reported["interval_seconds"] / PERIOD)
        if reported["device_id"] == f"GPU-{DEVICES - 1}":
            del reported["energy_joules"], reported["interval_seconds"]
        rows[row["ts"], row["device_id"], row.get("workload_id") or ""] = reported
    return rows


def alike(one: Any, other: Any) -> bool:
    """As far as the table keeps its digits."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6)
    return bool(one == other)


def pushed_until(pushed: Pushed, end: datetime) -> None:
    """Once every shard has pushed what it has until then."""
    devices = "SELECT uniqExact(labels, name) FROM pushed_points WHERE ts > {end:DateTime64(3, 'UTC')} AND name != 'up'"
    until(lambda: pushed.store.value(devices, {"end": end}) >= 5 * (DEVICES - 1), every=0.1)


def test_a_server_that_is_away_or_says_later_loses_nothing_and_a_wrong_token_does(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "store") as store, receiving(store, tokens_file(tmp_path)) as pushed, serving() as page:
        page.route = Page(random.Random(4))
        pushed.log.held_up = True
        with prometheus(tmp_path, page.url, remote_write(pushed.url)) as (_, log):
            until(lambda: b"503" in log.read_bytes(), every=0.1)
            until(lambda: page.route.scrapes >= 6, every=0.1)  # type: ignore[union-attr]
            assert store.value("SELECT count() FROM pushed_points") == 0
            pushed.log.held_up = False
            until(lambda: store.value("SELECT uniqExact(ts) FROM pushed_points") >= 6, every=0.1)
        (tmp_path / "wrong").mkdir()
        with prometheus(tmp_path / "wrong", page.url, remote_write(pushed.url, "wrong")) as (_, log):
            until(lambda: b"non-recoverable error" in log.read_bytes() and b"docs/receivers.md" in log.read_bytes())
