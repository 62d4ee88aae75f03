"""Pushes while a month is being issued: what came before is on the invoices, what comes after waits for a person, and
no row falls between. Real HTTP, the real engine, threads."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from billing.invoicing.invoices import InvoiceError, draft_all, issue_all, issued
from billing.periods import parse_period
from tests.draws import keep_seed, seldom
from tests.ingest import issued_fleet
from tests.ingest.issued_fleet import ANYBODY, ISSUED_AT, NOW, OCTOBER, Forged, closed, late_rows, sample
from tests.ingest.pushing import ledger, push
from tests.ingest.receiving import Served, receiving
from tests.patience import PATIENCE_SECONDS, until
from tests.stores import fresh_store
from warehouse.store import Store
from warehouse.turns import Turns

ROUNDS = int(os.environ.get("GPULEDGER_RACES", "1"))
"""Random races; ad hoc many more."""


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "senders.yaml"
    path.write_text(issued_fleet.SENDERS)
    return path


@pytest.fixture
def open_month(tmp_path: Path) -> Iterator[Store]:
    """October is closed, and not issued."""
    with fresh_store(tmp_path / "store", issued_fleet.closed_fleet) as store:
        yield store


def test_pushes_judged_before_and_written_after_the_issue_are_held(open_month: Store, tokens: Path) -> None:
    with receiving(open_month, tokens, linger_seconds=600, now=lambda: NOW) as served, ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(push, served, one) for one in late_rows(500)]
        until(lambda: served.coalescer.waiting_rows >= len(answers))
        assert not any(answer.done() for answer in answers), "they are judged, and wait for their turn"
        assert issue_all(open_month, OCTOBER, ISSUED_AT)
        before = ledger(open_month)
        served.coalescer.close()
        reports = [answer.result(PATIENCE_SECONDS).json() for answer in answers]
    assert [(report["stored"], report["held"]) for report in reports] == [(0, {"issued_month": 1})] * 2
    closed(open_month)
    assert ledger(open_month) == before


def test_a_push_judged_before_and_written_after_a_close_is_stored(open_month: Store, tokens: Path) -> None:
    """The near miss: other books, and nothing is issued."""
    one = late_rows(501)[0]
    with receiving(open_month, tokens, linger_seconds=600, now=lambda: NOW) as served, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(push, served, one)
        until(lambda: served.coalescer.waiting_rows)
        closed(open_month)
        served.coalescer.close()
        assert answer.result(PATIENCE_SECONDS).json()["stored"] == 1


def test_what_came_after_the_last_close_keeps_its_month_from_being_issued(open_month: Store, tokens: Path) -> None:
    with receiving(open_month, tokens, now=lambda: NOW) as served:
        assert push(served, late_rows(502)[0]).json()["stored"] == 1
        with pytest.raises(
            InvoiceError, match="facts of 1 of its hours arrived after the last close, from 2026-10-06T10"
        ):
            issue_all(open_month, OCTOBER, ISSUED_AT)
        assert not [one for one in issued(open_month, OCTOBER) if not one.is_void]
        closed(open_month)
        # What is of another month does not matter to this one.
        assert push(served, Forged("", ANYBODY, "samples", [sample("g3", "n3", NOW, "lively")])).json()["stored"] == 1
    assert issue_all(open_month, OCTOBER, ISSUED_AT)


@seldom(6, "pushes while a month is issued are")
@pytest.mark.parametrize("number", range(ROUNDS))
def test_pushes_while_a_month_is_issued_are_on_its_invoices_or_held(
    open_month: Store, tokens: Path, number: int
) -> None:
    chance = random.Random(f"{keep_seed()} race {number}")

    def pushed(served: Served, one: Forged) -> dict[str, Any]:
        time.sleep(chance.uniform(0.0, 0.5))
        return dict(push(served, one).json())

    rows = [one for n in range(2) for one in late_rows(10 * number + n)]
    with receiving(open_month, tokens, now=lambda: NOW) as served, ThreadPoolExecutor(len(rows)) as pool:
        answers = [pool.submit(pushed, served, one) for one in rows]
        time.sleep(chance.uniform(0.0, 0.4))
        for _ in range(20):
            try:
                issue_all(open_month, OCTOBER, ISSUED_AT)
                break
            except InvoiceError:
                closed(open_month)
        before = ledger(open_month)
        reports = [answer.result(PATIENCE_SECONDS) for answer in answers]
    assert [one for one in issued(open_month, OCTOBER) if not one.is_void]
    closed(open_month)
    assert ledger(open_month) == before, f"race {number}: {reports}"
    assert sum(report["stored"] + report["held"].get("issued_month", 0) for report in reports) == len(rows)
    drafts = draft_all(open_month, parse_period("2026-11", "UTC"))
    assert not [line for one in drafts for line in one.lines if line["charge_class"] == "Correction"]


def test_turns_are_taken_in_the_order_of_asking_and_one_at_a_time() -> None:
    turns, order, inside = Turns(), [], 0

    def take(number: int) -> None:
        nonlocal inside
        with turns.turn("it"):
            inside += 1
            assert inside == 1
            order.append(number)
            time.sleep(0.005)
            inside -= 1

    with ThreadPoolExecutor(6) as pool, turns.turn("it"):
        tasks = []
        for number in range(6):
            tasks.append(pool.submit(take, number))
            until(lambda: len(turns._queues["it"]) == len(tasks) + 1, every=0.001)
        assert not order
    for task in tasks:
        task.result(PATIENCE_SECONDS)
    assert order == list(range(6))
