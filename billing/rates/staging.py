"""A card's prices as a working table, for statements that join the ledger or the claims with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from billing.rates.prices import PriceBook, Subject
from billing.rates.rate_card import RateCard
from warehouse.instants import epoch_ms
from warehouse.store import Store, read_sql

DEPENDENT_TABLES = ("price_subjects", "price_schedules")


def subject_params(*cards: RateCard | None) -> dict[str, Any]:
    """Parameters of statements that reduce what is held to subjects of these cards: which keys to keep (`by_queue`,
    `by_preemptible`, `by_cluster`: 0 or 1) and where classes of priority begin or end (`priority_bounds`, in order)."""
    given = [card for card in cards if card is not None]
    by_priority = any(card.asks_for("priority") for card in given)
    bounds = sorted({bound for card in given for bound in card.priority_bounds}) if by_priority else []
    return {
        "by_queue": int(any(card.asks_for("queue") for card in given)),
        "by_preemptible": int(any(card.asks_for("preemptible") for card in given)),
        "by_cluster": int(any(card.asks_for("cluster") for card in given)),
        "priority_bounds": bounds,
    }


def subject_keys(of: str, prefix: str = "") -> str:
    """SQL of what prices depend on of the holder besides profile and tenant, as far as `subject_params` says: queue,
    priority level (0: no priority was reported; else 1 + how many of the bounds it reaches) and preemptibility.

    of: the table whose rows have them.   prefix: of the names that they are given, if its own are in use.
    """
    text = read_sql(__file__, "subject_keys", of=of, prefix=prefix)
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def subject_of(row: Mapping[str, Any]) -> Subject:
    """The subject in a row of those statements; `priority` there is one of its level's."""
    return Subject(
        row["model"],
        row["pool"],
        row["partition_profile"],
        row["tenant"],
        row["queue"],
        row["priority"],
        bool(row["preemptible"]),
        row["cluster"],
    )


def stage_prices(
    store: Store,
    tables: Mapping[str, str],
    card: RateCard | None,
    subjects: Sequence[Mapping[str, Any]],
    start: datetime,
    end: datetime,
) -> None:
    """Creates and fills the working table `prices` with what the card says of the subjects in [start, end).

    tables:   names of `prices`, and of `price_subjects` and `price_schedules`, which are gone afterwards.
    subjects: rows of model, pool, cluster, partition_profile, tenant, queue, priority_level, priority, preemptible.
    """
    import pyarrow as pa

    store.command(read_sql(__file__, "stage_prices"), tables)
    if card is None or not subjects or start >= end:
        return
    book = PriceBook(card, start, end)
    schedules: dict[int, int] = {}
    of_subject = [schedules.setdefault(book.rules_of(subject_of(row)), len(schedules)) for row in subjects]
    periods = [
        (number, position, period)
        for rules, number in schedules.items()
        for position, period in enumerate(book.schedule_of(rules))
    ]
    if not periods:
        return
    for name in DEPENDENT_TABLES:
        store.command(read_sql(__file__, f"stage_{name}"), tables)
    texts = ("model", "pool", "cluster", "partition_profile", "tenant", "queue")
    store.insert(
        tables["price_subjects"],
        pa.table(
            {
                "number": pa.array(range(len(subjects)), pa.uint64()),
                **{name: pa.array([row[name] for row in subjects], pa.string()) for name in texts},
                "priority_level": pa.array([row["priority_level"] for row in subjects], pa.uint32()),
                "preemptible": pa.array([int(row["preemptible"]) for row in subjects], pa.uint32()),
                "schedule": pa.array(of_subject, pa.uint32()),
            }
        ),
    )
    store.insert(
        tables["price_schedules"],
        pa.table(
            {
                "schedule": pa.array([number for number, _, _ in periods], pa.uint32()),
                "position": pa.array([position for _, position, _ in periods], pa.uint32()),
                "from_ms": pa.array([epoch_ms(period.start) for _, _, period in periods], pa.int64()),
                "to_ms": pa.array([epoch_ms(period.end) for _, _, period in periods], pa.int64()),
                "sku": [period.price.sku for _, _, period in periods],
                "list_unit_price": pa.array([_text(p.price.list_unit_price) for _, _, p in periods], pa.string()),
                "contracted_unit_price": pa.array(
                    [_text(p.price.contracted_unit_price) for _, _, p in periods], pa.string()
                ),
                "currency": [card.currency] * len(periods),
            }
        ),
    )
    store.command(read_sql(__file__, "fill_prices"), tables)
    for name in DEPENDENT_TABLES:
        store.command("DROP TABLE {table:Identifier}", {"table": tables[name]})


def _text(price: object) -> str:
    return format(price, "f")
