"""`gpuledger retention`, over a store and over a server, and what `invoice verify` says afterwards."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from access.opening import open_access
from access.settings import AccessSettings
from billing.retention import Retention
from gpuledger.client import ApiError, Client
from gpuledger.commands.retention import _say
from tests.billing.test_rederive import october_issued, two_jobs
from tests.dashboards.site import serving, token_of
from tests.gpuledger.running import refused, run
from tests.stores import fresh_store

pytestmark = pytest.mark.usefixtures("engine_stays")
OLD = "ALTER TABLE samples UPDATE ingested_on = today() - 500 WHERE true SETTINGS mutations_sync = 2"


def test_it_is_set_shown_applied_and_then_said(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "store", two_jobs, october_issued) as opened:
        opened.command(OLD)
    store = ("--store", f"chdb://{tmp_path / 'store'}")
    assert json.loads(run("retention", *store, "--format", "json").stdout)["days"] == []
    done = run("retention", "--keep", "samples=400", "--keep", "superseded=always", "--reason", "disk", *store)
    assert done.exit_code == 0, done.output
    assert "1 day stays because issued invoices are verified from that (--even-invoiced)" in done.output
    kept = json.loads(run("doctor", *store, "--format", "json").stdout)["retention"]
    assert kept["days"] == {"samples": 400, "sums": 400, "metrics": 90, "findings": 400, "superseded": None}
    assert (kept["due"], kept["due_days"], kept["held_back_days"]) == ({}, 0, 1)
    assert "due: nothing; 1 old day kept for issued invoices" in " ".join(run("doctor", *store).output.split())
    shown = run("retention", "--even-invoiced", *store)
    assert "samples of 1 day would be removed, from 2026-10-05 to 2026-10-05" in shown.output
    assert "GL-2026-00001, GL-2026-00002 could not be computed again then" in shown.output
    assert "follows from the facts" in run("invoice", "verify", "GL-2026-00001", *store).output
    applied = run("retention", "--even-invoiced", "--apply", "--author", "ann", *store)
    assert "GL-2026-00001, GL-2026-00002 cannot be computed again any more" in applied.output
    verified = run("invoice", "verify", "GL-2026-00001", *store)
    assert verified.exit_code == 1, "it is not known to follow from the facts"
    assert "the documents' chain is whole" in verified.output
    assert "cannot be computed again: samples of 2026-10-05 were removed on 20" in verified.output
    assert "by ann" in verified.output
    assert run("verify", *store).exit_code == 0


def test_facts_of_an_hour_that_goes_on_wait_for_no_close(capsys: pytest.CaptureFixture[str]) -> None:
    """As found: at 17:53 it said that facts since 17:00 wait for a close, which then closed nothing."""
    unread = datetime(2026, 11, 30, 17, 20, tzinfo=UTC)
    found = Retention((), (), (), 0, unread, ())
    _say(found, applied=False, now=datetime(2026, 11, 30, 17, 53, tzinfo=UTC))
    assert capsys.readouterr().err == ""
    _say(found, applied=False, now=datetime(2026, 11, 30, 18, 15, tzinfo=UTC))
    assert "facts since 2026-11-30 17:20Z wait for a close" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["samples", "samples=soon", "samples=-3", "samples=²"])
def test_what_is_no_number_of_days_is_named(tmp_path: Path, text: str) -> None:
    said = refused("retention", "--keep", text, "--store", f"chdb://{tmp_path / 'store'}")
    assert said == f"--keep: '{text}' is not KIND=DAYS. Such as samples=400 or superseded=always"


def test_over_a_server_operators_alone_set_and_apply_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fresh_store(tmp_path / "store", two_jobs, october_issued) as opened, open_access(opened) as people:
        opened.command(OLD)
        tokens = {name: token_of(people, name) for name in ("operator", "analyst")}
        with serving(opened, AccessSettings(sign_in=True)) as url:
            monkeypatch.setenv("GPULEDGER_TOKEN", tokens["analyst"])
            assert json.loads(run("doctor", "--store", url, "--format", "json").stdout)["retention"]["due"] == {}
            with Client(url, tokens["analyst"]) as analyst:
                assert analyst.retention().days == []
                with pytest.raises(ApiError, match="may not do this"):
                    analyst.keep({"samples": 30})
                with pytest.raises(ApiError, match="may not do this"):
                    analyst.remove_due()
            with Client(url, tokens["operator"]) as operator:
                with pytest.raises(ApiError, match="is no kind of rows"):
                    operator.keep({"wishes": 30})
                assert operator.keep({"samples": 30}, "disk").held_back == 1
                assert [f"{day:%m-%d}" for day in operator.remove_due(even_invoiced=True).days] == ["10-05"]
                proof = operator.invoice_proof("GL-2026-00001")
                assert (proof.same, proof.differences) == (False, [])
                assert "were removed on" in proof.unknown and "by operator" in proof.unknown
            actors = opened.rows("SELECT actor, reason FROM audit WHERE action = 'retention.set'")
            assert actors == [{"actor": "operator", "reason": "disk"}]
