"""What versions before kept in the warehouse is copied once and leaves nothing behind, whenever it is killed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from access.authenticator import Authenticator
from access.opening import FILE, open_access
from access.people import list_people
from access.principal import ANYBODY, Principal
from access.roles import AccessError, Role
from access.secrets import digest, hash_password
from access.settings import AccessSettings
from access.store import AccessStore
from access.tokens import list_tokens
from api.sql.saved import saved_queries
from billing.audit import history
from tests.conftest import REPO
from tests.draws import seldom
from tests.stores import fresh_store
from warehouse.store import MOVED_OUT, Store, open_store, read_sql

NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
PASSWORD = "correct horse battery"
ROOT = Principal("root", frozenset({Role.admin}))


def old_tables(store: Store) -> None:
    """As the migrations of then made them; with users, tokens and saved queries of then, in several revisions."""
    store.script(read_sql(__file__, "old_tables"))
    at = "'2026-10-01 00:00:00'"
    hashed = hash_password(PASSWORD)
    store.command(
        "INSERT INTO access_users (name, revision, password, roles, tenants, disabled, created_at, changed_at, "
        f"changed_by) VALUES ('ada', 1, 'old', ['admin'], [], 0, {at}, {at}, 'root'), "
        f"('ada', 2, '{hashed}', ['finance'], [], 0, {at}, {at}, 'root'), "
        f"('bob', 1, '{hashed}', ['analyst'], [], 1, {at}, {at}, 'root')"
    )
    tokens = (("ada", "admin", "", 0), ("bob", "analyst", "", 0), ("eve@x.org", "tenant", "vision", 0),
              ("eve@x.org", "analyst", "", 1), (ANYBODY.name, "operator", "", 0))  # fmt: skip
    rows = ", ".join(
        f"('t{number}', 1, '{digest(f'gpl_t{number}_x')}', 'for {owner}', '{owner}', ['{role}'], "
        f"{[tenant] if tenant else []}, ['read'], '2027-01-01 00:00:00', {revoked}, {at}, 'root')"
        for number, (owner, role, tenant, revoked) in enumerate(tokens)
    )
    store.command(
        "INSERT INTO access_tokens (id, revision, digest, name, owner, roles, tenants, scopes, expires_at, revoked, "
        f"created_at, created_by) VALUES {rows}"
    )
    queries = ", ".join(
        f"('{owner}', 'q', 1, 'SELECT ''{owner}''', '', 0, {at}, {at}, '{owner}', {deleted})"
        for owner, deleted in (("ada", "NULL"), ("eve@x.org", "NULL"), (ANYBODY.name, "NULL"), ("bob", at))
    )
    store.command(
        "INSERT INTO saved_queries (owner, name, revision, text, description, shared, created_at, changed_at, "
        f"changed_by, deleted_at) VALUES {queries}"
    )


def left_behind(store: Store) -> list[str]:
    rows = store.rows("SELECT name FROM system.tables WHERE has({names:Array(String)}, name)", {"names": [*MOVED_OUT]})
    return [row["name"] for row in rows]


def check(access: AccessStore) -> None:
    """That all of it is there, once."""
    people = {one.id: one for one in list_people(access)}
    services = {("service", "eve@x.org"), ("service", ANYBODY.name)}
    assert people.keys() == {("local", "ada"), ("local", "bob")} | services
    assert (people["local", "ada"].roles, people["local", "bob"].disabled) == ({"finance"}, True)
    assert people["service", "eve@x.org"].roles == {"tenant", "analyst"}
    owners = {one.id: one.owner.id for one in list_tokens(access)}
    assert owners == {"t0": ("local", "ada"), "t1": ("local", "bob"), "t2": ("service", "eve@x.org"),
                      "t3": ("service", "eve@x.org"), "t4": ("service", ANYBODY.name)}  # fmt: skip
    kept = {(one.id, one.text) for one in saved_queries(access, ROOT)}
    assert kept == {(("local", "ada"), "SELECT 'ada'"), (("service", "eve@x.org"), "SELECT 'eve@x.org'"),
                    (ANYBODY.id, f"SELECT '{ANYBODY.name}'")}  # fmt: skip
    authenticator = Authenticator(access, AccessSettings(sign_in=True))
    assert authenticator.sessions.by_password("ada", PASSWORD, NOW, "192.0.2.1") is not None

    def asks(token: str) -> Principal | None:
        return authenticator.by_token({"authorization": f"Bearer gpl_{token}_x"}, NOW)

    ada, eve = asks("t0"), asks("t2")
    assert ada is not None and ada.roles == {"finance"}, "a token of hers was an admin's; she is none"
    assert eve is not None and (eve.roles, eve.tenants) == ({"tenant"}, {"vision"})
    for token in ("t1", "t3"):  # of somebody disabled; revoked
        with pytest.raises(AccessError):
            asks(token)


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store's folder as a version before left it."""
    folder = tmp_path_factory.mktemp("old") / "store"
    with fresh_store(folder) as store:
        old_tables(store)
    yield folder


def test_a_store_that_is_new_does_not_have_the_old_tables(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "store") as store:
        assert left_behind(store) == []
        with open_access(store) as access:
            assert list_people(access) == []
        assert history(store, "access.moved") == []


def test_an_upgrade_copies_all_of_it_and_leaves_nothing_behind(old: Path, tmp_path: Path) -> None:
    shutil.copytree(old, tmp_path / "store", symlinks=True)
    with open_store(f"chdb://{tmp_path / 'store'}") as store:
        assert sorted(left_behind(store)) == sorted(MOVED_OUT)
        with open_access(store) as access:
            assert left_behind(store) == []
            check(access)
        with open_access(store) as access:
            check(access)
        assert [row["actor"] for row in history(store, "access.moved")] == ["upgrade"]


KILLED = """
import os, signal, sys
from access import upgrade
from access.opening import open_access
from warehouse.store import Store, open_store

point, folder = sys.argv[1:]
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
dropped = 0
copy, drop, command = upgrade._copy, upgrade._drop, Store.command

def copying(*arguments):
    copy(*arguments)
    if point == "copied, not committed":
        die()

def dropping(*arguments):
    if point == "committed":
        die()
    drop(*arguments)

def doing(self, sql, *arguments, **more):
    global dropped
    command(self, sql, *arguments, **more)
    if sql.startswith("DROP TABLE"):
        dropped += 1
        if point == f"{dropped} dropped":
            die()

upgrade._copy, upgrade._drop, Store.command = copying, dropping, doing
with open_store(f"chdb://{folder}") as store:
    open_access(store)
"""


@seldom(6, "an upgrade that is killed is done")
@pytest.mark.parametrize("point", ["copied, not committed", "committed", "1 dropped"])
def test_an_upgrade_that_is_killed_is_done_by_the_next_start(old: Path, tmp_path: Path, point: str) -> None:
    folder = tmp_path / "store"
    shutil.copytree(old, folder, symlinks=True)
    killed = subprocess.run([sys.executable, "-c", KILLED, point, str(folder)], cwd=REPO, timeout=120, check=False)
    assert killed.returncode == -signal.SIGKILL
    with open_store(f"chdb://{folder}") as store:
        left = left_behind(store)
        assert len(left) == (2 if point == "1 dropped" else 3)
        with open_access(store) as access:
            assert left_behind(store) == []
            check(access)


def test_tables_that_were_copied_are_not_copied_into_another_store_s_people(old: Path, tmp_path: Path) -> None:
    """An access store that somebody else's ledger uses: refused, and nothing is dropped."""
    shutil.copytree(old, tmp_path / "store", symlinks=True)
    with open_store(f"chdb://{tmp_path / 'store'}") as store:
        with open_access(store) as access:
            check(access)
        old_tables(store)  # another ledger's, by their UUIDs
        with pytest.raises(AccessError, match="has a user 'ada' already"):
            open_access(store)
        assert sorted(left_behind(store)) == sorted(MOVED_OUT)
        for file in (tmp_path / "store").glob(f"{FILE}*"):
            file.unlink()
        with open_access(store) as access:
            check(access)
