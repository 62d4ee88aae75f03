"""Backups in a bucket: restored from there alone, the store is the same; a bucket that is no use is said in a line."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from billing.invoicing.issued import issued
from billing.verify import verify
from billing.writers import nobody_writing
from tests.billing.facts import put, samples
from tests.billing.rich_books import rich_books
from tests.draws import seldom
from tests.gpuledger.running import refused
from tests.stores import fresh_store
from tests.warehouse.s3_server import KEY, S3, SECRET, s3_server
from tests.warehouse.test_backup import LATER, NOW, content, opened
from warehouse.backup import MANIFEST, Backup, BackupError, back_up, forget, restore
from warehouse.bucket import Bucket, bucket_of


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with s3_server("ledgers") as server:
        yield server


def bucket(s3: S3) -> Bucket:
    return bucket_of(f"s3://ledgers/a site?endpoint={s3.url}&region=us-east-1")


def backup_of(folder: Path, number: int, whole: str, store: str = "") -> Backup:
    """One of two files, made up."""
    made = Backup(f"2026-11-0{number}T00-00-00Z", NOW, whole, 1, 1, 1, 30, "gpuledger", store)
    for path, text in ((f"{whole}/data", "whole"), (f"{made.name}/engine/data", f"{number}")):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    told = f'{{"name": "{made.name}", "made_at": "{NOW.isoformat()}", "whole": "{whole}", "bytes": 1, "whole_bytes": 1,'
    (folder / made.name / MANIFEST).write_text(
        f'{told} "tables": 1, "migration": 30, "software": "gpuledger", "store": "{store}"}}'
    )
    return made


@seldom(5, "a bucket is restored")
def test_books_and_invoices_come_back_from_the_bucket_alone(tmp_path: Path, s3: S3) -> None:
    rich_books(tmp_path / "books").close()
    target = bucket(s3)
    target.check()
    with opened(tmp_path / "books", tmp_path / "backups") as store:
        back_up(store, NOW, nobody_writing)
        assert len(target.copy(tmp_path / "backups")) == 1
        first = len(s3.puts)
        put(store, "samples", samples("gpu-0", "2026-03-02 00:01", range(5)))
        made = back_up(store, NOW + LATER, nobody_writing)
        assert target.copy(tmp_path / "backups") == [made]
        before, invoices = content(store), issued(store)
    assert len(s3.puts) - first < first, "the second one copies the changes alone"
    assert target.copy(tmp_path / "backups") == []
    assert target.fetch("", tmp_path / "fetched") == made == restore(tmp_path / "fetched", "", tmp_path / "again")
    with opened(tmp_path / "again") as store:
        assert content(store) == before
        assert not verify(store).failures
        assert issued(store) == invoices
        assert invoices


def test_a_copy_that_fails_is_no_backup_and_the_next_one_continues(tmp_path: Path, s3: S3) -> None:
    folder, target = tmp_path / "backups", bucket(s3)
    made = backup_of(folder, 1, "whole-1")
    s3.fail_after = 2
    with pytest.raises(BackupError, match="refuses"):
        target.copy(folder)
    assert target.backups() == []
    s3.fail_after = None
    assert target.copy(folder) == target.backups() == [made]
    assert len(s3.puts) == len(set(s3.puts)) == 3


def test_what_was_damaged_in_a_bucket_is_refused_by_its_name_there(tmp_path: Path, s3: S3) -> None:
    fresh_store(tmp_path / "books").close()
    with opened(tmp_path / "books", tmp_path / "backups") as store:
        put(store, "samples", samples("gpu-0", "2026-03-02 00:01", range(1000)))
        back_up(store, NOW, nobody_writing)
    bucket(s3).copy(tmp_path / "backups")
    name = next(name for name in s3.objects if "/samples/" in name and name.endswith("data.bin"))
    s3.objects[name] = bytes([s3.objects[name][0] ^ 1]) + s3.objects[name][1:]
    said = refused(
        "restore", f"{bucket(s3).url}?endpoint={s3.url}&region=us-east-1", *("--store", f"chdb://{tmp_path}/again")
    )
    assert said.startswith(f"s3://{name}: is damaged or gone")
    assert not list(tmp_path.glob("again*"))


def test_a_file_of_many_parts_comes_back_whole(tmp_path: Path, s3: S3) -> None:
    made = backup_of(tmp_path / "backups", 1, "whole-1")
    data = bytes(range(256)) * 50_000
    (tmp_path / "backups/whole-1/data").write_bytes(data)
    (tmp_path / "backups/whole-1/empty").touch()
    bucket(s3).copy(tmp_path / "backups")
    assert bucket(s3).fetch(made.name, tmp_path / "fetched") == made
    assert (tmp_path / "fetched/whole-1/data").read_bytes() == data
    assert (tmp_path / "fetched/whole-1/empty").read_bytes() == b""


def test_old_backups_go_with_what_only_they_rest_on(tmp_path: Path, s3: S3) -> None:
    folder, target = tmp_path / "backups", bucket(s3)
    wholes = [f"whole-2026-11-0{number}T00-00-00Z" for number in (1, 2)]
    made = [backup_of(folder, 1, wholes[0]), backup_of(folder, 2, wholes[1]), backup_of(folder, 3, wholes[1])]
    assert target.copy(folder) == made
    assert target.forget(1) == made[:2]
    assert target.backups() == made[2:]
    assert {name.split("/")[2] for name in s3.objects} - {""} == {wholes[1], made[2].name}
    assert target.copy(folder) == [], "what was removed is not copied again"


def test_what_a_killed_removal_leaves_goes_with_the_next(tmp_path: Path, s3: S3) -> None:
    folder, target = tmp_path / "backups", bucket(s3)
    made = [backup_of(folder, 1, "whole-2026-11-01T00-00-00Z"), backup_of(folder, 2, "whole-2026-11-02T00-00-00Z")]
    made.append(backup_of(folder, 3, made[1].whole))
    target.copy(folder)
    others = {"2026-11-01T00-00-00Z.note": b"", "notes/2026": b"", "whole-2026-11-09T00-00-00Z/data": b"of the next"}
    s3.objects |= {f"ledgers/a site/{name}": data for name, data in others.items()}
    for one in made[:2]:  # killed after the manifest
        del s3.objects[f"ledgers/a site/{one.name}/manifest.json"]
        (folder / one.name / MANIFEST).unlink()
    for name in ("notes", "whole-2026-11-09T00-00-00Z"):
        (folder / name).mkdir()
    assert list(target.forget(1)) == list(forget(folder, 1)) == []
    left = {made[2].name, made[2].whole, "notes", "whole-2026-11-09T00-00-00Z"}
    assert {path.name for path in folder.iterdir() if path.is_dir()} == left
    assert {name.split("/")[2] for name in s3.objects} - {""} == left | {"2026-11-01T00-00-00Z.note"}


def test_a_backup_that_is_older_than_those_in_the_bucket_is_not_taken_for_copied(tmp_path: Path, s3: S3) -> None:
    """As found: the clock went back, the folder was new, and the command said that it had copied the backup."""
    target = bucket(s3)
    backup_of(tmp_path / "lost", 5, "whole-5")
    backup_of(tmp_path / "new", 3, "whole-3")
    target.copy(tmp_path / "lost")
    with pytest.raises(BackupError, match=r"05T00-00-00Z: is newer than all in the folder\. Check the clock"):
        target.copy(tmp_path / "new")


def test_a_bucket_takes_no_backup_of_another_store(tmp_path: Path, s3: S3) -> None:
    target = bucket(s3)
    backup_of(tmp_path / "old", 1, "whole-1")  # made before backups said whose they are
    made = backup_of(tmp_path / "one", 2, "whole-2", "2026-01-01T00:00:00.000Z")
    backup_of(tmp_path / "other", 3, "whole-3", "2026-02-02T00:00:00.000Z")
    target.copy(tmp_path / "old")
    assert target.copy(tmp_path / "one") == [made]
    with pytest.raises(BackupError, match="holds backups of another store"):
        target.copy(tmp_path / "other")
    assert not [name for name in s3.objects if "whole-3" in name]


def test_objects_that_lead_out_of_the_folder_are_refused(tmp_path: Path, s3: S3) -> None:
    made = backup_of(tmp_path / "backups", 1, "whole-1")
    bucket(s3).copy(tmp_path / "backups")
    s3.objects["ledgers/a site/whole-1/../../x"] = b"x"
    with pytest.raises(BackupError, match="leads out of its folder"):
        bucket(s3).fetch(made.name, tmp_path / "fetched")
    assert not (tmp_path / "x").exists()


def test_a_bucket_that_is_no_use_is_said_in_a_line_before_anything_is_copied(
    tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh_store(tmp_path / "store").close()

    def said(url: str) -> str:
        store = f"chdb://{tmp_path / 'store'}"
        line = refused("backup", str(tmp_path / "to"), "--bucket", url, "--store", store)
        assert not (tmp_path / "to").exists()
        assert SECRET not in line
        return line

    there = f"?endpoint={s3.url}&region=us-east-1"
    assert "there is no bucket nowhere" in said(f"s3://nowhere/x{there}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = free.getsockname()[1]
        assert "cannot be reached" in said(f"s3://ledgers/x?endpoint=http://127.0.0.1:{closed}")
    assert "is no bucket" in said("https://ledgers")
    assert "has credentials in it" in said(f"s3://{KEY}:{SECRET}@ledgers{there}")
    assert "colour is no option" in said("s3://ledgers?colour=red")
    assert "is no address" in said("s3://ledgers?endpoint=minio:9000")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    assert "Check AWS_ACCESS_KEY_ID" in said(f"s3://ledgers/x{there}")


def test_a_bucket_that_never_answers_is_given_up(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warehouse.bucket.CHECK_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = bucket_of(f"s3://ledgers/x?endpoint=http://127.0.0.1:{silent.getsockname()[1]}&region=us-east-1")
        with pytest.raises(BackupError, match="cannot be reached"):
            target.check()
