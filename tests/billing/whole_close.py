"""What a close would find that reads everything again: the oracle of the closes that read only what is new."""

from __future__ import annotations

from typing import Any

from billing.close.carried import carried_over
from billing.close.facts import present_facts
from billing.close.hours import drop_stage, hours_before, stage_claims_and_prices
from billing.close.published import prepare_claims, published
from billing.close.run import _dirty, _next_run
from billing.close.stage import Stage
from billing.closed import closed_part, period_document
from billing.rates import current_rate_card
from billing.tenants import current_mapping
from warehouse.store import Store


def reads_everything(store: Store) -> bool:
    """Whether the next close would."""
    return carried_over(store, Stage(_next_run(store)), current_mapping(store)) is None


def closed_books(store: Store) -> list[list[dict[str, Any]]]:
    """What closes have written, without the number of the one that did, and what is closed."""
    tables = ("ledger", "energy", "allocations", "refused_claims")
    return [
        *(
            store.rows(f"SELECT {'* EXCEPT (run)' if table in ('ledger', 'energy') else '*'} FROM {table} ORDER BY ALL")
            for table in tables
        ),
        [period_document(closed_part(store, None))],
    ]


def check_as_whole(store: Store) -> None:
    """Right after a close: each hour's inputs, what is published of allocations and what is refused are those of a
    close that reads all facts. The entries follow from the inputs."""
    limit = store.value("SELECT maxOrNull(closed_until) AS last FROM close_runs")
    if limit is None:
        return
    stage, card = Stage(_next_run(store)), current_rate_card(store)
    try:
        present_facts(store, stage)
        refused, _ = stage_claims_and_prices(store, stage, limit, card, current_mapping(store))
        dirty = _dirty(store, hours_before(store, stage, limit, card), limit)
        expected = prepare_claims(store, stage, refused)
    finally:
        drop_stage(store, stage)
    assert [hour.hour for hour in dirty] == []
    assert published(store) == expected
