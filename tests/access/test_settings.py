"""The sign-in file key by key: what it is where nothing is said, what fits, and where its secrets lie; and which access
store a warehouse has."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import make_url

from access import opening
from access import store as access_store
from access.opening import PASSWORD_FILE_VARIABLE, VARIABLE, _default_address, open_access
from access.roles import AccessError, Role
from access.settings import AccessSettings, Oidc, load_access, with_trusted_proxies
from access.store import AccessStoreError, connect
from tests.conftest import REPO
from warehouse.store import EmbeddedStore, Store

OIDC: dict[str, Any] = {"issuer": "https://login.example.org", "client_id": "x", "roles": {}}


def read(tmp_path: Path, text: str) -> AccessSettings:
    path = tmp_path / "sign-in.yaml"
    path.write_text(text)
    return load_access(path)


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(AccessError) as error:
        read(tmp_path, text)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_not_said_is_as_the_documents_say(tmp_path: Path) -> None:
    found = read(tmp_path, "local_users: true")
    assert asdict(found) == {
        "sign_in": True, "url": "", "session": timedelta(hours=8), "key": None, "local_users": True, "oidc": None,
        "client_secret": "", "owner_seen": timedelta(days=90), "trusted_proxies": (), "access_store": "",
        "access_store_password_file": None,
    }  # fmt: skip
    assert AccessSettings() == replace(found, sign_in=False)
    text = (REPO / "docs" / "access.md").read_text()
    for line in ("session_hours: 8 ", "local_users: true ", "owner_seen_days: 90 "):
        assert line in text
    few = Oidc(**OIDC)
    assert (few.scopes, few.name_claim, few.groups_claim) == (("openid", "profile", "email"), "email", "groups")
    assert (few.tenants, few.tenant_prefix, few.client_secret_file) == ({}, "", None)


def test_each_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\n" + b"k" * 32 + b"\n")
    (tmp_path / "secret").write_text(" s3cret\n")
    found = read(
        tmp_path,
        """
url: https://ledger.test//
session_hours: 1.5
session_key_file: key
local_users: false
owner_seen_days: 7
trusted_proxies: [10.0.0.0/8, "::1"]
access_store: sqlite:////x/y
access_store_password_file: sub/password
oidc:
  issuer: https://login.example.org/realm/
  client_id: c
  client_secret_file: secret
  scopes: [openid]
  name_claim: login
  groups_claim: teams
  roles: {a: admin, b: tenant}
  tenants: {a: [x, y]}
  tenant_prefix: t-
""",
    )
    assert (found.url, found.session, found.key) == ("https://ledger.test", timedelta(hours=1.5), b"k" * 32)
    assert (found.local_users, found.owner_seen, found.client_secret) == (False, timedelta(days=7), "s3cret")
    assert found.trusted_proxies == ("10.0.0.0/8", "::1")
    assert found.access_store == "sqlite:////x/y"
    assert found.access_store_password_file == tmp_path / "sub" / "password"
    assert found.oidc == Oidc(
        issuer="https://login.example.org/realm", client_id="c", client_secret_file=Path("secret"), scopes=("openid",),
        name_claim="login", groups_claim="teams", roles={"a": Role.admin, "b": Role.tenant},
        tenants={"a": ("x", "y")}, tenant_prefix="t-",
    )  # fmt: skip
    public = read(tmp_path, "url: http://x.org\noidc: {issuer: 'https://a.org', client_id: c, roles: {}}")
    assert (public.client_secret, public.local_users) == ("", True)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("session_hours: 720", True), ("session_hours: 720.1", False), ("session_hours: 0", False),
        ("session_hours: 0.01", True), ("session_hours: .nan", False), ("session_hours: .inf", False),
        ("owner_seen_days: 3660", True), ("owner_seen_days: 3661", False), ("owner_seen_days: 0", False),
        ("owner_seen_days: 0.5", True), ("session_days: 1", False), ("local_users: false", False),
        ("trusted_proxies: [10.0.0.7]", True), ("trusted_proxies: [10.0.0.7/8]", False),
    ],
)  # fmt: skip
def test_a_value_fits_or_is_refused_with_its_key(tmp_path: Path, text: str, fits: bool) -> None:
    if fits:
        assert read(tmp_path, text).sign_in
    else:
        said = refused(tmp_path, text)
        assert text.partition(":")[0] in said
        assert "See docs/access.md for an example" in said


@pytest.mark.parametrize(
    ("issuer", "fits"),
    [("https://a.org", True), ("http://a.org", False), ("http://127.0.0.1:8080", True), ("http://localhost/x", True),
     ("ftp://localhost", False), ("http://localhost.evil.org", False), ("https://a.org/", True), ("a.org", False)],
)  # fmt: skip
def test_a_provider_is_asked_over_tls_or_on_this_machine(issuer: str, fits: bool) -> None:
    if fits:
        assert Oidc(**{**OIDC, "issuer": issuer}).issuer == issuer.rstrip("/")
    else:
        with pytest.raises(ValueError, match="an https:// address"):
            Oidc(**{**OIDC, "issuer": issuer})


@pytest.mark.parametrize(
    ("url", "fits"),
    [("https://a.org", True), ("http://a.org", True), ("", False), ("a.org", False), ("ftp://a", False)],
)
def test_a_provider_needs_to_know_where_to_send_browsers_back(tmp_path: Path, url: str, fits: bool) -> None:
    text = f"url: '{url}'\noidc: {{issuer: 'https://a.org', client_id: c, roles: {{}}}}"
    if fits:
        assert read(tmp_path, text).url == url
        assert read(tmp_path, f"{text}\nlocal_users: false").local_users is False
    else:
        assert "oidc needs url: how browsers reach us" in refused(tmp_path, text)
    assert read(tmp_path, f"url: '{url}'").url == url, "without a provider nobody is sent anywhere"


def test_settings_of_a_provider_cannot_be_changed_and_have_no_other_keys(tmp_path: Path) -> None:
    found = Oidc(**OIDC)
    with pytest.raises(ValueError, match="frozen"):
        found.client_id = "y"  # type: ignore[misc]
    with pytest.raises(ValueError, match="at least 1 character"):
        Oidc(**{**OIDC, "client_id": ""})
    with pytest.raises(ValueError, match="Extra inputs"):
        Oidc(**OIDC, secret="x")
    said = refused(tmp_path, "oidc: {issuer: 'https://a.org', client_id: c, roles: {}, client_secret: s3cret}")
    assert "oidc.client_secret" in said and "s3cret" not in said


@pytest.mark.parametrize(("size", "fits"), [(31, False), (32, True), (33, True), (0, False)])
def test_a_key_has_32_bytes_or_more(tmp_path: Path, size: int, fits: bool) -> None:
    (tmp_path / "key").write_bytes(b"k" * size)
    if fits:
        assert read(tmp_path, "session_key_file: key").key == b"k" * size
    else:
        assert f"key: has {size} bytes. A key has 32 or more" in refused(tmp_path, "session_key_file: key")


def test_a_secret_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "nothing: cannot be read (No such file" in refused(tmp_path, "session_key_file: nothing")
    (tmp_path / "key").write_bytes(b"k" * 32)
    at = tmp_path / "key"
    assert read(tmp_path, f"session_key_file: {at}").key == b"k" * 32, "or by its whole path"


def test_no_secret_is_shown(tmp_path: Path) -> None:
    found = AccessSettings(key=b"k" * 32, client_secret="s3cret")
    assert "kkk" not in repr(found) and "s3cret" not in repr(found)
    assert "session" in repr(found)


def test_more_proxies_come_after_those_of_the_file() -> None:
    configured = AccessSettings(trusted_proxies=("10.0.0.1",), session=timedelta(hours=1))
    assert with_trusted_proxies(configured, ["::1", "10.0.0.0/8"]) == replace(
        configured, trusted_proxies=("10.0.0.1", "::1", "10.0.0.0/8")
    )
    assert with_trusted_proxies(configured, []) == configured
    with pytest.raises(AccessError, match="--trusted-proxy: 'x' is neither an address nor a network"):
        with_trusted_proxies(configured, ["10.0.0.1", "x"])


GROUPS = Oidc(
    **{**OIDC, "roles": {"a": "admin", "b": "tenant", "c": "tenant"}},
    tenants={"a": ("x", ""), "b": ("x", "y")},
    tenant_prefix="t-",
)


@pytest.mark.parametrize(
    ("groups", "roles", "tenants"),
    [
        ([], set(), set()),
        (["a"], {Role.admin}, {"x"}),
        (["b", "c", "z"], {Role.tenant}, {"x", "y"}),
        (["t-v", "t-t-w", "t-", "xt-u", "t"], set(), {"v", "t-w"}),
        (["a", "b", "t-v"], {Role.admin, Role.tenant}, {"x", "y", "v"}),
    ],
)
def test_groups_are_mapped_to_roles_and_tenants(groups: list[str], roles: set[Role], tenants: set[str]) -> None:
    assert GROUPS.roles_of(iter(groups)) == roles
    assert GROUPS.tenants_of(iter(groups)) == tenants


def store_at(url: str, database: str = "ledger", embedded: bool = False) -> Store:
    found = Store(url, None, database)
    if embedded:
        found.__class__ = EmbeddedStore
    return found


@pytest.mark.parametrize(
    ("url", "database", "name"),
    [
        ("clickhouse://u:p@a.org/db", "db", "a.org-8123-db"),
        ("clickhouse://a.org:9000/x", "x", "a.org-9000-x"),
        ("clickhouse://[::1]/x", "a b", "__1-8123-a_b"),
        ("clickhouse://a_b/x", "é", "a_b-8123-_"),
    ],
)
def test_each_ledger_on_a_server_has_an_access_store_of_its_own_name(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    url: str,
    database: str,
    name: str,
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", f"{tmp_path}:/other")
    assert _default_address(store_at(url, database)) == f"sqlite:///{tmp_path}/access-{name}.sqlite"
    monkeypatch.delenv("STATE_DIRECTORY")
    monkeypatch.setenv("HOME", "/home/x")
    assert _default_address(store_at(url, database)) == f"sqlite:////home/x/.local/share/gpuledger/access-{name}.sqlite"
    said = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert len(said) == 2
    assert f"access-{name}.sqlite" in said[0] and f"set {VARIABLE}=postgresql://" in said[0]


def test_an_embedded_ledger_has_its_own_beside_it_and_one_in_memory_none(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert _default_address(store_at(f"chdb://{tmp_path}", embedded=True)) == f"sqlite:///{tmp_path}/access.sqlite"
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert _default_address(store_at("chdb://memory", embedded=True)) == "sqlite://"


class Opened:
    """In place of an access store: what was done with it."""

    def __init__(self, address: str, password_file: Path | None, warehouse: Store) -> None:
        self.given = (address, password_file, warehouse)
        self.done: list[str] = []

    def send_notes(self) -> None:
        self.done.append("sent")

    def close(self) -> None:
        self.done.append("closed")


def test_where_it_is_says_the_environment_then_the_file_then_the_warehouse(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken: list[Any] = []
    monkeypatch.setattr(opening, "connect", Opened)
    monkeypatch.setattr(opening, "move_from_warehouse", lambda access, now: taken.append((access, now.tzinfo)))
    for name in (VARIABLE, PASSWORD_FILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    warehouse = store_at(f"chdb://{tmp_path}", embedded=True)
    configured = AccessSettings(access_store="sqlite:////told", access_store_password_file=Path("/told"))

    def opened(settings: AccessSettings | None = None) -> tuple[str, Path | None]:
        found = cast("Any", open_access(warehouse, settings))
        assert found.given[2] is warehouse
        assert (found.done, taken.pop()[0]) == (["sent"], found)
        return found.given[:2]  # type: ignore[no-any-return]

    usual = f"sqlite:///{tmp_path}/access.sqlite"
    assert opened() == opened(AccessSettings()) == (usual, None)
    assert opened(configured) == ("sqlite:////told", Path("/told"))
    monkeypatch.setenv(PASSWORD_FILE_VARIABLE, "/of the environment")
    assert opened(configured) == ("sqlite:////told", Path("/of the environment"))
    monkeypatch.setenv(VARIABLE, "sqlite:////environment")
    assert opened(configured) == ("sqlite:////environment", Path("/of the environment"))


def test_an_access_store_that_cannot_be_brought_up_to_date_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Opened] = []

    def connected(*given: Any) -> Opened:
        made.append(Opened(*given))
        return made[-1]

    def fails(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(opening, "connect", connected)
    monkeypatch.setattr(opening, "move_from_warehouse", fails)
    with pytest.raises(KeyboardInterrupt):
        open_access(store_at("chdb://memory", embedded=True))
    assert made[0].done == ["closed"]


def test_a_store_that_cannot_be_migrated_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Any] = []

    def fails(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(access_store, "_migrate", fails)
    monkeypatch.setattr(access_store.AccessStore, "close", lambda access: closed.append(access))
    with pytest.raises(KeyboardInterrupt):
        connect("sqlite://", None, cast("Store", None))
    assert len(closed) == 1


@pytest.mark.parametrize(
    ("address", "where"),
    [("sqlite://", None), ("sqlite:///:memory:", None), ("sqlite:////{tmp}/a.sqlite", "{tmp}/a.sqlite")],
)
def test_a_file_is_made_for_this_user_alone_with_the_folders_to_it(
    tmp_path: Path, address: str, where: str | None
) -> None:
    with connect(address.replace("/{tmp}", f"{tmp_path}/sub/x"), None, cast("Store", None)) as access:
        with access.reading() as connection:
            found = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in (
                "journal_mode", "synchronous", "foreign_keys", "secure_delete", "busy_timeout")}  # fmt: skip
        if where:
            assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "secure_delete": 1,
                             "busy_timeout": 10_000}  # fmt: skip
            file = tmp_path / "sub" / "x" / "a.sqlite"
            assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        else:
            assert (found["synchronous"], found["foreign_keys"]) == (2, 1)
    assert not where or (tmp_path / "sub" / "x" / "a.sqlite").exists()


def test_a_file_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(AccessStoreError, match=r"a\.sqlite: cannot be opened \(File exists\)"):
        connect(f"sqlite:///{tmp_path}/file/a.sqlite", None, cast("Store", None))


def test_a_server_of_postgresql_is_asked_as_us_and_waited_for_ten_seconds(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("sesame\n")
    passed: dict[str, Any] = {}

    def made(url: Any, **more: Any) -> Any:
        passed.update(more, url=url)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access_store, "create_engine", made)
        access_store._postgresql(make_url("postgresql://u@h:7/db?sslmode=require"), tmp_path / "password")
    assert (
        passed.pop("url").render_as_string(hide_password=False)
        == "postgresql+psycopg://u:sesame@h:7/db?sslmode=require"
    )
    assert passed == {
        "pool_pre_ping": True, "hide_parameters": True,
        "connect_args": {"connect_timeout": 10, "application_name": "gpuledger"},
    }  # fmt: skip
    assert access_store.WAIT_SECONDS == 10
    (tmp_path / "password").write_bytes(b"\xff")
    with pytest.raises(AccessStoreError, match="password: cannot be read"):
        access_store._postgresql(make_url("postgresql://u@h/db"), tmp_path / "password")


def test_migrations_are_numbered_and_in_order() -> None:
    found = access_store.migrations()
    assert [number for number, _, _ in found] == list(range(1, len(found) + 1))
    folder = REPO / "access" / "migrations"
    for number, name, text in found:
        assert name.startswith(f"{number:04}_")
        assert text == (folder / f"{name}.sql").read_text()
