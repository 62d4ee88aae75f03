"""The rendered statements: the engine's own parser reads each of them as what it is meant to be. It executes none of
CREATE USER and the like, as it has nowhere to keep them; what they grant is in test_grants and test_tenants."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import chdb
import pytest

from tests.warehouse.accounts.as_account import asked_as, copied
from warehouse.accounts.declaration import TENANT_VIEWS, TenantUser, accounts
from warehouse.accounts.statements import Password, statements, without_secrets
from warehouse.accounts.users_d import users_d
from warehouse.errors import LedgerError
from warehouse.sql import text_literal

ODD = "o'brien \\ ` \n {x:String} 中"
KINDS = ("CREATE DATABASE", "CREATE OR REPLACE VIEW", "ALTER TABLE", "CREATE ROLE", "CREATE SETTINGS PROFILE",
         "ALTER SETTINGS PROFILE", "CREATE QUOTA", "ALTER QUOTA", "CREATE ROW POLICY", "ALTER ROW POLICY",
         "CREATE USER", "ALTER USER", "GRANT")  # fmt: skip


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[chdb.Connection]:
    """Closed after each test: a process has one engine, and stores of other tests are elsewhere."""
    connection = chdb.connect(str(tmp_path))
    yield connection
    connection.close()


def every(cluster: str) -> list[str]:
    passwords = {account.name: Password.of(ODD) for account in accounts("gpuledger")} | {"vera": Password.of("x")}
    return list(statements("gpuledger", passwords, [TenantUser("vera", ("vision", ODD))], cluster))


@pytest.mark.parametrize("cluster", ["", "main"])
def test_the_engine_s_parser_reads_every_statement_as_what_it_is(engine: chdb.Connection, cluster: str) -> None:
    for statement in every(cluster):
        (start,) = (one for one in KINDS if statement.startswith(one + " "))
        quoted = f"unhex('{statement.encode().hex()}')"
        (formatted,) = parsed(engine, quoted)
        assert formatted.startswith(start), statement
        assert (" ON CLUSTER main" in formatted) is bool(cluster), statement
        for word in ("SETTINGS readonly", "REPLACE OPTION", "KEYED BY", "PERMISSIVE", "SQL SECURITY DEFINER", "USING"):
            assert (word in statement) == (word in formatted) or word == "PERMISSIVE", statement
        assert parsed(engine, f"unhex('{formatted.encode().hex()}')") == [formatted]


def parsed(engine: chdb.Connection, quoted: str) -> list[str]:
    answer = engine.query(f"SELECT formatQuerySingleLine({quoted})", "RawBLOB")
    return [bytes(answer.bytes() or b"").decode()]


def test_a_statement_with_a_slip_is_none(engine: chdb.Connection) -> None:
    with pytest.raises(RuntimeError, match="SYNTAX_ERROR"):
        parsed(engine, text_literal("ALTER QUOTA q KEYED BY user_name FOR INTERVAL 3600 second MOST queries = 1 TO r"))


def test_names_that_are_no_names_are_refused() -> None:
    for database in ("a b", "a;DROP", "a`", ""):
        with pytest.raises(LedgerError):
            list(statements(database))
    with pytest.raises(LedgerError, match="is not a plain name"):
        list(statements("gpuledger", cluster="a'; --"))


def test_passwords_are_nowhere_and_their_digests_only_where_the_server_needs_them() -> None:
    made = Password.of("correct horse")
    assert made.digest == hashlib.sha256(b"correct horse" + made.salt.encode()).hexdigest()
    assert Password.of("correct horse").salt != made.salt
    whole = "\n".join(statements("gpuledger", {"gpuledger_reader": made}))
    assert "correct horse" not in whole
    assert whole.count(made.digest) == 2
    shown = "\n".join(without_secrets(one) for one in statements("gpuledger", {"gpuledger_reader": made}))
    assert (made.digest in shown, made.salt in shown) == (False, False)
    assert re.findall(r"CREATE USER IF NOT EXISTS (\w+)", whole) == ["gpuledger_reader"]
    placeheld = "\n".join(statements("gpuledger"))
    assert len(re.findall("CREATE USER IF NOT EXISTS gpuledger_", placeheld)) == 5
    assert not re.findall(r"BY '[0-9a-fA-F]{64}'", placeheld), "a server takes a placeholder for a password"


def test_a_view_of_tenants_is_never_there_before_its_policies() -> None:
    made = every("")
    for view in TENANT_VIEWS:
        name = f"gpuledger_tenants.{view}"
        (first,) = [at for at, one in enumerate(made) if one.startswith(f"CREATE OR REPLACE VIEW {name} ")]
        (closed,) = [at for at, one in enumerate(made) if f"ON {name} AS PERMISSIVE USING 0 TO gpuledger_tenant" in one]
        (granted,) = [
            at for at, one in enumerate(made) if one == "GRANT gpuledger_tenant_role TO vera WITH REPLACE OPTION"
        ]
        (own,) = [at for at, one in enumerate(made) if f"gpuledger_tenant_vera ON {name} AS" in one]
        assert closed < first < granted < own


def test_grants_are_what_the_files_of_users_d_grant() -> None:
    xml = users_d("gpuledger", tuple(one.name for one in accounts("gpuledger")))
    for account in accounts("gpuledger"):
        grant = f"GRANT {account.rights()}"
        assert f"<query>{grant}</query>" in xml
        assert f"{grant} TO {account.role} WITH REPLACE OPTION" in every("")
        for one in account.settings:
            assert f"<{one.name}>{one.value}</{one.name}>" in xml or (f"<{one.name} />" in xml and one.value == "")


def test_the_engine_that_refuses_to_keep_an_account_says_so(books: Path, tmp_path: Path) -> None:
    """So that this file is read again when it no longer does."""
    with asked_as(None, copied(books, tmp_path), tmp_path) as admin:
        assert admin.code("CREATE ROLE gpuledger_reader_role") in (497, 514)
