"""`gpuledger sql`, `users` and `tokens`: on a store, and on a server that holds one."""

from __future__ import annotations

import getpass
import io
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from access.settings import AccessSettings
from gpuledger.commands.users import _password
from tests.alerts.test_prometheus import PROMTOOL, promtool
from tests.dashboards.site import fill, serving
from tests.gpuledger.running import refused, run
from tests.stores import fresh_store
from warehouse.store import open_store

pytestmark = pytest.mark.usefixtures("engine_stays")

PASSWORD = "correct horse battery"
BY_TENANT = "SELECT tenant, sum(consumed_quantity) AS gpu_hours FROM v_charges GROUP BY tenant ORDER BY tenant"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("store")
    fresh_store(folder / "store", fill).close()
    return f"chdb://{folder / 'store'}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a server that asks for sign-in, and a file with an admin's token."""
    folder = tmp_path_factory.mktemp("server")
    fresh_store(folder / "store", fill).close()
    where = f"chdb://{folder / 'store'}"
    scopes = ("--scope", "read", "--scope", "write", "--scope", "sql")
    made = run("tokens", "create", "all", "--role", "admin", *scopes, "--store", where, "--author", "root")
    (folder / "token").write_text(made.stdout)
    with open_store(where) as opened, serving(opened, AccessSettings(sign_in=True)) as url:
        yield url, folder / "token"


@pytest.fixture
def url(server: tuple[str, Path]) -> str:
    return server[0]


@pytest.fixture
def token(server: tuple[str, Path]) -> Path:
    return server[1]


def test_sql_answers_in_every_format(store: str, tmp_path: Path) -> None:
    rows = {"tenant": ["speech", "vision"], "gpu_hours": [48, 48]}
    assert json.loads(run("sql", BY_TENANT, "--store", store, "--format", "json").stdout)["rows"] == 2
    assert run("sql", "-", "--store", store, "--format", "csv", typed=BY_TENANT).stdout == (
        '"tenant","gpu_hours"\n"speech",48\n"vision",48\n'
    )
    assert run("sql", BY_TENANT, "--store", store).stdout.splitlines()[0].split() == ["tenant", "gpu_hours"]
    assert run("sql", f"{BY_TENANT} FORMAT TSV", "--store", store).stdout == "speech\t48\nvision\t48\n"
    assert run("sql", "SELECT 1, 1, [1, NULL] AS b", "--store", store).stdout.split() == [
        "1", "1", "(1)", "b", "1", "1", "[1,", "null]",
    ]  # fmt: skip
    assert run("sql", "SELECT 1 AS a WHERE 0", "--store", store).stdout.split() == ["a"]
    out = tmp_path / "charges.parquet"
    assert run("sql", BY_TENANT, "--store", store, "--as", "Parquet", "--out", str(out)).exit_code == 0
    assert pq.read_table(out).to_pydict() == rows


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DROP TABLE samples", "reads only"),
        ("SELECT * FROM access_tokens", "is not one that you may read"),
        ("SELECT nope", "Unknown expression identifier"),
        ("", "an empty statement"),
        ("SELECT * FROM file('/etc/passwd')", "the table function file is not allowed"),
    ],
)
def test_sql_that_is_of_no_use_is_one_line(store: str, statement: str, says: str) -> None:
    assert says in refused("sql", statement, "--store", store)


def test_a_query_is_saved_run_shown_and_deleted(store: str) -> None:
    where = ("--store", store)
    assert run("queries", "list", *where).stderr.startswith("no saved queries yet")
    save = ("queries", "save", "hours", "-", "--description", "GPU-hours", "--author", "ann", *where)
    assert "query 'hours' of ann is saved." in run(*save, typed=BY_TENANT).stderr
    assert run("sql", "--saved", "hours", "--format", "csv", *where).stdout.endswith('"speech",48\n"vision",48\n')
    assert run("queries", "show", "hours", *where).stdout == BY_TENANT + "\n"
    (one,) = json.loads(run("queries", "list", "--format", "json", *where).stdout)
    assert (one["owner"], one["shared"], one["text"]) == ("ann", False, BY_TENANT)
    assert "does not exist, or you" in refused("sql", "--saved", "days", *where)
    assert "instead" in refused("sql", "SELECT 1", "--saved", "hours", *where)
    assert "instead" in refused("sql", *where)
    assert "is not there" in refused("queries", "delete", "hours", "--author", "bob", *where)
    assert run("queries", "delete", "hours", "--owner", "ann", *where).exit_code == 0
    assert "does not exist, or you" in refused("queries", "show", "hours", *where)


def test_users_are_added_changed_and_listed(store: str, tmp_path: Path) -> None:
    where = ("--store", store, "--author", "root")
    assert run("users", "list", "--store", store).stderr.startswith("no users yet")
    typed = run("users", "add", "ada", "--role", "finance", *where, typed=f"{PASSWORD}\n{PASSWORD}\n")
    assert typed.exit_code == 0, typed.output
    (tmp_path / "password").write_text(PASSWORD + "\n")
    vera = ("users", "add", "vera", "--role", "tenant", "--tenant", "vision", "--password-file")
    assert run(*vera, str(tmp_path / "password"), *where).exit_code == 0
    assert run("users", "set", "ada", "--role", "operator", "--role", "finance", "--disable", *where).exit_code == 0
    found = {one["name"]: one for one in json.loads(run("users", "list", "--store", store, "--format", "json").stdout)}
    assert (found["ada"]["roles"], found["ada"]["disabled"]) == (["finance", "operator"], True)
    assert (found["vera"]["tenants"], found["vera"]["changed_by"]) == (["vision"], "root")
    assert "finance operator" in run("users", "list", "--store", store).stdout
    assert PASSWORD not in run("users", "list", "--store", store, "--format", "json").stdout
    assert run("users", "add", "ada", "--service", "--role", "analyst", *where).exit_code == 0
    assert "ada of local, ada of service" in refused("users", "set", "ada", "--disable", *where)
    assert run("users", "set", "ada", "--issuer", "service", "--disable", *where).exit_code == 0
    listed = json.loads(run("users", "list", "--store", store, "--format", "json").stdout)
    found = {(one["kind"], one["name"]): one["disabled"] for one in listed}
    assert (found["local", "ada"], found["service", "ada"]) == (True, True)


@pytest.mark.parametrize("stays_silent", [True, False])
def test_a_piped_password_is_read_in_silence_and_one_that_a_terminal_shows_is_not(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder, stays_silent: bool
) -> None:
    typed = io.StringIO(f"{PASSWORD}\n{PASSWORD}\n")
    monkeypatch.setattr(typed, "isatty", lambda: not stays_silent)
    monkeypatch.setattr(sys, "stdin", typed)
    monkeypatch.setattr(getpass, "getpass", vars(getpass)["fallback_getpass"])  # as where there is no /dev/tty
    assert _password(None) == PASSWORD
    warned = {one.category for one in recwarn}
    assert warned == (set() if stays_silent else {getpass.GetPassWarning})


@pytest.mark.parametrize(
    ("arguments", "typed", "says"),
    [
        (("add", "bob", "--role", "admin", "--password-file", "-"), "short\n", "has 5 characters"),
        (("add", "bob", "--role", "king", "--password-file", "-"), PASSWORD, "Choose from admin"),
        (("add", "bob", "--role", "tenant", "--password-file", "-"), PASSWORD, "the role tenant and no tenant"),
        (("add", "bob", "--role", "king"), "", "Choose from admin"),  # before it asks for a password
        (("add", "bob"), "", "has no role"),
        (("add", "bob ", "--role", "admin"), "", "spaces around it"),
        (("set", "ada", "--role", "king", "--password"), "", "Choose from admin"),
        (("add", "bob", "--role", "admin", "--password-file", "/nowhere"), None, "cannot be read"),
        (("set", "nobody", "--disable"), None, "is not known"),
    ],
)
def test_a_user_of_no_use_is_one_line(store: str, arguments: tuple[str, ...], typed: str | None, says: str) -> None:
    assert says in refused("users", *arguments, "--store", store, typed=typed)


def test_tokens_are_made_listed_and_revoked(store: str) -> None:
    where = ("--store", store, "--author", "root")
    wanda = ("users", "add", "wanda", "--role", "tenant", "--tenant", "vision", "--password-file", "-")
    assert run(*wanda, *where, typed=PASSWORD).exit_code == 0
    made = run("tokens", "create", "ci", "--owner", "wanda", "--role", "tenant", "--tenant", "vision", *where)
    assert re.fullmatch(r"gpl_[0-9a-f]{12}_\S{43}\n", made.stdout)
    public = made.stdout.split("_")[1]
    assert f"token {public} of wanda: tenant of vision; read; until" in made.stderr
    assert run("tokens", "revoke", public, "--reason", "over", *where).exit_code == 0
    listed = {one["id"]: one for one in json.loads(run("tokens", "list", *where[:2], "--format", "json").stdout)}
    assert (listed[public]["revoked"], listed[public]["tenants"]) == (True, ["vision"])
    more = ("tokens", "create", "x", "--owner", "wanda", "--role", "analyst", *where)
    assert "more rights than its owner, who may tenant vision" in refused(*more)
    assert "is not known" in refused(*more[:5], "--issuer", "https://login.example.org", *where)
    run("tokens", "create", "nightly", *where)
    assert run("tokens", "create", "nightly", *where).stderr.startswith("token ")
    (two,) = {one["owner"] for one in json.loads(run("tokens", "list", *where[:2], "--format", "json").stdout)
              if one["issuer"] == "service" and one["name"] == "nightly"}  # fmt: skip
    assert two == "nightly"
    # Whoever opens the store is no user of it, also if one is called like them.
    mine = run("tokens", "create", "grafana", "--scope", "sql", *where[:2], "--author", "wanda")
    assert "of grafana (service): analyst; sql; until" in mine.stderr
    assert made.stdout.strip() not in run("tokens", "list", *where[:2], "--format", "csv").stdout
    assert "not one of yours" in refused("tokens", "revoke", "nothing", *where)
    assert "no tenant" in refused("tokens", "create", "x", "--role", "tenant", *where)
    assert run("tokens", "create", "x", "--days", "367", *where).exit_code == 2


def test_a_server_answers_the_same_to_a_token(token: Path, url: str) -> None:
    where = ("--store", url, "--token-file", str(token))
    assert run("sql", BY_TENANT, *where, "--format", "csv").stdout.endswith('"speech",48\n"vision",48\n')
    assert "reads only" in refused("sql", "DROP TABLE samples", *where)
    assert run("queries", "save", "hours", BY_TENANT, "--shared", *where).exit_code == 0
    assert run("sql", "--saved", "hours", *where, "--format", "csv").stdout.endswith('"speech",48\n"vision",48\n')
    assert run("queries", "show", "hours", *where).stdout == BY_TENANT + "\n"
    assert "of all is deleted" in run("queries", "delete", "hours", *where).stderr
    assert (
        run("users", "add", "zoe", "--role", "analyst", "--password-file", "-", *where, typed=PASSWORD).exit_code == 0
    )
    assert run("users", "set", "zoe", "--disable", *where).exit_code == 0
    found = {one["name"]: one for one in json.loads(run("users", "list", *where, "--format", "json").stdout)}
    assert (found["zoe"]["disabled"], found["zoe"]["changed_by"]) == (True, "all (service)")
    made = run("tokens", "create", "analysis", "--role", "analyst", "--scope", "sql", *where)
    theirs = token.with_name("theirs")
    theirs.write_text(made.stdout)
    assert run("sql", "SELECT 1", "--store", url, "--token-file", str(theirs)).exit_code == 0
    assert run("tokens", "revoke", made.stdout.split("_")[1], *where).exit_code == 0
    assert "unknown, expired or revoked" in refused("sql", "SELECT 1", "--store", url, "--token-file", str(theirs))
    assert "revoked" in run("tokens", "list", *where).stdout


def test_a_server_tells_who_may_not_why(token: Path, url: str) -> None:
    made = run("tokens", "create", "mine", "--role", "tenant", "--tenant", "vision", "--scope", "read", "--scope",
               "write", "--store", url, "--token-file", str(token))  # fmt: skip
    theirs = token.with_name("tenants")
    theirs.write_text(made.stdout)
    where = ("--store", url, "--token-file", str(theirs))
    assert "no scope sql" in refused("sql", "SELECT 1", *where)
    assert "requires the role admin" in refused("users", "list", *where)
    assert "more rights than you" in refused("tokens", "create", "x", "--role", "admin", *where)
    # The admin made it in their own name, and it reaches none of the admin's other tokens all the same.
    (only,) = json.loads(run("tokens", "list", *where, "--format", "json").stdout)
    assert only["name"] == "mine"
    assert "not one of yours" in refused("tokens", "revoke", token.read_text().split("_")[1], *where)
    assert "sign in, or send" in refused("sql", "SELECT 1", "--store", url)
    assert "cannot be read" in refused("sql", "SELECT 1", "--store", url, "--token-file", "/nowhere")


def test_the_server_shows_its_metrics_to_a_token(token: Path, url: str) -> None:
    answer = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {token.read_text().strip()}"})
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "gpuledger_closed_until_timestamp_seconds 1793" in answer.text
    assert "gpuledger_quarantined_rows 1\n" in answer.text
    assert "gpuledger_alert" in answer.text
    if PROMTOOL is not None:
        promtool("check", "metrics", text=answer.text)
