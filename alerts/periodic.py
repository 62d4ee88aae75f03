"""The server's part: rules are evaluated every minute and alerts delivered every quarter of one, for as long as it
serves. Neither waits for the other: an Alertmanager takes for over what it has not heard of for a while.

    with alerting(store, AlertSettings(rules=Path("alerts.d"), routing=Path("routing.yaml"))):
        ...

A run that was missed is made up for by the next: what is to be done follows from the watermark and the log.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from alerts.deliver import Memory, Outcome, deliver
from alerts.evaluate import DELAY, Report, evaluate
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


@dataclass(frozen=True)
class AlertSettings:
    """rules: a site's own folder of rules.   routing: its routing file; None: alerts are shown, but nobody is
    notified."""

    rules: Path | None = None
    routing: Path | None = None


class Alerting:
    """One look at everything, again and again. Files are read again when they change; a version that is of no use
    leaves the one before in force, and is an alert."""

    def __init__(self, settings: AlertSettings, leads: Leads = ALONE) -> None:
        """Errors: AlertError if the files are of no use at the start."""
        self._settings, self._leads = settings, leads
        self._memory = Memory()
        self._seen = self._files()
        self._rules: list[Rule] = load_rules(settings.rules)
        self._routing = load_routing(settings.routing) if settings.routing else Routing()
        self._broken = ""
        self._measured_at: datetime | None = None

    def look(self, store: Store, now: datetime, stop: threading.Event | None = None) -> Report:
        """Evaluates what is due. Errors: StoreError."""
        self._read_again()
        self._measure(store, now)
        report = evaluate(store, self._rules, now, stop=stop, broken=self._broken, leads=self._leads)
        for name, problem in report.problems.items():
            log.error("rule %s cannot be evaluated: %s", name, problem)
        return report

    def tell(self, store: Store, now: datetime) -> list[Outcome]:
        """Delivers what is due. Errors: StoreError."""
        outcomes = deliver(store, self._routing, now, self._memory, TARGET_SECONDS, self._leads)
        for one in outcomes:
            if one.outcome != "sent":
                reported = one.delivery.alert
                log.warning(
                    "%s was not notified of %s %s: %s",
                    one.delivery.target,
                    reported.rule,
                    reported.fingerprint,
                    one.detail,
                )
        return outcomes

    def _measure(self, store: Store, now: datetime) -> None:
        """The objectives, before rules look at them; one that cannot be measured keeps no rule from being evaluated."""
        if self._measured_at is not None and now - self._measured_at < MEASURE_EVERY:
            return
        self._measured_at = now
        try:
            measure(store, now - DELAY, now)
        except LedgerError as error:
            log.error("objectives cannot be measured: %s", error)

    def _files(self) -> dict[Path, int]:
        folders = [SHIPPED, *([self._settings.rules] if self._settings.rules else [])]
        files = [path for folder in folders for path in sorted(folder.glob("*.*"))]
        files += [self._settings.routing] if self._settings.routing else []
        found = {}
        for path in files:
            with contextlib.suppress(FileNotFoundError):  # gone since it was listed
                found[path] = path.stat().st_mtime_ns
        return found

    def _read_again(self) -> None:
        seen = self._files()
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
    looks = Alerting(settings, leads)

    def look(own: Store, stop: threading.Event) -> None:
        try:
            looks.look(own, datetime.now(UTC), stop)
        except NotLeadingError as error:
            log.warning("alerts: %s", error)
        except LedgerError as error:
            log.error("alerts could not be evaluated: %s", error)

    def tell(own: Store, stop: threading.Event) -> None:
        try:
            looks.tell(own, datetime.now(UTC))
        except LedgerError as error:
            log.error("alerts could not be delivered: %s", error)

    with (
        repeating(store, look, leads, seconds=every_seconds),
        repeating(store, tell, leads, seconds=max(1, every_seconds // 4)),
    ):
        yield
