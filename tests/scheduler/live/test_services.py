"""Services in the live loop: replicas from zero and back, cold starts in the books, restarts, failures."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.live.service import RefusedError
from scheduler.settings import SettingsError, parse_settings
from tests.scheduler.live.living import SETTINGS, Living, Slow

CHAT: dict[str, Any] = {
    "name": "chat", "tenant": "vision", "queue": "batch", "request": {"devices": 2}, "target": 4, "max_replicas": 3,
    "idle": 100, "keep": 10, "payload": {"command": ["serve"]},
}  # fmt: skip


def living(folder: Path, **more: Any) -> Living:
    return Living(folder, SETTINGS | {"services": [CHAT | more]}, Slow())


def messages(found: Living, event: str) -> list[dict[str, Any]]:
    rows = [row for record, row in found.rows if record == "events" and row["event"] == event]
    return [json.loads(row["message"]) | {"ts": row["ts"].timestamp(), "job": row["workload_id"]} for row in rows]


def test_replicas_come_from_none_with_the_queue_and_go_back_to_none(tmp_path: Path) -> None:
    found = living(tmp_path)
    found.settle()
    assert found.service.services()[0]["desired"] == 0
    assert found.service.demand("chat", 5, 0)["desired"] == 2
    found.settle()
    assert found.service.service("chat")["cold"] == 2
    found.now += 30
    assert found.service.ready("chat-1")["cold_seconds"] == pytest.approx(30, abs=0.1)
    assert found.service.service("chat") | {"cold_unit_seconds": 0} == {
        "service": "chat", "waiting": 5, "working": 0, "desired": 2, "pending": 0, "cold": 1, "warm": 1,
        "cold_starts": 1, "cold_unit_seconds": 0, "utilization": None,
        "why": "5 waiting, 0 in work, 4 for each replica: 2; between 0 and 3: 2",
    }  # fmt: skip
    found.service.demand("chat", 0, 1)
    found.now += 20
    found.settle()
    assert found.executor.stopping == [("chat-2", 1)], "the one that serves nobody yet goes first"  # type: ignore[attr-defined]
    found.executor.over("chat-2", 1)  # type: ignore[attr-defined]
    found.service.demand("chat", 0, 0)
    found.now += 101
    found.settle()
    found.executor.over("chat-1", 1)  # type: ignore[attr-defined]
    found.settle()
    assert found.service.list() == []
    assert found.events()[-1] == ("chat-1", "finished")


def test_cold_and_warm_starts_are_distinguished_in_the_books(tmp_path: Path) -> None:
    found = living(tmp_path)
    found.service.demand("chat", 1, 0)
    found.settle()
    found.now += 45
    found.service.ready("chat-1")
    found.settle()
    (start, *_), (warm, *_) = messages(found, "started"), messages(found, "resized")
    assert (start["state"], warm["state"]) == ("cold", "warm")
    assert warm["ts"] - start["ts"] == pytest.approx(45, abs=0.1)
    assert found.service.service("chat")["cold_unit_seconds"] == pytest.approx(90, abs=0.2), "two GPUs"
    found.service.ready("chat-1")
    assert len(messages(found, "resized")) == 2, "once, a row for each of its devices"


@pytest.mark.parametrize("again", [True, False])
def test_recent_demand_is_served_for_its_time_however_rarely_it_is_reported(tmp_path: Path, again: bool) -> None:
    """Replicas for 10 s, the last for 100 s."""
    found = living(tmp_path)
    found.service.demand("chat", 12, 0)
    for _ in range(150):
        found.now += 1
        if again:
            found.service.demand("chat", 12, 0)
        found.settle()
    assert found.service.demand("chat", 0, 0)["desired"] == 3
    for seconds, desired in ((9.9, 3), (0.2, 1), (89.8, 1), (0.2, 0)):
        found.now += seconds
        assert found.service.service("chat")["desired"] == desired


def test_a_restart_remembers_services_their_demand_and_what_is_warm(tmp_path: Path) -> None:
    found = living(tmp_path)
    found.service.demand("chat", 9, 0)
    found.settle()
    found.now += 5
    found.service.ready("chat-2")
    before = found.service.services()
    found.restart(Slow())
    assert found.service.services() == before
    found.settle()
    assert len(found.service.list()) == 3


def test_a_service_that_the_settings_have_no_more_takes_no_demand_and_is_forgotten_with_its_last_replica(
    tmp_path: Path,
) -> None:
    found = living(tmp_path)
    found.service.demand("chat", 2, 0)
    found.settle()
    with_it = found.settings
    found.service.configure(with_it.model_copy(update={"services": ()}))
    assert [line["service"] for line in found.service.services()] == ["chat"], "its replica is still there"
    with pytest.raises(RefusedError, match="not in the settings"):
        found.service.demand("chat", 9, 0)
    found.settle()
    (stopping,) = found.service.list()
    found.executor.over(stopping["job_id"], stopping["attempt"])
    found.settle()
    assert found.service.services() == []
    found.service.configure(with_it)
    found.settle()
    assert [(line["waiting"], line["desired"]) for line in found.service.services()] == [(0, 0)], "as a new one"
    found.restart(Slow())
    assert [(line["waiting"], line["desired"]) for line in found.service.services()] == [(0, 0)]


def test_utilization_is_reported_stored_and_explained_and_while_unknown_no_replica_goes(tmp_path: Path) -> None:
    found = living(tmp_path, utilization={"target": 0.5, "fresh": 60}, min_replicas=1, keep=0, target=None)
    found.settle()
    found.service.ready("chat-1")
    for _ in range(3):
        found.service.demand("chat", None, None, 0.95)
        found.settle()
    assert len(found.service.list()) == 2, "twice what one should do, however often it is told"
    assert len(found.log.of_kind("demand")) == 1
    found.restart(Slow())
    (line,) = [line for line in found.service.explain("chat-2")["history"] if line["what"] == "submit"]
    assert line["why"] == "utilization 0.95 of 0.50 on 1 that were ready: 2; between 1 and 3: 2"
    found.service.ready("chat-2")
    found.now += 61
    found.settle()
    assert "utilization is not known: none of 2 goes" in found.service.service("chat")["why"]
    assert found.service.demand("chat", None, None, 0.1)["desired"] == 1
    with pytest.raises(RefusedError, match="Expected 0 to 1"):
        found.service.demand("chat", None, None, 1.5)
    by_requests = living(tmp_path / "other")
    with pytest.raises(RefusedError, match="has no target for utilization"):
        by_requests.service.demand("chat", None, None, 0.9)
    assert by_requests.service.demand("chat", 5, None, 0.9)["desired"] == 2, "beside requests it does no harm"


def test_hours_of_the_week_bound_the_replicas_by_the_clock_of_their_zone(tmp_path: Path) -> None:
    office = {"days": ["thu"], "start": "01:20", "end": "01:30", "timezone": "Europe/London", "min_replicas": 2}
    found = living(tmp_path, windows=[office])  # the tests begin on Thursday, 1970-01-01, 01:16:40 in London
    found.settle()
    assert found.service.list() == []
    found.now = 1200.0
    found.settle()
    assert len(found.service.list()) == 2
    assert "thu 01:20-01:30 Europe/London: at least 2" in found.service.service("chat")["why"]
    found.now = 1800.0
    found.settle()
    assert found.service.service("chat")["desired"] == 0


def test_a_replica_that_fails_is_tried_again_after_a_pause_that_grows(tmp_path: Path) -> None:
    found = living(tmp_path, max_replicas=1)
    found.service.demand("chat", 1, 0)
    found.settle()
    starts = []
    for _ in range(40):
        jobs = [one["job_id"] for one in found.service.list("running")]
        if jobs:
            starts.append(found.now)
            found.service.finish(jobs[0], False, "tester")
        found.now += 1
        found.service.demand("chat", 1, 0)
        found.settle()
    pauses = [later - before for before, later in itertools.pairwise(starts)]
    assert pauses[:3] == [5, 10, 20]


def test_what_is_no_service_or_no_replica_is_refused(tmp_path: Path) -> None:
    found = living(tmp_path)
    with pytest.raises(RefusedError, match="not in the settings"):
        found.service.demand("search", 1, 0)
    found.submit("a", 1)
    found.settle()
    with pytest.raises(RefusedError, match="not a replica of a service"):
        found.service.ready("a")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"queue": "nowhere"}, "no queue nowhere"),
        ({"request": {"gpus": 1}}, "gpus"),
        ({"min_replicas": 5}, "is below 5"),
        ({"windows": [{"min_replicas": 9}]}, "9 to 3 is not within its 3"),
        ({"windows": [{"timezone": "Mars"}]}, "expected a time zone"),
        ({"windows": [{"start": "25:00"}]}, "expected a time of day"),
        ({"utilization": {"target": 0}}, "greater than 0"),
        ({"target": None, "utilization": {"target": 0.5}}, "say target or min_replicas"),
    ],
)
def test_a_service_that_cannot_be_is_refused_in_the_settings(more: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        parse_settings(SETTINGS | {"services": [CHAT | more]})


def test_metrics_count_replicas_and_cold_time(tmp_path: Path) -> None:
    found = living(tmp_path)
    found.service.demand("chat", 1, 0)
    found.settle()
    values = {(one.name, *one.labels.values()): one.value for one in found.service.measured(type(found.service).series)}
    assert values["service_replicas", "chat", "cold"] == 1
    assert values["service_cold_starts_total", "chat"] == 0


def test_a_replica_takes_no_name_that_a_job_has_or_had(tmp_path: Path) -> None:
    found = living(tmp_path)
    found.submit("chat-1", 4)
    found.submit("chat-3", 1)
    found.settle()
    found.service.finish("chat-3", True, "tester")
    found.service.demand("chat", 5, 0)
    found.settle()
    assert [one["job_id"] for one in found.service.list()] == ["chat-1", "chat-2", "chat-4"]
    found.restart(Slow())
    assert found.service.show("chat-1")["ranks"][0]["devices"] == [f"p-0/{number}" for number in range(4)]
    assert found.service.service("chat")["cold"] == 2


def test_demand_that_cannot_be_counted_is_refused_and_not_written_down(tmp_path: Path) -> None:
    found = living(tmp_path)
    with pytest.raises(RefusedError, match="more than can be counted"):
        found.service.demand("chat", 10**400, 0)
    found.restart(Slow())
    assert found.service.demand("chat", 1 << 53, 0)["desired"] == 3
