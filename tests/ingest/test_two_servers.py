"""Pushes to one server while another issues or closes, over one ClickHouse server: the real engine behind HTTP, and
connections as two processes have them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from billing.audit import history
from billing.close import close
from billing.held import accept, refuse
from billing.invoicing.invoices import issue_all
from ingest.errors import IngestError
from ingest.held import HeldPush, held_pushes
from tests.billing.hand_ledger import at
from tests.draws import seldom
from tests.ingest import issued_fleet
from tests.ingest.issued_fleet import ANYBODY, ISSUED_AT, NOW, OCTOBER, Forged, sample
from tests.ingest.pushing import push
from tests.ingest.receiving import receiving
from tests.patience import PATIENCE_SECONDS, until
from tests.stores import fresh_store
from tests.warehouse.engine_over_http import served
from warehouse.store import Store, open_store

Report = dict[str, Any]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Store]]:
    """October is closed, and not issued."""
    folder = tmp_path_factory.mktemp("server")
    fresh_store(folder, issued_fleet.closed_fleet).close()
    with served(folder) as url, open_store(url) as first, open_store(url) as second:
        yield first, second


@pytest.fixture(scope="module")
def raced(two: tuple[Store, Store], tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The answer to a push that one server judged before the other issued October."""
    writer, issuer = two
    tokens = tmp_path_factory.mktemp("senders") / "senders.yaml"
    tokens.write_text(issued_fleet.SENDERS)
    used = sample("g1", "n1", at("2026-10-06 02:00") + timedelta(minutes=5), "whole", 1.0, interval_seconds=60.0)
    one = Forged("", ANYBODY, "samples", [used])
    with receiving(writer, tokens, linger_seconds=600, now=lambda: NOW) as server, ThreadPoolExecutor(2) as pool:
        with writer.turn(together=True):
            answer = pool.submit(push, server, one)
            until(lambda: server.coalescer.waiting_rows)
            issue = pool.submit(issue_all, issuer, OCTOBER, ISSUED_AT)
            time.sleep(1)
            assert not issue.done(), "what the other server writes is waited for"
        assert issue.result(PATIENCE_SECONDS)
        server.coalescer.close()
        report: Report = answer.result(PATIENCE_SECONDS).json()
    return report


@seldom(5, "two servers")
def test_a_push_judged_before_another_server_issues_the_month_is_held(raced: Report) -> None:
    assert (raced["stored"], raced["held"]) == (0, {"issued_month": 1})


@pytest.mark.usefixtures("raced")
def test_two_people_at_two_servers_decide_a_held_push_once(two: tuple[Store, Store]) -> None:
    (push,) = held_pushes(two[0])

    def decided(store: Store, decide: Callable[..., HeldPush]) -> str:
        try:
            return decide(store, push.id, NOW, "ada", "why").state
        except IngestError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(decided, two, (accept, refuse)))
    (kept,) = [one for one in held_pushes(two[0], "") if one.id == push.id]
    assert sorted(one == kept.state for one in said) == [False, True], said
    assert f"was {kept.state} by ada" in next(one for one in said if one != kept.state)
    assert [row["object"] for row in history(two[0], "", push.id)] == [push.id]


@seldom(5, "two servers")
def test_a_second_server_closes_when_the_first_has(two: tuple[Store, Store]) -> None:
    first, second = two
    with ThreadPoolExecutor(1) as pool:
        with first.turn(f"close {first.database}"):
            task = pool.submit(close, second, NOW - timedelta(hours=2), NOW)
            time.sleep(0.5)
            assert not task.done()
        task.result(PATIENCE_SECONDS)
