"""Idle jobs in the live loop: steps in order, only on what is known, only by a policy or a person's yes, with undo."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from scheduler.live.idle import ANSWER_SECONDS, Feed, Reading
from scheduler.live.service import RefusedError
from scheduler.records.restore import replays
from scheduler.settings import SettingsError, parse_settings
from tests.scheduler.live.idling import MINUTE, Idling
from tests.scheduler.live.living import SETTINGS

POLICY: dict[str, Any] = {"warn": "30m", "after": "2h", "then": "suspend"}
ELASTIC: dict[str, Any] = {"gpus": 1, "min_replicas": 2, "max_replicas": 4}


def test_an_idle_job_is_noticed_warned_and_suspended_and_comes_back_when_it_is_resumed(tmp_path: Path) -> None:
    living = Idling(tmp_path, POLICY)
    living.run()
    found = {}
    for minutes in range(400):
        living.at(minutes, **({"a": minutes - 10} if minutes >= 25 else {}))
        found[len(living.steps())] = found.get(len(living.steps()), minutes)
        counted = [(one.labels, one.value) for one in living.service.series() if one.name == "idle_jobs"]
        last = living.steps()[-1:]
        assert counted == ([({"queue": "batch", "step": last[0]}, 1)] if last and last[0] != "suspend" else [])
        if living.status("a") != "running":
            break
    assert living.steps() == ["noticed", "warned", "suspend"]
    assert (found[1], found[2], found[3]) == (25, 40, 130)
    assert living.status("a") == "stopping"
    living.over("a")
    (row,) = [row for _, row in living.rows if row.get("event") == "suspended"]
    assert (row["reason"], row["actor"]) == ("IdleReclaimed", "idle policy")
    text = json.loads(row["message"])["text"]
    assert text == (
        "idle for 2h, as measured at 1970-01-02T05:56:40.000Z; so it is suspended "
        "(policy all jobs: warn after 30m, after 2h suspend)"
    )
    (reason,) = living.service.explain("a")["reasons"]
    assert reason["code"] == "Suspended"
    assert text in reason["text"]
    assert [line.get("step") for line in living.service.explain("a")["history"] if line["what"] == "idle"] == [
        "noticed", "warned",
    ]  # fmt: skip
    living.service.resume("a", "ada")
    living.settle()
    assert (living.status("a"), living.service.show("a")["attempt"]) == ("running", 2)
    living.hear(a=170)
    assert living.steps() == ["noticed", "warned", "suspend"], "that is of the attempt before"


def test_a_cancelled_job_ends_and_its_end_says_why(tmp_path: Path) -> None:
    living = Idling(tmp_path, POLICY | {"then": "cancel", "after": "1h"})
    living.run()
    for minutes in (40, 70):
        living.at(minutes, a=minutes - 10)
    living.over("a")
    (row,) = [row for _, row in living.rows if row.get("event") == "cancelled"]
    assert row["reason"] == "IdleReclaimed"
    assert living.service.explain("a")["status"] == "cancelled"


def test_an_elastic_job_is_made_its_smallest_gang_and_grows_once_it_is_used_again(tmp_path: Path) -> None:
    living = Idling(tmp_path, POLICY | {"then": "shrink"})
    living.run(**ELASTIC)
    assert living.size() == 4
    for minutes in (40, 130):
        living.at(minutes, a=minutes - 10)
    assert (living.size(), living.status("a")) == (2, "running")
    living.service.step()
    for minutes in (140, 300, 301):
        living.at(minutes, a=minutes - 10 if minutes < 190 else 180)
        living.restart()
        assert living.size() == 2, "it is still idle, or nobody knows"
    living.at(305, a=None)
    assert living.size() == 2
    living.at(310)
    assert living.size() == 4
    assert living.steps() == ["noticed", "warned", "shrink", "busy"]
    rows = [row for record, row in living.rows if record == "events" and row["event"] == "resized"]
    _, small, large = ([row for row in rows if row["ts"] == ts] for ts in dict.fromkeys(row["ts"] for row in rows))
    assert (len(small), len(large)) == (2, 4)
    assert (small[0]["reason"], small[0]["actor"], small[0]["gpus"]) == ("IdleReclaimed", "idle policy", 2.0)
    found = [one.same for one in replays(list(living.log.entries()), living.log.of_kind("plan"))]
    assert found == [True, True, True]


def test_what_was_taken_serves_others(tmp_path: Path) -> None:
    living = Idling(tmp_path, POLICY | {"then": "shrink"})
    living.run("a", gpus=2, min_replicas=1, max_replicas=4)
    assert living.size() == 4
    living.service.submit(
        {"job_id": "w", "tenant": "vision", "queue": "batch", "request": {"devices": 4}, "preemptible": False}, "x"
    )
    living.set_policies(POLICY | {"then": "shrink", "after": "1h"})
    for minutes in (40, 70):
        living.at(minutes, a=minutes - 10)
    assert living.status("w") == "running"


def test_keep_exempts_an_attempt_and_undoes_a_smaller_size(tmp_path: Path) -> None:
    living = Idling(tmp_path, POLICY | {"then": "shrink"})
    living.run(**ELASTIC)
    for minutes in (40, 130):
        living.at(minutes, a=minutes - 10)
    assert living.size() == 2
    living.service.keep("a", "ada")
    living.at(140, a=130)
    assert living.size() == 4
    with pytest.raises(RefusedError, match="is kept by ada already"):
        living.service.keep("a", "bob")
    with pytest.raises(RefusedError, match="is kept by ada, as long as this attempt runs"):
        living.service.reclaim("a", "bob")
    living.restart()
    living.at(400, a=180)
    assert living.steps() == ["noticed", "warned", "shrink", "kept"]
    (one,) = living.service.idle()["jobs"]
    assert (one["step"], one["next"], one["next_at"]) == ("kept", "nothing: ada keeps it", None)
    living.service.suspend("a", "ada")
    living.over("a")
    living.service.resume("a", "ada")
    living.settle()
    living.at(450, a_2=40)
    assert living.steps()[-2:] == ["noticed", "warned"], "the next attempt is not kept"


def test_a_keep_at_the_same_instant_is_another_size_for_the_books(tmp_path: Path) -> None:
    living = Idling(tmp_path)
    policies = {"idle": [POLICY | {"then": "shrink"}], "policies": {"elastic_hold": 0}}
    living.configure(parse_settings(SETTINGS | policies))
    living.run(**ELASTIC)
    for minutes in (40, 130):
        living.at(minutes, a=minutes - 10)
    living.service.keep("a", "ada")
    living.settle()
    rows = [row for record, row in living.rows if record == "events" and row["event"] == "resized"]
    assert living.size() == 4
    assert len({row["ts"] for row in rows}) == 3, "grown, made smaller, grown"


def test_the_next_attempt_of_a_job_that_was_made_smaller_grows(tmp_path: Path) -> None:
    living = Idling(tmp_path, POLICY | {"then": "shrink"})
    living.run(**ELASTIC)
    for minutes in (40, 130):
        living.at(minutes, a=minutes - 10)
    living.service.suspend("a", "ada")
    living.over("a")
    living.service.resume("a", "ada")
    living.settle()
    assert (living.size(), living.service.show("a")["attempt"]) == (4, 2)


def test_with_approval_it_is_proposed_until_an_operator_says_yes(tmp_path: Path) -> None:
    living = Idling(tmp_path, POLICY | {"approval": True})
    living.run()
    for minutes in (40, 130, 160, 190, 200):
        living.at(minutes, a=min(180, minutes - 10))
    assert (living.steps(), living.status("a")) == (["noticed", "warned", "proposed"], "running")
    (one,) = living.service.idle()["jobs"]
    assert (one["step"], one["next"], one["next_at"]) == ("proposed", "suspend, once an operator says `reclaim`", None)
    assert living.service.reclaim("a", "ada")["status"] == "stopping"
    living.over("a")
    (row,) = [row for _, row in living.rows if row.get("event") == "suspended"]
    assert (row["reason"], row["actor"]) == ("IdleReclaimed", "ada")


def test_somebody_proposes_and_it_stays_proposed_until_an_operator_says_yes(tmp_path: Path) -> None:
    living = Idling(tmp_path, POLICY | {"approval": True})
    living.run()
    with pytest.raises(RefusedError, match="does not know who is idle"):
        living.service.propose("a", "ben")
    living.at(36, a=16)
    living.service.propose("a", "ben")
    for minutes in (60, 130, 190):
        living.at(minutes, a=min(180, minutes - 20))
    assert (living.steps(), living.status("a")) == (["noticed", "proposed", "warned"], "running")
    (one,) = living.service.idle()["jobs"]
    assert (one["step"], one["by"], one["next_at"]) == ("proposed", "ben", None)
    with pytest.raises(RefusedError, match="a: was proposed by ben already"):
        living.service.propose("a", "ada")
    living.service.reclaim("a", "ada")
    living.over("a")
    (one,) = living.service.idle()["jobs"]
    assert (one["step"], one["by"], one["gpus"]) == ("suspended", "ada", 0)
    with pytest.raises(RefusedError, match="a: is suspended, not running"):
        living.service.propose("a", "ben")
    living.service.resume("a", "ada")
    living.settle()
    assert (living.status("a"), living.service.idle()["jobs"]) == ("running", [])
    assert all(one.same for one in replays(list(living.log.entries()), living.log.of_kind("plan")))


def test_a_proposal_holds_up_no_policy_without_approval_and_ends_with_use(tmp_path: Path) -> None:
    living = Idling(tmp_path, POLICY)
    for name in ("a", "b"):
        living.run(name)
    living.at(60, a=40, b=40)
    for name in ("a", "b"):
        living.service.propose(name, "ben")
    assert {one["next"] for one in living.service.idle()["jobs"]} == {"suspend"}
    living.at(160, a=140)
    assert (living.status("a"), living.status("b")) == ("stopping", "running")
    assert living.steps("b")[-1] == "busy"
    living.at(200, b=30)
    assert living.service.idle()["jobs"][-1]["by"] == ""


def test_an_operator_s_yes_needs_no_grace_but_a_policy_and_evidence(tmp_path: Path) -> None:
    living = Idling(tmp_path, POLICY | {"tenants": ["vision"]})
    with pytest.raises(RefusedError, match=r"does not know who is idle\. Start it with --idle-from URL"):
        living.service.reclaim("a", "ada")
    with pytest.raises(RefusedError, match="does not know who is idle"):
        living.service.idle()
    living.run()
    living.run("b", tenant="speech")
    living.at(40)
    for job_id, what in (
        ("a", "a: is not idle"),
        ("b", "b: no idle policy applies to it. Add one under idle: in the settings"),
        ("c", "is neither pending nor running"),
    ):
        with pytest.raises(RefusedError, match=what):
            living.service.reclaim(job_id, "ada")
    living.at(41, a=None, b=31)
    with pytest.raises(RefusedError, match="whether it is idle is unknown: the server does not know"):
        living.service.reclaim("a", "ada")
    living.service.hear_idle(Feed(living.now, problem="https://books: refused"))
    with pytest.raises(RefusedError, match="whether it is idle is unknown: https://books: refused"):
        living.service.reclaim("a", "ada")
    living.at(42, a=16)
    assert living.service.reclaim("a", "ada")["status"] == "stopping"
    with pytest.raises(RefusedError, match="is stopping, not running"):
        living.service.reclaim("a", "ada")
    living.set_policies(POLICY | {"then": "shrink"})
    living.at(43, b=33)
    with pytest.raises(RefusedError, match="b: it holds nothing beyond its smallest gang"):
        living.service.reclaim("b", "ada")


def test_a_job_without_a_policy_or_surplus_is_left_alone(tmp_path: Path) -> None:
    shrink = POLICY | {"then": "shrink", "tenants": ["vision"]}
    living = Idling(tmp_path, shrink)
    living.run("a")
    living.run("b", tenant="speech")
    for minutes in range(25, 300, 5):
        living.at(minutes, a=min(180, minutes - 10), b=min(180, minutes - 10))
    assert (living.steps("a"), living.steps("b")) == (["noticed", "warned"], [])
    by_job = {one["job_id"]: one for one in living.service.idle()["jobs"]}
    assert by_job["a"]["next"] == "nothing: it holds nothing beyond its smallest gang"
    assert (by_job["b"]["next"], by_job["b"]["policy"]) == ("nothing: no idle policy applies to it", "")


def test_a_policy_of_a_queue_is_for_those_below_it_and_the_first_that_fits_applies(tmp_path: Path) -> None:
    queues = [{"name": "all"}, {"name": "batch", "parent": "all"}, {"name": "other"}]
    settings = SETTINGS | {
        "queues": queues,
        "idle": [POLICY | {"queues": ["other"]}, POLICY | {"queues": ["all"], "then": "cancel"}, POLICY],
    }
    living = Idling(tmp_path)
    living.configure(parse_settings(settings))
    living.run("a")
    living.service.submit({"job_id": "b", "tenant": "vision", "queue": "other", "request": {"devices": 1}}, "x")
    living.settle()
    living.at(40, a=30, b=30)
    found = {one["job_id"]: one["policy"] for one in living.service.idle()["jobs"]}
    assert found == {
        "a": "queues all: warn after 30m, after 2h cancel",
        "b": "queues other: warn after 30m, after 2h suspend",
    }


def test_replicas_of_services_are_no_concern_of_these_policies(tmp_path: Path) -> None:
    service = {
        "name": "chat", "tenant": "vision", "queue": "batch", "request": {"devices": 1}, "min_replicas": 1,
    }  # fmt: skip
    living = Idling(tmp_path)
    living.configure(parse_settings(SETTINGS | {"idle": [POLICY], "services": [service]}))
    living.settle()
    living.at(200, **{"chat-1": 180.0})
    assert living.steps("chat-1") == []
    with pytest.raises(RefusedError, match="no idle policy applies to it"):
        living.service.reclaim("chat-1", "ada")
    with pytest.raises(RefusedError, match="is a replica of chat"):
        living.service.keep("chat-1", "ada")


def test_unknown_evidence_causes_no_step_and_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    living = Idling(tmp_path, POLICY | {"after": "1h"})
    living.run()
    living.at(60, a=50)
    assert living.steps() == ["noticed", "warned"]
    caplog.set_level(logging.WARNING)
    unknown = {
        "measured at .*, 16m ago": {"a": Reading.of(3600.0, living.now + 24 * MINUTE)},
        "does not know": {"a": Reading.of(None, living.now + 40 * MINUTE)},
        "before it began": {"a": Reading.of(9000.0, living.now + 40 * MINUTE)},
        "yet to come": {"a": Reading.of(3600.0, living.now + 60 * MINUTE)},
    }
    living.now += 40 * MINUTE
    for readings in unknown.values():
        caplog.clear()
        for _ in range(2):
            living.service.hear_idle(Feed(living.now, readings))
            living.settle()
        assert len([one for one in caplog.records if "nothing is done about it" in one.message]) == 1
    caplog.clear()
    for _ in range(2):
        living.service.hear_idle(Feed(living.now, problem="https://books: no answer"))
        living.settle()
    assert [one.message for one in caplog.records] == ["idle jobs: https://books: no answer"]
    living.service.hear_idle(Feed(living.now - 2 * ANSWER_SECONDS, {"a": Reading.of(3600.0, living.now)}))
    living.settle()
    assert living.steps() == ["noticed", "warned"]
    living.hear(a=90)
    assert living.steps() == ["noticed", "warned", "suspend"]


def test_a_warning_is_never_less_than_its_grace_before_what_it_warns_of(tmp_path: Path) -> None:
    """A scheduler that hears late, or that was down, or whose policy has changed."""
    living = Idling(tmp_path, POLICY)
    living.run()
    living.at(190, a=180)
    assert living.steps() == ["noticed", "warned"]
    living.at(279, a=180)
    assert living.steps() == ["noticed", "warned"]
    living.set_policies(POLICY | {"then": "cancel"})
    living.at(280, a=180)
    assert living.steps() == ["noticed", "warned", "warned"], "of something else"
    living.at(369, a=180)
    assert living.status("a") == "running"
    living.at(370, a=180)
    assert living.steps()[-1] == "stop"


def test_unobserved_use_begins_another_idle_spell(tmp_path: Path) -> None:
    living = Idling(tmp_path, POLICY | {"after": "1h"})
    living.run()
    living.at(40, a=30)
    living.restart()  # and nothing is heard until the next line
    living.at(120, a=70)
    assert living.steps() == ["noticed", "warned", "busy", "noticed", "warned"]
    living.at(149, a=99)
    assert living.status("a") == "running"
    living.at(150, a=100)
    assert living.steps()[-1] == "suspend"


def test_the_longest_idleness_that_is_measured_is_enough(tmp_path: Path) -> None:
    """The query's window: the server computes it with floats."""
    living = Idling(tmp_path, POLICY | {"after": "3h"})
    living.run()
    living.at(40, a=30)
    living.now += 160 * MINUTE
    living.service.hear_idle(Feed(living.now, {"a": Reading.of(10_799.9999998, living.now)}))
    living.settle()
    assert living.steps()[-1] == "suspend"


def test_callbacks_hear_each_step(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    script = tmp_path / "hear.sh"
    script.write_text(f"#!/bin/sh\ncat >> {heard}\necho >> {heard}\n")
    script.chmod(0o700)
    callback = {"name": "page", "command": [str(script)], "events": ["idle", "suspended"]}
    living = Idling(tmp_path)
    living.configure(parse_settings(SETTINGS | {"idle": [POLICY | {"after": "1h"}], "callbacks": [callback]}))
    living.run()
    for minutes in (25, 40):
        living.at(minutes, a=minutes - 10)
    living.at(45)
    for minutes in (70, 90, 120):
        living.at(minutes, a=minutes - 50)
    living.over("a")
    living.service.callbacks.hand_over()
    documents = [json.loads(line) for line in heard.read_text().splitlines()]
    assert [(one["event"], one["reason"]) for one in documents] == [
        ("idle", "IdleNoticed"), ("idle", "IdleWarned"), ("idle", "IdleBusy"), ("idle", "IdleNoticed"),
        ("idle", "IdleWarned"), ("suspended", "IdleReclaimed"),
    ]  # fmt: skip
    assert len({one["id"] for one in documents}) == 6
    assert "made" not in documents[1]["text"]
    assert "it is suspended in 30m at the earliest, unless somebody keeps it" in documents[1]["text"]
    assert not [row for record, row in living.rows if record == "events" and row["event"] == "idle"], (
        "not for the books"
    )


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ({"warn": "2h"}, "idle[0]: warn 2h is not before after 2h: leave time to react"),
        ({"after": "181m"}, "idle[0]: after 3h1m is beyond 3h, and more idleness is not measured"),
        ({"then": "stop"}, "idle[0].then: found 'stop'; "),
        ({"when": "1h"}, "idle[0].when: unknown key"),
        ({"tenants": ["nobody"]}, "idle[0]: no tenant nobody is declared"),
        ({"queues": ["nowhere"]}, "idle[0]: no queue nowhere is declared"),
        ({"approval": "yes"}, "idle[0].approval: found 'yes'; "),
    ],
)
def test_a_policy_that_cannot_be_is_refused_in_one_line(policy: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse_settings(SETTINGS | {"idle": [POLICY | policy]})
    assert said in str(error.value)
    assert "\n" not in str(error.value)
