"""What each check of `verify` says where cells of every column, and values of every kind of a document, are others.

GPULEDGER_GOLDEN=write pytest tests/billing/test_golden_verify.py     renews golden/verify.json

That any one cell is noticed is for test_tampering.py. Here many are changed at once, each in another row, so that how
often and where a check finds something tells of each of its conditions: read the difference before it is renewed.
"""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from billing.close.resolve import FOREVER
from billing.energy.report import energy_report
from billing.verify import Failure
from billing.verify.run import chain_failures, closed_hours, device_hours, documents, entries, prices, published
from billing.verify.tables import VOUCHED
from tests.billing.golden import compare, digest
from tests.billing.rich_books import FEBRUARY, rich_books
from tests.billing.tampering import HASHED, changed, columns_of, replaced
from tests.billing.test_golden_pages import places
from tests.draws import seldom
from warehouse.chain import CHAINED
from warehouse.store import Store, identifier

pytestmark = seldom(3, "golden files of the books", 2)

ALWAYS = {"start": datetime(1970, 1, 1, tzinfo=UTC), "end": datetime(2100, 1, 1, tzinfo=UTC), "most": 1000}
DRAWN = {"run", "checked_by", "inputs", "content", "seal", "batch", "previous", "digest", "document"}
"""Columns that are others each time that the books are made."""
FEW = 12
"""Findings of a check that are kept as they are; of more of them the first, and a digest of all."""
ROUNDS, MORE = 3, 6
"""Times that each column of a table is changed, each time in another row and another way; and how often more for the
capacity of the ledger's entries alone."""
CHECKS: dict[str, Callable[[Store], Iterable[Failure]]] = {
    "capacity": lambda store: device_hours(store, {**ALWAYS, "forever": FOREVER})[0],
    "entries": lambda store: entries(store, ALWAYS),
    "prices": lambda store: prices(store, ALWAYS),
    "closed hours": closed_hours,
    "published": published,
    "documents": documents,
    "chains": lambda store: chain_failures(store, *CHAINED),
}
UNREAD = {"parties", "notes", "price_validity", "description", "evidence", "changes"}
"""Of a document what says something to people alone."""
LOOKED_AT_BY = {
    "ledger_entries": ("capacity", "entries", "prices", "documents"),
    "energy_entries": ("entries",),
    "closed_hours": ("capacity", "entries", "prices", "closed hours", "documents"),
    "allocations": ("published",),
    "refused_claims": ("published",),
    "chain_heads": ("chains",),
    "devices": ("capacity",),
    "invoices": ("documents", "chains"),
    "rate_cards": ("prices", "chains"),
    "close_runs": ("capacity", "prices", "closed hours", "published", "documents", "chains"),
    **dict.fromkeys(("voided_invoices", "credits", "grants"), ("documents", "chains")),
}


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with rich_books(tmp_path_factory.mktemp("books")) as store:
        yield store


def in_order(store: Store, table: str) -> list[int]:
    """The hashes of a table's rows, in the order of what is the same each time."""
    names = sorted(
        (name for name, _ in columns_of(store, table) if name not in DRAWN), key=lambda name: name != "position"
    )
    reported = ", ".join(map(identifier, names))
    sql = f"SELECT {HASHED} AS row_hash FROM {identifier(table)} WHERE {VOUCHED.get(table) or '1'} ORDER BY {reported}"
    return [int(row["row_hash"]) for row in store.rows(sql)]


def runs_of(store: Store) -> dict[str, str]:
    sql = "SELECT run FROM close_runs ORDER BY started_at"
    return {str(row["run"]): f"close {number}" for number, row in enumerate(store.rows(sql), 1)}


def said(store: Store, names: Iterable[str], runs: dict[str, str]) -> dict[str, list[str]]:
    found = {}
    for name in names:
        texts = (str(one) for one in CHECKS[name](store))
        if some := [re.sub(r"(?<=^close_runs, )\d+", lambda run: runs.get(run[0], "no close"), one) for one in texts]:
            found[name] = [*some[:FEW], *([f"{len(some)} in all, {digest(some)}"] if len(some) > FEW else [])]
    return found


@pytest.mark.parametrize("table", [*VOUCHED, "devices"])
def test_what_is_found_in_a_table_with_cells_of_every_column_changed(books: Store, table: str) -> None:
    rows = in_order(books, table)
    runs = runs_of(books)
    found = []
    for again in range(ROUNDS + MORE * (table == "ledger_entries")):
        cells = []
        for number, (column, kind) in enumerate(columns_of(books, table)):
            value = changed(kind, random.Random(f"{table}.{column} {again}"))
            if column == "position":  # of two in one place the lesser digest would stand first, which is drawn
                value = "{} + 1000"
            row, name = rows[(again + number * (1 + again)) % len(rows)], identifier(column)
            cells.append(f"if(row_hash = {row}, {value.format(name)}, {name}) AS {name}")
        with replaced(books, table, f"* EXCEPT (row_hash) REPLACE ({', '.join(cells)})"):
            found.append(said(books, LOOKED_AT_BY.get(table, ("chains",)) if again < ROUNDS else ("capacity",), runs))
    compare("verify", table, found)


def test_what_is_found_where_any_value_of_a_document_is_another(books: Store) -> None:
    """One value in each document at a time."""
    invoices = {row["number"]: row["document"] for row in books.rows("SELECT number, document FROM invoices")}
    left = values_of_each_kind({number: json.loads(text) for number, text in invoices.items()})
    found = {}
    while any(left.values()):
        turn = {number: some.pop() for number, some in left.items() if some}
        texts = {number: json.dumps(document, separators=(",", ":")) for number, (_, document) in turn.items()}
        pairs = ", ".join(f"number = '{number}', {quoted(text)}" for number, text in texts.items())
        with replaced(books, "invoices", f"* EXCEPT (row_hash) REPLACE (multiIf({pairs}, document) AS document)"):
            failures = list(documents(books))
        for number, (what, _) in turn.items():
            if of_it := sorted(one.what for one in failures if one.where == number):
                found[f"{number} {what}"] = of_it
    compare("verify", "documents", dict(sorted(found.items())))


def test_energy_without_memory_is_reported_as_in_the_golden_file(books: Store) -> None:
    found = energy_report(books, FEBRUARY, ["tenant"]).document()
    compare("verify", "energy", json.loads(json.dumps(found, default=str)))


def values_of_each_kind(documents: dict[str, Any]) -> dict[str, list[tuple[str, Any]]]:
    """By number (what is another, the document with it): of values that stand in the same place of several documents,
    or of several lines of a kind, one, in the document that has fewest yet."""
    where: dict[tuple[Any, ...], dict[str, tuple[Any, ...]]] = defaultdict(dict)
    for number, document in sorted(documents.items()):
        for place in places(document):
            holder = at_place(document, place[:-1])
            if isinstance(holder[place[-1]], str) and not UNREAD.intersection(place):
                kind = holder.get("kind") if isinstance(holder, dict) else None
                named = (one for one in place if isinstance(one, str))
                where[document["document_type"], kind, *named].setdefault(number, place)
    made: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for of_kind in where.values():
        number = min(of_kind, key=lambda number: len(made[number]))
        place = of_kind[number]
        spoiled = json.loads(json.dumps(documents[number]))
        holder = at_place(spoiled, place[:-1])
        holder[place[-1]] = another(holder[place[-1]])
        made[number].append((".".join(map(str, place)), spoiled))
    return made


def at_place(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value


def another(text: str) -> str:
    """Of a number another last digit, of anything else another text."""
    if text and text.lstrip("-").replace(".", "", 1).isdigit():
        return text[:-1] + ("1" if text[-1] != "1" else "2")
    return f"{text}x" if not text.endswith("Z") else f"{text[:-2]}1Z"


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
