"""Somebody tells receivers of an alert now: the owner, with its evidence and a note of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from alerts.deliver import Outcome, in_language, notified_alerts, send, write_outcomes
from alerts.errors import AlertError
from alerts.matchers import fits
from alerts.routing import Delivery, Notification, Routing, linked
from alerts.speaking import rules_by_name
from alerts.state import State
from alerts.transports import WORDS
from billing import audit
from billing.ledger_report import billing_timezone
from warehouse.store import Store


def receivers_of(alert: Notification, routing: Routing) -> list[str]:
    """The receivers that an alert's routes name, outside of their hours too; with one called like the alert's owner,
    that one alone."""
    owner = alert.labels.get("owner", "")
    if owner in routing.receivers:
        return [owner]
    found: list[str] = []
    for route in routing.routes:
        if fits(route.match, alert.labels):
            found += [name for name in route.receivers if name not in found]
            if not route.continue_:
                break
    return found


def firing(store: Store, fingerprint: str, now: datetime) -> Notification:
    """The alert, as it fires. Errors: AlertError if it does not."""
    for alert in notified_alerts(store, now, with_evidence=True):
        if alert.fingerprint == fingerprint and alert.state is State.firing:
            return alert
    raise AlertError(f"alert {fingerprint!r}", "is not firing", "gpuledger alerts list")


def tell(
    store: Store,
    alert: Notification,
    routing: Routing,
    receivers: Sequence[str],
    author: str,
    note: str,
    now: datetime,
    rules: Path | None = None,
) -> list[Outcome]:
    """Sends the alert to receivers at once, silenced or not; each attempt is logged, and audited as the author's.

    receivers: [] = those of `receivers_of`.   rules: the site's own, for receivers with another language.
    Errors: AlertError if there are none, or one is not in the routing file. A target that fails is an outcome.
    """
    unknown = [name for name in receivers if name not in routing.receivers]
    if unknown:
        known = ", ".join(routing.receivers) or "none"
        raise AlertError(f"receiver {unknown[0]!r}", f"is not in the routing file; there are {known}")
    names = list(dict.fromkeys(receivers)) or receivers_of(alert, routing)
    if not names:
        raise AlertError(
            f"alert {alert.rule}", "has no receiver", "Name one, or route it in the file of --routing (docs/alerts.md)"
        )
    zone, known_rules, deliveries = billing_timezone(store), rules_by_name(rules), []
    (at_page,) = linked([alert], routing.address)
    for name in names:
        translated = in_language(at_page, known_rules, routing.receivers[name].language, zone)
        shown = replace(translated, annotations={**translated.annotations, **_noted(translated, author, note)})
        transports = routing.receivers[name].transports()
        deliveries += [Delivery(f"{name}/{way}", transport, shown, 1) for way, transport in transports.items()]
    inputs = {"rule": alert.rule, "targets": [one.target for one in deliveries]}
    with audit.around(store, now, author, "alert.tell", alert.fingerprint, note, inputs) as outcome:
        outcomes = [Outcome(one, *send([one], now)) for one in deliveries]
        # A failure is the teller's to see; in the log it would be the automatic delivery's last attempt.
        write_outcomes(store, [one for one in outcomes if one.outcome == "sent"], now)
        outcome["targets"] = {one.delivery.target: one.detail or one.outcome for one in outcomes}
    return outcomes


def _noted(alert: Notification, author: str, note: str) -> dict[str, str]:
    """The note, before what the rule says."""
    words = WORDS[alert.language]
    said = f"{author}: {note}" if note else words.sent_by.format(author)
    return {"description": "\n".join(filter(None, (said, alert.annotations.get("description", ""))))}
