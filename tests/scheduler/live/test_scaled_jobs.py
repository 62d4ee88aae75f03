"""Jobs whose own policy says their size, in a live scheduler: by their queue, their utilization and the hours."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from scheduler.codec import read
from scheduler.live.scaled_jobs import Measured, Reading
from scheduler.live.service import RefusedError
from scheduler.model import ScalingPolicy
from tests.scheduler.live.living import SETTINGS, Living, Slow

BEGIN = datetime.fromisoformat("2026-10-23T12:00:00+00:00").timestamp()  # Berlin's clock changes on the 25th
QUEUE = {"queue": {"grow_below": 1, "shrink_at": 2}, "cool_down_seconds": 600}
USE = {"utilization": {"shrink_below": 0.2, "grow_above": 0.7, "window_seconds": 1800}, "cool_down_seconds": 600}
NIGHT = {"timezone": "Europe/Berlin", "start": "22:00", "end": "06:00", "min_replicas": 3}
DAY = {"timezone": "Europe/Berlin", "start": "06:00", "end": "22:00", "max_replicas": 2}


class Scaling(Living):
    def __init__(self, folder: Path, scaling: dict[str, Any], most: int = 8, **more: Any) -> None:
        super().__init__(folder, SETTINGS, Slow(), BEGIN)
        self.submit("a", gpus=1, max_replicas=most, scaling=scaling, **more)
        self.settle()

    def after(self, minutes: float, use: float | None = None, measured: bool = True, name: str = "a") -> int:
        """Its size so many minutes later; its utilization until then, if a server measures it."""
        self.now += minutes * 60
        if measured:
            self.service.watches_idleness = True
            self.service.hear_use(1800.0, Measured(self.now, self.now, {name: Reading(use, 1.0)}))
        self.settle()
        return self.size()

    def size(self) -> int:
        return len(self.service.book.jobs["a"].grants)

    def told(self) -> tuple[str, str]:
        found = self.service.scaling("a")
        assert found is not None
        return found["reason"], found["text"] + (f"; {found['problem']}" if found["problem"] else "")


def test_a_job_shrinks_and_grows_to_what_it_uses_and_what_is_unknown_changes_nothing(tmp_path: Path) -> None:
    of = Scaling(tmp_path, USE)
    assert of.size() == 1, "until it is known to use what it has"
    assert of.after(60, measured=False) == 1
    assert of.told() == (
        "Utilization",
        "its utilization is not known: at most 1; its utilization is not known, and changes "
        "nothing: this scheduler does not ask for it; start it with --idle-from URL",
    )
    assert of.after(1, None) == 1
    assert of.told()[1].endswith("changes nothing: not all of its devices were measured")
    assert of.after(1, 0.9) == 2
    assert of.told() == ("Utilization", "utilization 90% over 30m with 1 replica is above 70%: at most 2")
    assert of.after(20, 0.9) == 2
    assert of.after(20, 0.9) == 4
    assert of.after(40, 0.5) == 4
    assert of.after(40, 0.12) == 2
    assert of.told() == ("Utilization", "utilization 12% over 30m with 4 replicas is below 20%: at most 2")
    assert of.after(20, measured=False) == 2
    assert of.after(90, 0.9, name="b") == 2, "of another job"
    of.restart()
    assert of.size() == 2
    assert of.told()[0] == "Utilization"
    assert of.service.explain("a")["scaling"]["max_replicas"] == 2


def test_old_answers_and_those_of_the_future_are_unknown(tmp_path: Path) -> None:
    of = Scaling(tmp_path, USE)
    of.after(60, 0.5)
    reading = {"a": Reading(0.9, 1.0)}
    for found, why in (
        (Measured(of.now - 400, of.now, reading), "has not answered since"),
        (Measured(of.now, of.now - 1000, reading), "nothing was measured lately"),
        (Measured(of.now, of.now + 1000, reading), "is yet to come"),
        (Measured(of.now, None), "nothing was measured lately"),
        (Measured(of.now, of.now, {"a": Reading(float("nan"), 1.0)}), "is no utilization"),
        (Measured(of.now, of.now, {"a": Reading(0.9, 0.0)}), "not all of its devices"),
        (Measured(of.now, problem="it is gone"), "it is gone"),
    ):
        of.service.hear_use(1800.0, found)
        of.settle()
        assert (of.size(), why in of.told()[1]) == (1, True), of.told()


def test_a_job_is_small_while_others_of_its_queue_wait_for_such_devices(tmp_path: Path) -> None:
    of = Scaling(tmp_path, QUEUE)
    assert of.size() == 8
    assert of.told() == (
        "QueueDepth",
        "0 jobs of its queue waited 1m or longer, and fewer than 1 let it grow: at most 8",
    )
    of.submit("b", gpus=4, min_replicas=2, max_replicas=2)  # more than what it has beyond its fewest
    of.submit("other", request={"devices": 2, "models": ["H100"]})
    assert of.after(20) == 8, "between the thresholds, and what its devices do not serve does not count"
    of.submit("c", gpus=4, min_replicas=2, max_replicas=2)
    assert of.after(0.5) == 8, "it has not waited for long"
    assert of.after(1) == 1
    assert of.told() == (
        "QueueDepth",
        "2 jobs of its queue waited 1m or longer, and 2 or more make it small: at most 1",
    )
    of.service.cancel("b", "ada")
    of.service.cancel("c", "ada")
    assert of.after(9) == 1, "it cools down"
    of.submit("d", gpus=4, min_replicas=2, max_replicas=2)
    of.settle()
    assert of.after(2) == 1, "between the thresholds it keeps its size"
    of.restart()
    of.service.cancel("d", "ada")
    assert of.after(1) == 8
    rescaled = [entry for entry in of.log.of_job("a") if entry.kind == "rescale"]
    assert [entry.body["cause"]["reason"] for entry in rescaled] == ["ScaledByPolicy"] * 3
    assert {entry.body["cause"]["actor"] for entry in rescaled} == {"scaling policy"}


def test_hours_have_bounds_of_their_own_by_the_clock_of_their_zone(tmp_path: Path) -> None:
    of, local = Scaling(tmp_path, {"windows": [NIGHT, DAY]}), ZoneInfo("Europe/Berlin")
    sizes = [(datetime.fromtimestamp(of.now, local), of.size())]
    assert of.told() == (
        "TimeWindow",
        "open: mon,tue,wed,thu,fri,sat,sun 06:00-22:00 Europe/Berlin: at most 2",
    )
    for _ in range(4 * 24 * 2):
        size = of.after(30, measured=False)
        sizes.append((datetime.fromtimestamp(of.now, local), size))
    changes = [(after[0], after[1]) for before, after in pairwise(sizes) if after[1] != before[1]]
    assert [(at.strftime("%a %H:%M %z"), size) for at, size in changes] == [
        ("Fri 22:00 +0200", 8), ("Sat 06:00 +0200", 2), ("Sat 22:00 +0200", 8), ("Sun 06:00 +0100", 2),
        ("Sun 22:00 +0100", 8), ("Mon 06:00 +0100", 2), ("Mon 22:00 +0100", 8), ("Tue 06:00 +0100", 2),
    ]  # fmt: skip
    assert of.service.book.jobs["a"].asked == (1, 8)


def test_a_policy_is_changed_ended_and_refused(tmp_path: Path) -> None:
    of = Scaling(tmp_path, QUEUE)
    rescale = of.service.rescale
    assert rescale("a", 1, 8, "ada")["ranks"][7]
    last = of.log.last
    assert rescale("a", 1, 8, "ada") and of.log.last == last, "the same changes nothing"
    rescale("a", 2, 4, "ada")
    of.settle()
    assert (of.size(), of.service.book.jobs["a"].asked) == (4, (2, 4))
    rescale("a", 2, 8, "ada", None)
    assert of.after(5, measured=False) == 8
    assert of.service.scaling("a") is None
    rescale("a", 2, 8, "ada", read(ScalingPolicy, USE, "it"))
    of.settle()
    assert of.size() == 8, "a policy begins with the size that there is"
    of.restart()
    assert of.after(40, 0.1) == 2
    with pytest.raises(RefusedError, match="scaling has neither queue, utilization nor windows"):
        rescale("a", 2, 8, "ada", ScalingPolicy(cool_down_seconds=61.0))


@pytest.mark.parametrize(
    ("scaling", "match"),
    [
        ({}, "has neither queue, utilization nor windows"),
        ({"cool_down_seconds": 100}, "has neither queue"),
        (QUEUE | {"cool_down_seconds": 1}, "cool_down_seconds is not from 60 to"),
        ({"queue": {"grow_below": 3, "shrink_at": 2}}, "grow_below 3, shrink_at 2: the first is"),
        ({"queue": {"grow_below": 0, "shrink_at": 2}}, "the first is at least 1"),
        ({"queue": {"grow_below": 1, "shrink_at": True}}, "is True, not a whole number"),
        ({"queue": {"grow_below": 1, "shrink_at": 10**30}}, "the first is at least 1"),
        ({"queue": {"grow_below": 1, "shrink_at": 2, "after_seconds": -1}}, "after_seconds is not from 0"),
        ({"utilization": {"shrink_below": 0.7, "grow_above": 0.2}}, "the first is below the second"),
        ({"utilization": {"shrink_below": 20, "grow_above": 70}}, "both are from 0 to 1"),
        (
            {"utilization": {"shrink_below": 0.2, "grow_above": 0.7, "window_seconds": 60}},
            "is none of 300, 600, 900, 1800",
        ),
        ({"windows": [{"timezone": "Mars/Olympus"}]}, "expected a time zone, like Europe/Berlin"),
        ({"windows": [{"timezone": "../../etc/passwd"}]}, "expected a time zone"),
        ({"windows": [{"timezone": "Europe"}]}, "expected a time zone"),
        ({"windows": [{"timezone": "a" * 10_000}]}, "scaling.windows: 00:00-24:00 aaa"),
        ({"windows": [{"start": "8:00"}]}, "expected a time of day in quotes"),
        ({"windows": [{"start": "24:00"}]}, "starts at 24:00"),
        ({"windows": [{"days": ["mon"]}]}, "mon 00:00-24:00 UTC has neither min_replicas nor max_replicas"),
        ({"windows": [{"days": []}]}, "one is on no day"),
        ({"windows": [{"days": ["Mon"]}]}, "is 'Mon'"),
        ({"windows": [{"min_replicas": 3, "max_replicas": 2}]}, "is not a range"),
        ({"windows": [{"max_replicas": 0}]}, "a job that runs has a replica"),
        ({"windows": [DAY] * 51}, "are 51, of at most 50"),
        ({"windows": "always"}, "not a list"),
        ({"cpu": 80}, "no such field"),
    ],
)
def test_what_is_no_policy_is_refused_in_one_line(tmp_path: Path, scaling: dict[str, Any], match: str) -> None:
    living = Living(tmp_path)
    with pytest.raises(RefusedError, match=match) as caught:
        living.submit("a", gpus=1, max_replicas=4, scaling=scaling)
    assert "\n" not in str(caught.value)
