"""What each check of `verify` finds by itself, whatever the chains say. That it finds nothing in books that fit:
test_tampering.py, of the same books."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

import pytest

from billing.close.resolve import FOREVER
from billing.invoicing.invoices import issue_all, issued
from billing.verify import Failure, verify
from billing.verify.run import closed_hours, device_hours, documents, entries, prices, published
from tests.billing.hand_ledger import at
from tests.billing.rich_books import FEBRUARY, rich_books
from tests.billing.test_tampering import replaced
from warehouse.store import Store

ALWAYS = {"start": datetime(1970, 1, 1, tzinfo=UTC), "end": datetime(2100, 1, 1, tzinfo=UTC), "most": 100}
HELD = "allocation_id != '' AND (hour, run) IN (SELECT hour, argMax(run, checked_by) FROM closed_hours GROUP BY hour)"
Check = Callable[[Store], Iterable[Failure]]


def capacity(store: Store) -> list[Failure]:
    return device_hours(store, {**ALWAYS, "forever": FOREVER})[0]


def fingerprints(store: Store) -> Iterable[Failure]:
    return entries(store, ALWAYS)


def rated(store: Store) -> Iterable[Failure]:
    return prices(store, ALWAYS)


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with rich_books(tmp_path_factory.mktemp("books")) as store:
        yield store


def total(name: str) -> str:
    return f"""replaceRegexpOne(document, '"{name}":"[^"]*","', '"{name}":"777.77","')"""


def say(name: str, value: str) -> str:
    return f"""replaceRegexpOne(document, '"{name}":"[^"]*"', '"{name}":"{value}"')"""


DOCUMENTS = [
    # (column, its new value, number, what is found)
    ("number", "'GL-2026-00009'", 2, "its number is not that of its place"),
    ("tenant", "'rival'", 2, "its row says something else than its document"),
    ("currency", "'USD'", 2, "its row says something else"),
    ("issuer", "'rival'", 2, "is missing before it"),
    ("issued_at", "issued_at + 1", 2, "its row says something else"),
    ("period_start", "period_start - 1", 2, "its row says something else"),
    ("period_end", "period_end + 1", 2, "its row says something else"),
    ("total", "total + 1", 2, r"its row says [\d.]+, its document"),
    ("document", total("net"), 2, r"its lines come to 2\.87 net, its total says 777\.77"),
    ("document", total("tax"), 2, r"its taxes come to 0\.55, its total says 777\.77"),
    ("document", total("prepaid"), 4, r"its draws come to 4, its total says 777\.77"),
    ("document", say("due", "777.77"), 4, r"4\.1 is due, its total says 777\.77"),
    ("document", "replaceAll(document, 'GL-2026-00001', 'GL-2026-00099')", 6, "it corrects GL-2026-00099, which"),
    ("document", say("references", "GL-2026-00002"), 5, "it credits GL-2026-00002, which was never issued to chem"),
    ("document", "replaceAll(document, 'credit:c0', 'credit:c9')", 1, "its line of credit:c9 is not the"),
    ("document", "replaceAll(document, '\"grant\":\"g1\"', '\"grant\":\"g9\"')", 4, "it draws on grant g9"),
    ("document", say("allocated_gpu_hours", "1.5"), 8, r"it bills 1\.5 GPU-hours, the ledger has 1\.25"),
    ("document", say("used_gpu_hours", "1.5"), 8, r"it says that 1\.5 GPU-hours were used, the ledger 0\.125"),
    ("document", say("list_cost", "1.5"), 8, r"its usage comes to 1\.5 at list price, the ledger's to 3\.8375"),
    ("document", say("billed_cost", "1.5"), 8, r"its usage comes to 1\.5, the ledger's to 3\.3875"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "value", "number", "found"), DOCUMENTS)
def test_a_document_that_does_not_fit_is_found(books: Store, column: str, value: str, number: int, found: str) -> None:
    cell = f"if(number = 'GL-2026-0000{number}', {value}, {column}) AS {column}"
    with replaced(books, "invoices", f"* EXCEPT (row_hash) REPLACE ({cell})"):
        assert any(re.search(found, one.what) for one in documents(books)), [str(one) for one in documents(books)]


@pytest.mark.parametrize(
    ("check", "table", "columns", "which", "found"),
    [
        (documents, "invoices", "", "WHERE sequence != 3", "number 3 of 2026 is missing before it"),
        (documents, "credits", "", "WHERE id != 'c0'", "its line of credit:c0 is not the credit that was given"),
        (documents, "credits", "", "WHERE id != 'c2'", "it takes c2 back, which was never given"),
        (documents, "credits", "if(id = 'c2', 0.24, amount) AS amount", "", "it takes c2 back, which was never given"),
        (documents, "voided_invoices", "'GL-2026-00099' AS number", "", "it was never issued"),
        (documents, "grants", "", "WHERE id != 'g1'", "it draws on grant g1, which was never given to phys"),
        (fingerprints, "ledger_entries", "if(used_unit_ms > 0, idle_unit_ms, used_unit_ms) AS used_unit_ms, "
         "if(used_unit_ms > 0, used_unit_ms, idle_unit_ms) AS idle_unit_ms", "", "entries or energy entries were"),
        (fingerprints, "energy_entries", "energy_millijoules + 1 AS energy_millijoules", "", "entries or energy"),
        (rated, "ledger_entries", f"if({HELD}, 1.5, contracted_unit_price) AS contracted_unit_price", "",
         r"its price for chem is 1\.5 \(big\), by the rate card 3\.07 \(big\)"),
        (rated, "ledger_entries", f"if({HELD}, 1.5, list_unit_price) AS list_unit_price", "", "its price for"),
        (rated, "ledger_entries", f"if({HELD}, 'cheap', sku) AS sku", "", r"3\.07 \(cheap\), by the rate card"),
        (rated, "ledger_entries", f"if({HELD}, 'USD', billing_currency) AS billing_currency", "", "its price for"),
        (rated, "ledger_entries", f"if({HELD}, list_unit_price, NULL) AS list_unit_price", "", "price for nobody is"),
        (rated, "rate_cards", "", "WHERE sequence = 1", "hours were closed by it, and it is not there"),
        (rated, "rate_cards", "'{' AS card", "", "is no rate card any more"),
        (closed_hours, "closed_hours", "inputs + 1 AS inputs", "", "its row is not what the close wrote"),
        (closed_hours, "closed_hours", "", "ARRAY JOIN range(2) AS twice", "a close wrote it twice"),
        (closed_hours, "closed_hours", "", "WHERE hour != '2026-02-10 08:00:00'", "5 hours are closed, the last"),
        (closed_hours, "closed_hours", "", "WHERE 0", "no hour is closed, the last close left 6"),
        (capacity, "closed_hours", "", "WHERE hour != '2026-02-10 08:00:00'",
         "the hour is not closed"),
        (published, "allocations", "", "WHERE allocation_id != 'a02'", "it is not what the last close published"),
        (published, "refused_claims", "", "WHERE 0", "it is not what the last close published"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_found(
    books: Store, check: Check, table: str, columns: str, which: str, found: str
) -> None:
    gone = "row_hash, twice" if "twice" in which else "row_hash"
    chosen = f"* EXCEPT ({gone})" + (f" REPLACE ({columns})" if columns else "")
    with replaced(books, table, chosen, which):
        failures = list(check(books))
        assert any(re.search(found, one.what) for one in failures), [str(one) for one in failures]


def test_prices_of_one_card_are_checked_though_another_is_gone(books: Store) -> None:
    """The first of them, as they come."""
    first = "run = (SELECT min(run) FROM close_runs)"
    gone = f"if({first}, run + 1000000000, run) AS run, if({first}, '000000000000', rate_card) AS rate_card"
    dear = f"if({HELD}, 1.5, list_unit_price) AS list_unit_price"
    with (
        replaced(books, "ledger_entries", f"* EXCEPT (row_hash) REPLACE ({dear})"),
        replaced(books, "close_runs", f"* EXCEPT (row_hash) REPLACE ({gone})"),
    ):
        found = [one.what for one in rated(books)]
    assert any("it is not there" in what for what in found), found
    assert any("its price for" in what for what in found), found


def test_closes_from_before_their_results_were_recorded_are_no_failure(books: Store) -> None:
    unsaid = "NULL AS hours_closed, NULL AS allocations, NULL AS refused_claims"
    with replaced(books, "close_runs", f"* EXCEPT (row_hash) REPLACE ({unsaid})"):
        assert [*closed_hours(books), *published(books)] == []


def test_a_range_is_checked_alone(books: Store) -> None:
    hour = at("2026-03-10 08:00")
    with replaced(
        books, "ledger_entries", f"* EXCEPT (row_hash) REPLACE (if({HELD}, 1.5, list_unit_price) AS list_unit_price)"
    ):
        assert {one.hour for one in verify(books, hour, at("2026-03-10 09:00")).failures} == {hour}
        assert verify(books, at("2026-02-10 12:00"), at("2026-03-10 08:00")).balanced


def test_issuing_again_changes_no_chain(books: Store) -> None:
    before = books.rows("SELECT number, position, previous, digest FROM invoices ORDER BY position")
    issue_all(books, FEBRUARY, at("2026-04-10 00:00"))
    assert books.rows("SELECT number, position, previous, digest FROM invoices ORDER BY position") == before
    assert len(issued(books)) == len(before)
