"""What every command says of books in which nothing is, and of those that nobody gave a rate card.

GPULEDGER_GOLDEN=write pytest tests/billing/test_golden_bare.py     renews golden/bare.json
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from billing.close import close
from billing.held import effect
from tests.billing.facts import devices, job, put, put_all, samples
from tests.billing.golden import compare
from tests.billing.hand_ledger import at
from tests.billing.test_golden_books import COMMANDS, app, condensed, said
from tests.billing.test_held_effect import held
from tests.draws import seldom
from tests.stores import engine_that_stays, fresh_store
from warehouse.errors import LedgerError
from warehouse.store import Store, open_store

pytestmark = seldom(3, "golden files of the books", 1)

OF_FILES = ("--out", "{")
OF_TODAY = ("ledger --by day", "anomalies --score", "invoice months")
ASKED = [one for one in COMMANDS if not any(part in one for part in OF_FILES) and not one.startswith(OF_TODAY)]
BUSY = job("a", "chem", "g0", "2026-10-05 08:10", "2026-10-05 11:00", project="p", queue="q")


def without_card(store: Store) -> None:
    """Two devices, one of which somebody holds, for some hours of a day."""
    put_all(store, {"devices": devices("2026-10-05 08:00", "g0", "g1"), "events": BUSY})
    put(store, "samples", samples("g0", "2026-10-05 08:30", range(90)))
    close(store, at("2026-10-05 12:00"), at("2026-10-06 00:00"))


@pytest.fixture(scope="module", params=["empty", "without a card"])
def books(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path, dict[str, str]]]:
    """Which they are, where, and its closes' numbers as names."""
    folder = tmp_path_factory.mktemp("bare") / "store"
    with fresh_store(folder, *([without_card] if request.param != "empty" else [])) as store:
        closes = {str(row["run"]): "a close" for row in store.rows("SELECT run FROM close_runs")} or {"no close": ""}
    app()
    with engine_that_stays():
        yield request.param, folder, closes


def test_every_answer_is_that_of_the_golden_file(books: tuple[str, Path, dict[str, str]]) -> None:
    name, folder, closes = books
    found: dict[str, Any] = {}
    for command in ASKED:
        as_json = [] if command.startswith("tenants check") else ["--format", "json"]
        result = CliRunner().invoke(app(), [*command.split(), "--store", f"chdb://{folder}", *as_json])
        assert isinstance(result.exception, LedgerError | SystemExit | None), f"{command}: {result.exception!r}"
        is_no = isinstance(result.exception, LedgerError)
        answer = str(result.exception) if is_no else said(result.stdout, command.split(), closes)
        found[command] = [result.exit_code, condensed(answer)]
    compare("bare", name, json.loads(json.dumps(found)))


def test_a_held_push_is_shown_where_there_is_no_card(books: tuple[str, Path, dict[str, str]]) -> None:
    name, folder, _ = books
    if name == "empty":
        return
    with open_store(f"chdb://{folder}") as store:
        push = held(store, "events", job("b", "bio", "g1", "2026-10-05 09:00", "2026-10-05 10:00"))
        changes = [vars(one) for one in effect(store, push).changes]
        compare("bare", "a held push", json.loads(json.dumps(changes, default=str)))
