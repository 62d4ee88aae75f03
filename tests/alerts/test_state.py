"""The state machine: pending before firing, unknown changes nothing, an end after keep_firing_for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.state import ACTIVE, Alert, Instance, State, changes_nothing, fingerprint, step

START = datetime(2026, 10, 6, 12, tzinfo=UTC)


def run(seen: str, wait: int = 0, keep: int = 0) -> list[Alert | None]:
    """States minute by minute; `x`: the condition holds, `.`: it does not, `?`: unknown."""
    alert: Alert | None = None
    states = []
    for minute, sign in enumerate(seen):
        holds = {"x": True, ".": False, "?": None}[sign]
        one = Instance("f", holds, float(minute), {"gpu": "0"}, {"minute": minute})
        after = step(alert, one, "rule", START + timedelta(minutes=minute), wait, keep)
        if changes_nothing(alert if alert is None or alert.state in ACTIVE else None, holds):
            assert after is alert
        alert = after
        states.append(alert)
    return states


def words(seen: str, wait: int = 0, keep: int = 0) -> str:
    """The states' initials; `-` before there is any."""
    return "".join("-" if alert is None else alert.state.value[0] for alert in run(seen, wait, keep))


@pytest.mark.parametrize(
    ("seen", "wait", "keep", "expected"),
    [
        (".x.", 0, 0, "-fr"),
        ("xxxx", 120, 0, "ppff"),
        ("xx.xxx", 120, 0, "ppippf"),  # a gap starts the wait anew
        ("xx?x", 120, 0, "pppf"),  # unknown neither ends the wait nor fires
        ("x??.", 0, 0, "fffr"),  # unknown does not resolve
        ("???", 0, 0, "---"),
        ("x...", 0, 120, "fffr"),
        ("x.x...", 0, 120, "fffffr"),  # it held again in between
        ("x.??.", 0, 120, "ffffr"),
        ("x.x", 0, 0, "frf"),
    ],
)
def test_states_follow_from_what_was_seen(seen: str, wait: int, keep: int, expected: str) -> None:
    assert words(seen, wait, keep) == expected


def test_nothing_new_is_the_very_same_object() -> None:
    states = run("xxx")
    assert states[0] is states[1] is states[2]


def test_an_occurrence_keeps_when_it_began_and_a_second_begins_anew() -> None:
    states = run("xxx.x", wait=60)
    fired, resolved, second = states[2], states[3], states[4]
    assert fired is not None and resolved is not None and second is not None
    assert (fired.active_at, fired.fired_at) == (START, START + timedelta(minutes=1))
    assert (resolved.active_at, resolved.resolved_at) == (START, START + timedelta(minutes=3))
    assert (second.active_at, second.fired_at, second.resolved_at) == (START + timedelta(minutes=4), None, None)


def test_the_value_is_that_of_the_firing_and_the_labels_those_of_the_start() -> None:
    alert = run("xxx", wait=120)[-1]
    assert alert is not None
    assert (alert.value, alert.evidence) == (2.0, {"minute": 2})


def test_a_fingerprint_depends_on_the_rule_and_the_identity_and_not_on_its_order() -> None:
    one = fingerprint("rule", [("node", "n1"), ("gpu", "0")])
    assert one == fingerprint("rule", [("gpu", "0"), ("node", "n1")])
    others = [("rule", [("node", "n1")]), ("rule2", [("gpu", "0"), ("node", "n1")]), ("rule", [("node", "n1gpu0")])]
    assert one not in {fingerprint(name, identity) for name, identity in others}
    assert fingerprint("r", [("a", "b"), ("c", "")]) != fingerprint("r", [("a", ""), ("c", "b")])


@given(st.text("x.?", max_size=40), st.sampled_from([0, 60, 180]), st.sampled_from([0, 60, 180]))
def test_it_fires_only_after_the_condition_held_for_so_long(seen: str, wait: int, keep: int) -> None:
    for minute, alert in enumerate(run(seen, wait, keep)):
        if alert is not None and alert.state is State.firing and alert.fired_at == START + timedelta(minutes=minute):
            since = round((alert.active_at - START).total_seconds() / 60)
            assert (minute - since) * 60 >= wait
            assert "." not in seen[since : minute + 1]
            assert seen[minute] == "x"
        if alert is not None and alert.state is State.resolved:
            assert alert.resolved_at is not None and alert.fired_at is not None
            assert alert.active_at <= alert.fired_at <= alert.resolved_at


@given(st.text("x.?", min_size=1, max_size=30), st.data())
def test_stopping_and_going_on_from_the_last_state_changes_nothing(seen: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(seen) - 1))
    whole = run(seen, 120, 60)
    alert = whole[cut]
    for minute in range(cut + 1, len(seen)):
        holds = {"x": True, ".": False, "?": None}[seen[minute]]
        at = START + timedelta(minutes=minute)
        alert = step(alert, Instance("f", holds, float(minute), {"gpu": "0"}, {"minute": minute}), "rule", at, 120, 60)
    assert alert == whole[-1]
