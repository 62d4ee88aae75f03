"""Evaluation: instants from the watermark, states that survive, failures and missing data that are alerts."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from alerts import evaluate as engine
from alerts import journal
from alerts.evaluate import instants
from alerts.reading import alerts, history
from alerts.rule import Rule
from alerts.rule_files import load_rules
from alerts.state import State
from tests.alerts.facts import NOON, ago, put, served
from tests.alerts.rules import NEWEST, alive, evaluate_at, own_rules, put_value, rule, states
from warehouse.errors import StoreError
from warehouse.store import Store


def test_an_alert_is_pending_then_fires_then_resolves_each_as_a_row(facts: Store) -> None:
    for minutes, value in ((9, 5.0), (8, 11.0), (7, 12.0), (6, 13.0), (5, 2.0)):
        put_value(facts, minutes, value)
        evaluate_at(facts, minutes, rule(**{"for": "2m"}))
    reported = [(row["state"], row["at"], row["value"]) for row in reversed(history(facts))]
    assert reported == [("pending", ago(8), 11.0), ("firing", ago(6), 13.0), ("resolved", ago(5), 13.0)]
    (row,) = alerts(facts, NOON, states=("resolved",))
    assert row["labels"] == {
        "alertname": "too-high",
        "severity": "warning",
        "gpu": "g0",
        "tenant": "physics",
        "owner": "physics",
    }
    assert row["annotations"]["summary"] == "g0 is at 13"


def test_an_alert_that_fires_says_what_is_now_and_its_history_what_was(facts: Store) -> None:
    for minutes, value in ((9, 11.0), (8, 12.0), (7, 17.0)):
        put_value(facts, minutes, value)
        evaluate_at(facts, minutes)
    (row,) = alerts(facts, NOON)
    assert (row["at"], row["value"], row["annotations"]["summary"]) == (ago(9), 17.0, "g0 is at 17")
    assert [(one["state"], one["value"]) for one in history(facts)] == [("firing", 11.0)]
    put_value(facts, 6, 1.0)
    evaluate_at(facts, 6)
    (row,) = alerts(facts, NOON, states=("resolved",))
    assert row["value"] == 17.0, "what it said last"
    put_value(facts, 5, 13.0)
    evaluate_at(facts, 5)
    (row,) = alerts(facts, NOON)
    assert (row["value"], row["annotations"]["summary"]) == (13.0, "g0 is at 13"), "nothing of the occurrence before"


def test_an_alert_that_fires_is_worded_as_its_rule_is_now(facts: Store) -> None:
    """As found: a text that was corrected was not seen until the evidence changed. The rule is due once an hour."""
    put_value(facts, 120, 11.0)
    evaluate_at(facts, 120, rule(interval="1h"))
    put(facts, [alive(119)])
    evaluate_at(facts, 119, rule(interval="1h", summary="{{ labels.gpu }}: {{ value | number }}"))
    (row,) = alerts(facts, NOON)
    assert (row["at"], row["annotations"]["summary"]) == (ago(120), "g0: 11")
    put_value(facts, 60, 11.0)
    evaluate_at(facts, 60, rule(interval="1h", summary="{{ labels.gpu }} has {{ value | number }}"))
    (row,) = alerts(facts, NOON)
    assert row["annotations"]["summary"] == "g0 has 11"
    assert len(history(facts)) == 1


def test_a_rules_query_changes_nothing(facts: Store) -> None:
    put_value(facts, 9, 11.0)
    for minutes, sql in ((9, "DROP TABLE service_levels"), (8, "INSERT INTO service_levels (service) VALUES ('x')")):
        put(facts, [alive(minutes)])
        assert "READONLY" in evaluate_at(facts, minutes, rule(sql=sql)).problems["too-high"]
    assert facts.value("SELECT count() FROM service_levels") == 1


def test_a_run_that_was_missed_is_made_up_for_minute_by_minute(facts: Store) -> None:
    for minutes, value in ((9, 5.0), (8, 11.0), (7, 12.0), (6, 2.0), (5, 2.0)):
        put_value(facts, minutes, value)
        if minutes in (9, 5):
            report = evaluate_at(facts, minutes)
    assert states(report) == [("8", "firing"), ("6", "resolved")]


def test_evaluating_again_at_the_same_time_changes_nothing(facts: Store) -> None:
    put_value(facts, 9, 11.0)
    assert len(evaluate_at(facts, 9).transitions) == 1
    again = evaluate_at(facts, 9)
    assert (again.instants, again.transitions) == (0, [])


def test_a_restart_does_not_fire_again(facts: Store) -> None:
    for minutes in (9, 8, 7):
        put_value(facts, minutes, 11.0)
        with facts.another() as connection:  # nothing is kept but the store
            evaluate_at(connection, minutes)
    assert [row["state"] for row in history(facts)] == ["firing"]


def test_the_watermark_is_the_newest_fact_and_not_the_clock(facts: Store) -> None:
    put_value(facts, 60, 11.0)
    assert evaluate_at(facts, 0).until == ago(60)
    put(facts, [alive(58)])
    assert evaluate_at(facts, 0).until == ago(58)


def test_facts_of_the_future_do_not_move_the_watermark(facts: Store) -> None:
    put_value(facts, 9, 11.0)
    facts.command("INSERT INTO events (ts, allocation_id, event) VALUES ('2030-01-01 00:00:00', 'x', 'submitted')")
    assert evaluate_at(facts, 5).until == ago(9)


def test_unknown_neither_fires_nor_resolves(facts: Store) -> None:
    for minutes, value in ((9, None), (8, 11.0), (7, None), (6, None), (5, 3.0)):
        put_value(facts, minutes, value)
        evaluate_at(facts, minutes)
    assert [(row["state"], row["at"]) for row in reversed(history(facts))] == [("firing", ago(8)), ("resolved", ago(5))]


def test_rows_before_the_commit_are_not_seen_and_the_instants_are_evaluated_again(
    facts: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_value(facts, 9, 5.0)
    evaluate_at(facts, 9)
    put_value(facts, 8, 11.0)
    with monkeypatch.context() as broken:
        command = facts.command

        def cut(sql: str, *arguments: object, **more: object) -> None:
            if "INTO alert_runs" in sql:
                raise StoreError("store", "gone")
            command(sql, *arguments, **more)  # type: ignore[arg-type]

        broken.setattr(facts, "command", cut)
        with pytest.raises(StoreError):
            evaluate_at(facts, 8)
    assert facts.value("SELECT count() FROM alert_transitions") == 1
    assert history(facts) == []
    report = evaluate_at(facts, 8)
    assert states(report) == [("8", "firing")]
    assert len(history(facts)) == 1


def test_chunks_are_written_on_the_way(facts: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CHUNK", 5)
    put_value(facts, 30, 5.0)
    evaluate_at(facts, 30)
    put_value(facts, 8, 11.0)
    evaluate_at(facts, 8)
    assert facts.value("SELECT count() FROM alert_runs") == 1 + 22 // 5 + 1


def test_a_stop_keeps_what_was_done_and_the_next_run_carries_on(facts: Store) -> None:
    put_value(facts, 9, 5.0)
    evaluate_at(facts, 9)
    put_value(facts, 8, 11.0)
    stop = threading.Event()
    stop.set()
    assert evaluate_at(facts, 8, stop=stop).until == ago(9)
    assert states(evaluate_at(facts, 8)) == [("8", "firing")]


def test_a_query_that_fails_is_an_alert_and_leaves_its_rule_s_states_as_they_are(facts: Store) -> None:
    put_value(facts, 9, 11.0)
    evaluate_at(facts, 9, rule(), *own_rules())
    broken = rule(sql="SELECT nonsense FROM nowhere", query="broken.sql")
    put_value(facts, 8, 2.0)
    report = evaluate_at(facts, 8, broken, *own_rules())
    assert "nowhere" in report.problems["too-high"]
    firing = {(row["rule"], row["labels"].get("gpu", "")) for row in alerts(facts, NOON)}
    assert firing == {("too-high", "g0"), ("alert-evaluation-failed", "")}
    put_value(facts, 7, 2.0)
    evaluate_at(facts, 7, rule(), *own_rules())
    assert alerts(facts, NOON) == []


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT 'g0' AS gpu, 't' AS tenant", "no column value"),
        ("SELECT 'g0' AS gpu, 't' AS tenant, arrayJoin([1, 2]) AS value", "two rows of one identity (gpu=g0)"),
        ("SELECT toString(number) AS gpu, '' AS tenant, 1 AS value FROM numbers(10001)", "more than 10000"),
    ],
)
def test_rows_that_cannot_be_instances_are_a_failure_said_in_words(facts: Store, sql: str, problem: str) -> None:
    put_value(facts, 9, 1.0)
    report = evaluate_at(facts, 9, rule(sql=sql), *own_rules())
    assert problem in report.problems["too-high"]
    assert [row["rule"] for row in alerts(facts, NOON)] == ["alert-evaluation-failed"]


def test_facts_that_stopped_are_an_alert_of_each_rule_that_needs_them(facts: Store) -> None:
    needy = rule(needs={"service_levels": "1m"}, interval="3m")
    put_value(facts, 9, 11.0)
    evaluate_at(facts, 9, needy, *own_rules())
    put(facts, [alive(3)])
    report = evaluate_at(facts, 3, needy, *own_rules())
    assert report.problems["too-high"].startswith("no service_levels since 2026-10-06 11:51 UTC")
    assert {row["rule"] for row in alerts(facts, NOON)} == {"too-high", "alert-evaluation-failed"}


@pytest.mark.parametrize("kind", ["samples", "events", "devices", "service_levels", "metrics", "findings", "ledger"])
def test_a_kind_of_fact_that_this_site_never_had_is_no_failure(facts: Store, kind: str) -> None:
    """As found: a site with exporters alone got twelve critical alerts, `no events in 35 days`, with its first push."""
    put(facts, [("findings" if kind == "events" else "events", alive(3)[1] if kind != "events" else FINDING)])
    report = evaluate_at(facts, 3, rule(needs={kind: "5m"}))
    assert (report.instants, report.problems) == (1, {})


FINDING = {"ts": ago(3), "finding": "xid", "severity": "info", "message": "x"}


def test_a_failure_is_over_once_its_rule_waits_for_a_fact_that_never_came(facts: Store) -> None:
    put(facts, [alive(9)])
    evaluate_at(facts, 9, rule(sql="SELECT nothing"), *own_rules())
    assert [row["rule"] for row in alerts(facts, NOON)] == ["alert-evaluation-failed"]
    put(facts, [alive(8)])
    evaluate_at(facts, 8, rule(needs={"metrics": "5m"}), *own_rules())
    assert alerts(facts, NOON) == []


def test_a_fact_that_a_site_had_long_ago_and_has_no_more_is_a_failure(facts: Store) -> None:
    put(facts, [("events", alive(60 * 24 * 40)[1]), ("findings", FINDING)])
    assert evaluate_at(facts, 3, rule(needs={"events": "5m"})).problems == {"too-high": "no events in 35 days"}


def test_a_site_with_devices_alone_has_no_alert_of_the_engine(facts: Store) -> None:
    device = {"ts": ago(3), "cluster": "c", "node": "n", "device_id": "GPU-0", "model": "H100", "state": "available"}
    put(facts, [("devices", device)])
    report = evaluate_at(facts, 0, *load_rules())
    assert report.problems == {}
    assert [row["rule"] for row in alerts(facts, NOON)] == []


def test_a_store_to_which_nothing_comes_any_more_says_so_by_the_clock_and_is_well_again_after(facts: Store) -> None:
    rules = own_rules()
    evaluate_at(facts, 90, *rules, live=True)
    assert alerts(facts, NOON) == [], "what never began has not stopped"
    put(facts, [alive(80)])
    evaluate_at(facts, 79, *rules, live=True)
    assert alerts(facts, NOON) == []
    evaluate_at(facts, 51, *rules, live=True)
    assert alerts(facts, NOON) == []
    evaluate_at(facts, 50, *rules, live=True)
    assert [row["rule"] for row in alerts(facts, NOON)] == ["alert-data-stopped"]


def test_data_of_the_past_is_evaluated_to_its_end_and_its_end_is_said(facts: Store) -> None:
    """As found in the tutorial's store: of records from before 35 days the inventory alone counted, which is older."""
    device = {"ts": ago(5000), "cluster": "c", "node": "n", "device_id": "GPU-0", "model": "H100", "state": "available"}
    put(facts, [("devices", device)])
    put_value(facts, 9, 11.0)
    report = engine.evaluate(facts, [rule(), *own_rules()], NOON + timedelta(days=40))
    assert report.until == ago(9)
    found = {row["rule"]: row["annotations"]["summary"] for row in alerts(facts, NOON)}
    assert found.keys() == {"too-high", "alert-data-stopped"} and "11:51" in found["alert-data-stopped"]


def test_rule_files_that_are_of_no_use_are_an_alert(facts: Store) -> None:
    put(facts, [alive(3)])
    evaluate_at(facts, 3, *own_rules(), live=True, broken="x.yaml: condition: missing")
    (row,) = alerts(facts, NOON)
    assert "x.yaml: condition: missing" in row["annotations"]["summary"]
    evaluate_at(facts, 2, *own_rules(), live=True)
    assert alerts(facts, NOON) == []


def test_what_lies_too_far_back_is_skipped_and_said(facts: Store) -> None:
    put_value(facts, 5000, 1.0)
    evaluate_at(facts, 5000, rule(), *own_rules())
    put_value(facts, 9, 1.0)
    report = evaluate_at(facts, 9, rule(interval="1h"), *own_rules())
    assert "not evaluated from" in report.problems["*"]
    reported = [row["state"] for row in history(facts, "alert-evaluation-failed")]
    assert reported == ["resolved", "firing"]


def test_the_alerts_of_a_rule_that_was_removed_are_over(facts: Store) -> None:
    put_value(facts, 9, 11.0)
    evaluate_at(facts, 9)
    put_value(facts, 8, 11.0)
    evaluate_at(facts, 8, rule(name="another"))
    assert [row["rule"] for row in alerts(facts, NOON)] == ["another"]
    assert history(facts, "too-high")[0]["annotations"]["summary"] == "the rule too-high was removed"


def test_excluded_instances_never_alert_and_overrides_have_their_own_threshold(facts: Store) -> None:
    put_value(facts, 9, 11.0, "g0", "platform")
    put_value(facts, 9, 11.0, "g1", "physics")
    put_value(facts, 9, 11.0, "g2", "vision")
    own = rule(exclude=[{"tenant": "plat*"}], overrides=[{"match": {"tenant": "vision"}, "threshold": 20}])
    evaluate_at(facts, 9, own)
    assert [row["labels"]["gpu"] for row in alerts(facts, NOON)] == ["g1"]


def test_two_servers_at_once_do_no_harm(facts: Store) -> None:
    put_value(facts, 9, 1.0)
    evaluate_at(facts, 9)
    put_value(facts, 8, 11.0)
    threads = [threading.Thread(target=evaluate_at, args=(facts, 8)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row["state"] for row in history(facts)] == ["firing"]


def test_instants_lie_on_each_rule_s_own_grid() -> None:
    fast, slow = rule(interval="1m"), rule(name="slow", interval="5m", **{"for": "10m"})
    due = list(instants([fast, slow], NOON - timedelta(minutes=6), NOON))
    assert [at for at, rules in due if fast in rules] == [NOON - timedelta(minutes=n) for n in range(5, -1, -1)]
    assert [at for at, rules in due if slow in rules] == [NOON - timedelta(minutes=5), NOON]
    first = list(instants([fast, slow], None, NOON + timedelta(seconds=90)))
    assert [at for at, rules in first if slow in rules] == [NOON - timedelta(minutes=n) for n in (10, 5, 0)]
    assert [at for at, rules in first if fast in rules] == [NOON + timedelta(minutes=1)]


def test_the_journal_gives_back_what_it_was_given(facts: Store) -> None:
    put_value(facts, 9, 11.0)
    evaluate_at(facts, 9, rule(keep_firing_for="5m"))
    put_value(facts, 8, 1.0)
    (one,) = evaluate_at(facts, 8, rule(keep_firing_for="5m")).transitions
    (read,) = journal.active_alerts(facts)["too-high"].values()
    assert read.keep_firing_since == ago(8)
    assert {name: getattr(read, name) for name in ("state", "at", "active_at", "fired_at", "value")} == {
        name: getattr(one.alert, name) for name in ("state", "at", "active_at", "fired_at", "value")
    }


MOST = NEWEST.replace("argMax(s.value, ts)", "max(s.value)")
TOGETHER = """
SELECT metric, service AS gpu, argMax(s.value, ts) AS value, count() AS readings
FROM service_levels AS s
WHERE ts > {previous_at:DateTime64(3, 'UTC')} AND ts <= {at:DateTime64(3, 'UTC')} AND metric IN {metric:Array(String)}
GROUP BY metric, service
"""


def of_metrics(*names: str, sql: str = TOGETHER) -> list[Rule]:
    return [rule(name=f"of-{name}", sql=sql, parameters={"metric": name}, labels=[]) for name in names]


def test_rules_that_differ_in_one_text_share_a_query_and_each_gets_its_own_rows(
    facts: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MOST_TOGETHER", 2)
    rules = of_metrics("a", "b", "c", "1h")
    put(
        facts,
        [*served(9, "a", 11.0), *served(9, "b", 12.0, service="talk"), *served(9, "c", 1.0), *served(9, "1h", 13.0)],
    )
    questions = engine._questions([*rules, *of_metrics("a")], NOON)
    assert sorted(one.values for one in set(questions.values())) == [("a", "b"), ("c", "1h")]
    report = evaluate_at(facts, 9, *rules)
    reported = [(one.alert.rule, one.alert.labels["gpu"], one.alert.value) for one in report.transitions]
    assert sorted(reported) == [("of-1h", "chat", 13.0), ("of-a", "chat", 11.0), ("of-b", "talk", 12.0)]
    assert {tuple(one.alert.evidence) for one in report.transitions} == {("readings",)}
    put(facts, served(8, "a", 14.0))
    ended = evaluate_at(facts, 8, *rules).transitions
    assert sorted(one.alert.rule for one in ended if one.alert.state is State.resolved) == ["of-1h", "of-b"]


def test_rules_of_different_intervals_share_a_query_unless_it_looks_back_an_interval(facts: Store) -> None:
    """The number of half past eleven was told within the last hour, and not within the last minute."""
    put(facts, [*served(61, "m", 1.0), *served(30, "m", 12.0), *served(0, "m", 1.0)])
    minute, hour = (rule(name=name, interval=f"1{name[0]}", sql=MOST) for name in ("minute", "hour"))
    for rules in ((minute, hour), (hour, minute)):
        asked = set(engine._questions(rules, NOON).values())
        assert sorted(one.rule.name for one in asked) == ["hour", "minute"]
    reported = [(one.alert.rule, one.alert.value) for one in evaluate_at(facts, 0, minute, hour).transitions]
    assert reported == [("hour", 12.0)]
    same = MOST.replace("{previous_at:DateTime64(3, 'UTC')}", "toDateTime64(0, 3, 'UTC')")
    alike = [rule(name=one.name, interval=one.interval, sql=same) for one in (minute, hour)]
    assert len(set(engine._questions(alike, NOON).values())) == 1


def test_a_shared_query_that_fails_or_does_not_say_of_what_its_rows_are_fails_each_of_its_rules(facts: Store) -> None:
    put(facts, [*served(9, "a", 11.0), *served(9, "b", 12.0)])
    silent = evaluate_at(facts, 9, *of_metrics("a", "b", sql=TOGETHER.replace("SELECT metric,", "SELECT")))
    assert {name: "column metric says None" in reported for name, reported in silent.problems.items()} == {
        "of-a": True, "of-b": True,
    }  # fmt: skip
    put(facts, served(8, "a", 11.0))
    broken = evaluate_at(facts, 8, *of_metrics("a", "b", sql=TOGETHER.replace("service_levels", "nowhere")))
    assert set(broken.problems) == {"of-a", "of-b"}
    assert broken.transitions == []
