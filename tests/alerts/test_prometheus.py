"""Prometheus: our rule files and our metrics pass its own tool, and the rules fire on its own test data."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from alerts.deliver import deliver
from alerts.metrics import exposition
from alerts.prometheus import rule_file
from alerts.routing import Routing
from alerts.rule_files import load_rules
from collectors.agent.exposition import DeviceMetrics, render
from collectors.readings import Collected
from tests.alerts.facts import ago
from tests.alerts.receivers import http_receiver
from tests.alerts.rules import evaluate_at, put_value
from warehouse.store import Store

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="no promtool here: on Debian, apt-get install prometheus brings it"
)


def promtool(*arguments: str, text: str = "") -> str:
    """What the tool says; it must be content."""
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], input=text, capture_output=True, text=True, cwd=DEPLOY)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rule_file_in_deploy_is_what_the_rules_make() -> None:
    made = rule_file(load_rules())
    written = (DEPLOY / "gpuledger.rules.yml").read_text(encoding="utf-8")
    assert written == made, (
        "renew it: gpuledger alerts rules --format prometheus > deploy/prometheus/gpuledger.rules.yml"
    )


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "rules", "gpuledger.rules.yml")


@needs_promtool
def test_the_rules_fire_on_the_data_beside_them_and_only_there() -> None:
    assert "SUCCESS" in promtool("test", "rules", "gpuledger.test.yml")


@needs_promtool
def test_the_server_s_metrics_of_alerts_pass(facts: Store) -> None:
    put_value(facts, 9, 11.0)
    evaluate_at(facts, 9)
    with http_receiver() as received:
        hook = {"receivers": {"r": {"webhook": {"url": received.url}}}, "routes": [{"receivers": ["r"]}]}
        deliver(facts, Routing.model_validate(hook), ago(9))
    text = exposition(facts)
    assert 'gpuledger_alerts{rule="too-high",severity="warning",state="firing"} 1' in text
    assert 'gpuledger_alert_deliveries_total{target="r/webhook",outcome="sent"} 1' in text
    promtool("check", "metrics", text=text)


@needs_promtool
def test_the_agent_s_metrics_of_devices_pass() -> None:
    now = datetime(2026, 10, 6, 12, tzinfo=UTC)
    place = {"ts": now, "cluster": "c", "node": "n1", "device_id": "GPU-0", "interval_seconds": 10.0}
    collected = Collected()
    device = {"ts": now, "device_id": "GPU-0", "model": "H100", "state": "available", "units": 1}
    collected.add("devices", device)
    measured = {"utilization": 0.5, "power_watts": 300.0, "temperature_celsius": 60.0, "energy_joules": 3000.0}
    collected.add("samples", {**place, "state": "ok", "utilization_source": "sm", **measured})
    for name in ("throttle_thermal_seconds", "ecc_uncorrected_total", "xid_last", "row_remap_pending"):
        collected.add("metrics", {**place, "metric": name, "value": 1.0, "state": "ok"})
    shown = DeviceMetrics()
    shown.show("nvml", collected, now)
    text = render(shown.families(now))
    promtool("check", "metrics", text=text)
    # What the rules ask for is what the agent says.
    for name in ("gpu_activity_ratio", "gpu_temperature_celsius", "gpu_throttle_thermal_seconds_total", "gpu_xid_last"):
        assert f"# TYPE {name} " in text
        assert name in rule_file(load_rules())
