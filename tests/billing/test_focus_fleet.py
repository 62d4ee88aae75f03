"""FOCUS files of a simulated fleet, from facts to the foundation's validator; and the command."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
import yaml

from billing.close import close
from billing.exports.check import check_focus
from billing.exports.focus import FocusOptions, export_focus
from billing.invoicing.invoices import issue_all
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from collectors.simulated import FleetPlan, rate_card, simulate
from ingest.pipeline import ingest_tables
from tests.billing.focus_validator import ENVIRONMENT, failing_rules
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from tests.billing.test_examples import gpuledger
from tests.draws import seldom
from tests.stores import fresh_store
from warehouse.store import Store

NOON, NOW = at("2026-10-05 12:00"), at("2026-11-02 09:00")
PLAN = FleetPlan(seed=3, start=datetime(2026, 10, 5, tzinfo=UTC), days=2, scale=0.2, interval_seconds=600)


ZONE = "Europe/Berlin"
"""That of the simulated fleet's card."""


STRANGE = {"vision": '=HYPERLINK("x") 🚀', "nlp": "בינה, מלאכותית", "physics-lab": "Größe\t100%\x07"}
"""Names that tenants of the fleet get, beside the one that is called 研发一部 already."""


def renamed(table: pa.Table) -> pa.Table:
    if "tenant" not in table.column_names:
        return table
    names = [STRANGE.get(name, name) for name in table["tenant"].to_pylist()]
    return table.set_column(table.column_names.index("tenant"), "tenant", pa.array(names, pa.string()))


@pytest.fixture
def fleet(store: Store) -> Store:
    """Two days of a small simulated fleet, October closed and invoiced, with every kind of line a card can make."""
    for record, table in simulate(PLAN):
        ingest_tables(store, record, "simulated", [renamed(table)])
    content = yaml.safe_load(rate_card(PLAN))
    policies = {
        "discounts": [{"name": "early", "percent": "10"}],
        "taxes": [{"name": "VAT", "percent": "19"}],
        "idle_policy": [{"pool": "*", "share": "allocated_cost"}],
    }
    apply_rate_card(store, parse_rate_card({**content, **policies}), "me", "", NOW)
    october = parse_month("2026-10", ZONE)
    close(store, until=october.end, now=NOW)
    assert len(issue_all(store, october, NOW)) > 1
    return store


@seldom(6, "an export of a fleet keeps the")
@pytest.mark.slow
def test_an_export_of_a_fleet_keeps_the_foundations_rules(fleet: Store, tmp_path: Path) -> None:
    """Of rules InvoiceId-C-004 (must be null) and -005 (must not) the validator's model has one fail in every file."""
    period = parse_month("2026-10", ZONE)
    for name in ("focus.csv", "focus.parquet"):
        report = export_focus(fleet, period, tmp_path / name, FocusOptions(which="invoiced"))
        assert [str(one) for one in check_focus(fleet, report.path, report)] == []
    assert report.rows > 1000
    assert report.by_line == []
    if not ENVIRONMENT.is_dir():
        pytest.skip("the FOCUS validator is not installed: make focus-validator (needs Python 3.12)")
    assert failing_rules(tmp_path / "focus.csv") == {"InvoiceId-C-004-C"}


@pytest.mark.usefixtures("engine_stays")
def test_the_command_writes_checks_and_says_no(tmp_path: Path) -> None:
    url, out = f"chdb://{tmp_path}/books", tmp_path / "focus.csv"
    with fresh_store(tmp_path / "books") as opened:
        card = {"currency": "EUR", "minimum_seconds": 0, "rates": [{"sku": "h100", "price_per_gpu_hour": "2.00"}]}
        apply_rate_card(opened, parse_rate_card(card), "me", "", NOW)
        fill(opened, [Row(NOON, "physics", "qcd", used=str(HOUR_MS))], closed=[at("2026-10-31 23:00")])
    gpuledger("export", "focus", "--period", "2026-10", "--out", str(out), "--store", url)
    with out.open(encoding="utf-8", newline="") as file:
        assert [row["SubAccountId"] for row in csv.DictReader(file)] == ["physics"]
    gpuledger("export", "check", str(out))
    out.write_text(out.read_text(encoding="utf-8").replace('"Usage",', '"Rental",'), encoding="utf-8")
    gpuledger("export", "check", str(out), exit_code=1)
