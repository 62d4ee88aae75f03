"""The routing file: who is notified of which alerts.

address: https://gpuledger.example.org
receivers:
  pager: {pagerduty: {routing_key: {env: PAGERDUTY_KEY}}}
  oncall: {alertmanager: {urls: ["http://am-1:9093", "http://am-2:9093"]}}
  chat: {slack: {url: {file: /run/secrets/slack}}}
hours:
  office: {timezone: Europe/Berlin, days: [mon, tue, wed, thu, fri], from: "09:00", to: "18:00"}
routes:
  - {match: {severity: critical}, receivers: [pager], fallback: [chat], continue: true}
  - {match: {category: waste}, receivers: [chat], hours: office}
  - {receivers: [oncall]}
inhibit:
  - {source: {alertname: node-unavailable}, target: {alertname: device-unavailable}, equal: [cluster, node]}
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote

from pydantic import Field, ValidationError, model_validator

from alerts.errors import AlertError
from alerts.hours import Hours
from alerts.matchers import Match, fits
from alerts.rule import Part
from alerts.runbooks import is_url
from alerts.state import State
from alerts.transports import Transport
from alerts.transports.alertmanager import Alertmanager
from alerts.transports.email import Email
from alerts.transports.file import File
from alerts.transports.pagerduty import PagerDuty
from alerts.transports.slack import Slack
from alerts.transports.webhook import Webhook
from warehouse.durations import Seconds, span
from warehouse.written_files import first_error, read_yaml

Kind = Literal["firing", "resolved"]
FIRST_RETRY, LONGEST_RETRY = timedelta(seconds=15), timedelta(minutes=15)
FALLBACK_ATTEMPTS = 3
"""After so many failures in a row, or one refusal, the fallback is notified too."""


class Receiver(Part):
    """Somebody who can be notified, by one transport or several.   language: of the texts that they get."""

    alertmanager: Alertmanager | None = None
    webhook: Webhook | None = None
    slack: Slack | None = None
    pagerduty: PagerDuty | None = None
    email: Email | None = None
    file: File | None = None
    language: Literal["en", "zh"] = "en"

    @model_validator(mode="after")
    def _some_way(self) -> Self:
        if not self.transports():
            raise ValueError(f"a receiver needs one of {', '.join(WAYS)}")
        return self

    def transports(self) -> dict[str, Transport]:
        """By name, one for each endpoint: `alertmanager/0`, `alertmanager/1`, `email/ops@example.org`, `slack`."""
        found: dict[str, Transport] = {}
        for name in WAYS:
            transport = getattr(self, name)
            if transport is not None:
                parts = transport.endpoints()
                ways = [getattr(one, "way", n) for n, one in enumerate(parts)]
                found |= (
                    {name: parts[0]}
                    if len(parts) == 1
                    else {f"{name}/{way}": one for way, one in zip(ways, parts, strict=True)}
                )
        return found


WAYS = tuple(name for name in Receiver.model_fields if name != "language")


class Route(Part):
    """Alerts with matching labels go to the receivers; the first matching route counts, unless it continues.

    hours: outside of them the route waits.   fallback: notified if a receiver cannot be reached.
    """

    match: Match = Field(default_factory=dict)
    receivers: Annotated[tuple[str, ...], Field(min_length=1)]
    fallback: tuple[str, ...] = ()
    hours: str = ""
    continue_: Annotated[bool, Field(alias="continue")] = False
    resend: Annotated[Seconds, Field(ge=60)] = 14_400


class Inhibition(Part):
    """While a source fires, targets that have the same values of the labels in `equal` are not notified."""

    source: Match
    target: Match
    equal: tuple[str, ...] = ()


_BELOW_100 = ("?", "??", "?.*", "??.*")
_LADDER = ("idle-holder-reclaim", "idle-holder", "idle-holder-notice")
USUAL_INHIBITIONS = (
    *(
        Inhibition(source={"alertname": (higher,)}, target={"alertname": lower}, equal=("cluster", "allocation_id"))
        for higher, lower in (
            (_LADDER[0], _LADDER[1:]),
            (_LADDER[1], _LADDER[2:]),
            ("idle-holder", ("low-utilization",)),
        )
    ),
    Inhibition(
        source={"alertname": ("node-unavailable",)},
        target={"alertname": ("device-unavailable", "gpu-lost", "exporter-gap", "gpu-silent")},
        equal=("cluster", "node"),
    ),
    Inhibition(
        source={"alertname": ("exporter-gap",)},
        target={"alertname": ("unmetered-share", "gpu-silent")},
        equal=("cluster", "node"),
    ),
    Inhibition(
        source={"alertname": ("slo-burning",)},
        target={"alertname": ("slo-burning-slow",)},
        equal=("objective", "cluster", "tenant", "subject"),
    ),
    *(
        Inhibition(
            source={"alertname": ("budget-threshold",), "of": ("actual",), "percent": ("100",)},
            target={"alertname": ("budget-threshold",), "of": (of,), "percent": percents},
            equal=("tenant", "project", "month"),
        )
        for of, percents in (("actual", _BELOW_100), ("forecast", ("100", *_BELOW_100)))
    ),
    Inhibition(source={"alertname": ("alert-data-stopped",)}, target={"alertname": ("alert-evaluation-failed",)}),
)
"""What a routing file without `inhibit` has: the ladder of idle holders, nodes before their devices, and budgets that
are spent before what led there."""


class Routing(Part):
    """A whole file. address: where people open gpuledger, for the links of alerts; empty: they have none."""

    address: Annotated[str, Field(pattern=r"^(https?://.+)?$")] = ""
    receivers: Mapping[str, Receiver] = Field(default_factory=dict)
    hours: Mapping[str, Hours] = Field(default_factory=dict)
    routes: tuple[Route, ...] = ()
    inhibit: tuple[Inhibition, ...] = USUAL_INHIBITIONS

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        if self.receivers and not self.routes:
            raise ValueError("receivers without routes: nobody would be notified")
        for number, route in enumerate(self.routes):
            for name in (*route.receivers, *route.fallback):
                if name not in self.receivers:
                    known = ", ".join(self.receivers) or "none"
                    raise ValueError(f"routes[{number}]: no receiver {name!r}; there are {known}")
            if route.hours and route.hours not in self.hours:
                raise ValueError(
                    f"routes[{number}]: no hours {route.hours!r}; there are {', '.join(self.hours) or 'none'}"
                )
        return self


def load_routing(path: Path) -> Routing:
    """Errors: AlertError naming the key that does not fit."""
    content = read_yaml(path, "a routing file", "It has the keys receivers and routes", AlertError)
    try:
        return Routing.model_validate(content)
    except ValidationError as mistake:
        raise first_error(str(path), mistake, Routing, AlertError, "See docs/alerts.md", content=content) from mistake


@dataclass(frozen=True)
class Notification:
    """An alert as receivers see it, firing or resolved. run_at: start of the evaluation that found it so.   link: the
    page about it; empty: gpuledger's address is not configured.   evidence: empty where nobody needs it for
    texts in another language.   language, zone: of what a transport writes itself."""

    rule: str
    fingerprint: str
    state: State
    active_at: datetime
    resolved_at: datetime | None
    value: float | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    run_at: datetime
    link: str = ""
    at: datetime | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    language: str = "en"
    zone: str = "UTC"

    @property
    def kind(self) -> Kind:
        return "resolved" if self.state is State.resolved else "firing"


@dataclass(frozen=True)
class Attempt:
    """The last attempt to notify a target of an alert. attempt: how many since the last success.
    reported: whether the target has been notified that this occurrence fires."""

    at: datetime
    active_at: datetime
    kind: Kind
    attempt: int
    outcome: Literal["sent", "failed", "refused"]
    next_attempt_at: datetime | None = None
    reported: bool = False


ACKNOWLEDGED = "ack-"
"""How the ids of silences begin that acknowledge one alert; the rest is its fingerprint."""


@dataclass(frozen=True)
class Silence:
    """Matching alerts are not sent during [starts_at, ends_at)."""

    id: str
    matchers: Mapping[str, tuple[str, ...]]
    starts_at: datetime
    ends_at: datetime
    author: str
    reason: str

    def covers(self, labels: Mapping[str, str], now: datetime) -> bool:
        return self.starts_at <= now < self.ends_at and fits(self.matchers, labels)

    def acknowledges(self, fingerprint: str, active_at: datetime, now: datetime) -> bool:
        """Whether it is an acknowledgement, in force, of the occurrence of an alert that became active then."""
        of_it = self.id == f"{ACKNOWLEDGED}{fingerprint}" and active_at <= self.starts_at
        return of_it and self.starts_at <= now < self.ends_at

    def why_quiet(self, alert: Notification, now: datetime) -> str:
        """Why the alert is not sent; '' if that is not for this silence. An acknowledgement is of one occurrence: if
        the alert resolves and fires again, somebody is notified."""
        if self.id.startswith(ACKNOWLEDGED):
            more = f": {self.reason}" if self.reason else ""
            by = f"acknowledged by {self.author} at {self.starts_at:%Y-%m-%dT%H:%M:%SZ}{more}"
            return by if self.acknowledges(alert.fingerprint, alert.active_at, now) else ""
        return f"silenced by {self.id} ({self.author}: {self.reason})" if self.covers(alert.labels, now) else ""


@dataclass(frozen=True)
class Delivery:
    """Something to send now. again: a reminder of what the target has received already."""

    target: str
    transport: Transport
    alert: Notification
    attempt: int
    again: bool = False


Log = Mapping[tuple[str, str], Attempt]
"""By target and fingerprint."""


def linked(alerts: Iterable[Notification], address: str) -> list[Notification]:
    """The alerts with a link to their page, which also stands for a runbook that is not a URL itself."""
    base = address.rstrip("/")
    found = []
    for alert in alerts:
        query = f"rule={quote(alert.rule, safe='')}&alert={quote(alert.fingerprint, safe='')}"
        link = f"{base}/alerts?{query}" if base else ""
        runbook = alert.annotations.get("runbook", "")
        notes = {**alert.annotations, "runbook": runbook if is_url(runbook) else link}
        found.append(replace(alert, link=link, annotations={name: text for name, text in notes.items() if text}))
    return found


def held_back(
    alerts: Iterable[Notification], routing: Routing, silences: Sequence[Silence], now: datetime
) -> dict[str, str]:
    """Why alerts are not sent, by fingerprint: `silenced by ...`, `acknowledged by ...` or `inhibited by ...`."""
    alerts = list(alerts)
    found: dict[str, str] = {}
    for alert in alerts:
        why = next(filter(None, (silence.why_quiet(alert, now) for silence in silences)), "")
        if why:
            found[alert.fingerprint] = why
    firing = [alert for alert in alerts if alert.state is State.firing]
    for rule in routing.inhibit:
        sources: dict[tuple[str, ...], list[Notification]] = {}
        for alert in firing:
            if fits(rule.source, alert.labels):
                sources.setdefault(_equal(rule, alert), []).append(alert)
        if not sources:
            continue
        for alert in alerts:
            if alert.fingerprint in found or not fits(rule.target, alert.labels):
                continue
            by = [one for one in sources.get(_equal(rule, alert), ()) if one.fingerprint != alert.fingerprint]
            if by and not fits(rule.source, alert.labels):
                found[alert.fingerprint] = f"inhibited by {by[0].rule}"
    return found


def deliveries(
    alerts: Sequence[Notification], routing: Routing, silences: Sequence[Silence], log: Log, now: datetime
) -> list[Delivery]:
    """The notifications to send now: new alerts, retries, reminders, and resolved alerts.

    alerts: firing, or resolved recently.   log: the last attempt of each target and alert.
    """
    quiet = held_back(alerts, routing, silences, now)
    knowing = _knowing(log)
    found: dict[tuple[str, str], Delivery] = {}
    for alert in alerts:
        if alert.kind == "resolved":
            of_it = _of_the_end(alert, knowing.get(alert.fingerprint, ()), routing, log, now)
        else:
            of_it = _while_firing(alert, alert.fingerprint in quiet, routing, log, now)
        for delivery in of_it:
            found.setdefault((delivery.target, alert.fingerprint), delivery)
    return list(found.values())


def _while_firing(alert: Notification, quiet: bool, routing: Routing, log: Log, now: datetime) -> Iterator[Delivery]:
    """To the receivers of the alert's routes in their hours, and to their fallbacks where they cannot be reached."""
    for route, is_open in _routes(alert, routing, now):
        names = list(route.receivers)
        if any(_unreachable(name, routing, alert, log) for name in names):
            names += [name for name in route.fallback if name not in names]
        for name in names:
            for way, transport in routing.receivers[name].transports().items():
                if not is_open and not transport.keeps_alive:
                    continue
                resend = min(span(route.resend), transport.resend or span(route.resend))
                last = log.get((f"{name}/{way}", alert.fingerprint))
                fresh = Delivery(f"{name}/{way}", transport, alert, 1)
                delivery = _due(fresh, last, quiet or not is_open, resend, now)
                if delivery is not None:
                    yield delivery


def _of_the_end(
    alert: Notification, knowing: Iterable[str], routing: Routing, log: Log, now: datetime
) -> Iterator[Delivery]:
    """To all targets that were notified of the alert, silenced or not: to a fallback whose receiver answers again, and
    to a receiver whose route was removed, too. Those that routes lead to wait for the hours of one."""
    opens: dict[str, bool] = {}
    for route, is_open in _routes(alert, routing, now):
        for name in (*route.receivers, *route.fallback):
            opens[name] = opens.get(name, False) or is_open
    for target in knowing:
        name, _, way = target.partition("/")
        receiver = routing.receivers.get(name)
        transport = receiver.transports().get(way) if receiver else None
        if transport is not None and opens.get(name, True):
            last = log[target, alert.fingerprint]
            delivery = _due(Delivery(target, transport, alert, 1), last, False, timedelta(), now)
            if delivery is not None:
                yield delivery


def _knowing(log: Log) -> Mapping[str, Sequence[str]]:
    """By fingerprint, the targets that were notified of an alert."""
    found: dict[str, list[str]] = defaultdict(list)
    for (target, fingerprint), last in log.items():
        if last.reported:
            found[fingerprint].append(target)
    return found


def next_attempt(now: datetime, attempt: int, refused: bool, luck: float | None = None) -> datetime:
    """When to retry: after 15 s, doubled each time up to 15 min, spread by a fifth; after a refusal, in 15 min."""
    wait = LONGEST_RETRY if refused else min(LONGEST_RETRY, FIRST_RETRY * 2 ** min(attempt - 1, 10))
    return now + wait * (0.9 + 0.2 * (random.random() if luck is None else luck))  # noqa: S311 (spreads retries)


def _routes(alert: Notification, routing: Routing, now: datetime) -> Iterable[tuple[Route, bool]]:
    """The alert's routes, and whether their hours are open."""
    for route in routing.routes:
        if fits(route.match, alert.labels):
            yield route, not route.hours or routing.hours[route.hours].open_at(now)
            if not route.continue_:
                return


def _due(fresh: Delivery, last: Attempt | None, quiet: bool, resend: timedelta, now: datetime) -> Delivery | None:
    alert = fresh.alert
    same = last is not None and last.active_at == alert.active_at
    if alert.kind == "resolved":
        if not (last and same and last.reported):  # of another occurrence: it was not notified of this one
            return None
    elif quiet and not (fresh.transport.keeps_alive and last and same and last.reported):
        return None  # a target that resolves unrefreshed alerts is still sent those that it has
    if last is None or not same or last.kind != alert.kind:
        return fresh
    if last.outcome != "sent":
        if last.outcome == "refused" and 0 < fresh.transport.gives_up <= last.attempt:
            return None
        due = last.next_attempt_at is None or now >= last.next_attempt_at
        return replace(fresh, attempt=last.attempt + 1) if due else None
    return replace(fresh, again=True) if alert.kind == "firing" and now - last.at >= resend else None


def _unreachable(name: str, routing: Routing, alert: Notification, log: Log) -> bool:
    """Whether all transports of a receiver have failed for this alert, often enough to use the fallback."""
    lasts = [log.get((f"{name}/{way}", alert.fingerprint)) for way in routing.receivers[name].transports()]
    return all(
        last is not None
        and last.active_at == alert.active_at
        and (last.outcome == "refused" or (last.outcome == "failed" and last.attempt >= FALLBACK_ATTEMPTS))
        for last in lasts
    )


def _equal(rule: Inhibition, alert: Notification) -> tuple[str, ...]:
    return tuple(alert.labels.get(label, "") for label in rule.equal)
