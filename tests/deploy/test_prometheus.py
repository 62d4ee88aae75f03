"""Prometheus and Alertmanager themselves, with compose's files: they scrape a server, an agent and a scheduler, and
every query of Grafana's dashboards finds something."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import yaml

from collectors.agent.sources import planned
from gpuledger.serve import listen, url_of
from scheduler.live.http import build_app
from tests.collectors.agent.test_agent import OnWallClock, free_port, running, settings
from tests.collectors.attribution.proc_tree import host_proc
from tests.collectors.nvml.fake_nvml import busy_node, installed
from tests.conftest import REPO
from tests.dashboards.site import Site, site
from tests.deploy.test_grafana import BOARDS
from tests.patience import PATIENCE_SECONDS, until
from tests.scheduler.live.living import Living

COMPOSE = REPO / "deploy" / "compose"
PROMETHEUS, ALERTMANAGER = shutil.which("prometheus"), shutil.which("prometheus-alertmanager")
TOKEN = "a-token-of-the-tests"
QUIET = {
    "Missing privileges", "Ticks that failed, were late or left out", "Preemptions",
    "Readings without a value", "Deliveries of alerts",
}  # fmt: skip
"""Panels that may be empty where all is well."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROMETHEUS is None or ALERTMANAGER is None,
        reason="no prometheus and prometheus-alertmanager here: on Debian, apt-get install both",
    ),
]


@contextlib.contextmanager
def program(folder: Path, *command: str, ready: str) -> Iterator[Path]:
    """Its log, once it is ready."""
    log = folder / f"{Path(command[0]).name}.log"
    with log.open("w") as to, subprocess.Popen(command, cwd=folder, stdout=to, stderr=to) as process:
        try:
            until(lambda: answers(ready) or process.poll() is not None, lambda: log.read_text()[-3000:], every=0.2)
            assert process.poll() is None, log.read_text()[-3000:]
            yield log
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).status_code == 200
    except httpx.HTTPError:
        return False


@contextlib.contextmanager
def scheduler(folder: Path) -> Iterator[str]:
    """One whose jobs run, wait and were preempted; its address."""
    folder.mkdir()
    living = Living(folder)
    for number in range(4):
        living.submit(f"job-{number}")
    living.settle()
    living.now += 600
    living.service.finish("job-0", succeeded=True, actor="test")
    living.settle()
    listener = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(build_app(living.service, TOKEN, ("127.0.0.1",)), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield url_of(listener).rstrip("/").removeprefix("http://")
    finally:
        server.should_exit = True
        thread.join(20)


@contextlib.contextmanager
def agent(folder: Path) -> Iterator[str]:
    """One whose server is away; its address."""
    folder.mkdir()
    host_proc(folder / "proc")
    driver = busy_node(gpus=2, processes=1)
    driver.now = time.time()
    with installed(driver):
        reported = settings(folder, "http://127.0.0.1:1")
        (nvml,) = planned(reported)
        with running(reported, [replace(nvml, source=OnWallClock(nvml.source, driver))]) as url:
            yield url.removeprefix("http://")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a Prometheus that has scraped all of them a few times."""
    folder = tmp_path_factory.mktemp("monitoring")
    with contextlib.ExitStack() as stack:
        served: Site = stack.enter_context(site(folder / "site"))
        places = {
            "server:8050": served.url.removeprefix("http://"),
            "alertmanager:9093": f"127.0.0.1:{free_port()}",
        }
        scraped = stack.enter_context(scheduler(folder / "scheduler"))
        for name in ("metrics_token", "scheduler_token"):
            (folder / name).write_text(served.tokens["analyst"] if name == "metrics_token" else TOKEN)
        shutil.copy(REPO / "deploy/prometheus/gpuledger.rules.yml", folder)
        text = (COMPOSE / "prometheus.yml").read_text().replace("30s", "1s").replace("/run/secrets/", f"{folder}/")
        for old, new in places.items():
            assert old in text
            text = text.replace(old, new)
        listed = (COMPOSE / "agents.yaml").read_text()
        assert yaml.safe_load(listed) == [], "nobody is scraped who may not be there"
        (folder / "agents.yaml").write_text(uncommented(listed, stack.enter_context(agent(folder / "agent"))))
        config = yaml.safe_load(text)
        config["scrape_configs"].append(
            {"job_name": "gpuledger-scheduler", "authorization": {"credentials_file": f"{folder}/scheduler_token"},
             "static_configs": [{"targets": [scraped]}]}
        )  # fmt: skip
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        at = places["alertmanager:9093"]
        assert ALERTMANAGER is not None
        stack.enter_context(
            program(folder, ALERTMANAGER, f"--config.file={COMPOSE}/alertmanager.yml", f"--storage.path={folder}/am",
                    f"--web.listen-address={at}", "--cluster.listen-address=", ready=f"http://{at}/-/ready")
        )  # fmt: skip
        address = f"127.0.0.1:{free_port()}"
        assert PROMETHEUS is not None
        log = stack.enter_context(
            program(folder, PROMETHEUS, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                    f"--web.listen-address={address}", ready=f"http://{address}/-/ready")
        )  # fmt: skip
        url = f"http://{address}/api/v1"
        until(lambda: len(asked(url, "count_over_time(up[1m]) >= 5")) == 3, log)
        yield url


def uncommented(listed: str, address: str) -> str:
    """With the example's list in place of the last line, as its comment says, and one address in it."""
    (line,) = re.findall(r"^#   (- .*)$", listed, re.M)
    return re.sub(r"\[.*\]", f'["{address}"]', line)


def asked(api: str, query: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{api}/query", params={"query": query}).json()
    assert answer["status"] == "success", answer
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def test_everything_that_compose_names_is_scraped_and_alerts_have_a_way_out(api: str) -> None:
    assert {(one["metric"]["job"], one["value"][1]) for one in asked(api, "up")} == {
        ("gpuledger-server", "1"), ("gpuledger-agents", "1"), ("gpuledger-scheduler", "1")
    }  # fmt: skip
    assert len(httpx.get(f"{api}/alertmanagers").json()["data"]["activeAlertmanagers"]) == 1
    groups = httpx.get(f"{api}/rules").json()["data"]["groups"]
    assert [rule["name"] for group in groups for rule in group["rules"] if rule["health"] == "err"] == []


@pytest.mark.parametrize("uid", [board.uid for board in BOARDS.values() if board.source == "metrics"])
def test_every_query_of_a_dashboard_finds_something(api: str, uid: str) -> None:
    board = BOARDS[uid]
    put = {"$__range": "1h", "$__rate_interval": "1m"}
    for name, query in board.variables.items():
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", query).groups()  # type: ignore[union-attr]
        values = {one["metric"].get(label) for one in asked(api, metric)}
        assert values, name
        assert None not in values, name
        put[f"${name}"] = "|".join(sorted(values))
    empty = []
    for panel in board.panels:
        for expression in panel.promql.values():
            for word, value in put.items():
                expression = expression.replace(word, value)
            if not asked(api, expression):
                empty.append(panel.title)
    assert set(empty) <= QUIET


@pytest.mark.skipif(shutil.which("amtool") is None, reason="no amtool here")
def test_amtool_reads_alertmanager_s_configuration() -> None:
    done = subprocess.run(["amtool", "check-config", COMPOSE / "alertmanager.yml"], capture_output=True, text=True)
    assert (done.returncode, "SUCCESS" in done.stdout) == (0, True), done.stdout + done.stderr
