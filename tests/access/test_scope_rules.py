"""Each half of each rule that keeps a table to a tenant's rows: with it the tenant sees what it should, and for each
half that is taken away there is a row here that it would see, or no longer see. No half is there for nothing."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from access import scope
from access.principal import Principal
from access.roles import Role
from access.scope import FILTERS, Stores
from alerts.slo.applied import apply_objectives, current_objectives
from alerts.slo.objectives import parse_objectives
from billing.accounts.budget_file import apply_budgets, current_budgets, parse_budgets
from billing.rates import apply_rate_card, current_rate_card, list_rates, parse_rate_card, rate_card_of
from billing.tenants import apply_mapping, current_mapping, parse_mapping
from tests.stores import fresh_store
from warehouse.store import Store

ALLOCATIONS = """
c1 a-v      w-v     vision vision GPU-a
c1 a-s      w-s     speech speech GPU-b
c1 a-given  w-given vision lab    GPU-a
c1 a-both   w-both  vision shared GPU-a
c1 a-both2  w-both  speech shared GPU-b
c1 a-x      w-x     speech speech GPU-b
c2 a-x      w-x     vision vision GPU-z
c2 a-far    w-far   speech speech GPU-a
c1 a-unsaid w-u     guests -      GPU-b
c1 a-named  w-n     vision guests GPU-a
"""
"""cluster, allocation, workload, who pays, as whom it was told (-: not), device."""
MINE, HELD, PAID, RUN = (getattr(scope, f"_{name}") for name in ("MINE", "HELD", "PAID", "RUN"))
OTHERS, RUN_BY_OTHERS, REPORTED_TENANT = (
    getattr(scope, f"_{name}") for name in ("OTHERS", "RUN_BY_OTHERS", "REPORTED_TENANT")
)
NOT_OTHERS, REPORTED_AS_MINE, ALL = (getattr(scope, f"_{name}") for name in ("NOT_OTHERS", "REPORTED_AS_MINE", "ALL"))
EVERYTHING = "1"

COLUMNS = {
    "samples": ("cluster", "device_id", "workload_id"),
    "metrics": ("cluster", "device_id", "workload_id"),
    "events": ("cluster", "allocation_id", "tenant"),
    "alert_transitions": ("labels",),
    "alert_evidence": ("labels",),
    "interference_samples": ("cluster", "workload_id", "tenant"),
    "slo_points": ("definition", "tenant"),
    "slo_definitions": ("definition", "tenant"),
}
AT = "'2026-10-02 05:00:00'"
TIMES = {
    "samples": {"ts": AT, "interval_seconds": "60"},
    "metrics": {"ts": AT, "interval_seconds": "60"},
    "events": {"ts": AT},
    "alert_transitions": {"at": AT},
    "alert_evidence": {"at": AT},
    "interference_samples": {"hour": AT, "at": AT},
    "slo_points": {"hour": AT, "at": AT},
}
KEYS = {"alert_transitions": "fingerprint", "alert_evidence": "fingerprint", "slo_definitions": "name"}
"""What tells rows apart that have the same of all else."""
ON_DEVICES = {
    "c1 GPU-a -": True,
    "c1 GPU-a w-v": True,
    "c1 GPU-a w-s": False,
    "c1 GPU-b -": False,
    "c1 GPU-b w-v": False,
    "c2 GPU-a -": False,
    "c1 GPU-a w-x": False,
}
OF_ALERTS = {'{"tenant":"vision"}': True, '{"tenant":"speech"}': False, '{"job":"vision"}': False}
ROWS: dict[str, dict[str, bool]] = {
    "samples": ON_DEVICES,
    "metrics": ON_DEVICES,
    "events": {
        "c1 a-v vision": True,
        "c1 a-given lab": True,
        "c1 a-waits vision": True,
        "c1 a-s vision": False,
        "c1 a-waits2 speech": False,
        "c2 a-given lab": False,
        "c3 a-s vision": True,
        "c1 a-far vision": True,
    },
    "alert_transitions": OF_ALERTS,
    "alert_evidence": OF_ALERTS,
    "interference_samples": {
        "c1 w-v vision": True,
        "c1 w-given lab": True,
        "c1 w-s vision": False,
        "c1 w-new vision": True,
        "c1 w-new fresh": True,
        "c1 w-new speech": False,
        "c1 w-v speech": False,
        "c1 w-both vision": True,
        "c3 w-s vision": True,
        "c1 w-x vision": False,
    },
    "slo_points": {
        "d1 vision": True,
        "d1 lab": True,
        "d1 shared": False,
        "d1 speech": False,
        "d5 nobody": False,
        "d5 guests": False,
    },
    "slo_definitions": {
        "d1 zzz": True,
        "d2 ^vision$": True,
        "d3 .*": False,
        "d4 ^speech$": False,
        "d5 zzz": False,
    },
}
"""Of each table its rows, and whether a viewer of vision and of fresh, which has held nothing yet, sees them."""
HALVES_OF_ALERTS = [("JSONExtractString(labels, 'tenant') IN ({tenants})", EVERYTHING),
                    ("JSONExtractString(labels, 'tenant')", "JSONExtractString(labels, 'job')")]  # fmt: skip
HALVES: dict[str, list[tuple[str, str]]] = {
    "samples": [
        (f"(cluster, device_id) IN ({HELD}) AND {NOT_OTHERS}", NOT_OTHERS),
        (f" AND {NOT_OTHERS}", ""),
        ("workload_id = '' OR ", ""),
        (f" OR (cluster, workload_id) IN ({RUN})", ""),
        (f"{HELD})", f"SELECT cluster, device_id FROM {ALL})"),
        (f"(cluster, device_id) IN ({HELD})", f"device_id IN ({HELD.replace('cluster, ', '')})"),
        (f"{RUN})", f"SELECT cluster, workload_id FROM {ALL})"),
        (f"(cluster, workload_id) IN ({RUN})", f"workload_id IN ({RUN.replace('cluster, ', '')})"),
    ],
    "events": [
        (f"(cluster, allocation_id) IN ({PAID}) OR ", ""),
        (f" OR ({MINE} AND (cluster, allocation_id) NOT IN ({OTHERS}))", ""),
        (f" AND (cluster, allocation_id) NOT IN ({OTHERS})", ""),
        (f"({MINE} AND (cluster, allocation_id) NOT IN", "((cluster, allocation_id) NOT IN"),
        (f"IN ({PAID}) OR", f"IN (SELECT cluster, allocation_id FROM {ALL}) OR"),
        (f"(cluster, allocation_id) IN ({PAID}) OR", f"allocation_id IN ({PAID.replace('cluster, ', '')}) OR"),
        (f"(cluster, allocation_id) NOT IN ({OTHERS})", f"allocation_id NOT IN ({OTHERS.replace('cluster, ', '')})"),
        (ALL, "allocations"),
    ],
    "alert_transitions": HALVES_OF_ALERTS,
    "alert_evidence": HALVES_OF_ALERTS,
    "interference_samples": [
        (f"{REPORTED_AS_MINE} AND ", ""),
        (f"({MINE} OR ", "("),
        (f" OR tenant IN (SELECT {REPORTED_TENANT} FROM allocations WHERE {MINE})", ""),
        (f"(cluster, workload_id) IN ({RUN}) OR ", ""),
        (f" OR (cluster, workload_id) NOT IN ({RUN_BY_OTHERS})", ""),
        (f"(cluster, workload_id) IN ({RUN}) OR", f"workload_id IN ({RUN.replace('cluster, ', '')}) OR"),
        (f"(cluster, workload_id) NOT IN ({RUN_BY_OTHERS})",
         f"workload_id NOT IN ({RUN_BY_OTHERS.replace('cluster, ', '')})"),
        (ALL, "allocations"),
    ],
    "slo_points": [
        (f"{REPORTED_AS_MINE} AND ", ""),
        (f" AND tenant NOT IN (SELECT {REPORTED_TENANT} FROM {ALL} WHERE NOT ({MINE}))", ""),
        (f" OR tenant IN (SELECT {REPORTED_TENANT} FROM allocations WHERE {MINE})", ""),
        (f"SELECT {REPORTED_TENANT} FROM {ALL}", f"SELECT reported_tenant FROM {ALL}"),
        (f"SELECT {REPORTED_TENANT} FROM {ALL}", f"SELECT tenant FROM {ALL}"),
        (f" WHERE NOT ({MINE})", ""),
        (ALL, "allocations"),
    ],
    "slo_definitions": [
        ("definition IN (SELECT definition FROM slo_points) OR ", ""),
        ("definition IN (SELECT definition FROM slo_points)", "definition IN (SELECT definition FROM "
         "merge(currentDatabase(), '^slo_points$'))"),
        (" OR (NOT match('', tenant) AND arrayExists(mine -> match(mine, tenant), [{tenants}]))", ""),
        ("NOT match('', tenant) AND ", ""),
        (" AND arrayExists(mine -> match(mine, tenant), [{tenants}])", ""),
    ],
}  # fmt: skip
HALVES["metrics"] = HALVES["samples"]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("scope") / "store") as store:
        rows = [line.split() for line in ALLOCATIONS.strip().splitlines()]
        columns = ("cluster", "allocation_id", "workload_id", "tenant", "reported_tenant", "device_id")
        _insert(store, "allocations", columns,
                [" ".join(row) for row in rows])  # fmt: skip
        for table, columns in COLUMNS.items():
            _insert(store, table, columns, ROWS[table])
        store.command("INSERT INTO quarantine (record_type, source, raw) VALUES ('events', 'vision', 'vision')")
        yield store


def _insert(store: Store, table: str, columns: tuple[str, ...], rows: Iterable[str]) -> None:
    more, key = TIMES.get(table, {}), KEYS.get(table)
    names = [*columns, *more, *([key] if key else [])]
    texts = []
    for number, row in enumerate(rows):
        words = [f"'{word}'" if word != "-" else "''" for word in row.split()]
        texts.append(f"({', '.join([*words, *more.values(), *([repr(str(number))] if key else [])])})")
    store.command(f"INSERT INTO {table} ({', '.join(names)}) VALUES {', '.join(texts)}")


def seen(store: Store, table: str) -> set[str]:
    who = Principal("vera", frozenset({Role.tenant}), frozenset({"vision", "fresh"}))
    with Stores(store).scoped_to(who) as own:
        rows = own.rows(f"SELECT {', '.join(COLUMNS[table])} FROM {table}")
    return {" ".join(str(value) or "-" for value in row.values()) for row in rows}


@pytest.mark.parametrize("table", ROWS)
def test_a_viewer_sees_the_rows_of_its_tenant(house: Store, table: str) -> None:
    assert seen(house, table) == {row for row, is_seen in ROWS[table].items() if is_seen}


@pytest.mark.parametrize(
    ("table", "half", "instead"),
    [(table, *halves) for table in FILTERS for halves in HALVES[table]],
    ids=[f"{table} {number}" for table in FILTERS for number in range(len(HALVES[table]))],
)
def test_without_a_half_of_its_rule_it_would_see_others(
    house: Store, monkeypatch: pytest.MonkeyPatch, table: str, half: str, instead: str
) -> None:
    assert half in FILTERS[table], "the rule has changed, and this list has not"
    broken = FILTERS[table].replace(half, instead, 1)
    monkeypatch.setattr(scope, "FILTERS", {**FILTERS, table: broken})
    assert seen(house, table) != {row for row, is_seen in ROWS[table].items() if is_seen}


def test_there_is_a_rule_for_each_table_of_this_database_that_holds_rows_and_for_nothing_else(house: Store) -> None:
    """Whatever another database calls its tables: there `quarantine` has a tenant, and here it has none."""
    house.command("CREATE DATABASE elsewhere")
    house.command("CREATE TABLE elsewhere.quarantine (tenant String) ENGINE = Memory")
    house.command("CREATE TABLE elsewhere.of_nobody (tenant String) ENGINE = Memory")
    try:
        text = scope.table_filters(house, frozenset({"a"}))
    finally:
        house.command("DROP DATABASE elsewhere")
    known = house.rows("SELECT name, engine, database = currentDatabase() AS here FROM system.tables")
    tables = {row["name"] for row in known if row["here"] and "View" not in row["engine"]}
    found = dict(re.findall(r"'(\w+)': '((?:[^'\\]|\\.)*)'", text))
    assert found.keys() == tables - scope.UNSCOPED_TABLES
    assert {"quarantine", "schema_migrations"} <= {name for name, rule in found.items() if rule == "0"}
    columns = house.rows("SELECT table FROM system.columns WHERE name = 'tenant' AND database = currentDatabase()")
    assert {name for name, rule in found.items() if rule.startswith("tenant IN")} == (
        {row["table"] for row in columns} - scope.UNSCOPED_TABLES - FILTERS.keys()
    ) & tables


def test_a_table_without_a_rule_is_kept_by_its_tenant_and_one_without_a_tenant_is_shut(house: Store) -> None:
    who = Principal("vera", frozenset({Role.tenant}), frozenset({"vision"}))
    with Stores(house).scoped_to(who) as own:
        assert own.value("SELECT count() AS n FROM quarantine") == 0
        assert {row["tenant"] for row in own.rows("SELECT DISTINCT tenant FROM allocations")} == {"vision"}
    assert house.value("SELECT count() AS n FROM quarantine") == 1


def test_of_the_file_of_budgets_a_tenant_sees_its_own_parts_whatever_asks_for_it(house: Store) -> None:
    """The file is one cell: no rule of the engine's cuts it. Before, the overview showed anybody's budget to whoever
    named its tenant in the URL."""
    file = {
        "currency": "EUR",
        "budgets": [{"tenant": name, "amount": "100.00"} for name in ("vision", "vision-lab", "Vision", "speech")],
        "low_balances": [{"tenant": name, "amount": "5.00"} for name in ("speech", "fresh")],
    }
    apply_budgets(house, parse_budgets(file), "test", "", datetime(2026, 10, 1, tzinfo=UTC))
    who = Principal("vera", frozenset({Role.tenant}), frozenset({"vision", "fresh"}))
    with Stores(house).scoped_to(who) as own, contextlib.closing(own.another()) as another:
        for store in (own, another):
            found = current_budgets(store)
            assert found is not None
            assert [one.tenant for one in found.file.budgets] == ["vision"]
            assert [one.tenant for one in found.file.low_balances] == ["fresh"]
    with Stores(house).scoped_to(Principal("nil", frozenset({Role.tenant}), frozenset({"visi"}))) as own:
        assert current_budgets(own) is None, "nothing of it is theirs"
    everything = current_budgets(house)
    assert everything is not None
    assert len(everything.file.budgets) == 4


def test_a_tenant_without_a_name_is_nobody_and_sees_no_row_without_a_tenant(house: Store) -> None:
    """They are the platform's: alerts about unallocated time, its energy."""
    _insert(house, "energy_entries", ("cluster", "tenant"), ["c1 -", "c1 vision"])
    for tenants, seen_rows in ((frozenset({""}), []), (frozenset({"", "vision"}), ["vision"])):
        with Stores(house).scoped_to(Principal("x", frozenset({Role.tenant}), tenants)) as own:
            assert [row["tenant"] for row in own.rows("SELECT tenant FROM energy_entries")] == seen_rows


WHEN = datetime(2026, 10, 1, tzinfo=UTC)
VERA = Principal("vera", frozenset({Role.tenant}), frozenset({"vision", "fresh"}))


def test_of_the_rate_card_a_tenant_sees_list_prices_and_what_it_has_agreed(house: Store) -> None:
    names = ("vision", "vis*", "speech", "vision-lab")
    rates = [
        {"sku": "list", "match": {"model": "H100"}, "price_per_gpu_hour": "2.00"},
        *({"sku": name, "match": {"model": "H100", "tenant": name}, "price_per_gpu_hour": "1.00"} for name in names),
    ]
    card = {
        "currency": "EUR", "rates": rates, "exchange_rates": [{"currency": "USD", "month": "2026-10", "rate": "1.1"}],
        "discounts": [{"name": "everybody's", "percent": "5"},
                      *({"name": name, "match": {"tenant": name}, "percent": "5"} for name in names)],
        "commitments": [{"name": name, "tenant": name, "sku": "list", "gpus": "1", "price_per_gpu_hour": "1.00"}
                        for name in ("vision", "speech")],
        "taxes": [{"name": name, "tenant": name, "percent": "19"} for name in ("vision", "speech", "*")],
        "invoice_currencies": [{"tenant": name, "currency": "USD"} for name in ("fresh", "speech")],
    }  # fmt: skip
    version = apply_rate_card(house, parse_rate_card(card, "card"), "test", "", WHEN)
    with Stores(house).scoped_to(VERA) as own:
        assert [row["sku"] for row in list_rates(own)] == ["list", "vision", "vis*"]
        for found in (current_rate_card(own), rate_card_of(own, version)):
            assert found is not None
            assert [one.name for one in found.card.discounts] == ["everybody's", "vision", "vis*"]
            assert [one.name for one in found.card.commitments] == ["vision"]
            assert [one.name for one in found.card.taxes] == ["vision", "*"]
            assert [one.tenant for one in found.card.invoice_currencies] == ["fresh"]
            assert len(found.card.exchange_rates) == 1 and found.version == version
    whole = current_rate_card(house)
    assert whole is not None and whole.card.version == version
    assert len(list_rates(house)) == 5


def test_of_the_tenants_mapping_a_tenant_sees_who_makes_it_pay(house: Store) -> None:
    rules: dict[str, dict[str, Any]] = {
        "pays": {"match": {"project": "a"}, "tenant": "vision"},
        "another pays": {"match": {"tenant": "vision", "project": "b"}, "tenant": "speech"},
        "as reported": {"match": {"tenant": "vis*"}, "cost_center": "K-1"},
        "another, as reported": {"match": {"tenant": "speech"}, "cost_center": "K-4711"},
        "anybody": {"match": {"queue": "q"}, "project": "p"},
    }
    apply_mapping(house, parse_mapping({"rules": [*rules.values()], "unmapped_owner": "platform"}), "test", "", WHEN)
    with Stores(house).scoped_to(VERA) as own:
        found = current_mapping(own)
    whole = current_mapping(house)
    assert found is not None and whole is not None
    assert [(one.words, one.tenant) for one in found.mapping.rules] == [("project a", "vision"), ("tenant vis*", None)]
    assert (found.mapping.unmapped_owner, found.version) == ("", whole.version)
    assert (len(whole.mapping.rules), whole.mapping.unmapped_owner) == (5, "platform")


def test_of_the_file_of_objectives_a_tenant_sees_its_own(house: Store) -> None:
    """Those that name it, and not everybody; and one of which it has a series."""
    matches = {"mine": "vision", "ours": "vis*", "theirs": "speech", "all": "*"}
    promised = [{"name": name, "kind": "job_success", "match": {"tenant": glob}, "target": "0.9"}
                for name, glob in matches.items()]  # fmt: skip
    wait = {"name": "measured", "kind": "queue_wait", "match": {"queue": "q"}, "within": "5m", "target": "0.9"}
    file = parse_objectives({"objectives": [*promised, wait]})
    series = {"definition": file.objectives[-1].definition}
    apply_objectives(house, file, "test", "", WHEN)
    _insert(house, "slo_points", ("definition", "tenant"), [f"{series['definition']} vision"])
    try:
        with Stores(house).scoped_to(VERA) as own, contextlib.closing(own.another()) as another:
            for store in (own, another):
                found = current_objectives(store)
                assert found is not None
                assert [one.name for one in found.file.objectives] == ["mine", "ours", "measured"]
        whole = current_objectives(house)
        assert whole is not None and len(whole.file.objectives) == 5
    finally:
        house.command("DELETE FROM slo_points WHERE definition = {definition:String}", series)
        house.command("DELETE FROM slo_definitions WHERE version = {version:String}", {"version": file.version})


def test_no_table_whose_rows_all_see_has_a_cell_that_names_tenants_but_those_that_their_readers_cut(
    house: Store,
) -> None:
    """A new applied file would be one: its readers cut it, or it gets a rule."""
    tables = house.rows("SELECT DISTINCT table FROM system.columns WHERE database = currentDatabase() "
                        "AND name IN ('card', 'mapping', 'budgets', 'objectives', 'settings', 'file')")  # fmt: skip
    cells = {row["table"] for row in tables} & scope.UNSCOPED_TABLES
    assert cells == {"rate_cards", "tenant_mappings", "budgets", "slo_files", "energy_settings"}
