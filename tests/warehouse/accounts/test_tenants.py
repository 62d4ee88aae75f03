"""What a tenant's own ClickHouse user sees: the real engine with its role, profile and row policies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.warehouse.accounts.as_account import Asked, account, asked_as, copied
from warehouse.accounts.declaration import FLEET_VIEWS, READABLE, TENANT_VIEWS, TenantUser, tenant_users
from warehouse.errors import LedgerError

ACCESS_DENIED, READONLY = 497, 164
THEIRS = "gpuledger_tenants"
VERA = TenantUser("vera", ("vision",))
LEAK = "throwIf(tenant = 'speech', 'LEAK')"


def policies(user: TenantUser) -> dict[str, str]:
    """As the server combines them: the role's, which shows nothing, or the user's own."""
    return {view: f"(0) OR ({user.condition()})" for view in TENANT_VIEWS}


@pytest.fixture(scope="module")
def truth(books: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, object]]]:
    """Every row of every view, as who may do everything reads it."""
    folder = tmp_path_factory.mktemp("truth")
    with asked_as(None, copied(books, folder), folder) as admin:
        return {view: rows(admin, f"SELECT * FROM gpuledger.{view}", "gpuledger") for view in TENANT_VIEWS}


@pytest.fixture(scope="module")
def vera(books: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("vera")
    with asked_as(account("gpuledger_tenant"), copied(books, folder), folder, policies(VERA)) as asked:
        yield asked


def rows(asked: Asked, sql: str, database: str = THEIRS) -> list[dict[str, object]]:
    found = [json.loads(line) for line in asked.ask(sql, database, "JSONEachRow").splitlines()]
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.mark.parametrize("view", TENANT_VIEWS)
def test_a_tenant_sees_its_own_rows_of_a_view_and_all_of_them(
    vera: Asked, truth: dict[str, list[dict[str, object]]], view: str
) -> None:
    mine = [row for row in truth[view] if row["tenant"] == "vision"]
    assert mine
    assert len(mine) < len(truth[view])
    hidden = {"actor": "", "message": ""}
    expected = [{**row, **hidden} if row.get("actor") == "w-speech" else row for row in mine]
    assert rows(vera, f"SELECT * FROM {view}") == sorted(expected, key=lambda row: json.dumps(row, sort_keys=True))


def test_nothing_that_a_tenant_sees_names_another(vera: Asked) -> None:
    reported = "".join(json.dumps(rows(vera, f"SELECT * FROM {view}")) for view in TENANT_VIEWS)
    assert "vision" in reported
    assert all(word in reported for word in ("preempted", "Requeued", "resized"))
    assert "speech" not in reported


def test_a_tenant_reads_nothing_beneath_and_beside_its_views(vera: Asked) -> None:
    for table in READABLE:
        assert vera.code(f"SELECT * FROM gpuledger.{table}", THEIRS) == ACCESS_DENIED, table
    for view in FLEET_VIEWS:
        assert vera.code(f"SELECT * FROM {view}", THEIRS) != 0
    for statement in ("SELECT * FROM file('/etc/passwd', 'CSV')", "SELECT * FROM url('http://127.0.0.1:1', 'CSV')",
                      "CREATE VIEW mine AS SELECT 1", "DROP VIEW v_charges"):  # fmt: skip
        assert vera.code(statement, THEIRS) in (ACCESS_DENIED, READONLY, 446, 392), statement


def test_a_role_without_a_policy_of_its_user_s_own_sees_nothing(books: Path, tmp_path: Path) -> None:
    nobody = dict.fromkeys(TENANT_VIEWS, "0")
    with asked_as(account("gpuledger_tenant"), copied(books, tmp_path), tmp_path, nobody) as asked:
        for view in TENANT_VIEWS:
            assert rows(asked, f"SELECT * FROM {view}") == []


@pytest.mark.parametrize(
    "condition",
    [
        LEAK,
        f"{LEAK} = 0",
        f"billed_cost > 0 AND {LEAK} = 0",
        f"{LEAK} = 0 AND billed_cost > 0",
        "toUInt8(if(tenant = 'speech', 'LEAK', '1')) = 1",
        "intDiv(1, tenant != 'speech') = 1",
        f"tenant IN (SELECT if({LEAK}, '', tenant) FROM v_charges)",
        f"multiIf(tenant = 'speech', {LEAK}, 1)",
        f"cluster = 'c1' AND device_id != '' AND {LEAK} = 0",
        f"hour > 0 AND {LEAK} = 0",
    ],
)
def test_no_condition_of_a_statement_sees_a_row_before_the_policy(vera: Asked, condition: str) -> None:
    sql = "SELECT count() FROM (SELECT *, toHour(charge_period_start) + 1 AS hour FROM v_charges) WHERE "
    assert vera.code(sql + condition, THEIRS) == 0
    assert vera.code(f"SELECT max({condition}) FROM v_charges".replace("hour > 0 AND ", ""), THEIRS) == 0


def test_settings_by_which_one_would_are_pinned(vera: Asked, books: Path, tmp_path: Path) -> None:
    """The same policies under the readers' profile, in which they may be chosen, let a row into an error."""
    sql = (
        f"SELECT count() FROM v_charges WHERE device_id != '' AND {LEAK} = 0 "
        "SETTINGS short_circuit_function_evaluation = 'disable'"
    )
    loose = replace(account("gpuledger_tenant"), settings=account("gpuledger_reader").settings)
    store = copied(books, tmp_path)
    with asked_as(loose, store, tmp_path, policies(VERA)) as asked, pytest.raises(RuntimeError, match="LEAK"):
        asked.ask(sql, THEIRS)
    assert vera.code(sql, THEIRS) in (READONLY, 452)
    for setting in ("query_plan_merge_filters = 1", "max_threads = 1", "readonly = 0", "join_use_nulls = 1"):
        assert vera.code(f"SELECT 1 SETTINGS {setting}", THEIRS) in (READONLY, 452), setting


def test_a_tenant_s_name_is_never_part_of_a_statement(truth: dict[str, list[dict[str, object]]]) -> None:
    (odd,) = tenant_users(["vera=x') OR 1 OR tenant IN ('"])
    assert "OR 1" not in odd.condition()
    both = tenant_users(["vera=vision", "paul=speech", "vera=speech", "vera=vision"])
    assert both == (TenantUser("vera", ("vision", "speech")), TenantUser("paul", ("speech",)))


@pytest.mark.parametrize("wrong", ["vera", "vera=", "=vision", "ve ra=vision", "vera`=x", "gpuledger_reader=vision"])
def test_a_text_that_names_no_user_and_tenant_is_refused(wrong: str) -> None:
    with pytest.raises(LedgerError):
        tenant_users([wrong])
