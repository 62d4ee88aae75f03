"""The states of an alert instance and the transitions between them: pure functions of data time.

    inactive ──holds──▶ pending ──for so long──▶ firing ──over, and keep_firing_for passed──▶ resolved
                          └──over──▶ inactive                                                   └──holds──▶ pending

Unknown (None) leaves everything as it is: it starts nothing, promotes nothing and resolves nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from warehouse.durations import span


class State(StrEnum):
    inactive = "inactive"
    pending = "pending"
    firing = "firing"
    resolved = "resolved"


ACTIVE = (State.pending, State.firing)


@dataclass(frozen=True, slots=True)
class Instance:
    """A row of a rule's query at an instant. holds: whether the condition is true; None: unknown."""

    fingerprint: str
    holds: bool | None
    value: float | None
    labels: Mapping[str, str]
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alert:
    """An instance in a state since `at`; the row of a transition.

    active_at:    since when the condition has held, in this occurrence.
    fired_at:     when it began to fire; None: it has not.
    keep_firing_since:  since when it only fires because of keep_firing_for.
    resolved_at:  None unless it is resolved.
    labels:       as of the start of the occurrence.
    value, evidence: as of the transition; while it fires, as of the last evaluation.
    """

    rule: str
    fingerprint: str
    state: State
    at: datetime
    active_at: datetime
    labels: Mapping[str, str]
    value: float | None
    evidence: Mapping[str, Any]
    fired_at: datetime | None = None
    keep_firing_since: datetime | None = None
    resolved_at: datetime | None = None


def fingerprint(rule: str, identity: Iterable[tuple[str, str]]) -> str:
    """16 hex digits that depend on the rule's name and the identity labels only."""
    text = "\x1f".join([rule, *[f"{name}\x1e{value}" for name, value in sorted(identity)]])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def step(before: Alert | None, seen: Instance, rule: str, at: datetime, wait: int, keep: int) -> Alert | None:
    """The instance's state at an instant; the same object if nothing changed."""
    active = before is not None and before.state in ACTIVE
    if seen.holds is None:
        return before
    if not seen.holds:
        return _ended(before, at, keep) if before is not None and active else before
    if before is None or not active:
        state, fired_at = (State.firing, at) if wait == 0 else (State.pending, None)
        return Alert(rule, seen.fingerprint, state, at, at, seen.labels, seen.value, seen.evidence, fired_at)
    if before.state is State.pending:
        return _fired(before, seen, at) if at - before.active_at >= span(wait) else before
    return replace(before, at=at, keep_firing_since=None) if before.keep_firing_since is not None else before


def _fired(alert: Alert, seen: Instance, at: datetime) -> Alert:
    return replace(alert, state=State.firing, at=at, fired_at=at, value=seen.value, evidence=seen.evidence)


def _ended(alert: Alert, at: datetime, keep: int) -> Alert:
    if alert.state is State.pending:
        return replace(alert, state=State.inactive, at=at)
    if keep and alert.keep_firing_since is None:
        return replace(alert, at=at, keep_firing_since=at)
    if alert.keep_firing_since is not None and at - alert.keep_firing_since < span(keep):
        return alert
    return replace(alert, state=State.resolved, at=at, keep_firing_since=None, resolved_at=at)


def changes_nothing(before: Alert | None, holds: bool | None) -> bool:
    """Whether `step` certainly changes nothing, so that it can be skipped."""
    if before is None:
        return not holds
    return holds is None or (holds and before.state is State.firing and before.keep_firing_since is None)


def missing_row(alert: Alert) -> Instance:
    """The instance of an alert for which the query no longer has a row: its condition is false."""
    return Instance(alert.fingerprint, False, None, alert.labels)
