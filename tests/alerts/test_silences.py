"""Silences have an author and an end, can be ended early, and leave a trace."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from alerts.errors import AlertError
from alerts.silences import acknowledge, add_silence, end_silence, silences
from billing import audit
from tests.alerts.facts import NOON, ago
from warehouse.store import Store


def test_a_silence_is_in_force_until_its_end(facts: Store) -> None:
    added = add_silence(facts, {"node": ["n1", "n2*"]}, ago(-60), "ann", "new racks", NOON)
    (read,) = silences(facts, ago(-59))
    assert read == added
    assert (read.author, read.reason, read.matchers) == ("ann", "new racks", {"node": ("n1", "n2*")})
    assert silences(facts, ago(-60)) == []
    assert silences(facts, ago(-60), past=True) == [added]


def test_one_that_is_to_come_does_not_hold_yet(facts: Store) -> None:
    later = add_silence(facts, {"node": "n1"}, ago(-60), "ann", "new racks", NOON, starts_at=ago(-30))
    assert not later.covers({"node": "n1"}, NOON)
    assert later.covers({"node": "n1"}, ago(-30))


def test_it_can_be_ended_early_and_both_are_on_record(facts: Store) -> None:
    added = add_silence(facts, {"node": "n1"}, ago(-60), "ann", "new racks", ago(10))
    end_silence(facts, added.id, "bob", NOON)
    assert silences(facts, NOON) == []
    assert [(row["action"], row["actor"]) for row in audit.history(facts, "silence")] == [
        ("silence.add", "ann"),
        ("silence.end", "bob"),
    ]
    with pytest.raises(AlertError, match="is not active"):
        end_silence(facts, added.id, "bob", NOON)


def test_a_silence_about_whatever_has_a_label_is_one(facts: Store) -> None:
    for matchers in ({"node": "?*"}, {"node": "*", "queue": "train"}, {"tenant": ""}):
        assert add_silence(facts, matchers, ago(-60), "ann", "new racks", NOON)


@pytest.mark.parametrize(
    ("matchers", "end", "author", "reason", "says"),
    [
        ({}, ago(-60), "ann", "x", r"would silence everything\. Name labels, like alertname="),
        ({"node": "*"}, ago(-60), "ann", "x", r"would silence everything.*node=\?\* for all that have one"),
        ({"node": ["n1", "**"], "nosuch": "*"}, ago(-60), "ann", "x", "would silence everything"),
        ({"node": "n1"}, ago(-60), " ", "x", "author: is missing"),
        ({"node": "n1"}, ago(-60), "ann", " ", "reason: none is given"),
        ({"node": "n1"}, NOON, "ann", "x", "not after its start"),
        ({"node": "n1"}, ago(-367 * 1440), "ann", "x", "more than 366 days"),
        ({"node": 1}, ago(-60), "ann", "x", "globs are texts"),
    ],
)
def test_a_silence_about_everything_by_nobody_without_a_reason_or_an_end_is_refused(
    facts: Store, matchers: dict[str, Any], end: datetime, author: str, reason: str, says: str
) -> None:
    with pytest.raises(AlertError, match=says):
        add_silence(facts, matchers, end, author, reason, NOON)
    assert silences(facts, NOON) == []


def test_a_first_acknowledgement_counts_also_by_a_clock_that_is_behind(facts: Store) -> None:
    first, is_new = acknowledge(facts, "f2", ago(5), {"alertname": "idle"}, "ann", "mine", NOON)
    assert is_new
    assert acknowledge(facts, "f2", ago(5), {"alertname": "idle"}, "bob", "no, mine", ago(1)) == (first, False)
    again, is_new = acknowledge(facts, "f2", ago(-3), {"alertname": "idle"}, "bob", "anew", ago(-4))
    assert (again.author, is_new) == ("bob", True), "the next occurrence is another"
