"""A month's reports have all of its first and last hour, and nothing from beside it, where the zone cuts hours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from billing.accounts.costs import Span, cost_of_spans, daily_costs
from billing.close import close
from billing.documents.statement import platform_statement, tenant_statements
from billing.energy.report import energy_report
from billing.energy.settings import apply_energy_settings, parse_energy_settings
from billing.exports.focus import FocusOptions, export_focus
from billing.insights import anomalies
from billing.insights.efficiency import efficiency
from billing.insights.savings import savings
from billing.invoicing.explain import explain
from billing.invoicing.invoices import draft_all
from billing.ledger_report import ledger_report
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from tests.billing.facts import job, put_all, samples
from tests.billing.hand_ledger import at
from tests.draws import drawn_seed, seldom
from tests.stores import fresh_store
from warehouse.store import Store

ZONE = "Asia/Kolkata"
OCTOBER = parse_month("2026-10", ZONE)
"""From 18:30 UTC on the 30th of September to 18:30 UTC on the 31st."""
DEVICES = {"held": "H100", "free": "H100", "down": "H100", "orphan": "H100", "dear": "L4", "dear-free": "L4"}
EDGES = (("2026-09-30", "17:00", "21:00"), ("2026-10-31", "16:00", "20:00"))
CARD: dict[str, Any] = {
    "currency": "EUR",
    "timezone": ZONE,
    "minimum_seconds": 0,
    "rates": [{"sku": "h100", "match": {"model": "H100"}, "price_per_gpu_hour": "2.00"}],
    "commitments": [{"name": "quota", "tenant": "chem", "sku": "*", "gpus": "0.01", "price_per_gpu_hour": "1.00"}],
    "discounts": [{"name": "tenth", "percent": "10"}],
    "components": [
        {"sku": "power", "kind": "energy", "price": "0.50"},
        {"sku": "memory", "kind": "memory", "price": "0.01"},
    ],
    "idle_policy": [{"share": "allocated_cost"}],
}  # fmt: skip


def edges(store: Store) -> None:
    """On both of the month's edges devices are held, free and down, or held by nobody named, hours before and after."""
    apply_rate_card(store, parse_rate_card(CARD), "me", "", at("2026-09-01 00:00"))
    grid = {"intensity": [{"grams_per_kwh": "300", "source": "the grid"}]}
    apply_energy_settings(store, parse_energy_settings(grid), "me", "", at("2026-09-01 00:00"))
    facts: dict[str, list[dict[str, Any]]] = {"devices": [], "events": [], "samples": []}
    for day, start, end in EDGES:
        for name, model in DEVICES.items():
            about = {"device_id": name, "model": model, "node": "n1", "pool": "p"}
            state = "unavailable" if name == "down" else "available"
            facts["devices"] += [
                {**about, "ts": at(f"{day} {start}"), "state": state},
                {**about, "ts": at(f"{day} {end}"), "state": "removed"},
            ]
        for name, tenant in (("held", "chem"), ("orphan", ""), ("dear", "bio")):
            facts["events"] += job(
                f"{name}{day}", tenant, name, f"{day} {start}", f"{day} {end}", project="p", queue="q"
            )
        drawn = {"power_watts": 100.0, "memory_used_bytes": 2**30}
        facts["samples"] += [{**one, **drawn} for one in samples("held", f"{day} {start}", range(200))]
    put_all(store, facts)
    close(store, at("2026-11-01 00:00"), at("2026-11-02 00:00"))


REPORTS: dict[str, Callable[[Store, Path], Any]] = {
    "the ledger": lambda store, _: ledger_report(store, OCTOBER, ["tenant", "day", "device"]),
    "drafts": lambda store, _: [one.document for one in draft_all(store, OCTOBER)],
    "a line explained": lambda store, _: explain(store, draft_all(store, OCTOBER, "chem")[0], 1, by_hour=True).rows,
    "statements": lambda store, _: [one.document for one in tenant_statements(store, OCTOBER)],
    "the platform's statement": lambda store, _: platform_statement(store, OCTOBER).document,
    "energy": lambda store, _: energy_report(store, OCTOBER, ["tenant", "node", "day"]),
    "efficiency": lambda store, _: efficiency(store, OCTOBER, ["tenant", "day"]),
    "savings": lambda store, _: [asdict(one) for one in savings(store, OCTOBER).not_judged],
    "daily costs of insights": lambda store, _: anomalies.daily_costs(store, OCTOBER),
    "daily costs": lambda store, _: daily_costs(store, OCTOBER, ["chem", "bio"], ZONE),
    "costs of spans": lambda store, _: cost_of_spans(store, [Span("chem", OCTOBER.start, OCTOBER.end)]),
    "FOCUS": lambda store, folder: focus(store, folder),
}


def focus(store: Store, folder: Path) -> list[str]:
    options = FocusOptions(which="draft", platform=True, skip_unpriced=True, version="1.3")
    report = export_focus(store, OCTOBER, folder / "focus.csv", options)
    return [str(report.unpriced_hours), *report.path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Any]]:
    """Each report, and the same once nothing but the month is in the ledger."""
    folder = tmp_path_factory.mktemp("edges")
    with fresh_store(folder / "store", edges) as store:
        whole = {name: report(store, folder) for name, report in REPORTS.items()}
        for table in ("ledger_entries", "energy_entries"):
            store.command(
                f"ALTER TABLE {table} DELETE WHERE charge_period_start < {{start:DateTime64(3, 'UTC')}} "
                "OR charge_period_start >= {end:DateTime64(3, 'UTC')} SETTINGS mutations_sync = 1",
                {"start": OCTOBER.start, "end": OCTOBER.end},
            )
        alone = {name: report(store, folder) for name, report in REPORTS.items()}
    return {name: (whole[name], alone[name]) for name in REPORTS}


@seldom(6, "the edges of a month")
@pytest.mark.parametrize("name", REPORTS)
def test_what_lies_beside_a_month_is_in_no_report_of_it(answers: dict[str, tuple[Any, Any]], name: str) -> None:
    with_others, alone = answers[name]
    assert with_others == alone


@seldom(6, "the edges of a month")
def test_a_months_first_and_last_hour_are_in_it(answers: dict[str, tuple[Any, Any]]) -> None:
    """Two and a half hours of each device on either edge."""
    rows = answers["the ledger"][0].rows
    assert answers["costs of spans"][0][0].known == 10
    held = {(row["device"], row["day"]): row["allocated_gpu_hours"] for row in rows}
    assert held == {
        (name, day): Decimal("2.5") for name in ("held", "orphan", "dear") for day in ("2026-10-01", "2026-10-31")
    }


MINUTE = timedelta(minutes=1)


def test_what_is_held_and_drawn_around_a_midnight_is_of_the_day_on_which_it_was(store: Store) -> None:
    """Where midnight cuts an hour of the books: time, energy and memory on each side of it, by the minute."""
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    dice = Random(f"midnight {seed}")
    zone, midnight = dice.choice(((ZONE, "18:30"), ("Asia/Kathmandu", "18:15"), ("America/St_Johns", "02:30")))
    apply_rate_card(store, parse_rate_card({**CARD, "timezone": zone}), "me", "", at("2026-09-01 00:00"))
    start, turn = at(f"2026-10-05 {midnight}") - 100 * MINUTE, at(f"2026-10-05 {midnight}")
    facts: dict[str, list[dict[str, Any]]] = {"devices": [], "events": [], "samples": []}
    expected: dict[tuple[str, bool], list[int]] = {}
    for number in range(4):
        device, watts, size = f"g{number}", dice.randrange(50, 700), dice.randrange(1, 40) << 30
        about = {"device_id": device, "model": "H100", "node": "n1", "pool": "p", "ts": start - MINUTE}
        facts["devices"].append({**about, "state": "available"})
        since, until = sorted(dice.sample(range(10, 190), 2)) if number else (40, 160)
        first, last = (f"{start + minute * MINUTE:%Y-%m-%d %H:%M}" for minute in (since, until))
        facts["events"] += job(device, "chem", device, first, last, project="p")
        drawn = {"power_watts": float(watts), "memory_used_bytes": size}
        reported = samples(device, f"{start:%Y-%m-%d %H:%M}", range(200))
        facts["samples"] += [{**one, **drawn} for one in reported]
        for minute in range(since, until):
            sums = expected.setdefault((device, start + minute * MINUTE >= turn), [0, 0, 0])
            for place, more in enumerate((60_000, watts * 60_000, size * 60_000)):
                sums[place] += more
    put_all(store, facts)
    close(store, start.replace(minute=0) + 5 * timedelta(hours=1), at("2026-11-02 00:00"))
    sides = "device_id, charge_period_start >= {turn:DateTime64(3, 'UTC')} AS late"
    of = "WHERE allocation_id != '' GROUP BY device_id, late"
    held = store.rows(
        f"SELECT {sides}, sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms) AS ms FROM ledger {of}", {"turn": turn}
    )
    drawn = store.rows(
        f"SELECT {sides}, sum(energy_millijoules) AS mj, sum(memory_byte_ms) AS bytes, sum(measured_unit_ms) AS ms "
        f"FROM energy {of}",
        {"turn": turn},
    )
    time = {(row["device_id"], bool(row["late"])): int(row["ms"]) for row in held}
    assert time == {key: sums[0] for key, sums in expected.items()}
    found = {(row["device_id"], bool(row["late"])): [int(row[name]) for name in ("ms", "mj", "bytes")] for row in drawn}
    assert found == expected
