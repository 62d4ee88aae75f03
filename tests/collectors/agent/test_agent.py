"""The whole agent: from the driver's library to the store, its pages, and its end."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from collectors.agent.agent import run
from collectors.agent.settings import AgentSettings, read_settings
from collectors.agent.sources import Planned, Source, planned
from collectors.errors import CollectorError
from collectors.readings import Collected
from ingest.spool import Spool
from tests.collectors.attribution.proc_tree import UID, add_process, host_proc, pod_cgroup
from tests.collectors.nvml.fake_nvml import FakeDriver, busy_node, installed
from tests.ingest.receiving import TOKEN, receiving, tokens_file
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_port
from tests.prometheus import check_metrics
from warehouse.store import Store


def settings(tmp_path: Path, url: str | None, **over: Any) -> AgentSettings:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    away = {"podresources": None, "kernel_log": None}
    nvml = {"enabled": True, "interval_seconds": 1, "proc": str(tmp_path / "proc"), **away}
    given = {
        "cluster": "c1",
        "node": "gpu-1",
        "deliver.url": url,
        "deliver.token_file": tmp_path / "token",
        "deliver.every_seconds": 0.1,
        "spool.folder": tmp_path / "spool",
        "spool.synced": False,
        "metrics.port": free_port(),
        "sources.nvml": nvml,
    }
    return read_settings(None, {**given, **over})


@contextmanager
def running(reported: AgentSettings, sources: list[Planned] | None = None) -> Iterator[str]:
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            run(reported, stop, sources)
        except BaseException as error:
            failures.append(error)
            raise

    thread = threading.Thread(target=work)
    thread.start()
    try:
        url = f"http://127.0.0.1:{reported.metrics.port}"
        until(lambda: failures or _answers(url))
        yield url
    finally:
        stop.set()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
        assert not failures


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").status_code in (200, 503)
    except httpx.HTTPError:
        return False


class Still:
    """A source that gives one sample a tick."""

    def collect(self, now: datetime) -> Collected:
        row = {"ts": now, "interval_seconds": 1.0, "device_id": "GPU-x", "state": "ok", "utilization": 0.5}
        return Collected({"samples": [row]})

    def acknowledge(self) -> None:
        """Nothing to note."""

    def close(self) -> None:
        """Nothing to close."""


class OnWallClock:
    """A source, and the made-up driver's clock beside the real one."""

    def __init__(self, source: Source, driver: FakeDriver) -> None:
        self.source, self.driver = source, driver

    def collect(self, now: datetime) -> Collected:
        self.driver.advance(max(0.0, now.timestamp() - self.driver.now))
        return self.source.collect(now)

    def acknowledge(self) -> None:
        self.source.acknowledge()

    def close(self) -> None:
        self.source.close()


def test_what_the_driver_says_is_in_the_store_with_its_holder(store: Store, tmp_path: Path) -> None:
    host_proc(tmp_path / "proc")
    driver = busy_node(gpus=2, processes=1)
    driver.now = time.time()
    add_process(tmp_path / "proc", 10_000, pod_cgroup(UID))
    with receiving(store, tokens_file(tmp_path)) as served, installed(driver):
        reported = settings(tmp_path, served.url)
        (nvml,) = planned(reported)
        with running(reported, [replace(nvml, source=OnWallClock(nvml.source, driver))]) as url:
            until(lambda: store.value("SELECT count() FROM samples") >= 6)
            text = httpx.get(f"{url}/metrics").text
    found = store.rows("SELECT DISTINCT cluster, node, workload_id FROM samples ORDER BY workload_id")
    assert found == [{"cluster": "c1", "node": "gpu-1", "workload_id": who} for who in ("", UID)]
    assert store.value("SELECT countIf(toUnixTimestamp64Milli(ts) % 1000 != 0) FROM samples") == 0
    assert store.value("SELECT count() FROM devices") == 2
    assert store.value("SELECT count() FROM quarantine") == 0
    assert f'gpu_workload_activity_ratio{{cluster="c1",node="gpu-1",device_id="{driver.gpus[0].uuid}"' in text
    assert 'agent_ticks_total{source="nvml"}' in text
    assert "agent_delivered_rows_total" in text
    check_metrics(text)


def test_without_a_store_rows_wait_in_the_spool_and_are_there_at_the_end(tmp_path: Path) -> None:
    reported = settings(tmp_path, "http://127.0.0.1:1")
    with running(reported, [Planned("still", 1, Still())]) as url:
        until(lambda: "agent_spool_rows 2" in httpx.get(f"{url}/metrics").text)
        text = httpx.get(f"{url}/metrics").text
        assert "agent_delivery_failing_seconds" in text
        assert httpx.get(f"{url}/readyz").status_code == 200, "for some minutes that is no reason for alarm"
        assert httpx.get(f"{url}/nowhere").status_code == 404
    with Spool(tmp_path / "spool") as spool:
        assert spool.state().rows >= 2


def test_a_node_that_cannot_be_seen_says_so_in_a_finding(store: Store, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    with receiving(store, tokens_file(tmp_path)) as served, running(settings(tmp_path, served.url)) as url:
        until(lambda: store.value("SELECT count() FROM findings WHERE finding = 'no_permission'"))
        text = httpx.get(f"{url}/metrics").text
    assert 'agent_privilege_ok{name="host_processes",state="no_permission"} 0' in text
    assert store.value("SELECT count() FROM samples") == 0, "no zero was made up"
    messages = store.rows("SELECT message, node FROM findings WHERE finding = 'no_permission'")
    assert any("hostPID" in row["message"] and row["node"] == "gpu-1" for row in messages)


def test_a_source_that_fails_makes_the_agent_not_ready_but_alive(tmp_path: Path) -> None:
    class Broken(Still):
        def collect(self, now: datetime) -> Collected:
            raise OSError("it is gone")

    with running(settings(tmp_path, None), [Planned("broken", 1, Broken()), Planned("still", 1, Still())]) as url:
        until(lambda: httpx.get(f"{url}/readyz").status_code == 503)
        assert httpx.get(f"{url}/readyz").json() == {"trouble": ["broken: it is gone"]}
        assert httpx.get(f"{url}/healthz").status_code == 200


def test_an_agent_that_is_ended_while_a_source_hangs_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.agent.agent.PATIENCE_SECONDS", 0.2)
    free, asked = threading.Event(), threading.Event()

    class Hanging(Still):
        def collect(self, now: datetime) -> Collected:
            asked.set()
            free.wait(PATIENCE_SECONDS)
            return super().collect(now)

    with running(settings(tmp_path, None), [Planned("hanging", 1, Hanging())]):
        assert asked.wait(PATIENCE_SECONDS)
    free.set()


def test_a_stalled_source_is_a_finding(tmp_path: Path) -> None:
    from collectors.agent.agent import Agent, _housekeeping
    from collectors.agent.cycle import Cycle
    from collectors.agent.outbox import Outbox

    now = datetime.now(UTC)
    with Spool(tmp_path / "spool", synced=False) as spool:
        outbox = Outbox(spool, "c1", "n1")
        cycle = Cycle(Planned("slow", 1, Still()), outbox, steady=lambda: 100.0)
        agent = Agent(settings(tmp_path, None), spool, outbox, [cycle], None, [])
        _housekeeping(agent, now)
        assert spool.state().rows == 0
        cycle.state.busy_since = 90.0
        _housekeeping(agent, now)
        _housekeeping(agent, now)
        assert outbox.rows["findings"] == 1
        assert agent.trouble(now)


def test_a_driver_that_was_upgraded_ends_the_agent_so_that_a_new_one_starts(tmp_path: Path) -> None:
    from tests.collectors.nvml.fake_nvml import MISMATCH

    host_proc(tmp_path / "proc")
    driver = busy_node(gpus=1, processes=1)
    driver.now = time.time()
    reported, stop, ended = settings(tmp_path, None), threading.Event(), list[str]()

    def work() -> None:
        try:
            run(reported, stop)
        except CollectorError as error:
            ended.append(str(error))

    with installed(driver):
        thread = threading.Thread(target=work)
        thread.start()
        until(lambda: driver.calls["nvmlDeviceGetUtilizationRates"] > 1)
        driver.errors["nvmlDeviceGetCount_v2"] = MISMATCH
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    assert ended and "the driver was upgraded under this process" in ended[0]
    with Spool(tmp_path / "spool") as spool:
        assert spool.state().rows > 0


def test_a_service_and_a_training_on_the_node_are_asked_too(tmp_path: Path) -> None:
    host_proc(tmp_path / "proc")
    reported = settings(
        tmp_path,
        None,
        **{
            "sources.services": [{"name": "chat", "urls": ["http://127.0.0.1:1/metrics"], "interval_seconds": 1}],
            "sources.training": {"socket": str(tmp_path / "progress.sock"), "interval_seconds": 1},
            "sources.exporters": [{"urls": ["http://127.0.0.1:1/metrics"], "interval_seconds": 1}],
            "sources.prometheus": [{"url": "http://127.0.0.1:1", "interval_seconds": 1}],
        },
    )
    with running(reported) as url:
        until(lambda: httpx.get(f"{url}/metrics").text.count("agent_last_tick_timestamp_seconds{") == 5)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as training:
            for at in (1.0, 2.0):
                said = {"service": "t", "workload": "w", "run": "r", "at": at, "steps": 10 * at}
                training.sendto(json.dumps(said).encode(), str(tmp_path / "progress.sock"))
        until(lambda: 'agent_rows_total{record="service_levels"}' in httpx.get(f"{url}/metrics").text)
        found = httpx.get(f"{url}/metrics").text
    assert 'agent_rows_total{record="findings"}' in found, "what is away is said"
