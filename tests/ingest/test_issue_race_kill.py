"""kill -9 while rows are pushed and a month is issued: afterwards it is issued or not, and what comes again waits."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from billing.invoicing.invoices import draft_all, issue_all, issued
from billing.periods import parse_period
from billing.verify import verify
from tests.conftest import REPO
from tests.draws import keep_seed, seldom
from tests.ingest import issued_fleet
from tests.ingest.issued_fleet import ANYBODY, ISSUED_AT, NOW, OCTOBER, Forged, closed, late_rows
from tests.ingest.issuing import ROWS
from tests.ingest.pushing import ledger, push
from tests.ingest.receiving import receiving
from tests.stores import fresh_store
from warehouse.store import open_store

KILLS = int(os.environ.get("GPULEDGER_KILLS", "1"))
"""Ad hoc many more."""


@seldom(6, "after a kill while a month is")
@pytest.mark.slow
@pytest.mark.parametrize("number", range(KILLS))
def test_after_a_kill_while_a_month_is_issued_nothing_moves_it(tmp_path: Path, number: int) -> None:
    chance = random.Random(f"{keep_seed()} kill {number}")
    tokens = tmp_path / "senders.yaml"
    tokens.write_text(issued_fleet.SENDERS)
    store = fresh_store(tmp_path / "store", issued_fleet.closed_fleet)
    store.close()
    command = [sys.executable, "-m", "tests.ingest.issuing", store.url, str(tokens)]
    process = subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"open\n"
        time.sleep(chance.uniform(0.0, 3.0))
        process.kill()
        process.wait()
    with open_store(store.url) as store, receiving(store, tokens, now=lambda: NOW) as served:
        was_issued = bool(issued(store, OCTOBER))
        if not was_issued:
            closed(store)
            issue_all(store, OCTOBER, ISSUED_AT)
        before = ledger(store)
        for rows in zip(*(late_rows(n) for n in range(ROWS)), strict=True):
            push(served, Forged("", ANYBODY, rows[0].record, [row for one in rows for row in one.rows]))
        closed(store)
        assert ledger(store) == before, f"kill {number}, issued before the kill: {was_issued}"
        assert verify(store).balanced
        drafts = draft_all(store, parse_period("2026-11", "UTC"))
        corrections = [line for one in drafts for line in one.lines if line["charge_class"] == "Correction"]
        assert not corrections, f"kill {number}, issued before the kill: {was_issued}"
