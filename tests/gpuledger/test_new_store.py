"""A command that makes a store says so, and one that proves something makes none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuledger.books import opened_store, recording_store
from gpuledger.commands.close import verify
from tests.conftest import REPO
from tests.gpuledger.running import run
from warehouse.errors import LedgerError


def test_a_store_that_a_command_makes_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped name would look like empty books."""
    url = f"chdb://{tmp_path}/store"
    for said in (f"{url}: this store is new\n", ""):
        with opened_store(url):
            pass
        assert capsys.readouterr().err == said
    with recording_store(f"chdb://{tmp_path}/facts"):
        pass
    assert capsys.readouterr().err == ""


def test_a_store_that_is_not_there_is_not_proven(tmp_path: Path) -> None:
    """As found: "the books balance", and exit 0, of a mistyped path."""
    (tmp_path / "other").mkdir()
    for name in ("typo", "other"):
        with pytest.raises(LedgerError, match=r"is not there.*Name the store that is to be verified with --store"):
            verify(f"chdb://{tmp_path}/{name}")
    assert [one.name for one in tmp_path.rglob("*")] == ["other"]


def test_books_of_which_nothing_is_closed_are_not_said_to_balance(tmp_path: Path) -> None:
    """As found: "the books balance: 0 hours" of a store with facts, and no next step for a draft."""
    url = f"chdb://{tmp_path}/store"
    run("ingest devices", str(REPO / "docs/tutorial/devices.csv"), "--store", url)
    said = run("verify", "--store", url)
    assert said.exit_code == 0
    assert f"nothing is closed yet, so there is nothing to verify. Next: gpuledger close --store {url}" in said.stderr
    said = run("invoice draft --period 2026-09", "--store", url)
    assert f"nothing is closed yet. Next: gpuledger close --store {url}" in said.stderr
