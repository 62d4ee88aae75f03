"""Backups by a ClickHouse server: its own BACKUP and RESTORE, run by the real engine behind HTTP.

The engine has no Keeper and no other node, so that backups of a cluster are not tried here.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import chdb
import pytest

from billing.close import close
from billing.invoicing.issued import issued
from billing.verify import verify
from billing.writers import nobody_writing
from tests.billing.facts import put, samples
from tests.billing.hand_ledger import at
from tests.billing.rich_books import rich_books
from tests.draws import drawn_seed
from tests.gpuledger.running import refused, run
from tests.stores import fresh_store
from tests.warehouse.engine_over_http import Server, serving
from tests.warehouse.s3_server import KEY, SECRET, s3_server
from tests.warehouse.test_backup import content
from warehouse.backup import BackupError
from warehouse.server_backup import Place, back_up, backups, place_of, restore
from warehouse.store import Store, StoreError, migrate, open_store
from warehouse.turns import Held, TurnLostError

NOW = at("2026-11-01 00:00")
LATER = timedelta(seconds=1)


class BackupServer(Server):
    """Its configuration allows a disk, and a bucket if it is told of one. statements: those about backups."""

    bucket = ""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.statements: list[str] = []

    def connect(self, folder: Path) -> chdb.Connection:
        disk = f"<backups><type>local</type><path>{folder}-disk/</path></backups>"
        keys = f"<access_key_id>{KEY}</access_key_id><secret_access_key>{SECRET}</secret_access_key>"
        bucket = f"<bucket><url>{self.bucket}</url>{keys}</bucket>" if self.bucket else ""
        config = folder / "backups-of-server.xml"
        config.write_text(
            f"<clickhouse><storage_configuration><disks>{disk}</disks></storage_configuration>"
            "<backups><allowed_disk>backups</allowed_disk></backups>"
            f"<named_collections>{bucket}</named_collections></clickhouse>"
        )
        return chdb.connect(f"{folder / 'engine'}?config-file={config}")

    def run(self, database: str, sql: str, data: bytes, params: dict[str, str]) -> bytes:
        if re.search("^(BACKUP|RESTORE|KILL)", sql, re.MULTILINE):
            self.statements.append(sql)
        return super().run(database, sql, data, params)


@pytest.fixture(autouse=True)
def few_days(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look for the newest catalog costs a statement or three for each."""
    monkeypatch.setattr("warehouse.server_backup.DAYS_BACK", 5)


@contextmanager
def server_of(folder: Path) -> Iterator[tuple[str, BackupServer]]:
    """One that serves the store in this folder."""
    with serving(folder, BackupServer) as (url, server):
        assert isinstance(server, BackupServer)
        yield url, server


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, BackupServer]]:
    fresh_store(tmp_path / "store").close()
    with server_of(tmp_path / "store") as found:
        yield found


@pytest.fixture
def place() -> Place:
    return place_of("disk://backups/gpu ledger/it's here")


def restored_alone(url: str, place: Place, name: str) -> Store:
    """On a server that has the store no more."""
    with open_store(f"{url.rpartition('/')[0]}/default") as other:
        other.command("DROP DATABASE gpuledger SYNC")
    store = open_store(f"{url.rpartition('/')[0]}/again")
    restore(store, place, name, NOW + timedelta(days=3))
    return store


def test_books_and_invoices_come_back_as_they_were_and_go_on(tmp_path: Path, place: Place) -> None:
    rich_books(tmp_path / "books").close()
    with server_of(tmp_path / "books") as (url, _):
        with open_store(url) as store:
            first = back_up(store, place, NOW, nobody_writing)
            put(store, "samples", samples("gpu-0", "2026-03-02 00:01", range(5)))
            second = back_up(store, place, NOW + LATER, nobody_writing)
            assert backups(store, place, NOW) == [first, second]
            before, invoices, proof = content(store), issued(store), verify(store)
            with open_store(f"{url.rpartition('/')[0]}/earlier") as earlier:
                assert restore(earlier, place, first.name, NOW + timedelta(days=999)) == first
                assert content(earlier)["samples"][0] < before["samples"][0]
        assert second.whole == first.whole
        assert 0 < second.bytes < first.whole_bytes
        with restored_alone(url, place, "") as store:
            came = content(store)
            assert came.pop("turns") == (0, 0), "nobody waits for whoever had a turn while the backup was made"
            assert came == {name: rows for name, rows in before.items() if name != "turns"}
            assert migrate(store) == []
            assert verify(store) == proof
            assert issued(store) == invoices
            assert invoices
            assert close(store, now=NOW).run
            assert backups(store, place, NOW + LATER) == [first, second], "the catalog is where the backups are"
            third = back_up(store, place, NOW + 2 * LATER, nobody_writing)
            assert third.store == first.store
            assert len(backups(store, place, NOW + timedelta(days=3))) == 3
            assert backups(store, place, NOW + timedelta(days=9)) == []
            assert not store.rows("SELECT name FROM system.tables WHERE name LIKE 'staged%'"), "no table is left"


def test_a_bucket_takes_them_by_the_name_of_its_collection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh_store(tmp_path / "store").close()
    with s3_server("ledgers") as s3:
        monkeypatch.setattr(BackupServer, "bucket", f"{s3.url}/ledgers/site")
        with server_of(tmp_path / "store") as (url, server):
            place = place_of("collection://bucket/gpuledger")
            with open_store(url) as store:
                put(store, "samples", samples("gpu-0", "2026-03-02 00:01", range(5)))
                made = back_up(store, place, NOW, nobody_writing)
                before = content(store)["samples"]
            with restored_alone(url, place, made.name) as store:
                assert content(store)["samples"] == before
    assert any(name.startswith(f"ledgers/site/gpuledger/{made.whole}/") for name in s3.objects)
    assert "S3(bucket, 'gpuledger/" in str(server.statements)
    assert not any(word in statement for statement in server.statements for word in (KEY, SECRET))


def test_what_did_not_end_well_is_no_backup(served: tuple[str, BackupServer], place: Place, tmp_path: Path) -> None:
    url, _ = served

    class Late(Held):
        def check(self) -> None:
            raise TurnLostError("writing", "no sign of life", "")

    @contextmanager
    def suspended(store: Store) -> Iterator[Held]:
        yield Late()

    with open_store(url) as store:
        with pytest.raises(TurnLostError):
            back_up(store, place, NOW, suspended)
        assert backups(store, place, NOW) == []
        # A catalog of which a lost server wrote the beginning.
        (tmp_path / "store-disk/gpu ledger/it's here/catalog-2026-11-01-1").mkdir(parents=True)
        (tmp_path / "store-disk/gpu ledger/it's here/catalog-2026-11-01-1/.lock").touch()
        made = back_up(store, place, NOW + LATER, nobody_writing)
        assert backups(store, place, NOW) == [made]
        with pytest.raises(BackupError, match="already exists"):
            back_up(store, place, NOW + LATER, nobody_writing, whole=True)
        assert backups(store, place, NOW) == [made]
        assert [one for one in backups(store, place, NOW - timedelta(days=1)) if one] == [made], "of a clock behind"


def test_a_wait_that_is_interrupted_ends_what_the_server_does(
    served: tuple[str, BackupServer], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, server = served

    def interrupted(store: Store, name: str) -> None:
        raise KeyboardInterrupt

    with open_store(url) as store:
        monkeypatch.setattr("warehouse.server_backup._look", interrupted)
        with pytest.raises(KeyboardInterrupt):
            back_up(store, place, NOW, nobody_writing)
        assert "KILL QUERY WHERE query_id IN (SELECT query_id FROM system.backups" in server.statements[-1]
        monkeypatch.undo()
        assert backups(store, place, NOW) == []


@pytest.mark.parametrize("of", ["samples", "schema_migrations"])
@pytest.mark.parametrize("spoil", ["cut", "flipped"])
def test_a_half_restored_database_is_no_store(
    served: tuple[str, BackupServer], place: Place, tmp_path: Path, spoil: str, of: str
) -> None:
    """RESTORE misses what is cut short, and copies what has another bit."""
    url, _ = served
    with open_store(url) as store:
        put(store, "samples", samples("gpu-0", "2026-03-02 00:01", range(1000)))
        made = back_up(store, place, NOW, nobody_writing)
    data = max((tmp_path / "store-disk").rglob(f"data/gpuledger/{of}/*/data.bin"))
    kept, at = data.read_bytes(), random.Random(drawn_seed()).randrange(data.stat().st_size)
    data.write_bytes(kept[:-1] if spoil == "cut" else kept[:at] + bytes([kept[at] ^ 1]) + kept[at + 1 :])
    said: list[str] = []
    with open_store(f"{url.rpartition('/')[0]}/again") as store:
        with pytest.raises(BackupError, match=r"is not restored: .*DROP DATABASE again"):
            restore(store, place, made.name, NOW, said.append)
        if spoil == "flipped":
            assert f"checking {of}" in said
        with pytest.raises(StoreError, match="a restore ended before its time"):
            migrate(store)
        with pytest.raises(BackupError, match="something is there already"):
            restore(store, place, made.name, NOW)


def test_two_stores_never_share_a_place(served: tuple[str, BackupServer], place: Place) -> None:
    url, _ = served
    with open_store(url) as store:
        back_up(store, place, NOW, nobody_writing)
    with open_store(f"{url.rpartition('/')[0]}/other") as other:
        migrate(other)
        with pytest.raises(BackupError, match="holds backups of another store"):
            back_up(other, place, NOW + LATER, nobody_writing)
        back_up(other, place_of("disk://backups/other"), NOW + LATER, nobody_writing)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3://ledgers/site", "named collection"),
        ("disk://back ups/x", "lacks a plain name"),
        ("disk:///x", "lacks a plain name"),
        ("collection://a')/x", "lacks a plain name"),
        ("disk://backups/../x", "is none for a ClickHouse server's backups"),
        ("disk://backups/x?y=1", "is none for a ClickHouse server's backups"),
        ("/backups", "is none for a ClickHouse server's backups"),
        ("file://backups", "is no absolute path"),
    ],
)
def test_a_place_that_is_none_is_refused_in_a_line(url: str, says: str) -> None:
    with pytest.raises(BackupError, match=re.escape(says)):
        place_of(url)


def test_the_commands_make_list_and_restore_them(served: tuple[str, BackupServer]) -> None:
    url, _ = served
    at_disk, other = "disk://backups/daily", f"{url.rpartition('/')[0]}/again"
    assert "backup " in run("backup", at_disk, "--store", url).output
    (found,) = json.loads(run("backup --list --format json", at_disk, "--store", url).stdout)
    assert found["whole"] == f"whole-{found['name']}"
    done = run("restore", at_disk, "--store", other)
    assert f"restored {found['name']}" in done.output
    assert f"gpuledger verify --store {other}" in done.output
    with open_store(other) as store:
        assert migrate(store) == []
    assert "something is there already" in refused("restore", at_disk, "--store", other)
    for more, says in (
        (("backup",), "FOLDER: is missing"),
        (("backup", "/backups"), "is none for a ClickHouse server's backups"),
        (("backup", "disk://elsewhere/x"), "Allow it in the server's configuration"),
        (("backup", at_disk, "--keep", "3"), "removes no backups"),
        (("backup", at_disk, "--bucket", "s3://ledgers"), "collection://NAME/PREFIX"),
        (("restore", "disk://backups/nothing"), "something is there already"),
    ):
        assert says in refused(more[0], *more[1:], "--store", url)
    assert "holds no backup" in refused("restore", "disk://backups/nothing", "--store", f"{other}2")
