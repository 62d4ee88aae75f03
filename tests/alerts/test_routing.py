"""Routing is a pure function: who is told of what, when again, and why not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.deliver import in_language
from alerts.errors import AlertError
from alerts.hours import Hours
from alerts.matchers import fits
from alerts.routing import (
    Attempt,
    Log,
    Notification,
    Routing,
    Silence,
    deliveries,
    held_back,
    linked,
    load_routing,
    next_attempt,
)
from alerts.state import State
from tests.alerts.facts import NOON, ago
from tests.draws import drawn_seed

RECEIVERS = {
    "hook": {"webhook": {"url": "http://localhost/"}},
    "chat": {"slack": {"url": {"env": "SLACK"}}},
    "am": {"alertmanager": {"urls": ["http://a", "http://b"]}},
}


def routing(*routes: dict[str, Any], **more: Any) -> Routing:
    return Routing.model_validate({"receivers": RECEIVERS, "routes": list(routes), **more})


def alert(fingerprint: str = "f", state: str = "firing", active: float = 10, **labels: str) -> Notification:
    over = ago(1) if state == "resolved" else None
    reported = {"alertname": "rule", "severity": "warning", **labels}
    return Notification(
        reported["alertname"], fingerprint, State(state), ago(active), over, 1.0, reported, {"summary": "it is"}, NOON
    )


def due(alerts: list[Notification], route: Routing, log: Log | None = None, now: Any = NOON, **more: Any) -> list[str]:
    """`target fingerprint kind`, with the attempt if it is not the first, and `again` for reminders."""
    return [
        f"{one.target} {one.alert.fingerprint} {one.alert.kind}"
        + (f" attempt {one.attempt}" if one.attempt > 1 else "")
        + (" again" if one.again else "")
        for one in deliveries(alerts, route, more.get("silences", []), log or {}, now)
    ]


def attempt(minutes: float, kind: str = "firing", outcome: str = "sent", number: int = 1, **more: Any) -> Attempt:
    more = {"reported": outcome == "sent", **more}
    return Attempt(ago(minutes), more.pop("active_at", ago(10)), kind, number, outcome, **more)  # type: ignore[arg-type]


def test_the_first_route_that_fits_counts_unless_it_continues() -> None:
    routes = [
        {"match": {"severity": "critical"}, "receivers": ["chat"]},
        {"match": {"tenant": "phys*"}, "receivers": ["hook"], "continue": True},
        {"receivers": ["am"]},
    ]
    am = ["am/alertmanager/0 f firing", "am/alertmanager/1 f firing"]
    assert due([alert(severity="critical", tenant="physics")], routing(*routes)) == ["chat/slack f firing"]
    assert due([alert(tenant="physics")], routing(*routes)) == ["hook/webhook f firing", *am]
    assert due([alert(tenant="vision")], routing(*routes)) == am


def test_each_of_several_alertmanagers_is_a_target_of_its_own() -> None:
    log = {("am/alertmanager/0", "f"): attempt(0)}
    assert due([alert()], routing({"receivers": ["am"]}), log) == ["am/alertmanager/1 f firing"]


def test_a_target_that_knows_is_reminded_after_the_resend_interval() -> None:
    route = routing({"receivers": ["hook"], "resend": "1h"})
    assert due([alert(active=90)], route, {("hook/webhook", "f"): attempt(59, active_at=ago(90))}) == []
    assert due([alert(active=90)], route, {("hook/webhook", "f"): attempt(60, active_at=ago(90))}) == [
        "hook/webhook f firing again"
    ]


def test_an_alertmanager_is_reminded_every_minute_whatever_the_route_says() -> None:
    log = {(f"am/alertmanager/{n}", "f"): attempt(1) for n in (0, 1)}
    assert len(due([alert()], routing({"receivers": ["am"], "resend": "4h"}), log)) == 2


def test_a_failure_is_tried_again_when_it_is_due_and_counted() -> None:
    log = {("hook/webhook", "f"): attempt(1, outcome="failed", number=2, next_attempt_at=NOON)}
    route = routing({"receivers": ["hook"]})
    assert due([alert()], route, log, NOON - timedelta(seconds=1)) == []
    assert due([alert()], route, log) == ["hook/webhook f firing attempt 3"]


def test_the_end_is_told_once_to_whom_the_beginning_was() -> None:
    route = routing({"receivers": ["hook"]})
    over = alert(state="resolved")
    assert due([over], route, {("hook/webhook", "f"): attempt(5)}) == ["hook/webhook f resolved"]
    assert due([over], route, {("hook/webhook", "f"): attempt(1, "resolved")}) == []


def test_nobody_is_told_of_the_end_of_what_they_were_never_told_of() -> None:
    """It came and went between two looks, was silenced or inhibited until its end, or could not be delivered."""
    route, over = routing({"receivers": ["hook"]}), alert(state="resolved")
    assert due([over], route) == []
    failed = attempt(5, outcome="failed", number=3, next_attempt_at=ago(1))
    assert due([over], route, {("hook/webhook", "f"): failed}) == []
    assert due([over], route, {("hook/webhook", "f"): attempt(20, active_at=ago(60))}) == []
    reminder = attempt(5, outcome="failed", number=2, reported=True)
    assert due([over], route, {("hook/webhook", "f"): reminder}) == ["hook/webhook f resolved"]


def test_an_end_that_could_not_be_told_is_told_again_though_silenced() -> None:
    route, over = routing({"receivers": ["hook"]}), alert(state="resolved", node="n1")
    log = {("hook/webhook", "f"): attempt(5, "resolved", "failed", reported=True, next_attempt_at=NOON)}
    assert due([over], route, log, silences=[silence(node="n1")]) == ["hook/webhook f resolved attempt 2"]


def test_an_alertmanager_keeps_what_it_knows_while_it_is_silenced_or_its_route_is_closed() -> None:
    """What it is not told of for a while it takes for over, and says so."""
    office = {"from": "09:00", "to": "10:00"}
    log = {("am/alertmanager/0", "f"): attempt(2)}
    again = ["am/alertmanager/0 f firing again"]
    log[("hook/webhook", "f")] = attempt(9000)
    always = routing({"receivers": ["am", "hook"]})
    assert due([alert(node="n1")], always, log, silences=[silence(node="n1")]) == again, "nobody else is reminded"
    closed = routing({"receivers": ["am", "hook"], "hours": "office"}, hours={"office": office})
    assert due([alert()], closed, log) == again


@pytest.mark.parametrize(
    "last",
    [
        None,
        attempt(5, outcome="failed", number=3, next_attempt_at=ago(1)),
        attempt(20, active_at=ago(60)),
        attempt(20, "resolved", active_at=ago(60)),
    ],
    ids=["never tried", "never reached", "knows the one before", "knows the end of the one before"],
)
def test_an_alertmanager_hears_nothing_of_what_was_quiet_from_its_beginning_on(
    last: Attempt | None,
) -> None:
    log = {("am/alertmanager/0", "f"): last} if last else {}
    assert due([alert(node="n1")], routing({"receivers": ["am"]}), log, silences=[silence(node="n1")]) == []
    closed = routing({"receivers": ["am"], "hours": "office"}, hours={"office": {"from": "09:00", "to": "10:00"}})
    assert due([alert()], closed, log) == []


def test_a_second_occurrence_is_told_anew() -> None:
    log = {("hook/webhook", "f"): attempt(20, "resolved", active_at=ago(60))}
    assert due([alert()], routing({"receivers": ["hook"]}), log) == ["hook/webhook f firing"]


@pytest.mark.parametrize(
    ("number", "outcome", "reported"),
    [(2, "failed", False), (3, "failed", True), (1, "refused", True), (1, "sent", False)],
)
def test_the_fallback_is_told_where_a_receiver_cannot_be_reached(number: int, outcome: str, reported: bool) -> None:
    log = {("hook/webhook", "f"): attempt(1, outcome=outcome, number=number, next_attempt_at=NOON + timedelta(hours=1))}
    route = routing({"receivers": ["hook"], "fallback": ["chat"]})
    assert due([alert()], route, log) == (["chat/slack f firing"] if reported else [])


def test_the_fallback_waits_while_one_of_several_alertmanagers_answers() -> None:
    route = routing({"receivers": ["am"], "fallback": ["chat"]})
    down = attempt(0, outcome="failed", number=9, next_attempt_at=NOON + timedelta(hours=1))
    assert due([alert()], route, {("am/alertmanager/0", "f"): down, ("am/alertmanager/1", "f"): attempt(0)}) == []
    both = {("am/alertmanager/0", "f"): down, ("am/alertmanager/1", "f"): down}
    assert due([alert()], route, both) == ["chat/slack f firing"]


def test_a_fallback_that_was_told_learns_of_the_end_though_the_receiver_answers_again() -> None:
    route = routing({"receivers": ["hook"], "fallback": ["chat"]})
    log = {("hook/webhook", "f"): attempt(1, number=4), ("chat/slack", "f"): attempt(5)}
    assert due([alert()], route, log) == []
    over = alert(state="resolved")
    assert due([over], route, log) == ["hook/webhook f resolved", "chat/slack f resolved"]
    log[("chat/slack", "f")] = attempt(0, "resolved", reported=True)
    assert due([over], route, log) == ["hook/webhook f resolved"]
    assert due([over], route, {("hook/webhook", "f"): attempt(1)}) == ["hook/webhook f resolved"], "chat was not told"


@pytest.mark.parametrize("other", [{"receivers": ["hook"]}, {"match": {"severity": "critical"}, "receivers": ["am"]}])
def test_who_was_told_learns_of_the_end_though_no_route_leads_there_any_more(other: dict[str, Any]) -> None:
    """The routing file was changed while the alert fired."""
    log = {("chat/slack", "f"): attempt(5), ("am/alertmanager/0", "f"): attempt(5, active_at=ago(60))}
    assert due([alert()], routing(other), log) == (["hook/webhook f firing"] if "match" not in other else [])
    over = alert(state="resolved", node="n1")
    assert due([over], routing(other), log, silences=[silence(node="n1")]) == ["chat/slack f resolved"]
    log[("chat/slack", "f")] = attempt(1, "resolved", "failed", reported=True, next_attempt_at=NOON)
    assert due([over], routing(other), log) == ["chat/slack f resolved attempt 2"]
    log[("chat/slack", "f")] = attempt(1, "resolved", reported=True)
    assert due([over], routing(other), log) == []
    log[("gone/webhook", "f")] = attempt(5)
    log[("chat/webhook", "f")] = attempt(5)
    assert due([over], routing(other), log) == [], "the receiver, or its way, is not in the file any more"


def test_an_end_that_waits_for_the_hours_of_its_route_does_so_for_the_fallback_too() -> None:
    office = {"from": "09:00", "to": "10:00"}
    route = routing({"receivers": ["hook"], "fallback": ["chat"], "hours": "office"}, hours={"office": office})
    log = {("hook/webhook", "f"): attempt(5), ("chat/slack", "f"): attempt(5)}
    over = alert(state="resolved")
    assert due([over], route, log) == []
    assert due([over], route, log, now=NOON + timedelta(hours=21)) == [
        "hook/webhook f resolved",
        "chat/slack f resolved",
    ]


def test_outside_its_hours_a_route_waits_and_what_still_fires_is_told_when_they_begin() -> None:
    office = {"timezone": "Europe/Berlin", "days": ["mon", "tue"], "from": "09:00", "to": "17:00"}
    route = routing({"receivers": ["hook"], "hours": "office"}, {"receivers": ["chat"]}, hours={"office": office})
    monday = NOON - timedelta(days=1)  # 14:00 in Berlin
    assert due([alert()], route, now=monday.replace(hour=6, minute=59)) == []  # and no other route takes it
    assert due([alert()], route, now=monday.replace(hour=7)) == ["hook/webhook f firing"]
    assert due([alert()], route, now=monday.replace(hour=15)) == []
    assert due([alert()], route, now=NOON + timedelta(days=1)) == []


def test_an_end_outside_the_hours_is_told_when_they_begin_to_those_who_know_of_the_beginning() -> None:
    office = {"days": ["mon", "tue", "wed", "thu", "fri"], "from": "09:00", "to": "18:00"}
    route = routing({"receivers": ["hook"], "hours": "office"}, hours={"office": office})
    friday = NOON + timedelta(days=3, hours=6)
    over = [replace(alert(one, "resolved"), resolved_at=friday, run_at=friday) for one in ("reported", "unreported")]
    log = {("hook/webhook", "reported"): attempt(0)}
    assert due(over, route, log, now=friday + timedelta(hours=1)) == []
    assert due(over, route, log, now=friday + timedelta(days=2, hours=15)) == ["hook/webhook reported resolved"]


@pytest.mark.parametrize(
    ("hours", "at", "is_open"),
    [
        ({"from": "22:00", "to": "06:00", "days": ["fri"]}, "2026-10-09 22:00", True),
        ({"from": "22:00", "to": "06:00", "days": ["fri"]}, "2026-10-10 05:59", True),  # belongs to Friday
        ({"from": "22:00", "to": "06:00", "days": ["fri"]}, "2026-10-10 22:00", False),
        ({"from": "22:00", "to": "06:00", "days": ["fri"]}, "2026-10-09 05:00", False),
        ({}, "2026-10-09 23:59", True),
        ({"timezone": "Asia/Kolkata", "from": "09:00", "to": "10:00"}, "2026-10-09 03:30", True),
        ({"timezone": "Asia/Kolkata", "from": "09:00", "to": "10:00"}, "2026-10-09 04:30", False),
    ],
)
def test_hours_are_those_of_the_clock_on_the_wall(hours: dict[str, Any], at: str, is_open: bool) -> None:
    from datetime import datetime

    assert Hours.model_validate(hours).open_at(datetime.fromisoformat(at + "+00:00")) is is_open


def silence(minutes_left: float = 60, **matchers: str) -> Silence:
    return Silence("s1", {k: (v,) for k, v in matchers.items()}, ago(60), ago(-minutes_left), "ann", "maintenance")


def test_a_silenced_alert_is_not_told_and_is_when_the_silence_ends() -> None:
    route, silences_ = routing({"receivers": ["hook"]}), [silence(5, node="n1")]
    assert due([alert(node="n1"), alert("g", node="n2")], route, silences=silences_) == ["hook/webhook g firing"]
    later = NOON + timedelta(minutes=5)
    assert due([alert(node="n1")], route, now=later, silences=silences_) == ["hook/webhook f firing"]


def test_the_end_of_what_a_target_knows_is_told_though_silenced() -> None:
    route, silences_ = routing({"receivers": ["hook"]}), [silence(node="n1")]
    over = alert(state="resolved", node="n1")
    assert due([over], route, {("hook/webhook", "f"): attempt(5)}, silences=silences_) == ["hook/webhook f resolved"]
    assert due([over], route, silences=silences_) == []


def test_a_node_that_is_down_keeps_its_devices_quiet_and_no_others() -> None:
    node = alert("n", alertname="node-unavailable", cluster="c", node="n1")
    one = alert("a", alertname="device-unavailable", cluster="c", node="n1")
    other = alert("b", alertname="device-unavailable", cluster="c", node="n2")
    assert held_back([node, one, other], Routing(), [], NOON) == {"a": "inhibited by node-unavailable"}
    over = replace(node, state=State.resolved)
    assert held_back([over, one, other], Routing(), [], NOON) == {}


def test_of_the_ladder_only_the_highest_rung_is_told() -> None:
    rungs = ("idle-holder-notice", "idle-holder", "idle-holder-reclaim")
    ladder = [alert(name, alertname=name, cluster="c", allocation_id="j") for name in rungs]
    assert set(held_back(ladder, Routing(), [], NOON)) == set(rungs[:2])


def test_of_a_budget_that_is_spent_nothing_else_is_told() -> None:
    def reached(percent: str, of: str = "actual", **other: str) -> Notification:
        of_budget = {"alertname": "budget-threshold", "tenant": "t", "project": "", "month": "2026-10"} | other
        return alert(f"{percent} {of} {of_budget['tenant']}", percent=percent, of=of, **of_budget)

    below = [reached("80"), reached("5"), reached("99.5"), reached("100", "forecast"), reached("80", "forecast")]
    others = [reached("100"), reached("120"), reached("120", "forecast"), reached("80", tenant="u")]
    assert held_back([*below, *others], Routing(), [], NOON) == {
        one.fingerprint: "inhibited by budget-threshold" for one in below
    }
    assert held_back([*below, others[1]], Routing(), [], NOON) == {}


def test_nothing_inhibits_itself() -> None:
    own = {"source": {"severity": "*"}, "target": {"severity": "*"}}
    assert held_back([alert("a"), alert("b")], routing({"receivers": ["hook"]}, inhibit=[own]), [], NOON) == {}


@given(st.integers(1, 60), st.booleans(), st.floats(0, 1))
def test_attempts_are_further_and_further_apart_and_never_more_than_a_quarter_of_an_hour_and_a_tenth(
    number: int, refused: bool, luck: float
) -> None:
    wait = (next_attempt(NOON, number, refused, luck) - NOON).total_seconds()
    assert 13.5 <= wait <= 990
    assert wait >= 0.9 * min(900, 15 * 2 ** (number - 1)) or refused
    assert next_attempt(NOON, number + 1, refused, luck) >= next_attempt(NOON, number, refused, luck)


@pytest.mark.parametrize(
    ("match", "labels", "expected"),
    [
        ({"a": ("x*",)}, {"a": "xy"}, True),
        ({"a": ("x*", "z")}, {"a": "z"}, True),
        ({"a": ("!x*",)}, {"a": "xy"}, False),
        ({"a": ("!x*",)}, {}, True),
        ({"a": ("",)}, {}, True),
        ({"a": ("?*",)}, {}, False),
        ({"a": ("x",), "b": ("y",)}, {"a": "x"}, False),
        ({}, {"a": "x"}, True),
        ({"a": ("physics",)}, {"a": "physics-lab"}, False),
    ],
)
def test_matchers(match: dict[str, tuple[str, ...]], labels: dict[str, str], expected: bool) -> None:
    assert fits(match, labels) is expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("routes: [{receivers: [nobody]}]", "no receiver 'nobody'"),
        ("receivers: {a: {webhook: {url: http://x}}}\nroutes: [{receivers: [a], hours: night}]", "no hours 'night'"),
        ("receivers: {a: {}}", "a receiver needs one of"),
        ("receivers: {a: {slack: {url: 'https://hooks.slack.com/x'}}}", "receivers.a.slack.url"),
        ("receivers: {a: {slack: {url: {env: A, file: /b}}}}", "one of them"),
        ("receivers: {a: {telegram: {}}}", "unknown key"),
        ("hours: {o: {from: 9}}", "hours.o.from"),
        ("hours: {o: {timezone: Mars/Base}}", "expected a time zone"),
        ("routes: [{receivers: []}]", "routes[0].receivers"),
        ("routes: [{match: physics, receivers: [a]}]", "expected labels with globs"),
        ("- a", "not a routing file"),
    ],
)
def test_a_routing_file_that_is_of_no_use_is_refused_naming_the_key(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "routing.yaml"
    path.write_text(text)
    with pytest.raises(AlertError) as error:
        load_routing(path)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_links_open_where_gpuledger_is_and_a_runbook_is_a_url_or_there() -> None:
    section, outside = (replace(alert(), annotations={"runbook": one}) for one in ("long-queue", "https://wiki/rule"))
    page = f"https://gpuledger.example.org/alerts?rule=rule&alert={alert().fingerprint}"

    def links(address: str) -> list[tuple[str, str | None]]:
        found = linked([alert(), section, outside], address)
        return [(one.link, one.annotations.get("runbook")) for one in found]

    assert links("https://gpuledger.example.org/") == [(page, page), (page, page), (page, "https://wiki/rule")]
    assert links("") == [("", None), ("", None), ("", "https://wiki/rule")]


def test_a_message_in_chinese_leads_to_the_page_in_chinese() -> None:
    """As found: the link of a mail in Chinese opened the page in the reader's last language, English at first."""
    (shown,) = linked([replace(alert(), annotations={"runbook": "long-queue", "summary": "late"})], "https://site.org")
    english, chinese = (in_language(shown, {}, code, "UTC") for code in ("en", "zh"))
    assert english.link == english.annotations["runbook"] == shown.link
    assert chinese.link == chinese.annotations["runbook"] == f"{shown.link}&lang=zh"
    assert chinese.annotations["summary"] == "late"
    assert in_language(alert(), {}, "zh", "UTC").link == ""


def a_routing_file(dice: random.Random, receivers: Sequence[str]) -> Routing:
    """Any that its author may write while alerts fire; a receiver may be gone."""
    named = [name for name in receivers if dice.random() < 0.9] or receivers[:1]

    def some() -> list[str]:
        return dice.sample(named, dice.randint(1, len(named)))

    routes: list[dict[str, Any]] = []
    for _ in range(dice.randint(1, 3)):
        route: dict[str, Any] = {"receivers": some(), "resend": dice.choice(["5m", "4h"])}
        route |= {"match": {"tenant": dice.choice(["a", "b"])}} if dice.random() < 0.3 else {}
        route |= {"fallback": some()} if dice.random() < 0.5 else {}
        route |= {"hours": dice.choice(["morning", "noon"])} if dice.random() < 0.3 else {}
        route |= {"continue": True} if dice.random() < 0.5 else {}
        routes.append(route)
    hours = {"morning": {"from": "00:00", "to": "12:10"}, "noon": {"from": "12:10", "to": "24:00"}}
    hooks = {name: {"webhook": {"url": "http://localhost/"}} for name in named}
    return Routing.model_validate({"receivers": hooks, "routes": routes, "hours": hours})


def test_in_any_history_whoever_was_notified_of_an_alert_learns_of_its_end_once() -> None:
    """Routing files that change, receivers that come and go, alerts that fire again; at last all can be reached."""
    dice = random.Random(drawn_seed())
    ends_seen = 0
    for _ in range(150):
        receivers, log = ["x", "y", "z"], dict[tuple[str, str], Attempt]()
        heard: dict[tuple[str, Any], list[str]] = {}
        fires = {"a": True, "b": True}
        since = dict.fromkeys(fires, NOON)
        file, away, steps = a_routing_file(dice, receivers), set[str](), dice.randint(4, 25)
        for step in range(steps + 40):
            now = NOON + timedelta(minutes=step)
            if step == steps:
                everyone = {name: {"webhook": {"url": "http://localhost/"}} for name in receivers}
                file = Routing.model_validate({"receivers": everyone, "routes": [{"receivers": ["x"]}]})
                away, fires = set(), dict.fromkeys(fires, False)
            elif step < steps:
                file = a_routing_file(dice, receivers) if dice.random() < 0.2 else file
                away = {name for name in receivers if dice.random() < 0.5} if dice.random() < 0.3 else away
                for name in fires:
                    if dice.random() < 0.1:
                        fires[name] = not fires[name]
                        since[name] = now if fires[name] else since[name]
            alerts = [
                replace(alert(name, "firing" if fires[name] else "resolved", tenant=name), active_at=since[name])
                for name in fires
            ]
            for one in deliveries(alerts, file, [], log, now):
                key = one.target, one.alert.fingerprint
                last = log.get(key)
                knew = last is not None and last.active_at == one.alert.active_at and last.reported
                arrives = one.target.partition("/")[0] not in away
                log[key] = Attempt(
                    now, one.alert.active_at, one.alert.kind, one.attempt, "sent" if arrives else "failed",
                    None if arrives else now + timedelta(minutes=1),
                    reported=knew or (arrives and one.alert.kind == "firing"),
                )  # fmt: skip
                if arrives:
                    heard.setdefault((one.target, (one.alert.fingerprint, one.alert.active_at)), []).append(
                        one.alert.kind
                    )
        for (target, (name, active_at)), kinds in heard.items():
            assert kinds[0] == "firing", (target, kinds)
            assert kinds.count("resolved") <= 1
            if active_at == since[name]:  # an occurrence that another followed is over without a word
                assert kinds[-1] == "resolved", (target, kinds)
                ends_seen += 1
    assert ends_seen > 100
