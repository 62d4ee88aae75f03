"""What is computed again after each step of a life of books, and what is owed then, figure by figure.

GPULEDGER_GOLDEN=write pytest tests/billing/test_golden_life.py     renews golden/life.json

Random histories are for test_histories.py, which reckons them another way. This one has each kind of change once, in
each run, and says of each which hours a close looked at: read the difference before it is renewed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from billing.accounts.prepaid import balances
from billing.close import CloseReport
from billing.close.run import stale_hours
from billing.invoicing.invoices import draft_all, issued
from billing.invoicing.month_states import month_states
from billing.rates import current_rate_card
from ingest.held import held_pushes
from tests.billing.golden import compare, digest
from tests.billing.life_books import END, FEBRUARY, MARCH, STEPS, Life
from tests.stores import fresh_store
from warehouse.store import Store, identifier

DRAWN = {"run", "batch", "inputs", "books_run", "as_of_run", "closed_at", "claim"}
"""Of rows and documents what is another each time."""
FIGURES = ("ledger", "energy", "allocations", "refused_claims")


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    with fresh_store(tmp_path_factory.mktemp("life")) as store:
        store.command("SET max_threads = 1")  # the tables are small, and threads cost more than they gain
        yield Life(store)


def without_drawn(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: without_drawn(one) for name, one in value.items() if name not in DRAWN}
    return [without_drawn(one) for one in value] if isinstance(value, list) else value


def looked_at(store: Store, report: CloseReport) -> dict[str, Any]:
    """The hours of a close, and those of which the entries are others than before."""
    sql = "SELECT formatDateTime(hour, '%m-%dT%H', 'UTC') AS at, run = checked_by AS is_other FROM closed_hours"
    rows = store.rows(f"{sql} WHERE checked_by = {{run:UInt64}} ORDER BY hour", {"run": report.run})
    again, same = ([row["at"] for row in rows if bool(row["is_other"]) is value] for value in (True, False))
    numbers = (report.checked, report.changed, report.refused, report.held)
    assert (len(again) + len(same), len(again)) == numbers[:2]
    return {"until": f"{report.closed_until:%m-%d}", "others": again, "the same": same, "refused, held": numbers[2:]}


def documents(store: Store) -> Iterator[tuple[str, Any]]:
    """All that were issued, and drafts of two months."""
    for one in [*issued(store), *draft_all(store, FEBRUARY), *draft_all(store, MARCH)]:
        document = without_drawn(one.document)
        lines = document.pop("lines")
        amounts = [f"{line['kind']} {line['charge_class'] or ''} {line['amount']}" for line in lines]
        name = f"{one.month} {one.tenant or 'nobody'} {one.number or 'draft'}"
        yield name, f"{one.document['status']} {one.amount}: {', '.join(amounts)}; {digest(lines)} {digest(document)}"


def tables(store: Store) -> Iterator[tuple[str, Any]]:
    """Of each column of the books a digest."""
    for table in FIGURES:
        columns = "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = {table:String}"
        names = [row["name"] for row in store.rows(columns, {"table": table}) if row["name"] not in DRAWN]
        told = ", ".join(f"toString({identifier(name)}) AS {identifier(name)}" for name in names)
        rows = store.rows(f"SELECT {told} FROM {identifier(table)} ORDER BY ALL")
        yield f"{table}, rows", len(rows)
        for name in names:
            yield f"{table}.{name}", digest([row[name] for row in rows])


def changes(life: Life) -> dict[str, Any]:
    """What the books say after a step, and did not before."""
    store, card = life.store, current_rate_card(life.store)
    found = {**dict(tables(store)), **(dict(documents(store)) if issued(store) or life.reports == [] else {})}
    for one in balances(store, now=life.now):
        found[f"balance of {one.tenant}"] = str(without_drawn(vars(one)))
    found["months"] = [f"{one.name} {one.state} {one.invoices}" for one in month_states(store, life.now)]
    found["held"] = sorted(f"{one.rows} of {one.sender}: {one.reason}, {one.detail}" for one in held_pushes(store))
    found["stale"] = [f"{hour:%m-%dT%H}" for hour in stale_hours(store, END + timedelta(hours=1), card)]
    before, life.known = life.known, found
    gone = dict.fromkeys(before.keys() - found)
    changed = {name: one for name, one in {**found, **gone}.items() if name not in before or before[name] != one}
    return {"closes": [looked_at(store, one) for one in life.reports], **changed}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__.replace("_", " "))
def test_after_each_step_the_books_say_what_the_golden_file_says(life: Life, step: Any) -> None:
    life.reports.clear()
    step(life)
    compare("life", step.__name__.replace("_", " "), json.loads(json.dumps(changes(life), default=str)))
