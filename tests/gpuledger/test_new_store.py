"""A command that makes a store says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuledger.books import opened_store, recording_store


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
