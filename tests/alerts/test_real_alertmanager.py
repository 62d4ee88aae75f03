"""The way to on-call with the real things: Debian's Alertmanager and Prometheus, and a webhook receiver behind them."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from alerts.deliver import deliver
from alerts.evaluate import evaluate
from alerts.prometheus import rule_file
from alerts.routing import Routing
from alerts.rule_files import load_rules
from tests.alerts.facts import put, served
from tests.alerts.receivers import Received, _serving, http_receiver
from tests.alerts.rules import rule
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_port
from warehouse.store import Store

ALERTMANAGER, PROMETHEUS = shutil.which("prometheus-alertmanager"), shutil.which("prometheus")
pytestmark = pytest.mark.skipif(
    ALERTMANAGER is None or PROMETHEUS is None,
    reason="no Alertmanager or Prometheus here: on Debian, apt-get install prometheus prometheus-alertmanager",
)


def comes(what: Callable[[], Any]) -> Any:
    """Asks again and again until the answer is something."""

    def asked() -> Any:
        with contextlib.suppress(httpx.HTTPError):  # it is not up yet
            return what()
        return None

    return until(asked, every=0.1)


def running(command: list[str], ready: str, folder: Path) -> Iterator[None]:
    with (folder / f"{Path(command[0]).name}.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
        try:
            comes(lambda: httpx.get(ready).is_success)
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def behind() -> Iterator[Received]:
    with http_receiver() as received:
        yield received


@pytest.fixture(scope="module")
def alertmanager(behind: Received, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an Alertmanager that tells the receiver at once."""
    folder, port = tmp_path_factory.mktemp("alertmanager"), free_port()
    config = {
        "route": {"receiver": "hook", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s"},
        "receivers": [{"name": "hook", "webhook_configs": [{"url": behind.url, "send_resolved": True}]}],
    }
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    url = f"http://127.0.0.1:{port}"
    command = [
        str(ALERTMANAGER),
        "--config.file=config.yml",
        "--storage.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    for _ in running(command, f"{url}/-/ready", folder):
        yield url


def reported(behind: Received, alertname: str, status: str) -> list[dict[str, Any]]:
    return [
        alert
        for document in behind.documents()
        for alert in document["alerts"]
        if alert["labels"]["alertname"] == alertname and alert["status"] == status
    ]


def test_a_rule_of_ours_reaches_the_receiver_behind_an_alertmanager_once_and_resolves(
    facts: Store, behind: Received, alertmanager: str
) -> None:
    route = Routing.model_validate(
        {"receivers": {"am": {"alertmanager": {"urls": [alertmanager]}}}, "routes": [{"receivers": ["am"]}]}
    )
    start = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5)

    def minute(number: int, value: float) -> list[str]:
        at = start + timedelta(minutes=number)
        put(facts, [(record, {**row, "ts": at}) for record, row in served(0, "m", value)])
        evaluate(facts, [rule()], at, delay=timedelta(0), live=False)
        return [one.outcome for one in deliver(facts, route, datetime.now(UTC))]

    assert minute(0, 11.0) == ["sent"]
    (alert,) = comes(lambda: reported(behind, "too-high", "firing"))
    assert alert["annotations"]["summary"] == "chat is at 11"
    (known,) = httpx.get(f"{alertmanager}/api/v2/alerts").json()
    assert known["startsAt"].startswith(f"{start:%Y-%m-%dT%H:%M:%S}")
    minute(1, 12.0)
    deliver(facts, route, datetime.now(UTC) + timedelta(minutes=5))  # what still fires is told again, as it is now
    (still,) = httpx.get(f"{alertmanager}/api/v2/alerts").json()
    assert (still["annotations"]["summary"], still["startsAt"]) == ("chat is at 12", known["startsAt"])
    assert minute(2, 1.0) == ["sent"]
    (resolved,) = comes(lambda: reported(behind, "too-high", "resolved"))
    assert resolved["fingerprint"] == alert["fingerprint"]
    assert len(reported(behind, "too-high", "firing")) == 1
    assert httpx.get(f"{alertmanager}/api/v2/alerts").json() == []


def test_a_rule_that_prometheus_evaluates_reaches_it_too_and_resolves(
    behind: Received, alertmanager: str, tmp_path: Path
) -> None:
    celsius = [90.0]

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            text = f'gpu_temperature_celsius{{cluster="c",node="n1",device_id="GPU-0"}} {celsius[0]}\n'
            self.wfile.write(f"# TYPE gpu_temperature_celsius gauge\n{text}".encode())

        def log_message(self, *_: object) -> None:
            """Quiet."""

    hot = next(one for one in load_rules() if one.name == "overheating")
    (alone,) = hot.prometheus
    quick = alone.model_copy(update={"expr": alone.expr.replace("[5m]", "[2s]"), "keep_firing_for": 0})
    (tmp_path / "rules.yml").write_text(rule_file([hot.model_copy(update={"prometheus": (quick,)})]))
    port = free_port()
    with ThreadingHTTPServer(("127.0.0.1", 0), Exporter) as server, _serving(server):
        targets = [{"targets": [f"127.0.0.1:{server.server_address[1]}"]}]
        managers = [{"static_configs": [{"targets": [alertmanager.removeprefix("http://")]}]}]
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": "gpuledger", "static_configs": targets}],
            "alerting": {"alertmanagers": managers},
        }
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = [
            str(PROMETHEUS),
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        for _ in running(command, f"http://127.0.0.1:{port}/-/ready", tmp_path):
            (alert, *_) = comes(lambda: reported(behind, "GpuOverheating", "firing"))
            assert alert["annotations"]["summary"] == "GPU GPU-0 on n1 is at 90 °C"
            celsius[0] = 60.0
            assert comes(lambda: reported(behind, "GpuOverheating", "resolved"))
