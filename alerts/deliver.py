"""Sends due notifications, with one thread per target, and records every attempt.

What is due follows from the states of alerts and the log of attempts, so there is no queue to lose. A kill between
sending and recording sends the same again, with the same fingerprint.
"""

from __future__ import annotations

import json
import math
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from alerts.refusals import report_refused
from alerts.routing import Attempt, Delivery, Log, Notification, Routing, deliveries, linked, next_attempt
from alerts.silences import silences
from alerts.speaking import Rules, rules_by_name, spoken
from alerts.state import State
from alerts.transports import SendError
from billing.ledger_report import billing_timezone
from warehouse.errors import LedgerError
from warehouse.instants import to_the_minute
from warehouse.leads import ALONE, Leads
from warehouse.store import Store, read_sql

RESOLVED_HOURS = 8 * 24
"""So long after its end an alert is still looked at: a route may be closed over a long weekend."""
AT_ONCE = 128
"""Targets served at the same time; those that failed last time come after all others."""


@dataclass(frozen=True)
class Outcome:
    """The result of one delivery. detail: why it failed, without secrets."""

    delivery: Delivery
    outcome: str
    detail: str = ""


@dataclass
class SentReminders:
    """Reminders that were sent but are not in the log: the attempt, by target and fingerprint. After a restart they are
    sent once more."""

    sent: dict[tuple[str, str], Attempt] = field(default_factory=dict)


def notified_alerts(store: Store, now: datetime, with_evidence: bool = False) -> list[Notification]:
    """Alerts that fire, and those resolved recently; the most severe first."""
    params = {"now": to_the_minute(now), "hours": RESOLVED_HOURS, "with_evidence": int(with_evidence)}
    return [
        Notification(
            rule=row["rule"],
            fingerprint=row["fingerprint"],
            state=State(row["state"]),
            active_at=row["active_at"],
            resolved_at=row["resolved_at"],
            value=row["value"],
            labels=json.loads(row["labels"]),
            annotations=json.loads(row["annotations"]),
            run_at=row["run_at"],
            at=row["at"],
            evidence=json.loads(row["evidence"]),
        )
        for row in store.rows(read_sql(__file__, "notified_alerts"), params)
    ]


def deliver(
    store: Store,
    routing: Routing,
    now: datetime,
    sent_reminders: SentReminders | None = None,
    patience: float = math.inf,
    leads: Leads = ALONE,
    rules: Path | None = None,
) -> list[Outcome]:
    """Sends what is due at `now` and returns the outcomes. A failing target does not delay the others, and each call
    uses the time at which it is sent.

    patience: seconds after which a target gets no further call (three times as long while other targets are still
    busy); the rest stays due.
    leads: whether this server still leads; once it does not, the rest stays due for the new leader.
    rules: the site's own, for receivers with another language.
    Errors: StoreError only; a target's failure is an outcome.
    """
    if not routing.routes:
        return []
    round_ = _Round(now, patience, leads)
    alerts = notified_alerts(store, now, with_evidence=any(one.language != "en" for one in routing.receivers.values()))
    if not alerts:
        return []
    sent_reminders = sent_reminders or SentReminders()
    log: dict[tuple[str, str], Attempt] = dict(_log(store, min(alert.active_at for alert in alerts)))
    for key, attempt in sent_reminders.sent.items():
        if key not in log or attempt.at > log[key].at:
            log[key] = attempt
    due = deliveries(linked(alerts, routing.address), routing, silences(store, now), log, now)
    if not due:
        return []
    zone, known_rules = billing_timezone(store), rules_by_name(rules)
    by_target: dict[str, list[Delivery]] = defaultdict(list)
    for delivery in due:
        language = routing.receivers[delivery.target.partition("/")[0]].language
        shown = in_language(delivery.alert, known_rules, language, zone)
        by_target[delivery.target].append(replace(delivery, alert=shown))
    healthy_first = sorted(by_target.values(), key=lambda some: max(one.attempt for one in some))
    with ThreadPoolExecutor(min(AT_ONCE, len(by_target)), "alert-delivery") as pool:
        round_.busy.update(by_target)
        parts = pool.map(lambda some: _send_all(some, round_), healthy_first)
        results = [outcome for part in parts for outcome in part]
    _report_refusing_targets(store, results, now)
    known = {(key[0], key[1]) for key in log}
    write_outcomes(store, [one for one in results if not _is_reminder(one)], now)
    for one in results:
        key = one.delivery.target, one.delivery.alert.fingerprint
        if _is_reminder(one) and key in known:
            alert = one.delivery.alert
            sent_reminders.sent[key] = Attempt(now, alert.active_at, alert.kind, 1, "sent", reported=True)
    return results


def in_language(alert: Notification, rules: Rules, language: str, zone: str) -> Notification:
    """The alert as a receiver reads it, and its page in the same language.   alert: with its link (routing.linked)."""
    if language == "en":
        return replace(alert, zone=zone)
    texts = spoken({**vars(alert), "at": alert.at or alert.active_at}, rules, language, zone)
    link = f"{alert.link}&lang={language}" if alert.link else ""
    texts = {name: link if text == alert.link else text for name, text in texts.items()}
    return replace(alert, annotations=texts, link=link, language=language, zone=zone)


def _report_refusing_targets(store: Store, results: Sequence[Outcome], now: datetime) -> None:
    """A finding for each target that has refused an alert so often that it is given up."""
    for one in results:
        if one.outcome != "refused" or one.delivery.attempt != one.delivery.transport.gives_up:
            continue
        target, rule = one.delivery.target, one.delivery.alert.rule
        what = f"{target}: {rule} is not sent, for it was refused {one.delivery.attempt} times"
        report_refused(store, now, f"{what}; at last: {one.detail}")


class _Round:
    """One round of deliveries. busy: targets that are not finished."""

    def __init__(self, now: datetime, patience: float, leads: Leads) -> None:
        self.leads = leads
        self._now, self._patience, self._started = now, patience, time.monotonic()
        self.busy: set[str] = set()

    def now(self) -> datetime:
        """The round's instant plus the whole seconds since it began."""
        return self._now + timedelta(seconds=int(time.monotonic() - self._started))

    def over(self) -> bool:
        """Whether the rest of a target's alerts should wait for the next round."""
        return time.monotonic() - self._started >= self._patience * (3 if len(self.busy) > 1 else 1)


def _is_reminder(outcome: Outcome) -> bool:
    return outcome.delivery.again and outcome.outcome == "sent" and outcome.delivery.transport.keeps_alive


def _send_all(due: Sequence[Delivery], round_: _Round) -> list[Outcome]:
    """Sends to one target, with as many alerts per call as it accepts."""
    transport = due[0].transport
    found: list[Outcome] = []
    try:
        for start in range(0, len(due), transport.most):
            if (start and round_.over()) or not round_.leads.leading():
                break
            part = due[start : start + transport.most]
            outcome, detail = send(part, round_.now())
            found += [Outcome(delivery, outcome, detail) for delivery in part]
            if outcome == "failed":  # the rest would fail as well, each after a timeout
                found += [Outcome(delivery, outcome, detail) for delivery in due[start + transport.most :]]
                break
    finally:
        round_.busy.discard(due[0].target)
    return found


def send(part: Sequence[Delivery], now: datetime) -> tuple[str, str]:
    """Sends deliveries of one target in one call. Returns the outcome, and why it is none."""
    try:
        part[0].transport.send([delivery.alert for delivery in part], now)
    except SendError as error:
        return ("refused" if error.refused else "failed"), str(error)
    except LedgerError as error:  # a secret that is not there
        return "refused", str(error)
    return "sent", ""


def _log(store: Store, since: datetime) -> Log:
    return {
        (row["target"], row["fingerprint"]): Attempt(
            at=row["at"],
            active_at=row["active_at"],
            kind=row["kind"],
            attempt=row["attempt"],
            outcome=row["outcome"],
            next_attempt_at=row["next_attempt_at"],
            reported=row["reported_active_at"] == row["active_at"],
        )
        for row in store.rows(read_sql(__file__, "last_deliveries"), {"since": since})
    }


def write_outcomes(store: Store, results: Sequence[Outcome], now: datetime) -> None:
    """Adds attempts to the log."""
    if not results:
        return
    import pyarrow as pa

    times = pa.timestamp("ms", "UTC")
    columns: dict[str, list[Any]] = defaultdict(list)
    for one in results:
        delivery, alert = one.delivery, one.delivery.alert
        again = None
        if one.outcome != "sent":
            again = next_attempt(now, delivery.attempt, one.outcome == "refused")
        row = {
            "target": delivery.target,
            "rule": alert.rule,
            "fingerprint": alert.fingerprint,
            "active_at": alert.active_at,
            "kind": alert.kind,
            "outcome": one.outcome,
            "detail": one.detail[:500],
            "next_attempt_at": again,
            "attempt": delivery.attempt,
        }
        for name, value in row.items():
            columns[name].append(value)
    typed = {"active_at": times, "next_attempt_at": times, "attempt": pa.uint32()}
    table = {name: pa.array(values, typed.get(name)) for name, values in columns.items()}
    store.insert("alert_deliveries", pa.table({"at": pa.array([now] * len(results), times), **table}))
