"""`gpuledger init --accounts`, against the real engine over HTTP. It refuses accounts by itself, as a server does to
who may not manage them; where they are taken, they are kept as the text that its parser makes of a statement."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gpuledger.cli import build
from tests.stores import fresh_store
from tests.warehouse.engine_over_http import AccountsServer, served, serving
from warehouse.accounts.statements import statements
from warehouse.errors import LedgerError
from warehouse.store import split_statements


def run(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["init", *arguments])


@pytest.fixture
def passwords(tmp_path: Path) -> Path:
    folder = tmp_path / "passwords"
    folder.mkdir()
    (folder / "gpuledger_reader").write_text("correct horse\nsecond line\n")
    (folder / "vera").write_text("battery staple")
    return folder


def test_it_prints_what_can_be_pasted_and_touches_no_store() -> None:
    done = run("--dry-run", "--accounts", "--tenant", "vera=vision", "--store", "clickhouse://u@127.0.0.1:1/books")
    assert done.exit_code == 0, done.output
    printed = split_statements(done.stdout.split("-- accounts\n")[1])
    assert len(printed) > 60
    assert any("ON books.v_charges" in one for one in printed)
    assert [
        one for one in printed if "IDENTIFIED" in one and not re.search("BY 'SHA-256 of the password of", one)
    ] == []
    without = run("--dry-run")
    assert "GRANT" not in without.stdout
    assert done.stdout.startswith(without.stdout)


def test_it_makes_accounts_and_says_what_changed_and_never_a_password(tmp_path: Path, passwords: Path) -> None:
    with serving(tmp_path / "store", AccountsServer) as (url, server):
        assert isinstance(server, AccountsServer)
        options = ("--store", url, "--accounts", "--passwords", str(passwords), "--tenant", "vera=vision")
        first = run(*options)
        assert first.exit_code == 0, first.output
        kinds = [" ".join(one.split()[:2]) for one in server.statements]
        expected = [one for one in statements("gpuledger") if one.startswith("CREATE ROLE")]
        assert kinds.count("CREATE ROLE") == len(expected) == 6
        assert kinds.count("CREATE USER") == 2
        assert kinds.count("CREATE ROW") == 16
        changed = [line for line in first.stdout.splitlines() if line.startswith("+ ")]
        assert len(changed) == len(server.accounts)
        for secret in ("correct horse", "second line", "battery staple"):
            assert secret not in first.output + "".join(server.statements)
        digests = re.findall(r"BY '([0-9a-f]{64})'", "".join(server.statements))
        assert len(digests) == 4
        assert not [one for one in digests if one in first.output]
        second = run(*options)
        assert (second.exit_code, second.stdout) == (0, "")
        assert "accounts are up to date; passwords set: gpuledger_reader, vera" in " ".join(second.stderr.split())
        fewer = run("--store", url, "--accounts", "--passwords", str(passwords), "--tenant", "vera=speech")
        assert [line[:2] for line in fewer.stdout.splitlines()].count("+ ") == 8, "the policies of vera's views"


def test_who_may_not_manage_accounts_is_told_so_in_one_line(tmp_path: Path) -> None:
    fresh_store(tmp_path / "store").close()
    with served(tmp_path / "store") as url:
        done = run("--store", url, "--accounts")
    assert isinstance(done.exception, LedgerError)
    line = str(done.exception)
    assert "\n" not in line
    assert re.search(r"at 'SHOW ACCESS': .*Not enough privileges", line)
    assert "Ask as a user with access management" in line


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--tenant", "vera=vision"], "are about accounts"),
        (["--cluster", "main", "--store", "chdb://memory"], "is no ClickHouse server, and has no cluster"),
        (["--accounts", "--tenant", "vera"], "is not USER=TENANT"),
        (["--accounts", "--tenant", "a b=c"], "is not a plain name"),
        (["--accounts", "--store", "chdb://memory"], "is no ClickHouse server"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], why: str) -> None:
    done = run(*arguments)
    assert isinstance(done.exception, LedgerError)
    assert why in str(done.exception)


@pytest.mark.parametrize(("name", "content", "why"), [("grafana", "x", "is named as no account"),
                                                      ("gpuledger_agent", "\n", "is empty")])  # fmt: skip
def test_a_password_file_that_is_none_is_refused(
    tmp_path: Path, passwords: Path, name: str, content: str, why: str
) -> None:
    (passwords / name).write_text(content)
    fresh_store(tmp_path / "store").close()
    with serving(tmp_path / "store", AccountsServer) as (url, server):
        options = ("--store", url, "--accounts", "--passwords", str(passwords), "--tenant", "vera=vision")
        done = run(*options)
        assert why in str(done.exception)
        assert isinstance(server, AccountsServer)
        assert server.statements == []
