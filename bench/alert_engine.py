"""`python -m bench.alert_engine`: an evaluation of 1,000 rules x 100 instances, and Prometheus with the same beside it.

Rules ask `--metrics` metrics of 100 devices, half of which are above the threshold. Rules that ask the same share a
query; with as many metrics as rules no two do. Ours reads from the store, Prometheus from a target that it scraped;
both keep the states that come of it.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
import yaml

from alerts.evaluate import evaluate
from alerts.rule import Rule
from warehouse.store import Store, migrate, open_store, read_sql

NOW = datetime(2026, 10, 6, 12, tzinfo=UTC)
QUERY = read_sql(str(Path(__file__).parents[1] / "alerts" / "rules" / "x"), "metric_latest")


def rules(number: int, metrics: int) -> list[Rule]:
    return [
        Rule.model_validate(
            {
                "name": f"rule-{one}",
                "query": "metric_latest.sql",
                "sql": QUERY,
                "parameters": {"window_seconds": "5m", "metric": f"m{one % metrics}"},
                "identity": ["cluster", "node", "device_id"],
                "condition": ">= 50",
                "for": "1m",
                "summary": "{{ labels.device_id }} is at {{ value | number }}",
            }
        )
        for one in range(number)
    ]


def fill(store: Store, metrics: int, instances: int) -> None:
    """Ten minutes of a reading a minute; no reading is like the one before."""
    asked = {"now": NOW, "metrics": metrics, "instances": instances}
    store.command(read_sql(__file__, "alert_readings"), asked)


def ours(number: int, metrics: int, instances: int, turns: int) -> list[dict[str, float]]:
    """Evaluations, a minute apart: in the first, of two instants, half of all instances become pending and then fire;
    in those after it nothing changes."""
    found = []
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as folder, open_store(f"chdb://{folder}/s") as store:
        migrate(store)
        fill(store, metrics, instances)
        wanted = rules(number, metrics)
        for turn in range(turns):
            at = NOW - timedelta(minutes=turns - 1 - turn)
            start, cpu = time.perf_counter(), time.process_time()
            report = evaluate(store, wanted, at, delay=timedelta(0), live=False)
            found.append(
                {
                    "seconds": time.perf_counter() - start,
                    "cpu": time.process_time() - cpu,
                    "instants": report.instants,
                    "transitions": len(report.transitions),
                }
            )
    return found


class _Target(BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: Any) -> None:
        pass


def prometheus(number: int, metrics: int, instances: int) -> list[float]:
    """Seconds of its evaluations of the same rules in one group, as it measures them; empty: it is not here."""
    binary = shutil.which("prometheus")
    if binary is None:
        return []
    _Target.body = "".join(
        f'm{metric}{{cluster="c",node="n",device_id="GPU-{device}"}} {device}\n'
        for metric in range(metrics)
        for device in range(instances)
    ).encode()
    target = ThreadingHTTPServer(("127.0.0.1", 0), _Target)
    threading.Thread(target=target.serve_forever, daemon=True).start()
    group = {
        "name": "bench",
        "interval": "20s",
        "rules": [
            {
                "alert": f"rule-{one}",
                "expr": f"last_over_time(m{one % metrics}[5m]) >= 50",
                "for": "1m",
                "annotations": {"summary": "{{ $labels.device_id }} is at {{ $value }}"},
            }
            for one in range(number)
        ],
    }
    with tempfile.TemporaryDirectory(prefix="gpuledger-bench-") as name:
        folder = Path(name)
        (folder / "rules.yml").write_text(yaml.safe_dump({"groups": [group]}))
        scrape = {"job_name": "bench", "static_configs": [{"targets": [f"127.0.0.1:{target.server_address[1]}"]}]}
        config = {"global": {"scrape_interval": "15s"}, "rule_files": ["rules.yml"], "scrape_configs": [scrape]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        address = f"127.0.0.1:{port}"
        command = [
            binary, "--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address={address}",
        ]  # fmt: skip
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return _evaluations(f"http://{address}", number * instances // 2)
        finally:
            process.terminate()
            process.wait(30)
            target.shutdown()


def _evaluations(url: str, most: int, wanted: int = 4, patience: float = 240) -> list[float]:
    """Times of evaluations in which everything that is above the threshold was seen."""
    found: dict[str, float] = {}
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and len(found) < wanted:
        time.sleep(1)
        try:
            (group,) = httpx.get(f"{url}/api/v1/rules", timeout=30).json()["data"]["groups"]
        except (httpx.HTTPError, ValueError, KeyError):
            continue  # it is not up yet
        if sum(len(rule["alerts"]) for rule in group["rules"]) >= most:
            found[group["lastEvaluation"]] = group["evaluationTime"]
    return list(found.values())


def main(
    number: Annotated[int, typer.Option("--rules", min=1)] = 1000,
    metrics: Annotated[int, typer.Option(min=1, help="That rules ask; as many as rules: no two ask the same.")] = 40,
    instances: Annotated[int, typer.Option(min=2)] = 100,
    turns: Annotated[int, typer.Option(min=2, max=8)] = 5,
    beside: Annotated[bool, typer.Option(help="Measure Prometheus too, where it is installed.")] = True,
) -> None:
    """Exit 1: the evaluation of an instant took 5 s or longer."""
    found = ours(number, metrics, instances, turns)
    for one in found:
        print({name: round(value, 3) for name, value in one.items()})
    theirs = prometheus(number, metrics, instances) if beside else []
    print("prometheus", [round(seconds, 3) for seconds in theirs] or "is not here")
    sys.exit(0 if all(one["seconds"] < 5 * one["instants"] for one in found) else 1)


if __name__ == "__main__":
    typer.run(main)
