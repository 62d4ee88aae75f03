"""The processes of a demo: the one that makes it, and its fleet, beside what is made and simulated here."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from access.settings import AccessSettings
from collectors.simulated import FleetPlan
from gpuledger import apart, demo, demo_making, making, steps
from gpuledger.demo_fleet import Feed, Fleet
from gpuledger.making import made_apart
from gpuledger.steps import Steps
from tests.conftest import REPO
from tests.draws import drawn_seed
from tests.gpuledger.running import refused, run
from tests.patience import PATIENCE_SECONDS, until
from tests.stores import fresh_store
from warehouse.errors import LedgerError
from warehouse.store import Store

START = datetime(2026, 11, 2, tzinfo=UTC)


def plan_of(draw: random.Random) -> FleetPlan:
    return FleetPlan(
        seed=draw.randrange(1000), start=START, days=1, scale=0.1, interval_seconds=600,
        watched_from=START + timedelta(hours=draw.randrange(1, 20)),
    )  # fmt: skip


def patient(waited: float) -> None:
    """However long it takes."""


@contextlib.contextmanager
def fleet_of(plan: FleetPlan, since: datetime | None = None) -> Iterator[Fleet]:
    with contextlib.closing(Fleet.start()) as fleet:
        yield fleet.begin(plan, since)


@pytest.mark.parametrize("seed", [drawn_seed("a fleet") + n for n in range(2)])
def test_a_fleet_elsewhere_tells_what_one_here_tells(seed: int) -> None:
    draw = random.Random(seed)
    plan = plan_of(draw)
    since = draw.choice([None, START + timedelta(hours=draw.randrange(1, 12))])
    here = Feed(plan, since)
    ends = sorted(START + timedelta(minutes=draw.randrange(-60, 30 * 60)) for _ in range(draw.randrange(1, 6)))
    told = 0
    with fleet_of(plan, since) as fleet:
        until(fleet.is_placed, "the fleet")
        for end in [*ends, START + timedelta(days=3)]:
            mine, theirs = (
                [(record.name, table.schema, table.to_pylist()) for record, table in one.until(end, patient)]
                for one in (here, fleet)
            )
            assert mine == theirs, end
            told += sum(len(rows) for _, _, rows in mine)
    assert told > 1000


def test_a_fleet_whose_process_is_gone_is_one_line_and_another_goes_on(store: Store) -> None:
    plan = plan_of(random.Random(1))
    story = demo.Story(plan.seed, START, START)
    with fleet_of(plan) as fleet:
        demo._store(store, fleet, START + timedelta(hours=3), story.source, waiting=patient)
        had = int(store.value("SELECT count() FROM samples"))
        assert fleet._process is not None
        fleet._process.kill()
        with pytest.raises(LedgerError, match="the simulated fleet: its process is gone"):
            list(fleet.until(START + timedelta(hours=4), patient))
        live = demo.Live(story, feed=fleet)
        live(store, threading.Event())
        assert live._feed is None, "it begins another one with its next turn"
        with pytest.MonkeyPatch.context() as patch, contextlib.closing(live):
            patch.setattr(demo.Story, "plan", plan)

            def grown() -> bool:
                live(store, threading.Event())
                return int(store.value("SELECT count() FROM samples")) > had

            until(grown, "another fleet")


def test_a_fleet_that_stands_still_holds_up_no_server(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As found: `kill -STOP` of the fleet, and then neither Ctrl-C nor SIGTERM ended the server."""
    plan, stop = plan_of(random.Random(3)), threading.Event()
    with fleet_of(plan) as fleet:
        until(fleet.is_placed, "the fleet")
        assert fleet._process is not None
        fleet._process.send_signal(signal.SIGSTOP)
        live = demo.Live(demo.Story(plan.seed, START, START), feed=fleet)
        turn = threading.Thread(target=live, args=(store, stop), daemon=True)
        turn.start()
        turn.join(1)
        assert turn.is_alive()
        stop.set()
        turn.join(PATIENCE_SECONDS)
        assert not turn.is_alive()
        assert fleet._process.returncode == -signal.SIGKILL
    assert not caplog.records, "a server that ends is no error"
    monkeypatch.setattr(demo.Live, "PATIENCE_SECONDS", 1)
    with fleet_of(plan) as fleet:
        until(fleet.is_placed, "the fleet")
        assert fleet._process is not None
        fleet._process.send_signal(signal.SIGSTOP)
        live = demo.Live(demo.Story(plan.seed, START, START), feed=fleet)
        live(store, threading.Event())
        assert "has not answered for 1 s; it is tried again" in caplog.text
        assert live._feed is None


def test_a_fleet_that_nobody_asks_any_more_ends_while_it_places_its_jobs() -> None:
    """As found: after a second Ctrl-C it placed them for up to a minute."""
    plan = FleetPlan(seed=1, start=START, days=50, scale=1.0, interval_seconds=600, watched_from=START)
    fleet = Fleet.start().begin(plan)
    process = fleet._process
    assert process is not None
    until(lambda: cpu_seconds(process.pid) > 2, "its work")
    fleet.close()
    assert process.returncode == 0, "it was not killed"
    assert not fleet._is_placed


def cpu_seconds(pid: int) -> float:
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def test_a_fleet_ends_with_whoever_asks(tmp_path: Path) -> None:
    code = (
        "import time; from gpuledger.demo_fleet import Fleet; fleet = Fleet.start(); "
        "print(fleet._process.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdout is not None
        pid = int(asker.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        asker.kill()
    until(lambda: not alive(pid), "the fleet's end")


def alive(pid: int) -> bool:
    try:
        return " Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except FileNotFoundError:
        return False


def test_a_store_of_another_seed_is_refused_by_the_process_that_makes_it(tmp_path: Path) -> None:
    store = fresh_store(tmp_path / "store")
    source, feed = demo.Story(8, START, START).source, Feed(plan_of(random.Random(2)))
    demo._store(store, feed, START + timedelta(hours=1), source, waiting=patient)
    store.close()
    with contextlib.closing(Fleet.start()) as fleet, pytest.raises(LedgerError, match="holds the demo of seed 8"):
        demo_making.make(f"chdb://{tmp_path}/store", 7, tmp_path / "out", "", AccessSettings(), fleet)


UP = "from gpuledger.cli import main; main()"
HIDDEN, SHOWN = b"\x1b[?25l", b"\x1b[?25h"
"""A terminal's cursor."""
AGAIN = "gpuledger: interrupted; run the same command again to continue"


@contextlib.contextmanager
def demo_being_made(folder: Path, **more: Any) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """`up --demo` a second after it has begun its two processes, and these: its fleet, and the one that makes it."""
    command = [sys.executable, "-c", UP, "up", "--demo", "--store", f"chdb://{folder}/store", "--port", "0"]
    more = {"stderr": subprocess.PIPE, "text": True, "process_group": 0, **more}
    with subprocess.Popen([*command, "--out", str(folder / "out")], **more) as process:
        until(lambda: len(below(process.pid)) == 2 and (folder / "store" / "holder").exists(), "both processes")
        made = below(process.pid)
        time.sleep(1)
        yield process, made
    until(lambda: not any(map(alive, made)), "the end of all")


def at_the_end(said: str) -> str:
    """Without what a log is told of a step that lasts longer than two seconds, as any does on a slow machine."""
    return "".join(line for line in said.splitlines(keepends=True) if not line.endswith("s so far)\n"))


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGKILL", "terminal", "SIGTERM &", "SIGKILL &", "twice"])
def test_who_is_interrupted_leaves_no_process_behind(tmp_path: Path, how: str) -> None:
    """&: as a shell's script begins it, SIGINT is ignored."""
    more = {"preexec_fn": partial(signal.signal, signal.SIGINT, signal.SIG_IGN)} if how.endswith("&") else {}
    began = time.monotonic()
    with demo_being_made(tmp_path, **more) as (process, made):
        if how == "terminal":
            os.killpg(process.pid, signal.SIGINT)
        elif how == "twice":
            os.kill(made[1], signal.SIGSTOP)
            process.send_signal(signal.SIGINT)
            time.sleep(1)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
        else:
            process.send_signal(getattr(signal, how.removesuffix(" &")))
        assert process.stderr is not None
        said = at_the_end(process.stderr.read())  # to the end: whoever writes there has ended, too
        code = process.wait(PATIENCE_SECONDS)
    if how.startswith("SIGKILL"):
        assert said == ""
    else:
        assert (code, said) == (130, f"{AGAIN}\n")
    assert time.monotonic() - began < PATIENCE_SECONDS


@pytest.mark.parametrize("words", ["--no-serve --store chdb://{folder}/store", "--port 0 --store chdb://memory"])
def test_a_demo_that_is_made_beside_its_fleet_alone_is_interrupted_at_once(tmp_path: Path, words: str) -> None:
    """As found: it waited for 20 seconds until the fleet's jobs were placed, and then said nothing."""
    command = [sys.executable, "-c", UP, "up", "--demo", "--out", str(tmp_path / "out")]
    given = words.format(folder=tmp_path).split()
    with subprocess.Popen([*command, *given], stderr=subprocess.PIPE, text=True, process_group=0) as process:
        until(lambda: [pid for pid in below(process.pid) if cpu_seconds(pid) > 3], "a fleet at work")
        began, (fleet,) = time.monotonic(), below(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert (at_the_end(process.stderr.read()), process.wait()) == (f"{AGAIN}\n", 130)
        assert time.monotonic() - began < steps.PATIENCE_SECONDS
    until(lambda: not alive(fleet), "the end of its fleet")


def test_work_that_does_not_stop_is_left_with_a_line() -> None:
    """As found: exit status 130, and silence."""
    code = (
        "import threading, time; from gpuledger import cli, steps; steps.PATIENCE_SECONDS = 0.5; "
        "import os, signal; threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start(); "
        "steps.in_worker(lambda: time.sleep(60), threading.Event())"
    )
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, f"{AGAIN}\n")


def test_the_process_that_makes_it_is_killed_and_a_terminal_has_its_cursor_again(tmp_path: Path) -> None:
    """As found: silence, exit status 247, and no cursor."""
    ours, theirs = os.openpty()
    with demo_being_made(tmp_path, stderr=theirs) as (process, made):
        os.close(theirs)
        said = b""
        while HIDDEN not in said:
            said += os.read(ours, 4096)
        os.kill(made[1], signal.SIGKILL)
        with contextlib.suppress(OSError):  # a terminal that nobody has any more
            while piece := os.read(ours, 4096):
                said += piece
        assert process.wait(PATIENCE_SECONDS) == 2
        os.close(ours)
    assert b"gpuledger: interrupted: the process that fills the store was ended by SIGKILL" in said
    assert said.rindex(SHOWN) > said.rindex(HIDDEN)
    assert b"Traceback" not in said


def test_a_store_that_is_being_made_is_held_by_the_command_that_was_typed(tmp_path: Path) -> None:
    """As found: by `python -I -S -c import sys; ...`."""
    with demo_being_made(tmp_path) as (process, _):
        said = refused("up", "--store", f"chdb://{tmp_path}/store", "--no-serve")
        assert f"held by process {process.pid} on " in said
        assert f"up --demo --store chdb://{tmp_path}/store --port 0" in said
        process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    "words",
    [
        "--seed -1", "--out {file}", "--out {file}/below", "--out {file}/far/below", "--out /dev/null/x",
        "--out {link}", "--out {link}/below", f"--out {'x' * 256}", "--out /proc/sys/kernel/below",
        "--out /proc/below", "--out /proc/below/far",
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_refused_before_anything_is_done(tmp_path: Path, words: str) -> None:
    (file := tmp_path / "file").write_text("a file")
    (link := tmp_path / "link").symlink_to("nothing")
    given = words.format(file=file, link=link).split()
    said = run("up", "--demo", "--store", f"chdb://{tmp_path}/store", "--port", "0", *given)
    assert said.exit_code == 2 or isinstance(said.exception, LedgerError)
    assert sorted(tmp_path.iterdir()) == [file, link]


def full_disk(store: Store, steps: Steps) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "invoices/one.pdf")


def no_module(store: Store, steps: Steps) -> None:
    raise ModuleNotFoundError("No module named 'weasyprint'", name="weasyprint")


def refuses(store: Store, steps: Steps) -> None:
    raise LedgerError("the demo", "cannot be", "Do something else")


def leaves(store: Store, steps: Steps) -> None:
    os._exit(3)


def counts(many: int, store: Store, steps: Steps) -> tuple[int, int]:
    return many, int(store.value("SELECT count() FROM system.one"))


@pytest.mark.parametrize("found", [(full_disk, OSError), (no_module, ModuleNotFoundError), (refuses, LedgerError)])
def test_an_error_of_the_process_that_fills_a_store_is_the_commands(
    tmp_path: Path, found: tuple[Callable[[Store, Steps], None], type[Exception]]
) -> None:
    fill, kind = found
    with pytest.raises(kind) as raised:
        made_apart(f"chdb://{tmp_path}/store", fill)
    with pytest.raises(kind) as here:
        fill(cast("Store", None), cast("Steps", None))
    assert (str(raised.value), vars(raised.value)) == (str(here.value), vars(here.value))


def test_the_result_of_the_process_that_fills_a_store_is_returned(tmp_path: Path) -> None:
    assert made_apart(f"chdb://{tmp_path}/store", partial(counts, 7)) == (7, 1)
    with pytest.raises(SystemExit) as left:
        made_apart(f"chdb://{tmp_path}/store", leaves)
    assert left.value.code == 3


def waits(store: Store, steps: Steps) -> None:
    with steps.step("Waits") as step:
        for _ in range(6000):
            step.update()
            time.sleep(0.1)


FILLS = """
import signal, sys
from gpuledger.making import made_apart
from tests.gpuledger.test_demo_processes import waits
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("begins", flush=True)
    made_apart(sys.argv[1], waits)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("milliseconds", [20, 60, 120, 200])
def test_the_process_that_fills_a_store_is_silent_when_interrupted_as_it_begins(
    tmp_path: Path, milliseconds: int
) -> None:
    """As found: SIGINT before it could take one was a traceback."""
    command = [sys.executable, "-c", FILLS, f"chdb://{tmp_path}/store"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0, cwd=REPO
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "begins\n"
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGINT)
        assert (process.stderr.read(), process.wait(PATIENCE_SECONDS)) == ("", 130)


def test_the_process_that_fills_a_store_is_silent_if_nobody_asks_it(capfd: pytest.CaptureFixture[str]) -> None:
    process, end = apart.begin(making._run)
    end.close()
    assert process.wait(PATIENCE_SECONDS) == 130
    assert capfd.readouterr().err == ""


def below(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
