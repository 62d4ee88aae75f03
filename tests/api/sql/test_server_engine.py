"""People's SQL on a ClickHouse server, over real HTTP: behind the interface is the real engine, which has the account's
own rights, limits and quota, and nothing more."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import pytest

from access.principal import Principal
from access.roles import Role
from api.sql import server_engine
from api.sql.engine import Engine, Question
from api.sql.errors import SqlError
from api.sql.limits import Limits
from api.sql.server_engine import late_error
from api.sql.statement import Statement
from tests.conftest import REPO
from tests.draws import seldom
from tests.patience import PATIENCE_SECONDS, until
from tests.warehouse.accounts.as_account import account, config_for, copied
from tests.warehouse.accounts.conftest import books as books
from warehouse.accounts.declaration import Account
from warehouse.store import ServerStore

ANALYST = Principal("ann@example.org & co", frozenset({Role.analyst}))
FINANCE = Principal("fay", frozenset({Role.finance}))
PASSWORDS = {"gpuledger_writer": "owner's", "gpuledger_reader": "pass wörd &", "another": "x"}
SLOW = "SELECT count() FROM numbers(1000000) WHERE NOT ignore(sleepEachRow(0.001)) SETTINGS max_block_size = 100"
"""Answers nothing for minutes, and computes nothing."""
SERVER = Path(__file__).parents[2] / "warehouse" / "accounts" / "clickhouse_server.py"


ENDS_SECONDS = 30
"""By itself a statement goes on for sixty."""


class Served:
    """A server. requests: what it was asked."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        (folder / "pw").write_text(PASSWORDS["gpuledger_reader"] + "\nnot this\n", encoding="utf-8")
        self.environment = {
            "GPULEDGER_SQL_USER": "gpuledger_reader",
            "GPULEDGER_SQL_PASSWORD_FILE": str(folder / "pw"),
            "GPULEDGER_STORE_PASSWORD": PASSWORDS["gpuledger_writer"],
        }

    @contextlib.contextmanager
    def engine(self, limits: Limits | None = None, **more: str) -> Iterator[Engine]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**self.environment, **more}.items():
                patch.setenv(name, value)
            with ServerStore(f"clickhouse://gpuledger_writer@{self.url.removeprefix('http://')}/gpuledger") as store:
                yield Engine(store, limits or Limits())

    def requests(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(urlopen(f"{self.url}/requests", timeout=PATIENCE_SECONDS).read())
        return found


@contextlib.contextmanager
def server(who: Account | None, books: Path, folder: Path) -> Iterator[Served]:
    config = config_for(who, folder, {})
    program = [sys.executable, str(SERVER), str(copied(books, folder)), str(config), json.dumps(PASSWORDS)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPO) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield Served(f"http://127.0.0.1:{int(process.stdout.readline())}", folder)
        finally:
            process.stdin.close()
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="module")
def served(books: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with server(account("gpuledger_reader"), books, tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def engine(served: Served) -> Iterator[Engine]:
    with served.engine() as found:
        yield found


def whole(engine: Engine, question: Question, who: Principal = ANALYST) -> tuple[str, bytes]:
    with engine.ask_blocking(who, question) as (name, pieces):
        return name, b"".join(pieces)


def test_a_statement_runs_as_the_account_with_its_parameters_settings_and_format(
    engine: Engine, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = "o'brien \\ & = % 中"
    question = Question(
        "SELECT tenant, count() AS n, {t:String} AS odd FROM v_charges WHERE tenant = {v:String} GROUP BY tenant "
        "FORMAT JSONEachRow",
        settings={"max_execution_time": "30", "max_threads": "99", "output_format_json_quote_64bit_integers": "1"},
        params={"t": odd, "v": "vision"},
    )
    known_as(monkeypatch, "1")
    name, answer = whole(engine, question)
    assert (name, json.loads(answer)) == ("JSONEachRow", {"tenant": "vision", "n": "48", "odd": odd})
    known_as(monkeypatch, "2")
    assert whole(engine, Question("SELECT 1 AS one", "CSVWithNames")) == ("CSVWithNames", b'"one"\n1\n')
    known_as(monkeypatch, "3")
    many = whole(engine, Question("SELECT number FROM numbers(100000)"))[1]
    assert (many.count(b"\n"), many[-6:]) == (100_000, b"99999\n")
    asked = {
        one["url"]["query_id"]: one
        for one in served.requests()
        if one.get("url", {}).get("query_id", "")[:6] == "asked_"
    }
    first = asked["asked_1"]
    assert first["user"] == "gpuledger_reader"
    sent = first["url"]
    assert (sent["param_t"], sent["param_v"], sent["database"]) == (odd, "vision", "gpuledger")
    assert (sent["max_execution_time"], sent["max_threads"], sent["max_result_rows"]) == ("30", "2", "5000000")
    assert (sent["quota_key"], sent["cancel_http_readonly_queries_on_client_close"]) == (ANALYST.name, "1")
    assert "FORMAT" not in first["body"]
    reported = [one for one in served.requests() if one.get("user") == "gpuledger_reader"]
    assert all("pass" not in one["path"] for one in reported)
    assert all(one["user"] == "gpuledger_reader" for one in asked.values()), "people's SQL ran as the owner"
    assert not [one for one in reported if one["body"].startswith("KILL")], "what ended by itself was killed"


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("SELECT * FROM access_users", 497),
        ("SELECT * FROM audit", 497),
        ("SELECT nothing FROM v_charges", 47),
        ("SELECT * FROM nothing", 497),  # as one that is closed: which there are is not told
        ("SELEC 1", 62),
        ("DROP TABLE samples", 164),
        ("SELECT throwIf(1, 'mine')", 395),
        ("SELECT number FROM numbers(6000000)", 396),
    ],
)
def test_errors_come_back_with_their_codes(
    engine: Engine, served: Served, monkeypatch: pytest.MonkeyPatch, statement: str, code: int
) -> None:
    with pytest.raises(SqlError) as error:
        whole(engine, Question(statement, "CSV"))
    assert error.value.code == code, error.value.text()


def test_the_server_refuses_by_itself_what_the_check_would_let_through(
    engine: Engine, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.sql.statement.checked", as_it_is)
    statements = ["SELECT * FROM audit", "SELECT * FROM file('/etc/passwd', 'LineAsString')",
                  "SELECT * APPLY(x -> (SELECT count() FROM audit)) FROM (SELECT 1 AS x)"]  # fmt: skip
    for statement in statements:
        with pytest.raises(SqlError, match="Not enough privileges"):
            whole(engine, Question(statement))
    assert whole(engine, Question("SELECT 1"))[1] == b"1\n"


def test_what_goes_wrong_behind_the_first_rows_is_an_error_and_no_answer(
    engine: Engine, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.sql.statement.checked", as_it_is)
    read = b""
    late = Question("SELECT throwIf(number = 900000) FROM numbers(1000000) --late")
    with pytest.raises(SqlError) as error, engine.ask_blocking(ANALYST, late) as (_, pieces):
        for piece in pieces:
            read += piece
    assert error.value.code == 395
    assert len(read) > 100_000
    assert set(read) == set(b"0\n")


def as_it_is(text: str, _: Any) -> Statement:
    return Statement(text, "", True, False, frozenset(), False, text)


def known_as(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The server knows the next statements as asked_NAME."""
    monkeypatch.setattr(server_engine, "uuid", SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=name)))


def test_an_error_is_told_from_rows_that_look_like_one() -> None:
    text = b"Code: 395. DB::Exception: mine. (X) (version 26.9.2.1 (official build))\n"
    assert (late_error(b"1\n" + text, "") or SqlError(0, "")).code == 395
    assert late_error(b"1\n" + text + b"2\n", "") is None
    assert late_error(b"1\n" + text, "tag") is None
    marked = b"1\n\r\n__exception__\r\ntag\r\n" + text + b"70 tag\r\n__exception__\r\n"
    assert (late_error(marked, "tag") or SqlError(0, "")).code == 395
    assert late_error(marked, "other") is None
    assert late_error(b"", "") is None


def test_a_statement_whose_reader_left_is_killed_as_the_same_user(
    engine: Engine, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.sql.statement.checked", as_it_is)
    text = "SELECT number, sleepEachRow(0.001) FROM numbers(1000000) SETTINGS max_block_size = 500 --late"
    known_as(monkeypatch, "left")
    with engine.ask_blocking(ANALYST, Question(text)) as (_, pieces):
        assert next(pieces)
    kills = [one for one in served.requests() if one.get("body", "").startswith("KILL")]
    assert [(one["user"], one["url"]["param_id"]) for one in kills[-1:]] == [("gpuledger_reader", "asked_left")]
    until(lambda: not running(engine, "asked_left"), within=ENDS_SECONDS)


@seldom(6, "no more statements are asked of the")
def test_no_more_statements_are_asked_of_the_server_at_once_than_run(served: Served) -> None:
    with served.engine(Limits(at_once=1, waiting_seconds=0.3)) as narrow:
        with (
            narrow.ask_blocking(ANALYST, Question("SELECT number FROM numbers(10)")) as (_, pieces),
            pytest.raises(SqlError, match="too many statements are running"),
        ):
            assert next(pieces)
            whole(narrow, Question("SELECT 1"), FINANCE)
        assert whole(narrow, Question("SELECT 1"), FINANCE)[1] == b"1\n"


def test_a_statement_that_answers_nothing_is_ended_with_its_request(
    engine: Engine, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.sql.statement.checked", as_it_is)
    known_as(monkeypatch, "hung")
    question = Question(SLOW)

    async def hang_up() -> None:
        async def ask() -> None:
            async with engine.ask(ANALYST, question) as answer:
                async for _ in answer.pieces:
                    pass

        asking = asyncio.create_task(ask())
        await asyncio.to_thread(until, lambda: running(engine, "asked_hung"))
        asking.cancel()
        await asyncio.wait([asking], timeout=ENDS_SECONDS)
        assert asking.cancelled()

    asyncio.run(hang_up())
    until(lambda: not running(engine, "asked_hung"), within=ENDS_SECONDS)


def test_a_server_that_forgets_its_deadline_is_left_at_ours(
    engine: Engine, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.sql.statement.checked", as_it_is)
    monkeypatch.setattr("api.sql.server_engine.SLACK_SECONDS", -58)
    known_as(monkeypatch, "late")
    started = time.monotonic()
    with pytest.raises(SqlError) as error:
        whole(engine, Question(SLOW))
    assert (error.value.code, time.monotonic() - started < ENDS_SECONDS) == (159, True)
    until(lambda: not running(engine, "asked_late"), within=ENDS_SECONDS)


def running(engine: Engine, mark: str) -> bool:
    assert engine._server is not None
    sql = (
        "SELECT count() FROM system.processes WHERE position(query, {mark:String}) > 0 AND query NOT LIKE '%processes%'"
    )
    found = asyncio.run(engine._server.answer(ANALYST, sql, "TSV", {"mark": f"/* {mark} */"}))
    return found != b"0\n"


@pytest.mark.parametrize(
    ("environment", "why"),
    [
        ({"GPULEDGER_SQL_USER": "", "GPULEDGER_SQL_PASSWORD_FILE": ""}, "has no account there"),
        ({"GPULEDGER_SQL_PASSWORD_FILE": ""}, "go together"),
        ({"GPULEDGER_SQL_USER": "gpuledger_writer"}, "is the store's owner"),
        ({"GPULEDGER_SQL_USER": "another"}, "refuses the account"),
        ({"GPULEDGER_SQL_PASSWORD_FILE": "/nonexistent"}, "cannot be used"),
    ],
)
def test_without_an_account_of_its_own_nothing_is_asked(
    engine: Engine, served: Served, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], why: str
) -> None:
    before = len(served.requests())
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SqlError, match=why) as error:
        whole(engine, Question("SELECT 1 AS peoples"))
    assert PASSWORDS["gpuledger_reader"] not in error.value.text()
    assert not [one for one in served.requests()[before:] if "peoples" in one["body"] and one["user"] != "another"]


@seldom(6, "an account that may do more than")
def test_an_account_that_may_do_more_than_analysts_is_not_asked(books: Path, tmp_path: Path) -> None:
    with server(None, books, tmp_path) as found, found.engine() as engine:
        with pytest.raises(SqlError, match="may do more than analysts"):
            whole(engine, Question("SELECT 1 AS peoples"))
        assert not [one for one in found.requests() if "peoples" in one["body"]]


@seldom(6, "the audit is asked by another account")
def test_the_audit_is_asked_by_another_account_and_for_those_alone_who_see_it(
    books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_as(monkeypatch, "audit")
    more = {"GPULEDGER_SQL_AUDIT_USER": "another", "GPULEDGER_SQL_AUDIT_PASSWORD_FILE": str(tmp_path / "other")}
    (tmp_path / "other").write_text("x")
    with server(account("gpuledger_auditor"), books, tmp_path) as found, found.engine(**more) as engine:
        assert int(whole(engine, Question("SELECT count() FROM audit"), FINANCE)[1]) > 0
        (asked,) = [one for one in found.requests() if one.get("url", {}).get("query_id") == "asked_audit"]
        assert asked["user"] == "another"
        with pytest.raises(SqlError, match="may do more than analysts"):
            # The reader's name with the auditor's rights: analysts are not let at them.
            whole(engine, Question("SELECT 1"), ANALYST)
