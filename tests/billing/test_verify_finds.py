"""`verify` finds a document, a price, an entry and a close that do not fit, each by a check of its own. Of small books;
every cell of rich ones: test_verify.py, test_tampering.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from billing.verify import verify
from tests.billing.test_tampering import replaced
from tests.dashboards.site import fill
from tests.stores import fresh_store
from warehouse.store import Store


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("books") / "store", fill) as store:
        yield store


def test_in_books_that_fit_it_finds_nothing(books: Store) -> None:
    assert verify(books).balanced


@pytest.mark.parametrize(
    ("table", "columns", "found"),
    [
        ("invoices", "if(sequence = 2, 'GL-2026-00009', number) AS number", "its number is not that of its place"),
        ("invoices", "if(sequence = 2, total + 1, total) AS total", "its row says 97, its document 96"),
        ("ledger_entries", "used_unit_ms + 1 AS used_unit_ms", "entries or energy entries were"),
        ("ledger_entries", "if(tenant = 'speech', 1.75, contracted_unit_price) AS contracted_unit_price",
         "its price for speech is 1.75"),
        ("closed_hours", "inputs + 1 AS inputs", "its row is not what the close wrote"),
        ("credits", "if(tenant = 'vision', 5, amount) AS amount", "its digest does not fit"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_found(books: Store, table: str, columns: str, found: str) -> None:
    with replaced(books, table, f"* EXCEPT (row_hash) REPLACE ({columns})"):
        said = [one.what for one in verify(books).failures]
    assert any(found in what for what in said), said
