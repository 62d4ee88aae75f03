"""The loop: what is asked happens once, in order, and is still so after a crash at any point."""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.readings import Row
from scheduler.codec import plain
from scheduler.exposition import prometheus_text, rows
from scheduler.live.service import RefusedError
from scheduler.model import Reason
from scheduler.records.events import Cause
from scheduler.records.restore import read_snapshot, replays, why_it_waits, write_snapshot
from scheduler.settings import SettingsError, parse_settings
from tests.draws import drawn_seed
from tests.scheduler.live.living import SETTINGS, Living, Slow
from warehouse.errors import LedgerError


def picture(living: Living) -> Any:
    """All that decisions depend on."""
    core = living.service.restored.core
    return (
        {name: (live.status, live.attempt, live.grants, live.since) for name, live in living.service.book.jobs.items()},
        {name: (run.started_at, run.grants, run.entitlement) for name, run in core.running.items()},
        sorted(core.pending),
        core.cluster.free.tolist(),
        core.accounts.tenants[""]["vision"].held,
        living.service.book.meter.held_gpus,
        living.service.book.meter.outcomes,
        living.service.pools(),
    )


def test_a_job_starts_runs_and_ends(tmp_path: Path) -> None:
    living = Living(tmp_path)
    assert living.submit("a")["status"] == "pending"
    living.settle()
    assert living.status("a") == "running"
    living.now = 1010.0
    living.service.finish("a", True, "tester")
    living.settle()
    assert living.events() == [("a", "submitted"), ("a", "started"), ("a", "finished")]
    assert [record for record, _ in living.rows[:8]] == ["devices"] * 8
    with pytest.raises(RefusedError, match="is neither pending nor running"):
        living.service.show("a")
    assert living.service.explain("a")["status"] == "finished"


def test_a_preempted_job_holds_its_devices_until_it_is_really_gone(tmp_path: Path) -> None:
    executor = Slow()
    living = Living(tmp_path, executor=executor)
    for name in ("a", "b"):
        living.submit(name)
    living.settle()
    living.now = 1100.0
    living.submit("c", tenant="speech")  # within its guarantee: one of vision's must go
    living.settle()
    ((victim, attempt),) = set(executor.stopping)
    assert (living.status(victim), living.status("c")) == ("stopping", "starting")
    assert ("c", 1) not in executor.started
    living.now = 1130.0
    executor.over(victim, attempt)
    living.settle()
    assert (living.status(victim), living.status("c")) == ("pending", "running")
    (row,) = [row for _, row in living.rows if row.get("event") == "preempted"]
    facts = json.loads(row["message"])
    assert facts["quota_released_at"] == "1970-01-01T00:18:20.000Z"
    assert (
        facts["resources_freed_at"]
        == "1970-01-01T00:18:50.000Z"
        == row["ts"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
    assert row["actor"] == "c"
    started = [row for _, row in living.rows if row.get("event") == "started" and row["allocation_id"] == "c"]
    assert {row["ts"].timestamp() for row in started} == {1130.0}
    assert {json.loads(row["message"])["entitlement"] for row in started} == {"guaranteed"}


def test_cancel_frees_quota_at_once_and_devices_when_the_job_is_gone(tmp_path: Path) -> None:
    executor = Slow()
    living = Living(tmp_path, executor=executor)
    living.submit("a", 4)
    living.submit("b", 4)
    living.submit("c", 4)
    living.settle()
    assert living.status("c") == "pending"
    living.service.cancel("a", "tester")
    living.settle()
    assert (living.status("a"), living.status("c")) == ("stopping", "starting")
    executor.over("a", 1)
    living.settle()
    assert living.status("c") == "running"
    assert ("a", "cancelled") in living.events()
    living.service.cancel("b", "tester")
    with pytest.raises(RefusedError, match="stopping already"):
        living.service.cancel("b", "tester")


@pytest.mark.parametrize("verb", ["cancel", "hold", "suspend", "resume", "keep"])
def test_a_request_about_a_job_that_has_just_ended_leaves_its_end_as_it_was(tmp_path: Path, verb: str) -> None:
    """The executor knows of its end, and no round came since."""
    executor = Slow()
    living = Living(tmp_path, executor=executor)
    living.submit("a")
    living.settle()
    executor.over("a", 1, "finished")
    with pytest.raises(RefusedError, match="is neither pending nor running"):
        getattr(living.service, verb)("a", "tester")
    living.settle()
    assert living.events() == [("a", "submitted"), ("a", "started"), ("a", "finished")]
    assert living.service.explain("a")["status"] == "finished"
    assert not executor.stopping


def test_a_held_job_does_not_start_until_it_is_released(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.submit("a")
    living.service.hold("a", "me")
    living.settle()
    assert living.status("a") == "held"
    with pytest.raises(RefusedError, match="is held, not pending"):
        living.service.hold("a", "me")
    living.service.release("a", "me")
    living.settle()
    assert living.status("a") == "running"


def test_a_suspended_job_gives_its_devices_back_and_comes_back_to_its_place(tmp_path: Path) -> None:
    executor = Slow()
    living = Living(tmp_path, executor=executor)
    living.submit("a", 4)
    living.settle()
    for name in ("b", "c", "d"):
        living.now += 1
        living.submit(name, 4)
    living.settle()
    living.now = 1100.0
    assert living.service.suspend("a", "ada")["status"] == "stopping"
    living.settle()
    (reason,) = living.service.explain("a")["reasons"]
    assert reason == {
        "code": "Suspended",
        "text": "suspended by ada since 1970-01-01T00:18:20Z; it is being stopped; `resume` ends it",
    }
    assert living.status("c") == "starting", "on a's devices, once they are free"
    living.now = 1105.0
    executor.over("a", 1)
    living.settle()
    assert (living.status("a"), living.status("c")) == ("suspended", "running")
    living.service.suspend("d", "bob")
    with pytest.raises(RefusedError, match="is suspended already"):
        living.service.suspend("d", "bob")
    living.service.resume("d", "bob")
    living.restart()
    living.service.resume("a", "ada")
    living.now = 1200.0
    living.service.finish("b", True, "tester")
    living.settle()
    assert (living.status("a"), living.status("d")) == ("running", "pending"), "a was submitted first"
    mine = [event for event in living.events() if event[0].startswith("a")]
    assert mine == [("a", "submitted"), ("a", "started"), ("a", "suspended"), ("a/2", "submitted"), ("a/2", "started")]
    (row,) = [row for _, row in living.rows if row.get("event") == "suspended" and row["workload_id"] == "a"]
    assert (row["ts"].timestamp(), row["actor"], row["reason"]) == (1105.0, "ada", "Suspended")
    assert json.loads(row["message"])["quota_released_at"] == "1970-01-01T00:18:20.000Z"


def test_while_a_job_is_being_stopped_the_last_word_of_suspend_and_resume_counts(tmp_path: Path) -> None:
    executor = Slow()
    living = Living(tmp_path, executor=executor)
    dice = random.Random(drawn_seed())
    living.submit("a")
    living.settle()
    for attempt in range(1, 6):
        living.service.suspend("a", "ada")
        is_resumed = False
        for _ in range(dice.randint(0, 6)):
            living.now += 1
            if dice.random() < 0.5:
                with pytest.raises(RefusedError, match="was resumed by bob already" if is_resumed else "suspended"):
                    (living.service.resume if is_resumed else living.service.suspend)("a", "eve")
            (living.service.suspend if is_resumed else living.service.resume)("a", "bob")
            is_resumed = not is_resumed
            if dice.random() < 0.3:
                living.restart()
            living.settle()
            assert living.status("a") == "stopping"
        executor.over("a", attempt)
        living.settle()
        assert living.status("a") == ("running" if is_resumed else "suspended")
        if not is_resumed:
            living.service.resume("a", "bob")
            living.settle()
        assert living.service.show("a")["attempt"] == attempt + 1
    mine = [event for _, event in living.events() if event != "submitted"]
    assert mine == ["started", "suspended"] * 5 + ["started"]


def test_what_comes_after_a_job_that_is_set_aside_waits_for_it(tmp_path: Path) -> None:
    living = Living(tmp_path)
    for name, how in (("held", "hold"), ("suspended", "suspend")):
        living.submit(name, 1)
        getattr(living.service, how)(name, "me")
        living.submit(f"after-{name}", 1, after=[name])
        living.settle()
        assert [one.code for one in living.service.waiting[f"after-{name}"]] == ["Dependency"]
        living.service.cancel(name, "me")
        living.settle()
        assert [one.code for one in living.service.waiting[f"after-{name}"]] == ["DependencyFailed"]


def test_a_job_is_stopped_at_its_time_limit_and_has_failed(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.submit("a", time_limit=60.0)
    living.settle()
    living.now = 1059.0
    living.settle()
    assert living.status("a") == "running"
    living.now = 1060.5
    living.settle()
    assert living.events()[-1] == ("a", "failed")
    assert living.service.explain("a")["history"][-2]["cause"]["reason"] == "TimeLimit"


def test_the_same_submission_again_is_the_same_job(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.submit("a")
    living.now = 1001.0
    assert living.submit("a")["job_id"] == "a"
    with pytest.raises(RefusedError, match="another job with that id") as refused:
        living.submit("a", gpus=1)
    assert refused.value.status == 409
    living.settle()
    living.service.finish("a", True, "tester")
    assert living.submit("a") == {"job_id": "a", "status": "finished"}
    assert living.events().count(("a", "submitted")) == 1


def test_a_job_for_a_queue_that_is_not_there_is_rejected_and_the_books_show_it(tmp_path: Path) -> None:
    living = Living(tmp_path)
    with pytest.raises(RefusedError, match="queue 'btach' is not one of batch"):
        living.submit("a", queue="btach")
    living.settle()
    assert living.events() == [("a", "submitted"), ("a", "rejected")]
    with pytest.raises(RefusedError, match=r"job\.gpus: no such field"):
        living.service.submit({"job_id": "b", "tenant": "t", "queue": "batch", "gpus": 1}, "tester")
    with pytest.raises(RefusedError, match=r"job.request.devices: is '4', not a whole number"):
        living.submit("b", request={"devices": "4"})


def test_explain_tells_reasons_history_and_expected_start(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.submit("a", 4, time_limit=500.0)
    living.submit("b", 4, tenant="speech", time_limit=800.0)
    living.submit("c", 4, time_limit=100.0)
    living.settle()
    found = living.service.explain("c")
    assert found["status"] == "pending"
    assert "InsufficientCapacity" in [reason["code"] for reason in found["reasons"]]
    assert {"a", "b"} <= {name for reason in found["reasons"] for name in reason.get("blockers", ())}
    assert found["expected_start"].timestamp() == 1500.0
    assert [line["what"] for line in found["history"]] == ["submit", "waits"]
    living.now = 1400.0
    living.service.finish("a", True, "tester")
    living.settle()
    living.submit("d", 4)
    living.settle()
    assert living.service.explain("d")["expected_start_error_seconds"] == {"known": 1, "p50": -100.0, "p95": -100.0}


def test_why_a_job_waits_reaches_the_books_once_and_names_no_other_tenant(tmp_path: Path) -> None:
    """Tenants read events, and a reason's own text may name jobs of others."""
    living = Living(tmp_path)
    for name, tenant in (("a-holder", "vision"), ("b-holder", "speech"), ("c", "vision")):
        living.submit(name, 4, tenant=tenant, time_limit=500.0)
    living.settle()
    first, why = (row for _, row in living.rows if row.get("allocation_id") == "c")
    assert (first["event"], first["reason"], why["event"]) == ("submitted", "", "submitted")
    reason = living.service.explain("c")["reasons"][0]
    assert why["reason"] == reason["code"] == "InsufficientCapacity"
    assert why["ts"] > first["ts"], "of one instant they would be one row"
    assert json.loads(why["message"])["text"] == reason["text"]
    assert json.loads(why["message"]).get("expected_interval") is None, "too few starts are known"
    before = list(living.rows)
    living.now += 30.0
    living.settle()
    assert living.rows == before, "the reason is the same"
    named = plain(Reason("Priority", "1 alike wait longer, c the longest", {"jobs": 1}, ("c",)))
    assert why_it_waits([named]) == Cause("Priority", "jobs 1")
    living.service.log.set_delivered("events", 0)
    living.rows.clear()
    living.restart()
    living.settle()
    assert [row for _, row in living.rows if row.get("allocation_id") == "c"] == [first, why]


def test_an_expected_start_reaches_the_books_as_the_interval_that_explain_shows(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.submit("beside", 4, tenant="speech")
    living.submit("first", 4, time_limit=100.0)
    living.settle()
    running = "first"
    for number in range(24):
        living.submit(f"j{number}", 4, time_limit=100.0)
        living.settle()
        living.now += 50.0 + number
        living.service.finish(running, True, "tester")
        living.settle()
        running = f"j{number}"
        assert living.status(running) == "running"
    living.submit("last", 4, time_limit=100.0)
    living.settle()
    (why,) = (row for _, row in living.rows if row.get("allocation_id") == "last" and row["reason"])
    reported = [datetime.fromisoformat(at) for at in json.loads(why["message"])["expected_interval"]]
    found = living.service.explain("last")["expected_interval"]
    assert reported == [found["from"], found["to"]]


def test_nothing_is_lost_or_doubled_by_a_crash_before_events_are_delivered(tmp_path: Path) -> None:
    living = Living(tmp_path)
    away: list[str] = []

    def refuse(record: str, rows: Sequence[Row]) -> None:
        away.append(record)
        raise LedgerError("store", "is away")

    living.service.outbox._deliver = refuse
    living.submit("a")
    living.settle()
    assert living.service.outbox.problem == "store: is away"
    living.service.finish("a", True, "tester")
    living.restart()
    living.settle()
    assert living.events() == [("a", "submitted"), ("a", "started"), ("a", "finished")]
    delivered = len(living.rows)
    living.restart()
    living.settle()
    assert len(living.rows) == delivered
    assert away


def test_a_start_that_was_decided_before_a_crash_is_carried_out_after_it(tmp_path: Path) -> None:
    class Dies(Slow):
        def start(self, launch: Any) -> float | None:
            raise KeyboardInterrupt  # the process ends here

    living = Living(tmp_path, executor=Dies())
    living.submit("a")
    with pytest.raises(KeyboardInterrupt):
        living.settle()
    again = Slow()
    living.restart(again)
    living.settle()
    assert set(again.started) == {("a", 1)}, "told perhaps twice, it starts it once"
    assert living.status("a") == "running"


def test_what_cannot_be_started_has_failed_and_says_why(tmp_path: Path) -> None:
    class Refuses(Slow):
        def start(self, launch: Any) -> float | None:
            raise LedgerError("node p-0", "does not answer")

    living = Living(tmp_path, executor=Refuses())
    living.submit("a")
    living.settle()
    history = living.service.explain("a")["history"]
    assert history[-1]["cause"]["text"] == "node p-0: does not answer"


def test_a_node_in_maintenance_gets_nothing_and_the_books_know(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.service.set_node("p-0", "maintenance")
    living.submit("a")
    living.submit("b")
    living.settle()
    assert [living.status(name) for name in ("a", "b")] == ["running", "pending"]
    states = [row["state"] for record, row in living.rows if record == "devices" and row["node"] == "p-0"]
    assert states == ["available"] * 4 + ["unavailable"] * 4
    with pytest.raises(RefusedError, match="is not there"):
        living.service.set_node("p-9", "failed")


def test_settings_are_read_again_while_running_and_after_a_restart(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.submit("a", 4)
    living.settle()
    changed = copy.deepcopy(SETTINGS)
    changed["tenants"][0]["limit"] = 4
    living.settings = type(living.settings).model_validate(changed)
    living.service.configure(living.settings)
    living.submit("b", 4)
    living.settle()
    assert living.status("b") == "pending"
    before = picture(living)
    living.restart()
    assert picture(living) == before
    assert len(living.log.of_kind("configured")) == 2


def grown(settings: dict[str, Any]) -> dict[str, Any]:
    """A node more in the first pool, and a pool more."""
    more = copy.deepcopy(settings)
    more["pools"][0]["nodes"] += 1
    more["pools"].append({"name": "r", "nodes": 1, "devices": 4, "model": "A100"})
    return more


@pytest.mark.parametrize("by_restart", [False, True])
def test_nodes_may_be_added_but_not_taken_away(by_restart: bool, tmp_path: Path) -> None:
    settings = SETTINGS | {"pools": [*SETTINGS["pools"], {"name": "q", "nodes": 1, "devices": 4, "model": "A100"}]}
    living = Living(tmp_path, settings)
    living.configured_by_restart = by_restart
    for name in ("a", "b", "c", "d", "e", "f"):
        living.submit(name)
    living.settle()
    assert [living.status(name) for name in "abcdef"] == ["running"] * 3 + ["pending"] * 3
    living.now = 1010.0
    living.configure(parse_settings(grown(settings)))
    living.settle()
    assert [living.status(name) for name in "abcdef"] == ["running"] * 5 + ["pending"]
    devices = Counter((row["node"], row["ts"].timestamp()) for record, row in living.rows if record == "devices")
    assert devices == {("p-0", 1000): 4, ("p-1", 1000): 4, ("q-0", 1000): 4, ("p-2", 1010): 4, ("r-0", 1010): 4}
    assert [line["total"] for line in living.service.pools()] == [12, 4, 4]
    living.service.set_node("p-2", "failed")
    living.settle()
    before = picture(living)
    living.restart()
    assert picture(living) == before
    entries = list(living.log.entries())
    assert all(done.same for done in replays(entries, [e for e in entries if e.kind == "plan"]))
    living.configured_by_restart = False
    fewer, other = parse_settings(settings), grown(settings)
    other["pools"][0]["model"] = "H100"
    with pytest.raises(LedgerError, match=r"pools: node p-2 is missing\. Keep nodes as they were"):
        living.configure(fewer)
    with pytest.raises(LedgerError, match="node p-0 is described otherwise"):
        living.configure(parse_settings(other))
    living.settings = fewer
    with pytest.raises(LedgerError, match="node p-2 is missing"):
        living.restart()


TREE: dict[str, Any] = {
    **SETTINGS,
    "pools": [SETTINGS["pools"][0] | {"reserved": "20%", "reserved_for": {"tenants": ["speech"], "priority": 8}}],
    "tenants": [{"name": "vision", "guaranteed": 2}, {"name": "speech", "guaranteed": 2}],
    "queues": [
        {"name": "ml", "policy": "fair_share", "guaranteed": 4, "maximum": 6},
        {"name": "batch", "parent": "ml", "policy": "priority", "weight": 2},
        {"name": "chat", "parent": "ml"},
        {"name": "urgent", "priority": 5, "preempts": "all"},
    ],
    "policies": {"preempt_by_priority": "tenant"},
}
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("submit", "submit", "finish", "cancel", "hold", "release", "suspend", "resume"),
                *("step", "over", "node", "configure"),
            ]
        ),
        st.integers(0, 7),
        st.integers(0, 300),
    ),
    max_size=25,
)


@settings(max_examples=25)
@given(OPERATIONS, st.sampled_from([SETTINGS, TREE]))
def test_after_any_history_a_restart_is_the_same_scheduler_and_replays_are_the_same_plans(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, int, int]], first: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    executor = Slow()
    living = Living(folder, first, executor)
    for what, which, seconds in operations:
        living.now += seconds
        name = f"j{which}"
        try:
            if what == "submit":
                tenant = "vision" if which % 3 else "speech"
                queue = ("batch", "batch", "chat", "urgent", "ml")[seconds % 5]
                asked = {"priority": which % 2, "time_limit": 100.0 * (1 + which), "queue": queue}
                living.submit(name, 1 + which % 4, tenant, **asked)
            elif what == "configure":
                living.configure(parse_settings(TREE if which % 2 else SETTINGS))
            elif what == "finish":
                living.service.finish(name, bool(which % 2), "tester")
            elif what == "cancel":
                living.service.cancel(name, "tester")
            elif what == "hold":
                living.service.hold(name, "tester")
            elif what == "release":
                living.service.release(name, "tester")
            elif what == "suspend":
                living.service.suspend(name, "tester")
            elif what == "resume":
                living.service.resume(name, "tester")
            elif what == "node":
                living.service.set_node(f"p-{which % 2}", "maintenance" if which % 3 else "available")
            elif what == "over" and executor.stopping:
                executor.over(*executor.stopping.pop(0))
            else:
                living.service.step()
        except RefusedError:
            continue
    before, undelivered = picture(living), living.service.outbox.waiting
    living.restart()
    assert picture(living) == before
    assert living.service.outbox.waiting == undelivered
    assert living.service.restored.core.cluster.free.min(initial=0) >= 0
    entries = list(living.log.entries())
    for done in replays(entries, [entry for entry in entries if entry.kind == "plan"]):
        assert done.recorded == done.again
    living.log.close()


def test_a_snapshot_replays_the_plans_somewhere_else(tmp_path: Path) -> None:
    living = Living(tmp_path)
    for name in ("a", "b", "c"):
        living.submit(name)
    living.settle()
    count = write_snapshot(living.log.entries(), tmp_path / "snapshot.jsonl")
    entries = list(read_snapshot(tmp_path / "snapshot.jsonl"))
    assert len(entries) == count == living.log.last
    (done,) = replays(entries, [entry for entry in entries if entry.kind == "plan"])
    assert done.same
    assert [action["do"] for action in done.again["actions"]] == ["start", "start"]
    (tmp_path / "snapshot.jsonl").write_text('{"kind": 1}\n')
    with pytest.raises(LedgerError, match="line 1: no entry of a log"):
        list(read_snapshot(tmp_path / "snapshot.jsonl"))


@pytest.mark.parametrize("change", [
    *({"job_id": name} for name in ("a\nb", "a\0b", "\x1b[2J", "\ud800", "x" * 1001)), {"tenant": "\ud800"},
    {"project": "x" * 1001}, {"request": {"models": ["\ud800"]}}, {"payload": {"a": float("nan")}},
    *({"request": {"devices": number}} for number in (-1, 10**6, 10**30)), {"request": {"units": 10**12}},
    {"request": {"devices": 0}, "max_replicas": 10**9}, {"request": {"memory_bytes": -1}}, {"priority": 10**30},
    *({name: -1.0} for name in ("time_limit", "wait_bound", "checkpoint_seconds", "lease_seconds")),
    {"time_limit": 0.0}, {"time_limit": 1e300}, {"after": ["nobody"]}, {"job_id": "self", "after": ["self"]},
])  # fmt: skip
def test_a_job_that_no_cluster_can_hold_is_refused_and_harms_no_other(tmp_path: Path, change: dict[str, Any]) -> None:
    """Neither the next one, nor the scheduler that reads the log again."""
    living = Living(tmp_path)
    with pytest.raises(RefusedError):
        living.submit(**({"job_id": "bad", "gpus": 1} | change))
    living.restart()
    living.submit("good", 4)
    living.settle()
    assert living.status("good") == "running"


def test_a_snapshot_that_lacks_an_entry_is_refused_in_one_line_or_replays(tmp_path: Path) -> None:
    living = Living(tmp_path)
    for name in ("a", "b", "c"):
        living.submit(name)
    living.settle()
    entries = list(living.log.entries())
    refused = 0
    for lost in range(1, len(entries)):
        some = entries[:lost] + entries[lost + 1 :]
        try:
            list(replays(some, [entry for entry in some if entry.kind == "plan"]))
        except LedgerError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused


def test_metrics_are_the_same_for_prometheus_and_sql(tmp_path: Path) -> None:
    living = Living(tmp_path)
    for name in ("a", "b", "c"):
        living.submit(name)
    living.settle()
    living.now = 1700.0
    living.settle()
    series = living.service.measured(lambda service: service.series())
    text = prometheus_text(series).decode()
    assert 'gpuledger_scheduler_oldest_waiting_seconds{queue="batch"} 700.0' in text
    assert 'gpuledger_scheduler_wait_bound_violations_total{cause="InsufficientCapacity",queue="batch"} 1.0' in text
    assert 'gpuledger_scheduler_tenant_held_gpus{pool="",tenant="vision"} 8.0' in text
    assert "gpuledger_scheduler_utilization_ratio 1.0" in text
    for_sql = rows(series, "c", living.now, 60.0)
    assert len(for_sql) == len(series)
    found = {(row["service"], row["tenant"], row["metric"], row["quantile"]): row["value"] for row in for_sql}
    assert found["scheduler/batch", "", 'pending_jobs{cause="InsufficientCapacity"}', None] == 1
    assert found["scheduler/batch", "", "wait_seconds", 0.5] == 0
    keys = [(row["service"], row["tenant"], row["metric"], row["quantile"]) for row in for_sql]
    assert len(set(keys)) == len(keys)


def test_plans_are_written_with_what_was_decided(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.submit("a")
    living.settle()
    (entry,) = living.log.of_kind("plan")
    (action,) = entry.body["actions"]
    assert action["grants"] == [plain(grant) for grant in living.service.book.jobs["a"].grants]
    assert action["decision_id"] == living.service.book.jobs["a"].decision_id != ""


def test_what_to_move_to_make_room_is_proposed_and_nothing_is_moved(tmp_path: Path) -> None:
    living = Living(tmp_path)
    for name, gpus in (("a", 2), ("b", 2), ("c", 2)):
        living.submit(name, gpus)
    living.settle()
    living.service.cancel("b" if living.service.show("a")["nodes"] == living.service.show("b")["nodes"] else "c", "me")
    living.settle()
    left = [one["job_id"] for one in living.service.list()]
    assert len({living.service.show(name)["nodes"][0] for name in left}) == 2, "half of each node is held"
    living.submit("wide", 4)
    living.settle()
    found = living.service.room("wide")
    (move,) = found["moves"]
    assert move["job_id"] in left and move["from"] != move["to"]
    assert found["nodes"] == [move["from"]]
    assert living.service.room("wide") == found
    assert living.status("wide") == "pending"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"job_id": "train/2"}, "attempt 2 of 'train'"),
        ({"job_id": "a/../b"}, "a path to elsewhere"),
        ({"job_id": ".."}, "a path to elsewhere"),
        ({"service": "chat"}, "which the scheduler makes by itself"),
        ({"time_limit": 10**400}, "more than can be counted"),
        ({"request": {"devices": 1, "required_topology": -1}}, "less than nothing"),
        ({"request": {"devices": 1, "preferred_topology": 1 << 62}}, "more than any cluster has"),
        ({"request": {"devices": 10**400}}, "more than can be counted"),
    ],
)
def test_a_job_that_would_pass_for_another_or_cannot_be_counted_is_refused(
    more: dict[str, Any], says: str, tmp_path: Path
) -> None:
    living = Living(tmp_path)
    with pytest.raises(RefusedError, match=says):
        living.service.submit({"tenant": "vision", "queue": "batch", "request": {"devices": 1}} | more, "tester")
    living.submit("train/1", 1, project="llm/2026")
    living.submit("2026/train", 1, project="../shared")
    living.settle()
    living.restart()
    assert [living.status(name) for name in ("train/1", "2026/train")] == ["running", "running"]


def test_a_name_that_the_scheduler_chooses_is_nobodys_yet(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.submit("job-3", 1)
    unnamed = {"tenant": "vision", "queue": "batch", "request": {"devices": 1}}
    assert living.service.submit(unnamed, "tester")["job_id"] == "job-4"


def test_settings_that_cannot_be_applied_leave_no_trace_in_the_log(tmp_path: Path) -> None:
    living = Living(tmp_path)
    living.submit("a", 1)
    course = {"name": "course", "nodes": ["p-7"], "tenants": ["vision"]}
    course |= {"start": "2026-12-01T08:00Z", "end": "2026-12-01T18:00Z"}
    typo = parse_settings(SETTINGS | {"reservations": [course]})
    for _ in range(2):
        with pytest.raises(SettingsError, match="node p-7 is not there"):
            living.service.configure(typo)
        right, living.settings = living.settings, typo
        with pytest.raises(SettingsError, match="node p-7 is not there"):
            living.restart()
        living.settings = right
        living.open()
    living.settle()
    assert living.status("a") == "running"


def test_a_job_that_is_being_stopped_can_be_cancelled_and_does_not_come_back(tmp_path: Path) -> None:
    living = Living(tmp_path, executor=Slow())
    living.submit("gives-way", 4, tenant="speech")
    living.submit("gives-way-too", 4, tenant="speech")
    living.settle()
    living.submit("after", 1, after=["gives-way"])
    living.submit("entitled", 4)
    living.service.suspend("gives-way", "ada")
    living.service.resume("gives-way", "ada")
    living.settle()
    assert living.service.cancel("gives-way", "ada")["status"] == "stopping"
    with pytest.raises(RefusedError, match=r"is stopping already \(cancelled\)"):
        living.service.cancel("gives-way", "ada")
    before = picture(living)
    living.restart(living.executor)
    assert picture(living) == before
    assert isinstance(living.executor, Slow)
    living.executor.over("gives-way", 1)
    living.settle()
    assert living.service.explain("gives-way")["status"] == "cancelled"
    assert living.events()[-2:] == [("gives-way", "cancelled"), ("entitled", "started")]
    assert living.service.show("after")["reason"] == "DependencyFailed"
    assert all(done.same for done in replays(list(living.log.entries()), living.log.of_kind("plan")))
