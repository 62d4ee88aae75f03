"""Training progress: what two lines in a training loop make of themselves at the agent's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.errors import CollectorError
from collectors.progress import Progress
from collectors.services.training import MOST_RUNS, Message, ProgressReceiver, TrainingProgress, message_of
from ingest.check_rows import check_rows
from tests.patience import until
from warehouse.records import SERVICE_LEVELS

NOW = datetime(2026, 10, 5, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
STEPS, SAMPLES = "training_steps_per_second", "training_samples_per_second"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    return tmp_path / "progress.sock"


@pytest.fixture
def receiver(socket_path: Path) -> Iterator[ProgressReceiver]:
    found = ProgressReceiver(socket_path, lambda: NOW, cluster="prod", period_seconds=60)
    yield found
    found.close()


def client(path: Path, clock: Clock, **environment: str) -> Progress:
    return Progress(str(path), environment={"SLURM_JOB_ID": "4711"} | environment, clock=clock)


def test_steps_and_samples_become_rates_of_the_workload(receiver: ProgressReceiver, socket_path: Path) -> None:
    clock = Clock()
    progress = client(socket_path, clock)
    for _ in range(41):
        progress.step(samples=64)
        clock.now += 0.5
    rows = until(lambda: receiver.collect(NOW).rows.get("service_levels", []))
    assert not check_rows(SERVICE_LEVELS, rows, NOW).bad
    assert progress.lost == 0
    found = {row["metric"]: row for row in rows}
    assert found[STEPS]["value"] == pytest.approx(2)
    assert found[SAMPLES]["value"] == pytest.approx(128)
    assert (found[STEPS]["workload_id"], found[STEPS]["service"], found[STEPS]["cluster"]) == (
        "4711",
        "training",
        "prod",
    )


def test_two_lines_in_a_process_of_its_own_are_enough(receiver: ProgressReceiver, socket_path: Path) -> None:
    code = (
        "from collectors.progress import progress\n"
        "import time\n"
        "for _ in range(3): progress.step(samples=8); time.sleep(0.02)\n"
    )
    environment = {
        **os.environ,
        "GPULEDGER_PROGRESS": str(socket_path),
        "POD_UID": "pod-1",
        "GPULEDGER_SERVICE": "llama",
    }
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, cwd=Path(__file__).parents[3])
    rows = until(lambda: receiver.collect(NOW).rows.get("service_levels", []))
    assert {(row["service"], row["workload_id"], row["metric"], row["observations"]) for row in rows} == {
        ("llama", "pod-1", STEPS, 2),
        ("llama", "pod-1", SAMPLES, 16),
    }


def test_the_client_brings_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; before = set(sys.modules); import collectors.progress\n"
        "new = {m.split('.')[0] for m in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.strip() == "['collectors']"


def test_an_unreachable_service_costs_one_number_and_nothing_else(socket_path: Path) -> None:
    clock = Clock()
    progress = client(socket_path, clock)
    for _ in range(5):
        progress.step()
        clock.now += 4
    assert progress.lost == 2  # one datagram every ten seconds, and nobody took them
    progress.step(samples="many")
    progress.rate(steps_per_second=None, samples_per_second=[])
    progress.step(samples=float("nan"))
    progress.step(samples=10**400)
    progress.step(samples=Fraction(10**400))
    assert progress.lost == 7
    progress.close()
    assert progress.lost == 8  # the last word found nobody either


def test_a_queue_that_is_full_does_not_hold_the_training_up(socket_path: Path) -> None:
    import socket as sockets

    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_DGRAM) as deaf:
        deaf.bind(str(socket_path))
        progress = Progress(str(socket_path), workload="w", every_seconds=0.0, environment={})
        began = time.monotonic()
        for _ in range(3000):
            progress.step()
        assert time.monotonic() - began < 20
        assert progress.lost > 0


@pytest.mark.parametrize("rank", ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"])
def test_only_rank_0_speaks(socket_path: Path, rank: str) -> None:
    for number, lost in (("0", 1), ("3", 0)):
        progress = client(socket_path, Clock(), **{rank: number})
        progress.step()
        assert progress.lost == lost


def message(at: float, steps: float, run: str = "r", **more: Any) -> Message:
    return message_of(json.dumps({"workload": "w", "run": run, "at": at, "steps": steps, **more}).encode())


def rates(progress: TrainingProgress, now: datetime = NOW) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in progress.rows(now, 60.0)}


def test_a_run_that_says_nothing_has_no_row_and_the_next_rate_spans_the_silence() -> None:
    progress = TrainingProgress()
    progress.hear(message(0, 1), NOW)
    assert rates(progress) == {}
    progress.hear(message(60, 121), NOW)
    assert rates(progress) == {STEPS: 2}
    assert rates(progress) == {}
    progress.hear(message(180, 181), NOW)
    assert rates(progress) == {STEPS: 0.5}


def test_runs_of_one_workload_add_up_and_a_restart_starts_over() -> None:
    progress = TrainingProgress()
    for run in ("a", "b"):
        progress.hear(message(0, 1, run), NOW)
        progress.hear(message(10, 11, run), NOW)
    assert rates(progress) == {STEPS: 2}
    progress.hear(message(0, 1, "c"), NOW)
    progress.hear(message(10, 31, "c"), NOW)
    assert rates(progress) == {STEPS: 3}


def test_a_rate_that_the_training_measured_counts_more_than_ours() -> None:
    progress = TrainingProgress()
    progress.hear(message(0, 1, samples=64), NOW)
    progress.hear(message_of(b'{"workload": "w", "run": "r", "samples_per_second": 812.5}'), NOW)
    progress.hear(message(10, 11, samples=704), NOW)
    assert rates(progress) == {STEPS: 1, SAMPLES: 812.5}


def test_late_ownerless_and_too_many_messages_are_counted() -> None:
    progress = TrainingProgress()
    progress.hear(message(10, 10), NOW)
    progress.hear(message(5, 5), NOW)
    progress.hear(message_of(b'{"steps_per_second": 1}'), NOW)
    for number in range(MOST_RUNS):
        progress.hear(message(0, 1, f"run-{number}"), NOW)
    assert progress.dropped == {
        "progress came late": 1,
        "progress of an unknown workload": 1,
        "progress of too many runs": 1,
    }
    progress.rows(NOW + timedelta(hours=2), 60.0)
    progress.hear(message(0, 1, "after the others were forgotten"), NOW)
    assert progress.dropped["progress of too many runs"] == 1


def test_the_owner_of_a_process_counts_more_than_what_it_reports(socket_path: Path) -> None:
    seen: list[int] = []

    def workload_of(pid: int) -> str:
        seen.append(pid)
        return "the real one"

    receiver = ProgressReceiver(socket_path, lambda: NOW, workload_of=workload_of)
    Progress(str(socket_path), workload="another's", environment={}).rate(steps_per_second=3)
    (row,) = until(lambda: receiver.collect(NOW).rows.get("service_levels", []))
    assert (row["workload_id"], row["value"], seen) == ("the real one", 3, [os.getpid()])
    receiver.close()
    assert not socket_path.exists()


def test_anything_on_the_socket_is_counted_and_the_agent_goes_on(receiver: ProgressReceiver, socket_path: Path) -> None:
    import socket as sockets

    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_DGRAM) as sender:
        for body in (b"", b"\xff\xfe", b"[1]", b"{}", b'{"steps": NaN, "at": 1}', b"{" * 2000, b"x" * 5000):
            sender.sendto(body, str(socket_path))
        sender.sendto(b'{"workload": "w", "steps_per_second": 4}', str(socket_path))
    dropped: list[int] = []

    def collect() -> list[dict[str, Any]]:
        collected = receiver.collect(NOW)
        dropped.append(collected.dropped["progress that is no message"])
        return collected.rows.get("service_levels", [])

    assert until(collect)[0]["value"] == 4
    assert sum(dropped) == 7


def test_a_socket_left_by_a_killed_agent_is_taken_over_and_a_bad_path_is_reported(
    socket_path: Path, tmp_path: Path
) -> None:
    import socket as sockets

    left = sockets.socket(sockets.AF_UNIX, sockets.SOCK_DGRAM)
    left.bind(str(socket_path))
    left.close()
    ProgressReceiver(socket_path, lambda: NOW).close()
    with pytest.raises(CollectorError, match="no socket"):
        ProgressReceiver(tmp_path / "nowhere" / "x.sock", lambda: NOW)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
FIELDS = st.sampled_from(
    ["workload", "service", "run", "at", "steps", "samples", "steps_per_second", "samples_per_second", "x"]
)


@settings(max_examples=50)
@given(st.lists(st.dictionaries(FIELDS, JSON, max_size=6), max_size=6))
def test_no_message_breaks_the_rates_and_every_row_fits_the_contract(messages: list[dict[str, Any]]) -> None:
    progress = TrainingProgress()
    for reported in messages:
        try:
            found = message_of(json.dumps({"workload": "w", **reported}).encode())
        except ValueError:
            continue
        progress.hear(found, NOW)
    assert not check_rows(SERVICE_LEVELS, progress.rows(NOW, 60.0), NOW).bad
