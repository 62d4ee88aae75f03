"""The state of a page: what its URL says, and what that means in this store.

    /tenants?period=2026-10&tenant=vision&tenant=nlp&pool=train&lang=zh

`period` and `lang` stand once, each filter as often as it has values; whatever else stands there is the page's own
(`filters.more`). No state of a page lives elsewhere, so a link shows what its sender saw.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode
from zoneinfo import ZoneInfo

from billing.ledger_report import billing_timezone
from dashboards.periods import ClosedMonth, Period, choose, closed_months, span_key
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql

NAMES = ("tenant", "project", "queue", "pool", "model", "cluster")
"""Of the filters, as in the URL; the parameters of SQL have an s behind."""
PERIOD, LANGUAGE = "period", "lang"
PERIODS_KEPT = 256


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

    def closed_steps(self, store: Store, grain: str) -> dict[datetime, int]:
        """The period's days or hours of which something is closed, in order, and how many hours of each are."""
        rows = store.rows(read_sql(__file__, "closed_steps"), {**self.params(), "grain": grain})
        return {row["step"]: row["hours_closed"] for row in rows}

    def rows(self, store: Store, beside: str, name: str, **params: Any) -> list[dict[str, Any]]:
        """The rows of `name`.sql beside a module's file. `FROM ({ledger})` in it reads the ledger of these filters
        (dashboards/ledger.sql); it may use the parameters of `params()` and those given."""
        sql = read_sql(beside, name).replace("FROM ({ledger})", f"FROM (\n{read_sql(__file__, 'ledger')})")
        return store.rows(sql, {**self.params(), **params})


class Memory:
    """Choices of the periods that were looked at last: they change with the books alone. One for each server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Choices] = OrderedDict()

    def choices(self, store: Store, period: Period, scope: Hashable, news: int) -> Choices:
        """scope: whose rows the store shows; choices of one are never shown to another."""
        key = (scope, news, period.start, period.end)
        with self._lock:
            found = self._kept.get(key)
        if found is None:
            found = _choices(store, period)
            with self._lock:
                self._kept[key] = found
                while len(self._kept) > PERIODS_KEPT:
                    self._kept.popitem(last=False)
        return found


def filters_of(
    store: Store, search: str | None, memory: Memory | None = None, scope: Hashable = None, news: int = 0
) -> Filters:
    """What a URL asks for, in this store.   scope, news: of the memory's choices.

    Errors: LedgerError where a period has two currencies.
    """
    address = Address.of(search)
    zone = billing_timezone(store)
    months = closed_months(store, zone)
    period = choose(store, address.period, months, zone)
    if period is None:
        return Filters(address, zone, months, None)
    choices = memory.choices(store, period, scope, news) if memory else _choices(store, period)
    return Filters(address, zone, months, period, choices)


def _choices(store: Store, period: Period) -> Choices:
    (row,) = store.rows(read_sql(__file__, "choices"), {"start": period.start, "end": period.end})
    if len(row["currencies"]) > 1:
        raise LedgerError("period", f"has prices in {' and '.join(row['currencies'])}", "Choose a shorter one")
    return Choices(
        {name: row[f"{name}s"] for name in NAMES}, next(iter(row["currencies"]), ""), bool(row["sees_platform"])
    )
