"""Evaluation and delivery that are killed (-9) at any moment and run again lose no alert and change no fingerprint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
import yaml
from typer.testing import CliRunner

from gpuledger.cli import build
from tests.alerts.facts import ago, put
from tests.alerts.receivers import Received, http_receiver
from tests.alerts.rules import NEWEST, alive
from tests.draws import seldom
from tests.patience import PATIENCE_SECONDS
from tests.stores import engine_that_stays, fresh_store

GPULEDGER = Path(sys.executable).with_name("gpuledger")
KILLS = int(os.environ.get("GPULEDGER_TEST_KILLS", "3"))
"""More in a run of its own: GPULEDGER_TEST_KILLS=100 pytest tests/alerts/test_kill.py"""
INSTANCES = 40
MINUTES = 90
"""Each instance fires at a minute of its own, and every second one resolves."""


def prepare(folder: Path, url: str) -> str:
    store = f"chdb://{folder}/store"
    (folder / "rules").mkdir()
    (folder / "rules" / "newest.sql").write_text(NEWEST)
    rule = {
        "name": "too-high",
        "query": "newest.sql",
        "identity": ["gpu"],
        "condition": "> 10",
        "for": "2m",
        "summary": "{{ labels.gpu }} is high",
        "severity": "critical",
    }
    (folder / "rules" / "too-high.yaml").write_text(yaml.safe_dump(rule))
    from alerts.rule_files import SHIPPED

    for path in SHIPPED.glob("*.yaml"):  # ours alone
        off = {"name": path.stem, "extends": True, "enabled": False}
        (folder / "rules" / path.name).write_text(yaml.safe_dump(off))
    routing = {"receivers": {"r": {"webhook": {"url": url}}}, "routes": [{"receivers": ["r"]}]}
    (folder / "routing.yaml").write_text(yaml.safe_dump(routing))
    with fresh_store(folder / "store") as opened:
        rows = [
            (
                "service_levels",
                {
                    "ts": ago(MINUTES - minute),
                    "interval_seconds": 60.0,
                    "service": f"g{gpu:02}",
                    "metric": "m",
                    "value": 99.0 if gpu <= minute < (60 if gpu % 2 else 999) else 1.0,
                },
            )
            for gpu in range(INSTANCES)
            for minute in range(MINUTES)
        ]
        put(opened, [*rows, *(alive(MINUTES - minute) for minute in range(MINUTES))])
    return store


def check(folder: Path, store: str, minutes: int, kill_after: float | None = None) -> bool:
    """Looks at so many minutes before noon; in a process of its own if it is to be killed on the way. Was it killed?"""
    at = f"{ago(minutes):%Y-%m-%dT%H:%MZ}"
    command = ["alerts", "check", "--store", store, "--rules", str(folder / "rules"), "--at", at]
    command += ["--routing", str(folder / "routing.yaml")]
    if kill_after is None:
        done = CliRunner().invoke(build(), command)
        assert done.exit_code in (0, 1), done.output
        return False
    process = subprocess.Popen([GPULEDGER, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return True
    assert process.returncode in (0, 1), output.decode()
    return False


def killed_within(folder: Path, store: str, minutes: int, seconds: float) -> bool:
    """Was it killed so soon, or sooner where it was done by then?"""
    return any(check(folder, store, minutes, seconds * 0.7**attempt) for attempt in range(12))


def run(folder: Path, kills: int) -> tuple[list[tuple[str, str, str]], Received, int]:
    """(fingerprint, active_at, state) that arrived, in the order of arrival; and how many kills hit."""
    killed, random = 0, Random(20261006)
    with http_receiver() as received:
        store = prepare(folder, received.url)
        began = time.monotonic()
        check(folder, store, MINUTES, PATIENCE_SECONDS if kills else None)
        seconds = time.monotonic() - began
        for minutes in (70, 40, 10, 0):
            for _ in range(kills // 3 if minutes else 0):
                killed += killed_within(folder, store, minutes, seconds * random.uniform(0.5, 1.3))
            check(folder, store, minutes)
    reported = [
        (one["fingerprint"], one["active_at"], one["state"])
        for document in (json.loads(body) for _, _, body in received.requests)
        for one in document["alerts"]
    ]
    return reported, received, killed


@seldom(6, "no alert is lost and what comes")
@pytest.mark.slow
def test_no_alert_is_lost_and_what_comes_twice_has_the_same_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    with engine_that_stays():
        undisturbed, _, _ = run(tmp_path / "whole", 0)
    disturbed, _, killed = run(tmp_path / "killed", KILLS)
    assert killed >= KILLS // 3, "the kills came too late to say anything"
    print(f"{killed} of {KILLS // 3 * 3} were killed; told {len(disturbed)} times, {len(set(disturbed))} different")
    assert len(undisturbed) == len(set(undisturbed)), "undisturbed, nothing comes twice"
    ends = {one for one in undisturbed if one[2] == "resolved"}
    assert len({one[0] for one in undisturbed}) == INSTANCES
    assert len(ends) == INSTANCES // 2
    # A kill may merge a beginning and an end into the end alone; nothing else may differ.
    assert {one[:2] for one in disturbed} == {one[:2] for one in undisturbed}
    assert {one for one in disturbed if one[2] == "resolved"} == ends
    assert set(disturbed) <= set(undisturbed)
