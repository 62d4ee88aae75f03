"""The spool on real files: order, bounds, full and damaged disks."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import IngestError
from ingest.spool import Group, Spool
from ingest.wire import WireBatch, batch_id, pack

NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)
MANY = (10_000, 1 << 20)


def batch(number: int, record: str = "samples", rows: int = 1, padding: int = 0) -> WireBatch:
    """Rows that do not compress, if they are padded."""
    return pack(record, [{"number": number, "row": row, "padding": os.urandom(padding).hex()} for row in range(rows)])


def rows(group: Group | None) -> list[dict[str, Any]]:
    assert group is not None
    return [json.loads(line) for line in gzip.decompress(group.body).splitlines()]


def reported(group: Group | None) -> list[int]:
    return [row["number"] for row in rows(group)]


def drained(spool: Spool) -> list[int]:
    found = []
    while group := spool.oldest(*MANY):
        found += reported(group)
        spool.acknowledge(group)
    return found


def test_batches_come_back_oldest_first_and_stay_until_they_are_acknowledged(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        for number in range(5):
            spool.append([batch(number)], NOW)
        assert reported(spool.oldest(2, 1 << 20)) == [0, 1]
    with Spool(tmp_path) as spool:
        first = spool.oldest(2, 1 << 20)
        assert reported(first) == [0, 1]
        assert first is not None
        spool.acknowledge(first)
        spool.append([batch(5)], NOW)
        assert drained(spool) == [2, 3, 4, 5]
        assert spool.oldest(*MANY) is None
        assert spool.state().batches == 0


def test_a_group_has_one_record_type_and_none_that_is_left_out(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.append([batch(0), batch(1, "metrics"), batch(2)], NOW)
        spool.append([pack("samples", [{"number": 3}], suspect=True)], NOW)
        assert reported(spool.oldest(*MANY)) == [0, 2]
        assert reported(spool.oldest(*MANY, without=frozenset({"samples"}))) == [1]
        assert spool.oldest(*MANY, without=frozenset({"samples", "metrics"})) is None
        first = spool.oldest(*MANY)
        assert first is not None
        spool.acknowledge(first)
        assert drained(spool) == [1, 3]


def test_a_group_is_the_same_bytes_again_after_a_restart(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.append([batch(0), batch(1)], NOW)
        before = spool.oldest(*MANY)
    with Spool(tmp_path) as spool:
        again = spool.oldest(*MANY)
    assert before == again
    assert before is not None and before.id == batch_id("samples", before.body)


def test_a_full_spool_drops_the_oldest_and_counts_them(tmp_path: Path) -> None:
    with Spool(tmp_path, max_bytes=100_000) as spool:
        for number in range(40):
            spool.append([batch(number, rows=2, padding=2000)], NOW + timedelta(minutes=number))
        state = spool.state()
        assert state.bytes <= 100_000
        kept = sorted(set(drained(spool)))
        assert kept == list(range(40 - len(kept), 40))
        (loss,) = spool.unreported()
        assert (loss.reason, loss.record, loss.rows) == ("spool_full", "samples", 2 * (40 - len(kept)))
        assert loss.first_at == NOW
        assert loss.last_at == NOW + timedelta(minutes=40 - len(kept) - 1)


def test_a_loss_is_told_once_also_across_a_restart(tmp_path: Path) -> None:
    with Spool(tmp_path, max_bytes=10_000) as spool:
        for number in range(5):
            spool.append([batch(number, padding=3000)], NOW)
    with Spool(tmp_path, max_bytes=10_000) as spool:
        losses = spool.unreported()
        assert sum(loss.batches for loss in losses) > 0
        spool.mark_reported(losses)
    with Spool(tmp_path, max_bytes=10_000) as spool:
        assert spool.unreported() == []
        assert [(loss.reason, loss.batches) for loss in spool.state().lost] == [("spool_full", losses[0].batches)]


def test_one_batch_larger_than_the_bound_is_kept(tmp_path: Path) -> None:
    with Spool(tmp_path, max_bytes=1000) as spool:
        spool.append([batch(0, padding=5000)], NOW)
        spool.append([batch(1, padding=5000)], NOW)
        assert drained(spool) == [1]


def test_a_spool_belongs_to_one_process(tmp_path: Path) -> None:
    with Spool(tmp_path), pytest.raises(IngestError, match=f"held by process {os.getpid()}"):
        Spool(tmp_path)
    Spool(tmp_path).close()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(IngestError, match="cannot be used"):
        Spool(tmp_path / "file" / "spool")


def test_what_the_store_refused_is_kept_apart_within_bounds(tmp_path: Path) -> None:
    with Spool(tmp_path, max_bytes=100_000) as spool:
        for number in range(10):
            spool.append([batch(number, padding=3000)], NOW)
            group = spool.oldest(*MANY)
            assert group is not None
            spool.set_aside(group, "status 422: no", NOW)
        assert spool.oldest(*MANY) is None
        assert 0 < spool.state().set_aside < 10
        (loss,) = spool.unreported()
        assert (loss.reason, loss.rows) == ("refused", 10)
    with contextlib.closing(sqlite3.connect(tmp_path / "spool.db")) as file:
        ((record, reason, body),) = file.execute("SELECT record, reason, body FROM set_aside ORDER BY seq DESC LIMIT 1")
    assert (record, reason, json.loads(gzip.decompress(body))["number"]) == ("samples", "status 422: no", 9)


def test_the_file_shrinks_when_a_backlog_is_gone(tmp_path: Path) -> None:
    with Spool(tmp_path, synced=False) as spool:
        for number in range(40):
            spool.append([batch(number, padding=100_000)], NOW)
        spool.oldest(*MANY)
        drained(spool)
    assert (tmp_path / "spool.db").stat().st_size < 2 << 20


# --- damage ---


def corrupt(path: Path, offset: int, size: int = 4096) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(os.urandom(size))


def test_a_file_that_is_no_database_is_set_aside_and_told(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.append([batch(0)], NOW)
    corrupt(tmp_path / "spool.db", 0)
    with Spool(tmp_path) as spool:
        assert spool.oldest(*MANY) is None
        assert [loss.reason for loss in spool.unreported()] == ["damaged"]
        spool.append([batch(1)], NOW)
        assert drained(spool) == [1]
    assert len(list(tmp_path.glob("damaged-*.db"))) == 1


def test_a_file_that_is_damaged_under_way_is_set_aside_and_collection_goes_on(tmp_path: Path) -> None:
    with Spool(tmp_path, synced=False) as spool:
        for number in range(50):
            spool.append([batch(number, padding=1000)], NOW)
    size = (tmp_path / "spool.db").stat().st_size
    with Spool(tmp_path, synced=False) as spool:
        for offset in range(4096, size, 4096):
            corrupt(tmp_path / "spool.db", offset)
        assert spool.append([batch(50)], NOW)
        assert drained(spool) == [50]
        assert "damaged" in {loss.reason for loss in spool.unreported()}


def test_a_damaged_body_is_left_out_and_its_neighbours_are_not(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.append([batch(0), batch(1), batch(2)], NOW)
    with contextlib.closing(sqlite3.connect(tmp_path / "spool.db")) as file, file:
        file.execute("UPDATE batches SET body = zeroblob(length(body)) WHERE seq = 2")
    with Spool(tmp_path) as spool:
        assert drained(spool) == [0, 2]
        (loss,) = spool.unreported()
        assert (loss.reason, loss.record, loss.rows) == ("damaged", "samples", 1)
        assert spool.state().batches == 0


# --- a disk that takes nothing ---


@contextlib.contextmanager
def tiny_disk(folder: Path, kib: int) -> Iterator[Callable[[], None]]:
    """A file system of that size; yields what makes room on it."""
    folder.mkdir()
    if os.geteuid() == 0 and shutil.which("mount"):
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)], check=False)
        if mounted.returncode == 0:
            try:
                yield lambda: subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True) and None
            finally:
                subprocess.run(["umount", str(folder)], check=True)
            return
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (kib * 1024, limits[1]))
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk_is_said_and_collection_and_delivery_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with tiny_disk(tmp_path / "disk", 300) as make_room, Spool(tmp_path / "disk") as spool:
        on_disk = [spool.append([batch(number, padding=5000)], NOW) for number in range(60)]
        assert on_disk[0] and not on_disk[-1]
        assert spool.state().disk_error
        assert "cannot be written" in caplog.text
        assert spool.state().batches == 60

        found = []
        while len(found) < 50:
            group = spool.oldest(10, 1 << 20)
            assert group is not None
            found += reported(group)
            spool.acknowledge(group)
        assert found == list(range(len(found))), "in order, from the disk and then from memory"

        make_room()
        assert spool.append([batch(60)], NOW)
        assert not spool.state().disk_error
        assert drained(spool) == list(range(len(found), 61))
        assert spool.unreported() == []


def test_memory_is_bounded_while_the_disk_is_full_and_the_oldest_there_are_counted(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 200) as make_room:
        with Spool(tmp_path / "disk", memory_bytes=50_000) as spool:
            for number in range(100):
                spool.append([batch(number, padding=5000)], NOW)
            assert spool.state().memory_bytes <= 50_000
            (loss,) = spool.unreported()
            assert loss.reason == "disk_full"
            make_room()
        with Spool(tmp_path / "disk") as spool:
            found = drained(spool)
            assert len(found) == 100 - loss.batches
            assert found[-1] == 99
            assert [one.batches for one in spool.unreported()] == [loss.batches]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(["append", "ack", "restart"]), st.integers(1, 4)), max_size=25))
def test_whatever_happens_each_batch_comes_out_once_and_in_order(actions: list[tuple[str, int]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        spool, next_number, found = Spool(Path(folder), synced=False), 0, []
        for action, size in actions:
            if action == "append":
                spool.append([batch(next_number + place) for place in range(size)], NOW)
                next_number += size
            elif action == "ack":
                group = spool.oldest(size, 1 << 20)
                if group is not None:
                    found += reported(group)
                    spool.acknowledge(group)
            else:
                spool.close()
                spool = Spool(Path(folder), synced=False)
        found += drained(spool)
        spool.close()
    assert found == list(range(next_number))
