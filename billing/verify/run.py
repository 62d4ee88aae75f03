"""Proves the books: quantities, money, documents and chains, each in another way than the one that produced it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from billing import close, energy
from billing.close.published import published as fingerprints
from billing.close.resolve import FOREVER
from billing.rates import rate_card_of
from billing.rates.staging import DEPENDENT_TABLES, stage_prices, subject_keys, subject_params
from warehouse.chain import CHAINED, content_sql
from warehouse.store import Store, identifier, read_sql

MOST_FAILURES = 1000
"""Failures of a kind named at most; the answer is no either way."""
RESTORE = "Restore it from a backup: gpuledger writes it once"


@dataclass(frozen=True)
class Failure:
    """Something that does not fit. table: in which.   where: which rows, in words.   step: what to do next.

    hour: where it is about an hour.
    """

    table: str
    where: str
    what: str
    step: str
    hour: datetime | None = None

    def __str__(self) -> str:
        return f"{self.table}, {self.where}: {self.what}. {self.step}"


@dataclass(frozen=True)
class VerifyReport:
    """hours: closed hours that were checked.   documents: issued ones.   failures: of each kind at most MOST_FAILURES.

    waiting: device-hours that differ because device rows came after their close: no failure, the next close takes them;
    at most MOST_FAILURES, too.
    """

    hours: int
    device_hours: int
    documents: int
    failures: list[Failure]
    waiting: int

    @property
    def balanced(self) -> bool:
        return not self.failures


def verify(store: Store, start: datetime | None = None, end: datetime | None = None) -> VerifyReport:
    """Checks all books, or the ledger's hours in [start, end) alone:

    of every closed hour and device used + idle + unmetered + unallocated + unavailable = capacity, exactly, with
    capacity computed again from the device rows; entries are those that the close wrote, at the prices of its card; and
    of all books that the closed hours, the documents, what they refer to, and the chains are whole.
    """
    period = {
        "start": start or datetime(1970, 1, 1, tzinfo=UTC),
        "end": end or datetime(2100, 1, 1, tzinfo=UTC),
        "most": MOST_FAILURES,
    }
    store.catch_up()
    failures, waiting = device_hours(store, period)
    failures += [*entries(store, period), *prices(store, period)]
    if start is None and end is None:
        failures += [*closed_hours(store), *published(store), *documents(store)]
        failures += chain_failures(store, *CHAINED)
    (counts,) = store.rows(read_sql(__file__, "counts"), period)
    issued = int(store.value("SELECT count() AS n FROM invoices"))
    return VerifyReport(counts["hours"], counts["device_hours"], issued, failures, waiting)


def chain_failures(store: Store, *tables: str) -> list[Failure]:
    """The rows of chained tables that do not fit, of each table the first one first."""
    contents = content_sql(store, tables)
    links = "\nUNION ALL\n".join(
        read_sql(__file__, "links", table=identifier(table), name=identifier(CHAINED[table]), content=contents[table])
        for table in tables
    )
    return [
        Failure(
            row["chain"],
            f"{row['name']} (row {row['position']})" if row["name"] else "the chain",
            row["reason"],
            RESTORE,
        )
        for row in store.rows(read_sql(__file__, "chain", links=links), {"chains": list(tables)})
    ]


def device_hours(store: Store, period: Mapping[str, Any]) -> tuple[list[Failure], int]:
    rows = store.rows(_with_closes("device_hours"), {**period, "forever": FOREVER})
    step = "Its facts or its entries were changed: restore them from a backup"
    failures = [
        Failure("ledger_entries", _device_hour(row), row["reason"], step, row["at"]) for row in rows if not row["waits"]
    ]
    return failures, sum(row["waits"] for row in rows)


def entries(store: Store, period: Mapping[str, Any]) -> Iterator[Failure]:
    """Of each hour, whether its entries are those that its close wrote."""
    contents = {
        "ledger_content": read_sql(close.__file__, "content").replace("{entries:Identifier}", _of_hours("ledger")),
        "energy_content": read_sql(energy.__file__, "content").replace("{energy:Identifier}", _of_hours("energy")),
    }
    for row in store.rows(read_sql(__file__, "entries", **contents), period):
        what = "entries or energy entries were added, changed or removed since the close"
        yield Failure("ledger_entries", f"the hour {row['at']:%Y-%m-%d %H:%M}Z", what, RESTORE, row["at"])


def _of_hours(view: str) -> str:
    return f"(\n{read_sql(__file__, 'of_hours', view=identifier(view))})"


def prices(store: Store, period: Mapping[str, Any]) -> Iterator[Failure]:
    """Of each entry, whether its price is that of the rate card by which its hour was closed."""
    for row in store.rows(_with_cards("cards"), period):
        try:
            applied = rate_card_of(store, row["card"]) if row["card"] else None
        except ValueError:
            applied = None
        if row["card"] and applied is None:
            what = "hours were closed by it, and it is not there, or is no rate card any more"
            yield Failure("rate_cards", f"rate card {row['card']}", what, RESTORE)
            continue
        card = applied.card if applied else None
        hours = {**period, "start": max(period["start"], row["first"]), "end": min(period["end"], row["last"])}
        asked = {**hours, **subject_params(card), "card": row["card"]}
        names = ("prices", *DEPENDENT_TABLES)
        run = secrets.randbits(62)
        tables = {name: f"close_{run}_verify_{name}" for name in names}  # the next close drops what a kill leaves
        try:
            subjects = store.rows(read_sql(__file__, "subjects", keys=subject_keys("ledger")), asked)
            stage_prices(store, tables, card, subjects, hours["start"], hours["end"])
            for wrong in store.rows(_with_cards("prices"), {**asked, **tables}):
                whose = wrong["of_tenant"] or "nobody"
                what = f"its price for {whose} is {wrong['found']}, by the rate card {wrong['due']}"
                yield Failure("ledger_entries", _device_hour(wrong), what, RESTORE, wrong["at"])
        finally:
            for table in tables.values():
                store.command("DROP TABLE IF EXISTS {table:Identifier}", {"table": table})


def closed_hours(store: Store) -> Iterator[Failure]:
    for row in store.rows(read_sql(__file__, "closed_hours"), {"most": MOST_FAILURES}):
        yield Failure("closed_hours", f"the hour {row['at']:%Y-%m-%d %H:%M}Z", row["reason"], RESTORE, row["at"])


def published(store: Store) -> Iterator[Failure]:
    found = fingerprints(store)
    asked = {"allocations": found.allocations, "refused_claims": found.refused_claims}
    for row in store.rows(read_sql(__file__, "published"), asked):
        step = "The next gpuledger close writes it anew"
        yield Failure(row["table"], "all of it", "it is not what the last close published", step)


def documents(store: Store) -> Iterator[Failure]:
    most = {"most": MOST_FAILURES}
    for statement in ("documents", "usage"):
        for row in store.rows(read_sql(__file__, statement), most):
            step = f"Restore it from a backup; gpuledger invoice verify {row['of_number']} says what the facts say"
            yield Failure("invoices", row["of_number"], row["reason"], step)
    for row in store.rows(read_sql(__file__, "references"), most):
        yield Failure(row["table"], row["name"], row["reason"], RESTORE)


def _device_hour(row: Mapping[str, Any]) -> str:
    cluster = f" of {row['in_cluster']}" if row["in_cluster"] else ""
    return f"{row['at']:%Y-%m-%d %H:%M}Z, device {row['of_device']}{cluster}"


def _with_closes(name: str) -> str:
    return read_sql(__file__, name, latest_closes=read_sql(__file__, "latest_closes"))


def _with_cards(name: str) -> str:
    keys = subject_keys("ledger", "priced_")
    return read_sql(__file__, name, priced_hours=_with_closes("priced_hours"), keys=keys)
