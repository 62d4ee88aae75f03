"""What `verify` and `invoice verify` answer: yes, no, and that there is nothing to answer about."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from billing.close import close
from billing.verify import run as prove
from billing.verify import verify
from gpuledger.cli import build, run
from tests.billing.facts import devices, put
from tests.billing.hand_ledger import at
from tests.billing.rich_books import rich_books
from tests.draws import seldom
from tests.stores import fresh_store
from warehouse.store import Store, open_store

pytestmark = pytest.mark.usefixtures("engine_stays")


def test_a_device_reported_after_the_close_waits_and_is_no_failure(store: Store) -> None:
    put(store, "devices", devices("2026-10-05 10:00", "g0"))
    close(store, at("2026-10-05 12:00"), at("2026-11-10 00:00"))
    put(store, "devices", devices("2026-10-05 11:30", "g1"))
    report = verify(store)
    assert ([str(one) for one in report.failures], report.waiting) == ([], 1)
    close(store, at("2026-10-05 12:00"), at("2026-11-10 00:00"))
    assert verify(store).waiting == 0


def test_what_waits_for_a_close_hides_nothing_that_is_wrong(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove, "MOST_FAILURES", 2)
    put(store, "devices", devices("2026-10-05 06:00", "g0"))
    close(store, at("2026-10-05 12:00"), at("2026-11-10 00:00"))
    put(store, "devices", devices("2026-10-05 06:00", "g1"))
    spoil = "ALTER TABLE ledger_entries UPDATE unallocated_unit_ms = 0 WHERE hour = '2026-10-05 11:00:00'"
    store.command(spoil, settings={"mutations_sync": 2})
    report = verify(store)
    assert (report.waiting, report.balanced) == (2, False)
    assert "2026-10-05 11:00Z, device g0" in [one.where for one in report.failures]


def test_a_due_close_is_reported_and_is_no_failure(tmp_path: Path) -> None:
    url = f"chdb://{tmp_path}/store"
    with fresh_store(tmp_path / "store") as store:
        put(store, "devices", devices("2026-10-05 10:00", "g0"))
        close(store, at("2026-10-05 12:00"), at("2026-11-10 00:00"))
        put(store, "devices", devices("2026-10-05 08:30", "g1"))
    said = gpuledger("verify", "--store", url)
    assert "4 device-hours had device rows since their close. Next: gpuledger close" in said
    gpuledger("close", "--until", "2026-10-05T12:00Z", "--store", url)
    assert "since their close" not in gpuledger("verify", "--store", url)


def gpuledger(*arguments: str, exit_code: int = 0) -> str:
    """All that the command prints, run in this process."""
    printed, code = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            run(build(), list(arguments))
        except SystemExit as ended:
            code = int(ended.code or 0)
    assert code == exit_code, f"{' '.join(arguments)}: {printed.getvalue()}"
    return printed.getvalue()


def parsed(output: str) -> dict[str, Any]:
    """The JSON among what is said beside it."""
    found: dict[str, Any] = json.JSONDecoder().raw_decode(output[output.index("{") :])[0]
    return found


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with an issued month and a credit note, closed again."""
    rich_books(tmp_path / "store").close()
    return f"chdb://{tmp_path}/store"


@seldom(6, "verify and invoice verify answer yes no")
def test_verify_and_invoice_verify_answer_yes_no_and_that_there_is_nothing_to_answer(url: str) -> None:
    assert "the books balance: 6 hours, 18 device-hours" in gpuledger("verify", "--store", url)
    yes = gpuledger("invoice", "verify", "GL-2026-00004", "--store", url)
    assert "follows from the facts" in yes
    assert "the documents' chain is whole" in yes
    assert "is a credit note, given by hand" in gpuledger("invoice", "verify", "GL-2026-00005", "--store", url)
    gpuledger("invoice", "verify", "GL-2026-00099", "--store", url, exit_code=2)
    gpuledger("verify", "--store", "chdb://relative", exit_code=2)
    with open_store(url) as store:
        store.command("ALTER TABLE events DELETE WHERE tenant = 'kyoto' SETTINGS mutations_sync = 2")
        update = "ALTER TABLE invoices UPDATE document = {} WHERE number = 'GL-2026-00004' SETTINGS mutations_sync = 2"
        store.command(update.format("replaceOne(document, 'Credit: sorry', 'Credit: sorrow')"))
    lost = gpuledger("invoice", "verify", "GL-2026-00002", "--store", url, exit_code=1)
    assert "has no allocations in 2026-02" in lost
    assert "invoices, GL-2026-00004 (row 4): it is not what was written" in lost
    broken = gpuledger("invoice", "verify", "GL-2026-00005", "--store", url, exit_code=1)
    assert "GL-2026-00004 (row 4)" in broken
    found = parsed(gpuledger("verify", "--store", url, "--format", "json", exit_code=1))
    assert found["documents"] == 8
    assert [(one["table"], one["where"]) for one in found["failures"]] == [("invoices", "GL-2026-00004 (row 4)")]
    with open_store(url) as store:
        store.command(update.format("substring(document, 2)"))
    assert "it is not JSON" in gpuledger("invoice", "verify", "GL-2026-00004", "--store", url, exit_code=1)
    with open_store(url) as store:
        store.command("ALTER TABLE close_runs DELETE WHERE 1 SETTINGS mutations_sync = 2")
    assert "no such close is recorded" in gpuledger("invoice", "verify", "GL-2026-00001", "--store", url, exit_code=1)
