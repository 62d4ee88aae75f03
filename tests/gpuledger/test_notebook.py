"""docs/notebook.ipynb against a server: its cells run in order, as in Jupyter, and its figures are the ledger's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import REPO
from tests.dashboards.site import Site

NOTEBOOK: dict[str, Any] = json.loads((REPO / "docs/notebook.ipynb").read_text(encoding="utf-8"))
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
FIGURES = ("allocated_gpu_hours", "used_gpu_hours", "idle_gpu_hours", "unmetered_gpu_hours", "billed_cost")
SHOWN = """
print("rows", len(days))
print("cost", tenants["billed_cost"].to_dict())
print("columns", list(daily.columns))
print("idle", len(efficiency))
changes = client.changes("2026-10-01..2026-10-02", "2026-10-02..2026-10-03")
parts = [row.difference == row.by_hours + row.by_price + row.by_mix for row in changes.rows if row.difference]
print("sums", bool(changes.rows) and all(parts))
"""


def run(site: Site, role: str) -> dict[str, str]:
    """What SHOWN prints. The cells run without this folder's packages but the client: it needs no server."""
    text = "\n".join([*CELLS, SHOWN])
    environment = {**os.environ, "GPULEDGER_STORE": site.url, "GPULEDGER_TOKEN": site.tokens[role]}
    environment["PYTHONPATH"] = str(REPO)
    done = subprocess.run(
        [sys.executable, "-c", text], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize(("role", "tenants"), [("analyst", ["speech", "vision"]), ("speech", ["speech"])])
def test_a_month_is_a_table_and_its_sums_are_the_ledger_s(served_site: Site, role: str, tenants: list[str]) -> None:
    found = run(served_site, role)
    costs = {"vision": "96", "speech": "72"}
    assert found["columns"] == str(tenants)
    assert found["rows"] == str(2 * len(tenants))
    for tenant in tenants:
        assert f"'{tenant}': Decimal('{costs[tenant]}." in found["cost"], found
    assert found["sums"] == "True"


def test_its_sums_hold_where_no_amount_is_a_whole_digit() -> None:
    """Each row of a ledger is rounded, and the total once."""
    row = {"currency": "USD", **dict.fromkeys(FIGURES, Decimal("0.333333333"))}
    rows = [{"tenant": tenant, "day": day, **row} for tenant in ("speech", "vision") for day in ("01", "02", "03")]

    class Ledger:
        def ledger(self, period: str, by: tuple[str, ...] = ()) -> SimpleNamespace:
            total = SimpleNamespace(**dict.fromkeys(FIGURES, Decimal("2.000000000")))
            return SimpleNamespace(rows=rows if by else [], total=total)

    names: dict[str, Any] = {}
    for number, cell in enumerate(CELLS[:4]):
        exec(cell, names)  # the cells, as Jupyter runs them
        if not number:
            names["client"] = Ledger()
    assert names["tenants"]["billed_cost"].sum() == Decimal("1.999999998")


def test_it_is_a_notebook_without_answers_of_somebody_s_site() -> None:
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    cells = NOTEBOOK["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        assert cell["cell_type"] in ("code", "markdown")
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        )
        assert not cell.get("outputs")
