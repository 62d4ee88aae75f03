"""One source, tick after tick: on time, late, failing, hanging; its rows reach the spool."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from collectors.agent.cycle import Cycle
from collectors.agent.outbox import Outbox
from collectors.agent.sources import Planned
from collectors.errors import CollectorError
from collectors.readings import Collected
from ingest.spool import Spool
from tests.patience import PATIENCE_SECONDS, until

TICK = 1_790_812_810_000
AT = "2026-10-01T00:00:10.000Z"


class Clock:
    """Both clocks of a node; sleeping moves them."""

    def __init__(self, seconds: float = TICK / 1000) -> None:
        self.wall = self.steady = seconds

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


class Sleeper(threading.Event):
    """An event whose wait moves the clock instead of waiting; stops after so many waits."""

    def __init__(self, clock: Clock, waits: int, then: Callable[[int], None] = lambda n: None) -> None:
        super().__init__()
        self.clock, self.left, self.then, self.slept = clock, waits, then, list[float]()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.slept.append(timeout)
        self.clock.advance(timeout)
        self.left -= 1
        self.then(self.left)
        if self.left <= 0:
            self.set()
        return self.is_set()


class Scripted:
    """A source that does what the test says at each tick."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked, self.kept_calls = list(answers), list[datetime](), 0

    def collect(self, now: datetime) -> Collected:
        self.asked.append(now)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer()
        return answer if isinstance(answer, Collected) else Collected()

    def acknowledge(self) -> None:
        self.kept_calls += 1

    def close(self) -> None:
        """Nothing to close."""


def made(tmp_path: Path, source: Scripted, clock: Clock, interval: float = 10) -> tuple[Cycle, Outbox, Spool]:
    spool = Spool(tmp_path / "spool", synced=False)
    outbox = Outbox(spool, "c1", "n1")
    cycle = Cycle(Planned("test", interval, source), outbox, wall=lambda: clock.wall, steady=lambda: clock.steady)
    return cycle, outbox, spool


def spooled(spool: Spool) -> list[dict[str, Any]]:
    found = []
    while group := spool.oldest(10_000, 1 << 20):
        found += [json.loads(line) for line in gzip.decompress(group.body).splitlines()]
        spool.acknowledge(group)
    return found


def test_a_source_is_asked_on_the_grid_and_its_rows_are_spooled_as_this_nodes(tmp_path: Path) -> None:
    row = {
        "ts": datetime(2026, 10, 1, 0, 0, 10, tzinfo=UTC),
        "interval_seconds": 10.0,
        "device_id": "g",
        "state": "blank",
    }
    source = Scripted(Collected({"samples": [row]}))
    cycle, _, spool = made(tmp_path, source, Clock())
    cycle.tick(TICK)
    assert [now.isoformat() for now in source.asked] == ["2026-10-01T00:00:10+00:00"]
    assert spooled(spool) == [{**row, "ts": AT, "cluster": "c1", "node": "n1"}]
    assert source.kept_calls == 1
    spool.close()


def test_ticks_follow_each_other_at_whole_multiples(tmp_path: Path) -> None:
    clock = Clock(TICK / 1000 + 3.2)
    source = Scripted(*[lambda: clock.advance(0.5)] * 3)
    cycle, _, spool = made(tmp_path, source, clock)
    cycle.run(Sleeper(clock, 7))
    assert [now.timestamp() * 1000 - TICK for now in source.asked] == [10_000, 20_000, 30_000]
    assert (cycle.state.ticks, cycle.state.late, cycle.state.missed) == (3, 0, 0)
    spool.close()


def test_a_slow_answer_leaves_ticks_out_and_says_so(tmp_path: Path) -> None:
    clock = Clock()
    source = Scripted(lambda: clock.advance(25), lambda: clock.advance(1))
    cycle, _, spool = made(tmp_path, source, clock)
    cycle.run(Sleeper(clock, 4))
    assert [now.timestamp() * 1000 - TICK for now in source.asked] == [10_000, 40_000]
    assert cycle.state.missed == 2
    assert cycle.state.last_seconds == 1
    spool.close()


def test_a_clock_set_back_by_an_hour_is_reported_and_collection_goes_on(tmp_path: Path) -> None:
    clock = Clock()
    source = Scripted()
    cycle, _, spool = made(tmp_path, source, clock)

    def set_back(left: int) -> None:
        if left == 5:
            clock.wall -= 3600

    cycle.run(Sleeper(clock, 8, set_back))
    assert len(source.asked) >= 2
    assert source.asked[1] < source.asked[0]
    jumps = [row for row in spooled(spool) if row["finding"] == "clock_jumped"]
    assert len(jumps) == 1
    assert "-3600.0 s" in jumps[0]["message"]
    spool.close()


def test_a_failing_source_is_one_finding_and_the_loop_goes_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    trouble = CollectorError("exporter", "does not answer", "Is it running?")
    source = Scripted(trouble, trouble, ZeroDivisionError("a bug"), None)
    cycle, _, spool = made(tmp_path, source, clock)
    for number in range(3):
        cycle.tick(TICK + number * 10_000)
        assert cycle.state.error
    cycle.tick(TICK + 30_000)
    assert cycle.state.error == ""
    assert cycle.state.failed == 3
    found = [row["message"] for row in spooled(spool)]
    assert found == ["exporter: does not answer. Is it running?", "a bug"]
    assert "an internal error" in caplog.text
    spool.close()


def test_rows_that_cannot_even_be_looked_at_do_not_end_the_loop(tmp_path: Path) -> None:
    clock = Clock()
    source = Scripted(Collected({"no_such_record": [{}]}), Collected())
    cycle, _, spool = made(tmp_path, source, clock)
    cycle.run(Sleeper(clock, 5))
    assert len(source.asked) == 2
    assert cycle.state.failed == 1
    spool.close()


def test_lasting_trouble_is_reported_again_after_ten_minutes(tmp_path: Path) -> None:
    clock = Clock()
    source = Scripted(*[CollectorError("x", "away")] * 70)
    cycle, _, spool = made(tmp_path, source, clock)
    for number in range(70):
        cycle.tick(TICK + number * 10_000)
        clock.advance(10)
    assert len(spooled(spool)) == 2
    spool.close()


def test_a_sources_rows_are_acknowledged_only_once_they_are_on_disk(tmp_path: Path) -> None:
    row = {"ts": datetime(2026, 10, 1, tzinfo=UTC), "finding": "x", "severity": "info"}
    source = Scripted(Collected({"findings": [row]}))
    cycle, _, spool = made(tmp_path, source, Clock())
    spool._file._closed = True  # the disk takes nothing
    cycle.tick(TICK)
    assert source.kept_calls == 0
    spool._file._closed = False
    spool.close()


def test_a_source_that_hangs_is_known_as_stalled_while_it_hangs(tmp_path: Path) -> None:
    clock = Clock()
    seen = []
    source = Scripted(
        lambda: (clock.advance(29), seen.append(cycle.stalled()), clock.advance(2), seen.append(cycle.stalled()))
    )
    cycle, _, spool = made(tmp_path, source, clock)
    cycle.tick(TICK)
    assert seen == [False, True]
    assert not cycle.stalled()
    spool.close()


def test_a_slow_source_delays_no_other(tmp_path: Path) -> None:
    free, stop = threading.Event(), threading.Event()
    slow, quick = Scripted(*[free.wait] * 2), Scripted()
    spool = Spool(tmp_path / "spool", synced=False)
    outbox = Outbox(spool, "c1", "n1")
    cycles = [Cycle(Planned("slow", 1, slow), outbox), Cycle(Planned("quick", 1, quick), outbox)]
    threads = [threading.Thread(target=cycle.run, args=(stop,)) for cycle in cycles]
    for thread in threads:
        thread.start()
    until(lambda: len(quick.asked) >= 3)
    assert len(slow.asked) == 1
    stop.set()
    free.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    spool.close()


def test_rows_that_do_not_fit_go_apart_and_are_counted(tmp_path: Path) -> None:
    at = datetime(2026, 10, 1, tzinfo=UTC)
    good = {"ts": at, "interval_seconds": 10.0, "device_id": "g", "state": "ok", "utilization": 0.5}
    collected = Collected({"samples": [good, {**good, "utilization": 45}]})
    collected.dropped["no such metric"] += 3
    _, outbox, spool = made(tmp_path, Scripted(), Clock())
    outbox.put("test", collected, at)
    groups = []
    while group := spool.oldest(10, 1 << 20):
        groups.append((group.rows, group.suspect))
        spool.acknowledge(group)
    assert groups == [(1, False), (1, True)]
    assert outbox.rows == {"samples": 1}
    assert outbox.bad_rows == {("samples", "out_of_range_utilization"): 1}
    assert outbox.dropped == {("test", "no such metric"): 3}
    spool.close()


def test_a_loss_becomes_a_finding_once(tmp_path: Path) -> None:
    at = datetime(2026, 10, 1, tzinfo=UTC)
    spool = Spool(tmp_path / "spool", max_bytes=2000, synced=False)
    outbox = Outbox(spool, "c1", "n1")
    for number in range(20):
        row = {"ts": at, "finding": "x", "severity": "info", "message": f"{number} {number**50}"}
        outbox.put("test", Collected({"findings": [row]}), at)
    outbox.report_losses(at)
    outbox.report_losses(at + timedelta(minutes=9))
    reported = [row for row in spooled(spool) if row["finding"] == "spool_overflow"]
    assert len(reported) == 1
    assert reported[0]["severity"] == "critical"
    assert "rows of findings" in reported[0]["message"]
    outbox.report_losses(at + timedelta(minutes=11))
    assert [row["finding"] for row in spooled(spool)] == ["spool_overflow"], "what telling it cost is told, too"
    outbox.report_losses(at + timedelta(minutes=22))
    assert spooled(spool) == []
    spool.close()
