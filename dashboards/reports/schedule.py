"""Who gets which report when: a YAML file.

address: https://gpuledger.example.org     # where people open it, for the links; without it there are none
smtp: {host: mail.example.org, from: gpuledger@example.org}     # port, security, username, password: docs/alerts.md
at: "08:00"                          # in the billing zone, on the day after the period
language: en                         # or zh
reports:
  - {tenant: vision, every: week, to: [lead@example.org], language: zh}     # Monday to Sunday
  - {tenant: "*", every: month, to: [finance@example.org]}      # a glob: a report for each that held something
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from alerts.refusals import report_refused
from alerts.transports import SendError
from alerts.transports.email import Email
from billing import audit
from billing.closed import closed_period
from billing.ledger_report import billing_timezone, ledger_report
from billing.periods import Period, parse_period
from dashboards.languages import NAMES, language
from dashboards.reports.mail import message
from dashboards.reports.report import ReportError, tenant_report
from warehouse.store import Store
from warehouse.written_files import first_error, read_yaml

SENT, REFUSED = "report.send", "report.refuse"
"""In the audit."""
GIVES_UP = 20
"""After so many refusals for good an address is not tried again with that report."""
HINT = "See docs/reports.md for an example"
MODE = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
Every = Literal["week", "month"]
_ONE = r"[^@\s,]+@[^@\s,]+"
_RECIPIENTS = re.compile(rf" to {_ONE}(, {_ONE})*$")


def _spoken(code: str) -> str:
    if code not in NAMES:
        raise ValueError(f"there are {', '.join(NAMES)}")
    return code


Code = Annotated[str, AfterValidator(_spoken)]
"""Of a language."""


class Wanted(BaseModel):
    """tenant: a name or a glob.   to: addresses.   language: None: the schedule's."""

    model_config = MODE

    tenant: Annotated[str, Field(min_length=1)]
    every: Every
    to: Annotated[tuple[Annotated[str, Field(pattern=f"^{_ONE}$")], ...], Field(min_length=1)]
    language: Code | None = None


class Schedule(BaseModel):
    """smtp: of the transport Email, without `to`.   at: local time.   address: where people open gpuledger; empty: a
    report has no links."""

    model_config = MODE

    address: Annotated[str, Field(pattern=r"^(https?://.+)?$")] = ""
    smtp: dict[str, Any]
    at: time = time(8)
    language: Code = "en"
    reports: Annotated[tuple[Wanted, ...], Field(min_length=1)]

    @field_validator("at", mode="before")
    @classmethod
    def _clock(cls, at: Any) -> Any:
        # YAML reads 08:00 without quotes as minutes.
        return time(at // 60, at % 60) if isinstance(at, int) and 0 <= at < 24 * 60 else at

    @field_validator("smtp")
    @classmethod
    def _usable(cls, smtp: dict[str, Any]) -> dict[str, Any]:
        if "to" in smtp:
            raise ValueError("has no `to`: each report needs a recipient")
        Email.model_validate({**smtp, "to": ["somebody@example.org"]})
        return smtp

    def email(self, to: tuple[str, ...]) -> Email:
        return Email.model_validate({**self.smtp, "to": to})


@dataclass(frozen=True)
class Due:
    """A report that is to be sent. name: under which the audit has it, once it is.   left: those of its addresses that
    have not got it; empty: all.   refusals: how often each of them refused it for good."""

    wanted: Wanted
    tenant: str
    period: Period
    name: str
    left: tuple[str, ...] = ()
    refusals: Mapping[str, int] = field(default_factory=dict)


def load_schedule(path: Path) -> Schedule:
    """The schedule of a file. Errors: ReportError naming the key and what fits."""
    content = read_yaml(path, "a schedule of reports", HINT, ReportError)
    try:
        return Schedule.model_validate(content)
    except ValidationError as mistake:
        raise first_error(str(path), mistake, Schedule, ReportError, HINT, secret=True, content=content) from None


def last_period(every: Every, now: datetime, timezone: str, at: time) -> Period:
    """The last week or month that was over, and whose report's time of day had come, before `now`."""
    local = now.astimezone(ZoneInfo(timezone))
    today = local.date() if local.time() >= at else local.date() - timedelta(days=1)
    if every == "month":
        return parse_period((today.replace(day=1) - timedelta(days=1)).strftime("%Y-%m"), timezone)
    monday = today - timedelta(days=today.weekday())
    return parse_period(f"{monday - timedelta(days=7)}..{monday}", timezone)


def due(store: Store, schedule: Schedule, now: datetime) -> Iterator[Due]:
    """What is to be sent now: of the last week or month, once the books are closed to its end, what was not sent.

    A period that was over before that is not made up for: a new schedule does not report the past.
    """
    zone, closed = billing_timezone(store), closed_period(store)
    sent = set(_addressed(audit.history(store, SENT)))
    refusals = Counter(_addressed(audit.history(store, REFUSED)))
    for wanted in schedule.reports:
        period = last_period(wanted.every, now, zone, schedule.at)
        if closed is None or closed.end < period.end or closed.start > period.start:
            continue
        holders = sorted(str(row["tenant"]) for row in ledger_report(store, period, ("tenant",)).rows)
        for tenant in holders:
            name = name_of(tenant, period, zone, wanted.to)
            if not tenant or not fnmatchcase(tenant, wanted.tenant):
                continue
            report = _whoever_gets_it(name)
            often = {address: refusals[report, address] for address in wanted.to}
            left = tuple(one for one in wanted.to if (report, one) not in sent and often[one] < GIVES_UP)
            if left:
                sent |= {(report, address) for address in left}
                yield Due(wanted, tenant, period, name, left, often)


def _addressed(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Report and address of each. A list of recipients may have changed since: who had the report has it."""
    for row in rows:
        for address in json.loads(row["inputs"]).get("to", ()):
            yield _whoever_gets_it(row["object"]), address


def _whoever_gets_it(name: str) -> str:
    """A report's name (`name_of`) without its recipients."""
    return _RECIPIENTS.sub("", name)


def send(store: Store, schedule: Schedule, one: Due, now: datetime, actor: str = "gpuledger") -> None:
    """Sends a report, and notes it: a kill in between sends it again. What some refuse is noted, too, and is due again
    for them alone, until it is given up with a finding.

    Errors: SendError, also if only some refused it; LedgerError if it cannot be made, or a secret is missing.
    """
    email = schedule.email(one.wanted.to)
    words = language(one.wanted.language or schedule.language)
    left = one.left or one.wanted.to
    made = tenant_report(store, one.tenant, one.period, now)
    mail = message(made, words, email.from_, email.to, now, schedule.address)
    refused = email.post(mail, left)
    details = {"every": one.wanted.every, "language": words.code}
    if taken := [address for address in left if address not in refused]:
        audit.record(store, now, actor, SENT, one.name, "", {"to": taken, **details})
    for address, refusal in refused.items():
        if refusal.for_good:
            audit.record(store, now, actor, REFUSED, one.name, str(refusal), {"to": [address], **details})
            if one.refusals.get(address, 0) + 1 == GIVES_UP:
                what = f"report {one.name} is not sent to {address}, for it was refused {GIVES_UP} times"
                report_refused(store, now, f"{what}; at last: {refusal}")
    if refused:
        refusals = "; ".join(f"{address} {refusal}" for address, refusal in refused.items())
        whole = "" if not taken else f"; sent to {', '.join(taken)}"
        raise SendError(f"{refusals}{whole}", all(refusal.for_good for refusal in refused.values()))


def name_of(tenant: str, period: Period, timezone: str, to: tuple[str, ...]) -> str:
    """Like `vision 2026-10-05..2026-10-12 to lead@example.org`."""
    first, after = (_day(at, timezone) for at in (period.start, period.end))
    return f"{tenant} {first}..{after} to {', '.join(to)}"


def _day(at: datetime, timezone: str) -> date:
    return at.astimezone(ZoneInfo(timezone)).date()


def check_language(code: str) -> None:
    """Errors: ReportError if there is no such language; an empty code asks for none."""
    if code and code not in NAMES:
        raise ReportError(f"--language {code}", "not supported", f"Available: {', '.join(NAMES)}")


def wanted_by(schedule: Schedule, tenant: str, to: tuple[str, ...] = (), code: str = "") -> list[Wanted]:
    """Who gets a tenant's report when somebody sends it by hand: `to`, else all whom the file names for it, once; a
    mail for each language. code: of the language for all of them.

    Errors: ReportError if that is nobody, or there is no such language.
    """
    check_language(code)
    spoken = dict.fromkeys(to, code or schedule.language)
    if not to:
        for one in schedule.reports:
            if fnmatchcase(tenant, one.tenant):
                for address in one.to:
                    spoken.setdefault(address, code or one.language or schedule.language)
    if not spoken:
        raise ReportError(f"report of {tenant}", "the file has no recipient for it", "Give one: --to ADDRESS")
    return [
        Wanted(tenant=tenant, every="month", to=tuple(who for who, its in spoken.items() if its == each), language=each)
        for each in dict.fromkeys(spoken.values())
    ]
