"""Whoever stood still for longer than a turn lasts writes nothing any more of what others may have decided since; and
what a decision on a held push leaves that was killed halfway. The real engine behind HTTP, two connections as of two
processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from billing import audit
from billing.close import close
from billing.close.issued import Fence
from billing.held import accept, refuse
from billing.invoicing.invoices import issue_all
from billing.retention import remove, set_days
from billing.verify import verify
from ingest.held import held_pushes
from ingest.write import write
from tests.billing.test_issued_fence import let_through
from tests.draws import seldom
from tests.ingest import issued_fleet
from tests.ingest.issued_fleet import ISSUED_AT, NOW, OCTOBER, sample, started
from tests.stores import fresh_store
from tests.warehouse.engine_over_http import served
from tests.warehouse.losing import lose_turns
from warehouse.errors import LedgerError
from warehouse.store import Store, open_store
from warehouse.turns import TurnLostError

LEDGER = "SELECT * EXCEPT run FROM ledger ORDER BY ALL"
LATE = list(started("late", "bio", "g10", "n8", "2026-10-12 10:00", "2026-10-12 14:00"))
UNTIL = issued_fleet.LIVE


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """October is closed, and not issued."""
    fresh_store(tmp_path, issued_fleet.closed_fleet).close()
    with served(tmp_path) as url, open_store(url) as first, open_store(url) as second:
        yield first, second


@pytest.fixture
def waiting(two: tuple[Store, Store]) -> tuple[Store, Store]:
    """October is issued, and one push of it is held."""
    _, store = two
    issue_all(store, OCTOBER, ISSUED_AT)
    let_through(store, "events", LATE)
    assert issued_fleet.closed(store) == len(LATE)
    return two


def facts(store: Store) -> int:
    sql = "SELECT count() AS n FROM events WHERE allocation_id = 'late' AND batch IN (SELECT batch FROM ingest_batches)"
    return int(store.value(sql))


def meanwhile(function: Callable[..., Any], does: Callable[[], object]) -> Callable[..., Any]:
    """The same function, before which something happens the first time."""
    left = [does]

    def called(*args: Any, **more: Any) -> Any:
        if left:
            left.pop()()
        return function(*args, **more)

    return called


@seldom(5, "a turn that was lost decides nothing")
@pytest.mark.parametrize("before", ["note", "write"])
def test_a_turn_that_was_lost_decides_nothing_about_a_held_push(
    waiting: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    first, second = waiting
    (push,) = held_pushes(second)
    entries = second.rows(LEDGER)

    def refused() -> None:
        lose_turns(second)
        assert refuse(second, push.id, NOW, "bob", "no").state == "refused"

    if before == "note":
        monkeypatch.setattr(audit, "record", meanwhile(audit.record, refused))
    else:
        monkeypatch.setattr("ingest.held.write", meanwhile(write, refused))
    with pytest.raises(TurnLostError):
        accept(first, push.id, NOW, "ada", "yes")
    (kept,) = held_pushes(second, "")
    assert (kept.state, kept.decided_by) == ("refused", "bob")
    assert facts(second) == 0
    issued_fleet.closed(second)
    assert second.rows(LEDGER) == entries


@seldom(3, "a no takes out")
def test_a_no_takes_out_what_a_killed_yes_has_written(
    waiting: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, store = waiting
    (push,) = held_pushes(store)
    entries = store.rows(LEDGER)

    def killed(*_: Any) -> None:
        raise LedgerError("it", "is killed")

    with monkeypatch.context() as patch:
        patch.setattr("ingest.held._write", killed)
        with pytest.raises(LedgerError, match="is killed"):
            accept(store, push.id, NOW, "ada", "yes")
    assert facts(store) == len(LATE)
    issued_fleet.closed(store)
    assert store.rows(LEDGER) != entries
    refuse(store, push.id, NOW, "bob", "no")
    assert facts(store) == 0
    issued_fleet.closed(store)
    assert store.rows(LEDGER) == entries
    assert verify(store).balanced


@seldom(5, "a close that lost its turn takes nothing back")
def test_a_close_that_lost_its_turn_takes_nothing_back_from_an_invoice(
    two: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two
    let_through(second, "events", LATE)

    def closed_and_issued() -> None:
        lose_turns(second)
        issued_fleet.closed(second)
        issue_all(second, OCTOBER, ISSUED_AT)

    monkeypatch.setattr(Fence, "take_back", meanwhile(Fence.take_back, closed_and_issued))
    with pytest.raises(TurnLostError):
        close(first, UNTIL, NOW, whole=True)
    assert facts(second) == len(LATE)
    assert held_pushes(second) == []
    entries = second.rows(LEDGER)
    issued_fleet.closed(second)
    assert second.rows(LEDGER) == entries


@seldom(5, "a removal that lost its turn")
def test_a_removal_that_lost_its_turn_removes_nothing_that_was_pushed_meanwhile(
    two: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = two
    new = sample("g10", "n8", second.value("SELECT min(ts) AS first FROM samples"), "late", 1.0)

    def pushed() -> None:
        lose_turns(second)
        with second.turn(together=True):
            let_through(second, "samples", [new])

    set_days(second, {"samples": 2}, "me", "disk", NOW)
    monkeypatch.setattr(audit, "record", meanwhile(audit.record, pushed))
    later = NOW.replace(year=NOW.year + 1)
    with pytest.raises(TurnLostError):
        remove(first, "me", later, even_invoiced=True)
    assert second.value("SELECT count() AS n FROM samples WHERE workload_id = 'late'") == 1
