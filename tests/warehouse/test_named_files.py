"""Files that somebody names: whole, bounded, and no waiting for a pipe into which nobody writes."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import pytest

from billing.accounts.credit_files import _unpacked
from warehouse import named_files
from warehouse.errors import LedgerError
from warehouse.named_files import MOST_BYTES, read_named
from warehouse.written_files import read_yaml


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, "SECONDS_FOR_A_WRITER", 0.2)


def why_not(path: Path | str) -> str:
    with pytest.raises(LedgerError) as error:
        read_yaml(path, "a rate card", "It has rates", LedgerError)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_pipe_without_a_writer_is_refused_and_one_with_a_slow_writer_is_read_whole(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert why_not(pipe) == f"{pipe}: cannot be read: nobody writes into this pipe. It has rates"
    reader, writer = os.pipe()

    def write() -> None:
        os.write(writer, b"a: 1")
        os.close(writer)

    threading.Timer(0.5, write).start()
    assert read_named(f"/dev/fd/{reader}") == b"a: 1"  # as a shell names what a command in <( ) writes
    os.close(reader)


def test_what_is_larger_than_anybody_writes_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "rates.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(MOST_BYTES)
    assert len(read_named(file)) == MOST_BYTES
    with file.open("wb") as sparse:
        sparse.truncate(MOST_BYTES + 1)
    for path in (file, "/dev/zero"):
        assert why_not(path) == f"{path}: cannot be read: it has more than 16 MiB. It has rates"
    with pytest.raises(OSError, match="unpacks to more than 16 MiB"):
        _unpacked(gzip.compress(bytes(MOST_BYTES + 1)))
    assert why_not(tmp_path) == f"{tmp_path}: a folder, not a rate card"
