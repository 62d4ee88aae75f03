"""The access store, on SQLite and on a real PostgreSQL: whole transactions or none, its schema, who can read it."""

from __future__ import annotations

import errno
import json
import logging
import os
import random
import secrets
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from contextvars import Context
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import inspect, make_url, select

from access import store as access_store
from access.current import current_access
from access.opening import FILE, PASSWORD_FILE_VARIABLE, VARIABLE, _default_address, open_access
from access.people import Kind, add_person, list_people, new_person, write_new
from access.roles import AccessError, roles_of
from access.settings import AccessSettings, load_access
from access.store import AccessStore, AccessStoreError, connect, keys
from billing import audit
from tests.access.postgres import PASSWORD, Cluster
from tests.full_disk import full_disk
from tests.patience import PATIENCE_SECONDS
from tests.stores import fresh_store
from warehouse.errors import StoreError
from warehouse.store import Store

NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
ANALYST = roles_of(["analyst"])
Opener = Callable[[], AccessStore]
NO_WAREHOUSE = cast("Store", None)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("warehouse") / "store") as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
def opener(request: pytest.FixtureRequest, store: Store, tmp_path: Path) -> Iterator[Opener]:
    """Opens the same access store each time, as each server does."""
    if request.param == "sqlite":
        address, password_file = f"sqlite:///{tmp_path / 'private' / 'access.sqlite'}", None
    else:
        cluster: Cluster = request.getfixturevalue("postgres")
        address, password_file = cluster.database(), cluster.password_file
    with ExitStack() as stack:
        yield lambda: stack.enter_context(connect(address, password_file, store))


def test_two_servers_see_the_same_and_have_the_same_key(opener: Opener) -> None:
    one, other = opener(), opener()
    with one.writing() as connection:
        write_new(connection, new_person("test", NOW, "ada", ANALYST, frozenset({"ü", "a b"}), Kind.local))
    (ada,) = list_people(other)
    assert (ada.name, ada.roles, ada.tenants, ada.created_at, ada.seen_at) == ("ada", ANALYST, {"ü", "a b"}, NOW, None)
    assert one.key("notes", NOW) == other.key("notes", NOW) != other.key("others", NOW)


def test_a_transaction_that_fails_leaves_nothing(opener: Opener) -> None:
    access = opener()
    with pytest.raises(ZeroDivisionError), access.writing() as connection:
        write_new(connection, new_person("test", NOW, "ada", ANALYST, frozenset(), Kind.local))
        raise ZeroDivisionError
    assert list_people(access) == []


def test_an_audit_entry_is_committed_with_what_it_tells_of_and_waits_for_the_warehouse(
    opener: Opener, store: Store
) -> None:
    access, name = opener(), secrets.token_hex(8)
    store.command("RENAME TABLE audit TO audit_away")
    try:
        add_person(access, "test", NOW, name, "", ["analyst"], kind=Kind.service)
        with pytest.raises(ZeroDivisionError), access.writing() as connection:
            access.note(connection, NOW, "test", "user.add", f"not {name}")
            raise ZeroDivisionError
    finally:
        store.command("RENAME TABLE audit_away TO audit")
    assert [one.name for one in list_people(access)] == [name]
    assert audit.history(store, "", f"{name} (service)") == []
    opener().send_notes()
    access.send_notes()  # has nothing left to send
    (entry,) = audit.history(store, "user.add", f"{name} (service)")
    assert (entry["at"], entry["actor"]) == (NOW, "test")
    assert audit.history(store, "", f"not {name}") == []
    store.command("ALTER TABLE audit DELETE WHERE object = {name:String}", {"name": f"{name} (service)"})
    opener().send_notes()
    access.send_notes()
    assert audit.history(store, "", f"{name} (service)") == [], "it is sent until it is there, and not again"


def test_what_waits_is_sent_in_the_order_of_its_times_until_one_cannot_be(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each once, with all that it tells; one that is there already is not sent again."""
    sent: list[tuple[Any, ...]] = []
    failing = {"never"}

    def record(_: Any, at: datetime, actor: str, action: str, what: str, reason: str, inputs: Any) -> None:
        if what in failing:
            raise StoreError("chdb://x", "is away", "Wait")
        sent.append((at, actor, action, what, reason, inputs))

    monkeypatch.setattr(audit, "record", record)
    monkeypatch.setattr(audit, "is_recorded", lambda _, entry: entry["object"] == "there")
    dice = random.Random(seed := random.randrange(2**32))
    print("seed", seed)
    noted = [
        (NOW + timedelta(seconds=number), "ada", "user.add", f"n{number}", "why", {"n": number}) for number in range(9)
    ]
    there = (NOW + timedelta(seconds=3.5), "ada", "user.add", "there", "", {})
    failing.add("n6")
    with connect("sqlite://", None, NO_WAREHOUSE) as access:
        with access.writing() as connection:
            for one in dice.sample([*noted, there], 10):
                access.note(connection, *one)
        assert sent == noted[:6]
        assert "audit entries wait here for the warehouse: chdb://x: is away" in caplog.text
        failing.clear()
        access.send_notes()
        access.send_notes()
    assert sent == noted


@pytest.mark.parametrize("other", [{"actor": "eve"}, {"reason": "why not"}, {"inputs": {"address": "192.0.2.2"}}])
def test_two_who_do_the_same_in_one_millisecond_are_two_entries(store: Store, other: dict[str, Any]) -> None:
    name = secrets.token_hex(8)
    one: dict[str, Any] = {"at": NOW, "actor": "ada", "action": "access.refused", "what": name}
    for entry in (one, {**one, **other}):
        audit.record(store, **entry)
    assert len(audit.history(store, "access.refused", name)) == 2


def test_writers_take_turns_so_that_none_overwrites_what_it_has_not_read(opener: Opener) -> None:
    stores, rounds = [opener(), opener()], 25

    def count(access: AccessStore) -> None:
        for _ in range(rounds):
            with access.writing() as connection:
                before = connection.scalar(select(keys.c.value).where(keys.c.name == "n")) or "0"
                connection.execute(keys.delete().where(keys.c.name == "n"))
                connection.execute(keys.insert().values(name="n", value=str(int(before) + 1), created_at=NOW))

    threads = [threading.Thread(target=count, args=(access,)) for access in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    with stores[0].reading() as connection:
        assert connection.scalar(select(keys.c.value).where(keys.c.name == "n")) == str(2 * rounds)


def test_the_tables_are_those_that_the_code_knows(opener: Opener) -> None:
    access = opener()
    with access.reading() as connection:
        found = inspect(connection)
        assert set(found.get_table_names()) == set(access_store._METADATA.tables)
        for name, table in access_store._METADATA.tables.items():
            assert {column["name"] for column in found.get_columns(name)} == set(table.columns.keys()), name


def test_a_schema_of_tomorrow_is_left_alone(opener: Opener) -> None:
    with opener().writing() as connection:
        connection.execute(access_store._versions.insert().values(number=9999, name="of tomorrow", applied_at=NOW))
    with pytest.raises(AccessStoreError, match=r"its schema \(9999\) is newer than this gpuledger"):
        opener()


def test_a_migration_that_fails_is_undone_with_all_before_it(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    known = access_store.migrations()
    monkeypatch.setattr(access_store, "migrations", lambda: [*known, (2, "0002_wrong", "CREATE TABLE x (a")])
    with pytest.raises(AccessStoreError):
        opener()
    monkeypatch.undo()
    assert list_people(opener()) == []


def test_text_that_cannot_be_kept_is_refused_in_one_line(opener: Opener) -> None:
    access = opener()
    with pytest.raises(AccessError) as error, access.writing() as connection:
        connection.execute(keys.insert().values(name="\ud800", value="x", created_at=NOW))
    assert "\n" not in str(error.value)


def test_nobody_else_on_the_machine_can_read_the_file(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "private" / "access.sqlite"
    with connect(f"sqlite:///{path}", None, store) as access:
        add_person(access, "test", NOW, "robot", "", ["analyst"], kind=Kind.service)
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    with connect(f"sqlite:///{path}", None, store):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sqlite3.connect(path).execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_nothing_that_is_deleted_stays_in_the_file(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "access.sqlite"
    with connect(f"sqlite:///{path}", None, store) as access:
        with access.writing() as connection:
            connection.execute(keys.insert().values(name="k", value="to-be-forgotten" * 9, created_at=NOW))
        with access.writing() as connection:
            connection.execute(keys.delete())
    assert b"to-be-forgotten" not in path.read_bytes()


def test_an_embedded_store_has_it_in_its_folder_and_one_in_memory_in_memory(store: Store) -> None:
    folder = Path(store.url.removeprefix("chdb://"))
    with open_access(store) as access:
        assert access.url == f"sqlite:///{folder / FILE}"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    memory = Store("chdb://memory", None)
    memory.__class__ = type(store)
    with connect("sqlite://", None, store) as access:
        add_person(access, "test", NOW, "robot", "", ["analyst"], kind=Kind.service)
        assert [one.name for one in list_people(access)] == ["robot"]
    assert _default_address(memory) == "sqlite://"


def test_a_clickhouse_store_has_it_in_this_machine_s_state_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", f"{tmp_path}:/other")
    found = {
        _default_address(Store(f"clickhouse://u@{host}/db", None, name))
        for host, name in (("a", "x"), ("a", "y"), ("b", "x"))
    }
    assert len(found) == 3, "each ledger has its own"
    assert all(one.startswith(f"sqlite:///{tmp_path}/access-") for one in found)
    assert caplog.records[0].levelno == logging.WARNING
    assert f"set {VARIABLE}=postgresql://" in caplog.text


def test_the_environment_comes_before_the_sign_in_file(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sign-in.yaml").write_text(f"access_store: sqlite:///{tmp_path / 'told.sqlite'}\n")
    settings = load_access(tmp_path / "sign-in.yaml")
    with open_access(store, settings) as access:
        assert access.url.endswith("told.sqlite")
    monkeypatch.setenv(VARIABLE, f"sqlite:///{tmp_path / 'environment.sqlite'}")
    with open_access(store, settings) as access:
        assert access.url.endswith("environment.sqlite")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("postgresql://u:sesame@h/db", "has its password in the address"),
        ("postgresql://u@h/db?password=sesame", "has its password in the address"),
        ("sqlite:///relative.sqlite", "not an absolute path"),
        ("sqlite:////tmp/x.sqlite?mode=ro", "not an absolute path"),
        ("mysql://u@h/db", "is not supported"),
        ("nonsense", "cannot be read"),
        ("postgresql://ledger@/nowhere?host=/nowhere", r"cannot be asked \(connection"),  # in the driver's words
    ],
)
def test_an_address_of_no_use_is_one_line_without_its_secret(store: Store, address: str, says: str) -> None:
    with pytest.raises(AccessStoreError, match=says) as error:
        connect(address, None, store)
    assert "sesame" not in str(error.value)
    assert "\n" not in str(error.value)


def test_the_password_of_a_file_is_nowhere_to_be_seen(
    store: Store, postgres: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = postgres.database()
    monkeypatch.setenv(PASSWORD_FILE_VARIABLE, str(postgres.password_file))
    with open_access(store, AccessSettings(access_store=address)) as access:
        assert PASSWORD not in f"{access.url} {access._engine} {access._engine.url} {vars(access)}"
    wrong = tmp_path / "wrong"
    wrong.write_text("sesame")
    monkeypatch.setenv(PASSWORD_FILE_VARIABLE, str(wrong))
    with pytest.raises(AccessStoreError, match="cannot be asked") as error:
        open_access(store, AccessSettings(access_store=address))
    assert "sesame" not in str(error.value)
    monkeypatch.setenv(PASSWORD_FILE_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(AccessStoreError, match="cannot be read"):
        open_access(store, AccessSettings(access_store=address))


def test_a_server_that_was_away_is_asked_again(store: Store, postgres: Cluster) -> None:
    with connect(postgres.database(), postgres.password_file, store) as access:
        assert list_people(access) == []
        with postgres.connection() as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gpuledger'")
        assert list_people(access) == []
        assert access.key("notes", NOW + timedelta(days=1))


@pytest.mark.parametrize("text", ["sesame", "sesame\n", "sesame\nof last year\n"])
def test_a_password_is_the_first_line_of_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "password").write_text(text)
    engine = access_store._postgresql(make_url("postgresql://u@h/db"), tmp_path / "password")
    assert engine.url.password == "sesame"


def test_nobody_has_an_access_store_where_no_request_is_answered() -> None:
    with pytest.raises(PermissionError, match="no request is being answered"):
        Context().run(current_access)


SCHEMA = """
audit_outbox       id* at actor action object reason inputs
copied             source* name copied_at
keys               name* value created_at
leases             name* holder who renewals renewed_at
people             issuer* subject* name kind roles tenants disabled password created_at changed_at changed_by seen_at?
saved_queries      issuer* subject* name* owner text description shared created_at changed_at changed_by
schema_migrations  number* name? applied_at?
sessions           digest* issuer subject began_at expires_at
tokens             id* digest name issuer subject roles tenants scopes created_at created_by expires_at revoked
"""
"""*: of the primary key.   ?: may be unknown."""
OWNED = {"sessions", "tokens"}


def test_what_is_known_of_everybody_cannot_be_left_out(opener: Opener) -> None:
    """On either database, and as the code has it: each column, whether it may be unknown, and what names a row."""
    with opener().reading() as connection:
        found = inspect(connection)
        for table, *marked in (line.split() for line in SCHEMA.strip().splitlines()):
            names = [one.rstrip("*?") for one in marked]
            keys_ = [name for name, one in zip(names, marked, strict=True) if one.endswith("*")]
            columns = found.get_columns(table)
            assert [one["name"] for one in columns] == names, table
            assert [one["name"] for one in columns if one["nullable"]] == [
                name for name, one in zip(names, marked, strict=True) if one.endswith("?")
            ], table
            assert found.get_pk_constraint(table)["constrained_columns"] == keys_, table
            assert list(access_store._METADATA.tables[table].columns.keys()) == names, table
            owners = [
                (one["constrained_columns"], one["referred_table"], one["referred_columns"])
                for one in found.get_foreign_keys(table)
            ]
            who = ["issuer", "subject"]
            assert owners == ([(who, "people", who)] if table in OWNED else []), table


def refuses_without_a_value(access: AccessStore) -> None:
    twice = keys.insert().values([{"name": "n", "value": "sesame", "created_at": NOW}] * 2)
    with (
        pytest.raises(AccessStoreError, match=r"cannot be asked \(.*Does it exist") as error,
        access.writing() as connection,
    ):
        connection.execute(twice)
    assert error.value.where == access.url
    assert "sesame" not in f"{error.value} {error.value.__cause__}"


def test_no_value_stands_in_an_error_nor_in_what_caused_it(opener: Opener) -> None:
    """Whoever logs a cause would log a password's hash."""
    refuses_without_a_value(opener())
    with connect("sqlite://", None, NO_WAREHOUSE) as access:
        refuses_without_a_value(access)


@pytest.mark.parametrize(
    ("free", "says"),
    [(0, r"its disk is full\. Free some space on it"), (1 << 30, r"cannot be asked \(.*\)\. Does it exist")],
)
def test_a_full_disk_is_named_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, says: str
) -> None:
    """SQLite calls it a disk I/O error, as it does a broken disk."""
    address = f"sqlite:///{tmp_path}/access.sqlite"
    connect(address, None, NO_WAREHOUSE).close()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=1 << 40, free=free))
    with full_disk(), pytest.raises(AccessStoreError, match=says):
        connect(address, None, NO_WAREHOUSE)


def test_an_access_store_that_is_new_on_a_full_disk_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(AccessStoreError, match="its disk is full"):
        connect(f"sqlite:///{tmp_path}/access.sqlite", None, NO_WAREHOUSE)


def test_servers_of_two_versions_take_turns_by_the_same_lock() -> None:
    assert access_store.WRITERS_LOCK == 4_947_131_201


def test_a_store_that_is_left_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    disposed = []
    with connect("sqlite://", None, NO_WAREHOUSE) as access:
        monkeypatch.setattr(access._engine, "dispose", lambda: disposed.append(access))
        assert disposed == []
    assert disposed == [access]


def test_threads_take_turns_on_what_is_in_memory() -> None:
    with connect("sqlite://", None, NO_WAREHOUSE) as access, ThreadPoolExecutor(2) as pool:
        with access.writing() as connection:
            connection.execute(keys.insert().values(name="mine", value="ab", created_at=NOW))
            others = [pool.submit(access.key, name, NOW) for name in ("mine", "theirs")]
            assert not wait(others, 0.1).done
        mine, theirs = (one.result(PATIENCE_SECONDS) for one in others)
        assert (mine, theirs) == (b"\xab", access.key("theirs", NOW))


def test_a_writer_does_not_wait_for_another_for_ever(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_store, "WAIT_SECONDS", 1)
    one, other = opener(), opener()

    def writes() -> None:
        with pytest.raises(AccessStoreError, match="cannot be asked"), other.writing():
            pytest.fail("two write at once")

    with ThreadPoolExecutor(1) as pool, one.writing():
        waits = pool.submit(writes)
        done, _ = wait([waits], PATIENCE_SECONDS)
        assert done, "it waits for ever"
        waits.result()


def test_who_reads_does_not_wait_for_who_writes(opener: Opener) -> None:
    one, other = opener(), opener()
    one.key("before", NOW)
    with ThreadPoolExecutor(1) as pool, one.writing() as connection:
        connection.execute(keys.insert().values(name="mine", value="ab", created_at=NOW))
        began = time.monotonic()
        assert pool.submit(list_people, other).result(PATIENCE_SECONDS) == []
        assert time.monotonic() - began < access_store.WAIT_SECONDS


def test_somebody_is_of_a_kind_that_there_is(opener: Opener) -> None:
    access = opener()
    for number, kind in enumerate([*Kind, "robot"]):
        person = {**vars(new_person("test", NOW, f"n{number}", ANALYST, frozenset(), Kind.local)), "kind": str(kind)}
        is_refused = kind not in set(Kind)
        with pytest.raises(AccessStoreError) if is_refused else ExitStack(), access.writing() as connection:
            connection.execute(access_store.people.insert().values(**person, password=""))
    assert [one.kind for one in list_people(access)] == list(Kind)


RENAMED = {
    "told_tenant": "reported_tenant", "told_project": "reported_project", "told_events": "visible_events",
    "quiet_since": "keep_firing_since", "is_said_anew": "is_renewed",
}  # fmt: skip
"""Column names of the versions before the first release (CHANGELOG)."""
RENAMED_OF = {"waiters": ("told_at", "reported_at"), "interference": ("together", "utilization_sum")}
"""Those that are renamed where the statement names their table."""


def test_saved_statements_are_brought_to_the_names_of_today(opener: Opener) -> None:
    words = [
        *RENAMED,
        *RENAMED_OF,
        *(old for old, _ in RENAMED_OF.values()),
        *RENAMED.values(),
        "reported_at",
        "SELECT",
    ]
    dice = random.Random(seed := random.randrange(2**32))
    print("seed", seed)
    texts = [" ".join(dice.choices(words, k=dice.randint(1, 5))) for _ in range(60)] + words
    with opener().writing() as connection:
        connection.execute(access_store._versions.delete().where(access_store._versions.c.number == 3))
        for number, text in enumerate(texts):
            row = {
                "issuer": "local", "subject": "ada", "name": f"{number:03}", "owner": "ada", "text": text,
                "description": "", "shared": False, "created_at": NOW, "changed_at": NOW, "changed_by": "ada",
            }  # fmt: skip
            connection.execute(access_store.saved_queries.insert().values(**row))
    kept = access_store.saved_queries.c
    with opener().reading() as connection:
        found = connection.scalars(select(kept.text).order_by(kept.name)).all()
    for before, after in zip(texts, found, strict=True):
        expected = before
        for old, new in RENAMED.items():
            expected = expected.replace(old, new)
        for table, (old, new) in RENAMED_OF.items():
            expected = expected.replace(old, new) if table in before else expected
        assert after == expected, before


@settings(max_examples=25)
@given(
    st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)),  # noqa: DTZ001 (made aware below)
    st.timedeltas(timedelta(hours=-23), timedelta(hours=23)),
    st.frozensets(st.text('aü "\\登', max_size=3), max_size=4),
)
def test_instants_and_sets_come_back_as_they_were(at: datetime, offset: timedelta, words: frozenset[str]) -> None:
    """As numbers of microseconds since 1970, and as JSON that is the same for the same set."""
    dialect: Any = None
    aware = at.replace(tzinfo=timezone(offset))
    number = access_store.Instant().process_bind_param(aware, dialect)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    assert number == since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds
    back = access_store.Instant().process_result_value(number, dialect)
    assert (back, back and back.tzinfo) == (aware, UTC)
    text = access_store.Words().process_bind_param(words, dialect)
    assert json.loads(text) == sorted(words)
    assert access_store.Words().process_result_value(text, dialect) == words


def test_what_is_unknown_is_null_and_no_words_are_none() -> None:
    dialect: Any = None
    assert access_store.Instant().process_bind_param(None, dialect) is None
    assert access_store.Instant().process_result_value(None, dialect) is None
    assert access_store.Words().process_bind_param(None, dialect) == "[]"
    assert access_store.Words().process_result_value(None, dialect) == frozenset()
    assert access_store.Words().process_bind_param(frozenset({"ü"}), dialect) == '["ü"]'
