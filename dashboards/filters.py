"""The state of a page: what its URL says, and what that means in this store.

    /tenants?period=2026-10&tenant=vision&tenant=nlp&pool=train&lang=zh

`period` and `lang` stand once, each filter as often as it has values; whatever else stands there is the page's own
(`filters.more`). No state of a page lives elsewhere, so a link shows what its sender saw.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode
from zoneinfo import ZoneInfo

from billing.ledger_report import billing_timezone
from dashboards.days import Sums, days_sql, sums_of
from dashboards.periods import ClosedMonth, Period, choose, closed_months, span_key
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql

NAMES = ("tenant", "project", "queue", "pool", "model", "cluster")
"""Of the filters, as in the URL; the parameters of SQL have an s behind."""
PERIOD, LANGUAGE = "period", "lang"
ANSWERS_KEPT, ROWS_KEPT = 512, 20_000
READS_LEDGER = re.compile(r"FROM \(\{(ledger|days)\}\)")


@dataclass(frozen=True)
class Address:
    """A URL's query, taken apart. chosen: values of each filter that has any.   more: a page's own, the last value."""

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

    def href(self, path: str, **changes: str | Sequence[str] | None) -> str:
        """A link to a page that keeps period, language and filters, but for the changes (None: without it).

        The page's own values (`more`) are not kept: pass those that the link means.
        """
        kept: dict[str, Any] = {PERIOD: self.period, LANGUAGE: self.language, **self.chosen}
        kept = {name: value for name, value in kept.items() if value} | changes
        pairs = [(name, value) for name, value in kept.items() if value is not None]
        return path + ("?" + urlencode(pairs, doseq=True) if pairs else "")


@dataclass(frozen=True)
class Choices:
    """What a period's filters can choose from; currency: '' where nothing has a price."""

    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    currency: str = ""
    sees_platform: bool = False


@dataclass(frozen=True)
class Filters:
    """What a page shows. `period` None: nothing of what was asked is closed; `months` tells what is."""

    address: Address
    zone: str
    months: Sequence[ClosedMonth]
    period: Period | None
    choices: Choices = Choices()
    sums: Sums = field(default_factory=Sums)
    edition: Edition = field(default_factory=lambda: Edition())

    @property
    def more(self) -> Mapping[str, str]:
        return self.address.more

    @property
    def currency(self) -> str:
        return self.choices.currency

    @property
    def shows_platform(self) -> bool:
        """Whether the platform's own time belongs to what is shown, so that its kinds add up to a capacity."""
        narrowed = any(name in self.address.chosen for name in ("tenant", "project", "queue"))
        return self.choices.sees_platform and not narrowed

    def only(self, name: str) -> str | None:
        """The filter's value where it has exactly one."""
        values = self.address.chosen.get(name, ())
        return values[0] if len(values) == 1 else None

    def local(self, at: datetime) -> datetime:
        """An instant as the billing zone's clocks show it."""
        return at.astimezone(ZoneInfo(self.zone))

    def href(self, path: str, **changes: str | Sequence[str] | None) -> str:
        return self.address.href(path, **changes)

    def params(self) -> dict[str, Any]:
        """Typed parameters of SQL: start, end, zone, and an array for each filter (tenants, projects, ...).

        Errors: LedgerError where nothing of what was asked is closed.
        """
        if self.period is None:
            raise LedgerError("period", f"nothing of {self.address.period or 'this store'!r} is closed")
        arrays = {f"{name}s": list(self.address.chosen.get(name, ())) for name in NAMES}
        return {"start": self.period.start, "end": self.period.end, "zone": self.zone, **arrays}

    def at_step(self, path: str, step: datetime, grain: str) -> str:
        """A link to a page that shows one day or hour; its own values (`more`) are kept."""
        start = self.local(step).replace(tzinfo=None)
        length = timedelta(days=1) if grain == "day" else timedelta(hours=1)
        return self.href(path, period=span_key(start, start + length), **self.more)

    def closed_steps(self, store: Store, grain: str) -> dict[datetime, float]:
        """The period's days or hours of which something is closed, in order, and how many hours of each are."""
        asked = {**self.params(), "grain": grain}
        rows = self.edition.kept(
            ("closed_steps", self.period, grain), lambda: store.rows(read_sql(__file__, "closed_steps"), asked)
        )
        return {row["step"]: row["hours_closed"] for row in rows}

    def rows(self, store: Store, beside: str, name: str, **params: Any) -> list[dict[str, Any]]:
        """The rows of `name`.sql beside a module's file. It may use the parameters of `params()` and those given.

        `FROM ({ledger})` in it reads the ledger of these filters (dashboards/ledger.sql); `FROM ({days})` the same, but
        whole days as one row where their sums are kept (dashboards/days), unless `grain` asks for hours or
        `start` or `end` for another span.
        They read nothing else: answers from the ledger are kept until the books change (leave the rows as they are).
        `FROM ({jobs})` reads the jobs of these filters (dashboards/jobs.sql).
        """
        sql, asked = read_sql(beside, name), {**self.params(), **params}
        if "FROM ({jobs})" in sql:
            return store.rows(sql.replace("FROM ({jobs})", f"FROM (\n{self._jobs()})"), asked)
        if not READS_LEDGER.search(sql):
            return store.rows(sql, asked)
        hours, asked = read_sql(__file__, "hours"), asked | self.sums.params()
        by_hours = params.get("grain") == "hour" or not {"start", "end"}.isdisjoint(params)
        for which, source in (("ledger", hours), ("days", hours if by_hours else days_sql())):
            sql = sql.replace(f"FROM ({{{which}}})", f"FROM (\n{_ledger(source)})")
        rows: list[dict[str, Any]] = self.edition.kept(
            (beside, name, tuple(sorted((key, str(value)) for key, value in asked.items()))),
            lambda: store.rows(sql, asked),
        )
        return rows

    def _jobs(self) -> str:
        narrowed = not {"tenant", "project"}.isdisjoint(self.address.chosen)
        return read_sql(__file__, "jobs").replace(
            "({whose})", f"(\n{read_sql(__file__, 'whose')})" if narrowed else "true"
        )


class Memory:
    """What the books answered lately; an answer holds until they change. One for each server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._rows = 0

    def kept(self, key: Hashable, ask: Callable[[], Any]) -> Any:
        """The answer to `key`: as it was kept, else as asked now."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        answer = ask()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = answer
                self._rows += _rows_of(answer)
            while len(self._kept) > ANSWERS_KEPT or self._rows > ROWS_KEPT:
                self._rows -= _rows_of(self._kept.popitem(last=False)[1])
        return answer


def _rows_of(answer: Any) -> int:
    return len(answer) if isinstance(answer, list) else 0


@dataclass(frozen=True)
class Edition:
    """The state of the books that a page is drawn from, and who reads: what is kept of one is never another's.

    news: changes with the books and the alerts.   sums: with the sums of days.   scope: whose rows the store shows.
    """

    news: int = 0
    sums: int = 0
    scope: Hashable = None
    memory: Memory | None = None

    @staticmethod
    def of(store: Store, scope: Hashable = None, memory: Memory | None = None) -> Edition:
        (row,) = store.rows(read_sql(__file__, "news"))
        return Edition(row["news"], row["sums"], scope, memory)

    def kept(self, what: Hashable, ask: Callable[[], Any]) -> Any:
        """For answers of the books alone: to the same question they are the same in one edition."""
        return self.memory.kept((self.news, self.sums, self.scope, what), ask) if self.memory else ask()


def filters_of(store: Store, search: str | None, edition: Edition = Edition()) -> Filters:
    """What a URL asks for, in this store.

    Errors: LedgerError where a period has two currencies.
    """
    address = Address.of(search)
    zone, months = edition.kept("months", lambda: _zone_and_months(store))
    period = edition.kept(("period", address.period), lambda: choose(store, address.period, months, zone))
    if period is None:
        return Filters(address, zone, months, None, edition=edition)
    sums = edition.kept(("sums", period), lambda: sums_of(store, period.start, period.end, zone))
    choices = edition.kept(("choices", period), lambda: _choices(store, period, sums))
    return Filters(address, zone, months, period, choices, sums, edition)


def _zone_and_months(store: Store) -> tuple[str, list[ClosedMonth]]:
    zone = billing_timezone(store)
    return zone, closed_months(store, zone)


def _ledger(source: str) -> str:
    return read_sql(__file__, "ledger").replace("FROM ({source})", f"FROM (\n{source})")


def _choices(store: Store, period: Period, sums: Sums) -> Choices:
    sql = read_sql(__file__, "choices").replace("FROM ({days})", f"FROM (\n{days_sql()})")
    (row,) = store.rows(sql, {"start": period.start, "end": period.end, "zone": period.zone, **sums.params()})
    if len(row["currencies"]) > 1:
        raise LedgerError("period", f"has prices in {' and '.join(row['currencies'])}", "Choose a shorter one")
    return Choices(
        {name: row[f"{name}s"] for name in NAMES}, next(iter(row["currencies"]), ""), bool(row["sees_platform"])
    )
