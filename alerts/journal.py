"""Stores alert states in the warehouse: first the transitions, then one row of alert_runs, which makes them visible and
moves the watermark. A kill between the two leaves invisible rows, and the same instants are evaluated again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from alerts.state import Alert, State
from warehouse.store import Store, read_sql

if TYPE_CHECKING:
    import pyarrow as pa


NOTHING_YET = datetime.fromtimestamp(0, UTC)
"""The watermark of a run before the first fact."""


@dataclass(frozen=True)
class Run:
    """An evaluation to be written: its number and how far it went."""

    run: int
    started_at: datetime
    finished_at: datetime
    evaluated_until: datetime
    evaluations: int
    failed: int
    instances: int
    rules: str


@dataclass(frozen=True)
class Transition:
    """A state with its rendered texts. labels: all of them, including alertname, severity and owner."""

    alert: Alert
    severity: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def last_run(store: Store) -> tuple[int, datetime | None, str] | None:
    """The newest run's number, the watermark (None: there was no fact yet) and the version of its rules; None before
    the first."""
    rows = store.rows(read_sql(__file__, "last_run"))
    if not rows:
        return None
    until = rows[0]["evaluated_until"]
    return rows[0]["run"], None if until == NOTHING_YET else until, rows[0]["rules"]


def active_alerts(store: Store) -> dict[str, dict[str, Alert]]:
    """Pending and firing instances, by rule and fingerprint."""
    found: dict[str, dict[str, Alert]] = {}
    for row in store.rows(read_sql(__file__, "active_alerts")):
        alert = alert_of(row)
        found.setdefault(alert.rule, {})[alert.fingerprint] = alert
    return found


def same_evidence(one: Alert, other: Alert) -> bool:
    """Whether both have the same evidence, as stored."""
    return (one.value, _json(one.evidence)) == (other.value, _json(other.evidence))


def alert_of(row: Mapping[str, Any]) -> Alert:
    """A row of `alerts` or `alert_history` as an Alert."""
    return Alert(
        rule=row["rule"],
        fingerprint=row["fingerprint"],
        state=State(row["state"]),
        at=row["at"],
        active_at=row["active_at"],
        labels=json.loads(row["labels"]),
        value=row["value"],
        evidence=json.loads(row["evidence"]),
        fired_at=row["fired_at"],
        keep_firing_since=row["keep_firing_since"],
        resolved_at=row["resolved_at"],
    )


def write(store: Store, run: Run, transitions: Sequence[Transition], anew: Sequence[Transition] = ()) -> None:
    """Makes a run's transitions visible, all or none. anew: alerts that go on firing, as they are at their `at`."""
    if transitions:
        store.insert("alert_transitions", _table(run.run, transitions))
    store.command(read_sql(__file__, "write_run"), {**vars(run), "transitions": len(transitions)})
    if anew:
        names = ("rule", "fingerprint", "active_at", "at", "value", "labels", "evidence", "annotations")
        store.insert("alert_evidence", _table(run.run, anew).select(names))


def _table(run: int, transitions: Sequence[Transition]) -> pa.Table:
    import pyarrow as pa

    alerts = [one.alert for one in transitions]
    times = pa.timestamp("ms", "UTC")
    return pa.table(
        {
            "run": pa.array([run] * len(alerts), pa.uint64()),
            "rule": [alert.rule for alert in alerts],
            "fingerprint": [alert.fingerprint for alert in alerts],
            "at": pa.array([alert.at for alert in alerts], times),
            "state": [alert.state.value for alert in alerts],
            "severity": [one.severity for one in transitions],
            "active_at": pa.array([alert.active_at for alert in alerts], times),
            "fired_at": pa.array([alert.fired_at for alert in alerts], times),
            "keep_firing_since": pa.array([alert.keep_firing_since for alert in alerts], times),
            "resolved_at": pa.array([alert.resolved_at for alert in alerts], times),
            "value": pa.array([alert.value for alert in alerts], pa.float64()),
            "labels": [_json(one.labels) for one in transitions],
            "evidence": [_json(alert.evidence) for alert in alerts],
            "annotations": [_json(one.annotations) for one in transitions],
        }
    )


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
