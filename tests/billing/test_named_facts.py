"""A close reads the batches that it names when it begins, whatever is written while it runs; and its invoices follow
from these. The writes are put between two of the close's statements, so no clock decides what they meet."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from billing.close import close
from billing.invoicing import invoices
from billing.invoicing.invoices import InvoiceError, issue_all
from billing.invoicing.rederive import rederive
from billing.periods import parse_period
from billing.rates import apply_rate_card, parse_rate_card
from billing.verify import verify
from ingest import write as writing
from tests.billing.facts import SAMPLE, devices, job, put, samples
from tests.billing.hand_ledger import at
from tests.draws import seldom
from tests.stores import fresh_store
from warehouse.store import Store, read_sql

OCTOBER = parse_period("2026-10", "UTC")
ISSUED_AT = at("2026-11-10 00:00")
ROUNDS = int(os.environ.get("GPULEDGER_CLOSES", "1"))
"""Random closes with writes in between; ad hoc many more."""


def fleet(store: Store) -> None:
    """The last hours of October: two jobs, one of them metered with its energy, which costs."""
    card = {
        "currency": "EUR",
        "rates": [{"sku": "gpu", "price_per_gpu_hour": "100.00"}],
        "components": [{"sku": "kwh", "kind": "energy", "price": "10.00"}],
    }
    apply_rate_card(store, parse_rate_card(card), "me", "", at("2026-10-31 00:00"))
    put(store, "devices", devices("2026-10-31 19:00", "g0", "g1"))
    put(store, "events", job("a", "chem", "g0", "2026-10-31 19:00", "2026-11-01 03:00"))
    put(store, "events", job("b", "phys", "g1", "2026-10-31 20:30", "2026-10-31 23:00"))
    drawn = [{**row, "energy_joules": 3e5} for row in samples("g0", "2026-10-31 19:00", range(150))]
    put(store, "samples", drawn)


def closed_fleet(store: Store) -> None:
    close(store, OCTOBER.end, ISSUED_AT)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with fresh_store(tmp_path, fleet) as opened:
        yield opened


@contextmanager
def between(store: Store, writes: dict[str, Callable[[], None]], patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Does each write before the first statement that has its text; yields the texts that never came."""
    waiting = dict(writes)

    def watched(method: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Store, sql: str, *rest: Any, **more: Any) -> Any:
            if self.database == store.database:
                for text in [text for text in waiting if text in sql]:
                    waiting.pop(text)()
            return method(self, sql, *rest, **more)

        return run

    with patch.context() as patched:
        for name in ("rows", "command"):
            patched.setattr(Store, name, watched(getattr(Store, name)))
        left: list[str] = []
        yield left
        left.extend(waiting)


MOMENTS = (
    "SELECT max(checked_by) AS last", "INSERT INTO close_batches", "ENGINE = Set", "FROM events", "FROM devices",
    "sum(cityHash64('batch', batch))", "sum(rows) AS samples", "minOrNull(shortest_ms)", "FROM stream_hours",
    "bitNot(sum(reported.batches))", "INTO closed_hours", "INTO close_runs",
)  # fmt: skip
"""Texts of a close's statements, in their order."""


def half_written(store: Store, record: str, rows: list[dict[str, Any]], patch: pytest.MonkeyPatch) -> None:
    """As a kill -9 just before the acknowledgement leaves a batch."""

    class KilledError(Exception):
        pass

    def read(file: str, name: str, /, **parts: object) -> str:
        if name == "acknowledge_batch":
            raise KilledError
        return read_sql(file, name, **parts)

    with patch.context() as patched, pytest.raises(KilledError):
        patched.setattr(writing, "read_sql", read)
        put(store, record, rows)


@seldom(6, "a half written batch does not count")
def test_a_half_written_batch_does_not_count_until_it_is_completed(store: Store, monkeypatch: Any) -> None:
    used = samples("g1", "2026-10-31 20:30", range(60), 1.0)
    ended = job("c", "bio", "g1", "2026-10-31 23:00", "2026-10-31 23:30")
    added = devices("2026-10-31 22:00", "g2")
    late = {"samples": used, "events": ended, "devices": added}
    for record, rows in late.items():
        half_written(store, record, rows, monkeypatch)
    close(store, OCTOBER.end, ISSUED_AT)
    hours = "SELECT toFloat64(sum(used_unit_ms)) / 3600000 AS used, uniqExact(device_id) AS devices FROM ledger"
    assert store.rows(hours) == [{"used": 1.25, "devices": 2}]
    before = issue_all(store, OCTOBER, ISSUED_AT)
    assert [one.tenant for one in before] == ["chem", "phys"]
    assert verify(store).balanced
    for record, rows in late.items():
        put(store, record, rows)
    assert close(store, OCTOBER.end, ISSUED_AT).changed == 4  # from 20:00 on: all that they touch, and no more
    assert store.rows(hours) == [{"used": 2.25, "devices": 3}]
    assert rederive(store, before[1].number or "").differences == ()


@seldom(6, "what is written while a close runs")
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_what_is_written_while_a_close_runs_is_read_whole_or_not_at_all(
    store: Store, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = Random(f"writes {seed}")
    numbers = count()

    def write() -> None:
        n = next(numbers)
        instant = at("2026-10-31 20:30") + timedelta(minutes=dice.randrange(200), seconds=n + 1)
        kind = dice.choice(("samples", "samples", "events", "devices"))
        rows = {
            "samples": [
                {**SAMPLE, "ts": instant + timedelta(hours=h), "device_id": f"g{dice.randrange(2)}",
                 "utilization": 1.0, "energy_joules": 9e6} for h in range(-1, 2)
            ],
            "events": job(f"x{n}", "bio", f"x{n}", "2026-10-31 22:00", "2026-10-31 23:00"),
            "devices": devices("2026-10-31 21:00", f"x{n}"),
        }[kind]  # fmt: skip
        if dice.random() < 0.3:
            half_written(store, kind, rows, monkeypatch)
        else:
            put(store, kind, rows)

    with between(store, dict.fromkeys(dice.sample(MOMENTS, 5), write), monkeypatch) as left:
        close(store, OCTOBER.end, ISSUED_AT)
    assert left == []
    try:
        issued = issue_all(store, OCTOBER, ISSUED_AT)
    except InvoiceError as refused:
        assert "arrived after the last close" in str(refused)
        close(store, OCTOBER.end, ISSUED_AT)
        issued = issue_all(store, OCTOBER, ISSUED_AT)
    assert rederive(store, dice.choice(issued).number or "").differences == (), f"seed {seed}"


@seldom(6, "a month is not issued with lines")
def test_a_month_is_not_issued_with_lines_of_before_and_after_a_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fresh_store(tmp_path, fleet, closed_fleet) as store:

        def closed_again() -> None:
            put(store, "samples", samples("g1", "2026-10-31 20:30", range(60)))
            close(store, OCTOBER.end, ISSUED_AT)

        drafted = {"DISTINCT tenant FROM grants": closed_again}
        refused = pytest.raises(InvoiceError, match="closed again meanwhile")
        with between(store, drafted, monkeypatch) as left, refused:
            issue_all(store, OCTOBER, ISSUED_AT)
        assert (left, invoices.issued(store)) == ([], [])
        assert issue_all(store, OCTOBER, ISSUED_AT)
