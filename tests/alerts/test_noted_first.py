"""What people do about alerts is in the audit before it is done: a kill in between leaves nothing done unnoted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from alerts.routing import Notification, Routing
from alerts.silences import acknowledge, add_silence, end_silence, silences
from alerts.slo.applied import apply_objectives, current_objectives
from alerts.slo.objectives import parse_objectives
from alerts.state import State
from alerts.telling import tell
from billing import audit
from tests.alerts.facts import NOON, ago
from warehouse.store import Store

LABELS = {"alertname": "idle-holder", "tenant": "physics"}
ALERT = Notification("idle-holder", "f1", State.firing, ago(30), None, None, LABELS, {}, NOON)


OBJECTIVES = {"objectives": [{"name": "wait", "kind": "queue_wait", "within": "30m", "target": "0.95"}]}


class KilledError(BaseException):
    """The process is gone."""


def killed(*_: object) -> None:
    raise KilledError


def routed(file: Path) -> Routing:
    return Routing.model_validate({"receivers": {"log": {"file": {"path": file}}}, "routes": [{"receivers": ["log"]}]})


def done(store: Store, file: Path) -> tuple[object, ...]:
    return silences(store, NOON, past=True), current_objectives(store), file.exists()


def test_what_is_not_in_the_audit_is_not_done(facts: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "log"
    there = add_silence(facts, {"node": "n1"}, ago(-60), "ann", "new racks", ago(10))
    acts: list[Callable[[], object]] = [
        lambda: add_silence(facts, {"node": "n2"}, ago(-60), "ann", "new racks", NOON),
        lambda: acknowledge(facts, "f1", ago(10), LABELS, "ann", "on it", NOON),
        lambda: end_silence(facts, there.id, "bob", NOON),
        lambda: tell(facts, ALERT, routed(file), [], "ann", "stop it", NOON),
        lambda: apply_objectives(facts, parse_objectives(OBJECTIVES), "ann", "promised", NOON),
    ]
    before = done(facts, file)
    for act in acts:
        with monkeypatch.context() as patched, pytest.raises(KilledError):
            patched.setattr(audit, "record", killed)
            act()
        assert done(facts, file) == before


def test_who_was_told_is_said_before_and_what_they_answered_after(facts: Store, tmp_path: Path) -> None:
    tell(facts, ALERT, routed(tmp_path / "log"), [], "ann", "stop it", NOON)
    tell(facts, ALERT, routed(tmp_path / "no folder" / "log"), [], "ann", "again", NOON)
    found = [(one["action"], one["reason"], one["inputs"]) for one in audit.history(facts, "alert.tell")]
    assert sorted(one[:2] for one in found) == [
        ("alert.tell", "again"), ("alert.tell", "stop it"), ("alert.tell.done", ""), ("alert.tell.done", ""),
    ]  # fmt: skip
    assert sorted("cannot be written" in inputs for action, _, inputs in found if action.endswith("done")) == [
        False, True,
    ]  # fmt: skip
