"""What is computed again after each step of a life of books, and what is owed then, figure by figure.

GPULEDGER_GOLDEN=write pytest tests/billing/test_golden_three_months.py     renews golden/life.json

Random histories are for test_histories.py, which reckons them another way. This one has each kind of change once, in
each run, and says of each which hours a close looked at: read the difference before it is renewed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from billing.accounts.prepaid import balances
from billing.close.run import stale_hours
from billing.invoicing.invoices import draft_all, issued
from billing.invoicing.month_states import month_states
from billing.rates import current_rate_card
from ingest.held import held_pushes
from tests.billing.answers import heard
from tests.billing.golden import FOLDER, compare, digest
from tests.billing.three_month_books import END, FEBRUARY, MARCH, STEPS, Life
from tests.draws import seldom
from tests.stores import fresh_store
from warehouse.store import Store, identifier

pytestmark = seldom(3, "golden files of the books", 0)

DRAWN = {"run", "batch", "inputs", "books_run", "as_of_run", "closed_at", "claim"}
"""Of rows and documents what is another each time."""
FIGURES = ("ledger", "energy", "allocations", "refused_claims")


def name_of(step: Callable[[Life], None]) -> str:
    return step.__name__.replace("_", " ")


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    begun = Life(fresh_store(tmp_path_factory.mktemp("life")))
    begun.store.command("SET max_threads = 1")  # the tables are small, and threads cost more than they gain
    yield begun
    begun.store.close()


def without_drawn(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: without_drawn(one) for name, one in value.items() if name not in DRAWN}
    return [without_drawn(one) for one in value] if isinstance(value, list) else value


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
        reported = ", ".join(f"toString({identifier(name)}) AS {identifier(name)}" for name in names)
        rows = store.rows(f"SELECT {reported} FROM {identifier(table)} ORDER BY ALL")
        yield f"{table}, rows", len(rows)
        for name in names:
            yield f"{table}.{name}", digest([row[name] for row in rows])


def what_is(life: Life) -> dict[str, Any]:
    """All that the books say after a step."""
    store, card = life.store, current_rate_card(life.store)
    found = {**dict(tables(store)), **(dict(documents(store)) if issued(store) or not life.closes else {})}
    for one in balances(store, now=life.now):
        found[f"balance of {one.tenant}"] = str(without_drawn(vars(one)))
    found["months"] = [f"{one.name} {one.state} {one.invoices}" for one in month_states(store, life.now)]
    found["held"] = sorted(f"{one.rows} of {one.sender}: {one.reason}, {one.detail}" for one in held_pushes(store))
    found["stale"] = [f"{hour:%m-%dT%H}" for hour in stale_hours(store, END + timedelta(hours=1), card)]
    return found


def changes(life: Life) -> dict[str, Any]:
    """What they did not say before."""
    before, life.known = life.known, what_is(life)
    gone = dict.fromkeys(before.keys() - life.known)
    others = {name: one for name, one in {**gone, **life.known}.items() if name not in before or before[name] != one}
    return {"closes": life.closes, **life.said, **others}


@pytest.mark.parametrize("number", range(len(STEPS)), ids=[name_of(step) for step in STEPS])
def test_after_each_step_the_books_say_what_the_golden_file_says(
    life: Life, number: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if life.steps > number:  # this worker took later ones before
        life.store.close()
        vars(life).update(vars(Life(fresh_store(tmp_path_factory.mktemp("life")))))
        life.store.command("SET max_threads = 1")
    if life.steps < number:  # another worker of the run took those before
        for step in STEPS[life.steps : number]:
            life.do(step)
        life.known = what_is(life)
    with heard() as answers:
        life.do(STEPS[number])
    compare("life", name_of(STEPS[number]), json.loads(json.dumps(changes(life), default=str)))
    compare("answers", name_of(STEPS[number]), answers.reported())


def test_the_golden_file_has_nothing_else() -> None:
    known = json.loads((FOLDER / "life.json").read_text(encoding="utf-8"))
    assert set(known) == {name_of(step) for step in STEPS}
