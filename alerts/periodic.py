"""Background work of a server: evaluates rules every minute, and delivers alerts four times as often.

Neither waits for the other, because an Alertmanager resolves an alert that is not sent again for a while.

    with alerting(store, AlertSettings(rules=Path("alerts.d"), routing=Path("routing.yaml"))):
        ...

A missed run is made up for by the next one: what is due follows from the watermark and the log of deliveries.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from alerts.deliver import Outcome, SentReminders, deliver
from alerts.evaluate import DELAY, Report, evaluate
from alerts.interference.measure import measure as measure_interference
from alerts.routing import Routing, load_routing
from alerts.rule import Rule
from alerts.rule_files import SHIPPED, load_rules
from alerts.slo.measure import measure
from warehouse.background import repeating
from warehouse.errors import LedgerError
from warehouse.leads import ALONE, Leads, NotLeadingError
from warehouse.store import Store

log = logging.getLogger(__name__)

EVERY_SECONDS = 60
TARGET_SECONDS = 20.0
"""Of one delivery for each target: one that is slow to take many alerts gets the rest with the next."""
MEASURE_EVERY = timedelta(minutes=5)
"""How often objectives are measured: their points are five minutes apart."""
INTERFERENCE_SECONDS = 900
"""How often interference is measured: the time since, and what newer facts are about."""
INTERFERENCE_BACK = timedelta(days=2)
"""As far back as one measurement goes: what is older is for `gpuledger interference`, which takes its time."""


@dataclass(frozen=True)
class AlertSettings:
    """rules: a site's own folder of rules.   routing: its routing file; None: alerts are shown, but nobody is
    notified.   interference: whether it is measured."""

    rules: Path | None = None
    routing: Path | None = None
    interference: bool = True


class Alerting:
    """Evaluates and delivers alerts, reloading the rules and the routing file when they change. While a new version is
    invalid, the previous one stays in force and an alert fires."""

    def __init__(self, settings: AlertSettings, leads: Leads = ALONE) -> None:
        """Errors: AlertError if the files are invalid."""
        self._settings, self._leads = settings, leads
        self._sent_reminders = SentReminders()
        self._seen = self._changed_times()
        self._rules: list[Rule] = load_rules(settings.rules)
        self._routing = load_routing(settings.routing) if settings.routing else Routing()
        self._broken = ""
        self._measured_at: datetime | None = None

    def evaluate_due(self, store: Store, now: datetime, stop: threading.Event | None = None) -> Report:
        """Evaluates what is due. Errors: StoreError."""
        self._reload_if_changed()
        self._measure(store, now)
        report = evaluate(store, self._rules, now, stop=stop, broken=self._broken, leads=self._leads)
        for name, problem in report.problems.items():
            log.error("rule %s cannot be evaluated: %s", name, problem)
        return report

    def deliver_due(self, store: Store, now: datetime) -> list[Outcome]:
        """Delivers what is due. Errors: StoreError."""
        outcomes = deliver(
            store, self._routing, now, self._sent_reminders, TARGET_SECONDS, self._leads, self._settings.rules
        )
        for one in outcomes:
            if one.outcome != "sent":
                alert = one.delivery.alert
                log.warning(
                    "%s was not notified of %s %s: %s",
                    one.delivery.target,
                    alert.rule,
                    alert.fingerprint,
                    one.detail,
                )
        return outcomes

    def _measure(self, store: Store, now: datetime) -> None:
        """Measures objectives before rules query them. If that fails, the rules are evaluated all the same."""
        if self._measured_at is not None and now - self._measured_at < MEASURE_EVERY:
            return
        self._measured_at = now
        try:
            measure(store, now - DELAY, now)
        except LedgerError as error:
            log.error("objectives cannot be measured: %s", error)

    def _changed_times(self) -> dict[Path, int]:
        folders = [SHIPPED, *([self._settings.rules] if self._settings.rules else [])]
        files = [path for folder in folders for path in sorted(folder.glob("*.*"))]
        files += [self._settings.routing] if self._settings.routing else []
        found = {}
        for path in files:
            with contextlib.suppress(FileNotFoundError):  # gone since it was listed
                found[path] = path.stat().st_mtime_ns
        return found

    def _reload_if_changed(self) -> None:
        seen = self._changed_times()
        if seen == self._seen:
            return
        self._seen, self._broken = seen, ""
        try:
            rules = load_rules(self._settings.rules)
            routing = load_routing(self._settings.routing) if self._settings.routing else Routing()
        except LedgerError as error:
            self._broken = str(error)
            log.error("the alert rules or their routing are invalid; the previous ones stay in force: %s", error)
        else:
            self._rules, self._routing = rules, routing


@contextlib.contextmanager
def alerting(
    store: Store, settings: AlertSettings, every_seconds: int = EVERY_SECONDS, leads: Leads = ALONE
) -> Iterator[None]:
    """Evaluates every so many seconds, and delivers four times as often, while this server leads.

    Errors: AlertError if the files are invalid at the start.
    """
    work = Alerting(settings, leads)

    def evaluate_due(own: Store, stop: threading.Event) -> None:
        try:
            work.evaluate_due(own, datetime.now(UTC), stop)
        except NotLeadingError as error:
            log.warning("alerts: %s", error)
        except LedgerError as error:
            log.error("alerts could not be evaluated: %s", error)

    def deliver_due(own: Store, stop: threading.Event) -> None:
        try:
            work.deliver_due(own, datetime.now(UTC))
        except LedgerError as error:
            log.error("alerts could not be delivered: %s", error)

    def measure_due(own: Store, stop: threading.Event) -> None:
        now = datetime.now(UTC)
        try:
            measure_interference(own, now - DELAY, now=now, at_most=INTERFERENCE_BACK)
        except LedgerError as error:
            log.error("interference cannot be measured: %s", error)

    with (
        repeating(store, evaluate_due, leads, seconds=every_seconds),
        repeating(store, deliver_due, leads, seconds=max(1, every_seconds // 4)),
        contextlib.ExitStack() as stack,
    ):
        if settings.interference:
            stack.enter_context(repeating(store, measure_due, leads, seconds=INTERFERENCE_SECONDS))
        yield
