"""The state of a page: what its URL says, and what that means in this store.

    /tenants?period=2026-10&tenant=vision&tenant=nlp&pool=train&lang=zh

`period` and `lang` appear once, each filter once for each of its values; all other parameters are the page's own
(`filters.more`). A page has no other state, so a link shows what its sender saw.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, quote_plus, urlencode
from zoneinfo import ZoneInfo

from billing.ledger_report import billing_timezone
from billing.periods import parse_period
from billing.rates import example_prices
from dashboards.data_version import UNCACHED, DataVersion, Written
from dashboards.days import days_sql, other_hours_sql, summed_sql
from dashboards.days.closed import ClosedHours, Sums, closed_hours
from dashboards.periods import ClosedMonth, Period, choose, closed_months, span_key
from dashboards.remembered import Remembered
from warehouse.errors import LedgerError
from warehouse.sql import composed
from warehouse.store import Store, read_sql

NAMES = ("tenant", "project", "queue", "pool", "model", "cluster")
"""Of the filters, as in the URL; the parameters of SQL have an s behind."""
PERIOD, LANGUAGE = "period", "lang"
CHOSEN_CHARACTERS = 4096
PERIODS_READ = "close_runs, closed_hours, device_hours, rate_cards, summed_days"
ASIDE = ThreadPoolExecutor(4, "aside")
"""Threads for the parts of pages that are made at the same time (`at_once`), of all readers together."""


@dataclass(frozen=True)
class Address:
    """A parsed URL query. chosen: the values of each filter that has any.   more: the page's own parameters."""

    period: str = ""
    language: str = ""
    chosen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(search: str | None) -> Address:
        values = parse_qs((search or "").lstrip("?"), keep_blank_values=True)
        own = {name: found[-1] for name, found in values.items() if name not in (*NAMES, PERIOD, LANGUAGE)}
        return Address(
            period=values.get(PERIOD, [""])[-1],
            language=values.get(LANGUAGE, [""])[-1],
            chosen={name: tuple(dict.fromkeys(values[name])) for name in NAMES if name in values},
            more=own,
        )

    def check(self) -> None:
        """Limits the length of the chosen filters, because each of a page's many links repeats them.

        Errors: LedgerError if they are too long.
        """
        size = len(self.period) + sum(len(value) + 10 for values in self.chosen.values() for value in values)
        if size > CHOSEN_CHARACTERS:
            what = f"more than {CHOSEN_CHARACTERS:,} characters are chosen"
            raise LedgerError("filters", what, "Choose fewer, or none for all")

    def href(self, path: str, **changes: str | Sequence[str] | None) -> str:
        """A link to a page with the same period, language and filters, except for the changes (None: without it).

        The page's own parameters (`more`) are not part of it: pass those that the link needs.
        """
        query: dict[str, Any] = {PERIOD: self.period, LANGUAGE: self.language, **self.chosen}
        query = {name: value for name, value in query.items() if value} | changes
        pairs = [(name, value) for name, value in query.items() if value is not None]
        return path + ("?" + urlencode(pairs, doseq=True) if pairs else "")


@dataclass(frozen=True)
class Choices:
    """The values that a period's filters offer; currency: '' if nothing has a price."""

    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    currency: str = ""
    sees_platform: bool = False


Opens = Callable[[], AbstractContextManager[Store]]


@dataclass(frozen=True)
class Filters:
    """What a page shows. period: None if nothing of the requested one is closed.   months: those with closed hours.
    example: the provider whose example prices are in force; empty: the prices are the site's own.
    closed: all closed hours of the store; sums: of the period.   rules: the site's own alert rules (api.reach).
    whole: opens a connection that sees all tenants; None: the page's own is it.   aside: opens one that sees what the
    page's own sees; None: there is no other."""

    address: Address
    zone: str
    months: Sequence[ClosedMonth]
    period: Period | None
    choices: Choices = Choices()
    sums: Sums = field(default_factory=Sums)
    data_version: DataVersion = UNCACHED
    example: str = ""
    closed: ClosedHours = field(default_factory=ClosedHours)
    rules: Path | None = None
    whole: Opens | None = None
    aside: Opens | None = None

    @property
    def more(self) -> Mapping[str, str]:
        return self.address.more

    @property
    def currency(self) -> str:
        return self.choices.currency

    @property
    def shows_platform(self) -> bool:
        """Whether the platform's own time is part of what is shown, so that the kinds add up to the capacity."""
        narrowed = any(name in self.address.chosen for name in ("tenant", "project", "queue"))
        return self.choices.sees_platform and not narrowed

    def only(self, name: str) -> str | None:
        """The filter's value, if it has exactly one."""
        values = self.address.chosen.get(name, ())
        return values[0] if len(values) == 1 else None

    @property
    def level(self) -> Literal["tenant", "project", "workload"]:
        """What a table of holders has rows of: tenants, one tenant's projects, one project's workloads."""
        if self.only("tenant") is None:
            return "tenant"
        return "project" if self.only("project") is None else "workload"

    def local(self, at: datetime) -> datetime:
        """An instant in the billing zone."""
        return at.astimezone(ZoneInfo(self.zone))

    def href(self, path: str, **changes: str | Sequence[str] | None) -> str:
        return self.address.href(path, **changes)

    def hrefs(self, path: str, name: str) -> Callable[[str], str]:
        """As `href` with a value of one parameter, for pages with a thousand links."""
        link = self.href(path)
        begun = f"{link}{'&' if '?' in link else '?'}{name}="
        return lambda value: begun + quote_plus(value)

    def params(self) -> dict[str, Any]:
        """Typed parameters of SQL: start, end, zone, and an array for each filter (tenants, projects, ...).

        Errors: LedgerError if nothing of the requested period is closed.
        """
        if self.period is None:
            raise self.nothing_closed()
        return {"start": self.period.start, "end": self.period.end, "zone": self.zone, **self._arrays()}

    def nothing_closed(self) -> LedgerError:
        return LedgerError("period", f"nothing of {self.address.period[:100] or 'this store'!r} is closed")

    def at_step(self, path: str, step: datetime, grain: str) -> str:
        """A link to a page that shows one day or hour, with this page's own parameters (`more`)."""
        start = self.local(step).replace(tzinfo=None)
        length = timedelta(days=1) if grain == "day" else timedelta(hours=1)
        return self.href(path, period=span_key(start, start + length), **self.more)

    def over(self, start: datetime, end: datetime) -> Filters:
        """The same filters over another span, which has no need to be closed."""
        key = span_key(*(self.local(at).replace(tzinfo=None) for at in (start, end)))
        span = (start, end)
        whole = next((one.key for one in self.months if _span(one.key, self.zone) == span), key)
        period = choose(self.closed, whole, self.months, self.zone) or Period(whole, start, end, 0, self.zone)
        period = replace(period, start=start, end=end)
        return replace(self, period=period, sums=self.closed.sums(start, end))

    def closed_steps(self, grain: str) -> dict[datetime, float]:
        """The period's days or hours with anything closed, in order, and how many hours of each are closed."""
        if self.period is None:
            raise self.nothing_closed()
        return self.closed.steps(self.period.start, self.period.end, grain)

    def rows(self, store: Store, beside: str, name: str, **params: Any) -> list[dict[str, Any]]:
        """The rows of `name`.sql beside a module's file. It may use the parameters of `params()` and those given.

        In it, `FROM ({ledger})` reads the ledger of these filters (dashboards/ledger.sql), and `FROM ({days})` the same
        with one row for each day that has a sum (dashboards/days), unless `grain` asks for hours, or `start` or `end`
        for another span. `FROM ({jobs})` reads the jobs of these filters (dashboards/jobs.sql).
        Answers are cached (dashboards/data_version.py): do not change the rows.
        """
        hours = read_sql(__file__, "hours")
        by_hours = params.get("grain") == "hour" or not {"start", "end"}.isdisjoint(params)
        days = _ledger(hours) if by_hours else days_sql(self.sums, _ledger)
        sql = composed(beside, name, ledger=_ledger(hours), days=days, jobs=self._jobs())
        asked = {**self.params(), **params}
        if "{summed_days:" in sql:
            asked |= self.sums.params()
        return self._cached(store, sql, asked, until=max(one for one in asked.values() if isinstance(one, datetime)))

    def without_hours(self) -> list[str]:
        """The chosen tenants, projects and the like that the period's closed hours do not have."""
        if self.period is None:
            return []
        return [
            value
            for name, values in self.address.chosen.items()
            for value in values
            if value not in self.choices.values.get(name, ())
        ]

    def any_submitted(self, store: Store) -> bool:
        """Whether `({jobs})` can have rows; where no source reports submissions, it never has."""
        return bool(self.rows(store, __file__, "any_submitted")[0]["is_any"])

    def rows_now(self, store: Store, beside: str, name: str, **params: Any) -> list[dict[str, Any]]:
        """As `rows`, for SQL about the present, whatever the period: its parameters are the filters' arrays and those
        given. `FROM ({other})` in it reads what `other`.sql beside it selects."""
        return self._cached(store, composed(beside, name), {**self._arrays(), **params}, until=None)

    def remembered(self, store: Store) -> Store:
        """The connection, with the answers to what functions of the books ask it cached as those of pages are."""
        return Remembered(store, self.data_version)

    def rows_of_hours(
        self, store: Store, beside: str, name: str, hours: Sequence[int], runs: Sequence[int], **params: Any
    ) -> list[dict[str, Any]]:
        """As `rows`, for SQL whose rows are each of an hour (`at`), and of nothing but the entries of its run. Those
        never change, so that after a close only the new hours are asked for. hours: in Unix seconds."""
        sql, asked = composed(beside, name), {**self._arrays(), **params}

        def ask(missing: Sequence[Written]) -> list[dict[str, Any]]:
            return store.rows(sql, {**asked, **_parallel(missing, "hours", "runs")})

        return self.data_version.written(store, _key(sql, asked), list(zip(hours, runs, strict=True)), ask)

    def rows_of_days(self, store: Store, beside: str, name: str, **params: Any) -> list[dict[str, Any]]:
        """As `rows`, for SQL over `({days})` whose rows are each of a day (`at`): sums of days never change, so that
        only those of new days are asked for, and other hours."""
        chosen = {"zone": self.zone, **self._arrays(), **params}
        return _rows_of_days(store, beside, name, self.params() | chosen, chosen, self.sums, self.data_version)

    @contextlib.contextmanager
    def whole_store(self, store: Store) -> Iterator[Store]:
        """A connection that sees all tenants, for what follows from all of them, as whether an alert is sent. Show only
        what the page's own store has. Its answers are cached (`remembered`) apart from those for the reader's scope."""
        if self.whole is None:
            yield self.remembered(store)
            return
        with self.whole() as everything:
            yield Remembered(everything, replace(self.data_version, scope=None))

    def at_once(self, store: Store, *parts: Callable[[Store], Any]) -> list[Any]:
        """What each part of a page makes of a connection. The first is made with the page's own, the others meanwhile
        on threads and connections of theirs; one that no thread has begun is made here. None is left running."""
        if self.aside is None:
            return [part(store) for part in parts]
        first, *others = parts
        started = [ASIDE.submit(copy_context().run, self._made_aside, part) for part in others]
        try:
            made = [first(store)]
            for part, one in zip(others, started, strict=True):
                made.append(part(store) if one.cancel() else one.result())
            return made
        finally:
            wait([one for one in started if not one.cancel()])

    def _made_aside(self, part: Callable[[Store], Any]) -> Any:
        assert self.aside is not None
        with self.aside() as store:
            return part(store)

    def _arrays(self) -> dict[str, list[str]]:
        return {f"{name}s": list(self.address.chosen.get(name, ())) for name in NAMES}

    def _cached(self, store: Store, sql: str, asked: Mapping[str, Any], until: datetime | None) -> list[dict[str, Any]]:
        key = _key(sql, asked)
        rows: list[dict[str, Any]] = self.data_version.cached(store, key, sql, lambda: store.rows(sql, asked), until)
        return rows

    def _jobs(self) -> str:
        narrowed = not {"tenant", "project"}.isdisjoint(self.address.chosen)
        return read_sql(__file__, "jobs").replace(
            "({chosen_jobs})", f"(\n{read_sql(__file__, 'chosen_jobs')})" if narrowed else "true"
        )


def filters_of(
    store: Store,
    search: str | None,
    data_version: DataVersion = UNCACHED,
    rules: Path | None = None,
    whole: Opens | None = None,
    aside: Opens | None = None,
) -> Filters:
    """The filters in a URL, for this store."""
    address = Address.of(search)
    address.check()
    zone, example, months, closed = data_version.cached(store, "closed", PERIODS_READ, lambda: _closed(store))
    period = choose(closed, address.period, months, zone)
    if period is None:
        return Filters(
            address, zone, months, None, data_version=data_version, example=example, closed=closed, rules=rules,
            whole=whole,
            aside=aside,
        )  # fmt: skip
    sums = closed.sums(period.start, period.end)
    choices = _choices(store, period, sums, data_version)
    return Filters(address, zone, months, period, choices, sums, data_version, example, closed, rules, whole, aside)


def _closed(store: Store) -> tuple[str, str, list[ClosedMonth], ClosedHours]:
    zone = billing_timezone(store)
    return zone, example_prices(store), closed_months(store, zone), closed_hours(store, zone)


def _span(key: str, zone: str) -> tuple[datetime, datetime]:
    span = parse_period(key, zone)
    return span.start, span.end


def _ledger(source: str) -> str:
    return composed(__file__, "ledger", source=source)


def _choices(store: Store, period: Period, sums: Sums, data_version: DataVersion) -> Choices:
    nothing_chosen: dict[str, Any] = {"zone": period.zone, **{f"{name}s": [] for name in NAMES}}
    asked = {"start": period.start, "end": period.end, **nothing_chosen}
    rows = _rows_of_days(store, __file__, "choices", asked, nothing_chosen, sums, data_version)
    currencies = {one for row in rows for one in row["currencies"]}
    if len(currencies) > 1:
        raise LedgerError("period", f"has prices in {' and '.join(sorted(currencies))}", "Choose a shorter one")
    return Choices(
        {name: sorted({one for row in rows for one in row[f"{name}s"]}) for name in NAMES},
        next(iter(currencies), ""),
        any(row["sees_platform"] for row in rows),
    )


def _rows_of_days(
    store: Store,
    beside: str,
    name: str,
    params: Mapping[str, Any],
    of_days: Mapping[str, Any],
    sums: Sums,
    data_version: DataVersion,
) -> list[dict[str, Any]]:
    """of_days: the parameters on which the rows of a summed day depend; it is the same in any period."""
    sql = composed(beside, name, days=summed_sql())

    def ask(missing: Sequence[Written]) -> list[dict[str, Any]]:
        return store.rows(sql, {**of_days, **_parallel(missing, "summed_days", "versions")})

    held = sums.params()
    days = list(zip(held["summed_days"], held["versions"], strict=True))
    rows = data_version.written(store, _key(sql, of_days), days, ask)
    if not sums.other_hours:
        return rows
    other, asked = composed(beside, name, days=_ledger(other_hours_sql())), {**params, **held}
    until = max(one for one in params.values() if isinstance(one, datetime))
    more = data_version.cached(store, _key(other, asked), other, lambda: store.rows(other, asked), until)
    return sorted([*rows, *more], key=lambda row: row["at"])


def _parallel(missing: Sequence[Written], at: str, by: str) -> dict[str, list[int]]:
    """Hours or days and what wrote them, as two parameters."""
    return {at: [one for one, _ in missing], by: [one for _, one in missing]}


def _key(sql: str, asked: Mapping[str, Any]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Of the parameters those that the statement names: what it says of one instant is the same in many periods."""
    return sql, tuple(sorted((name, str(value)) for name, value in asked.items() if f"{{{name}:" in sql))
