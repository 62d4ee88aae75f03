"""The worked examples of the contracts: as the oracle calculates them, and as a user runs them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from tests.billing import oracle
from tests.conftest import SHARED
from tests.draws import drawn
from tests.stores import fresh_store

pytestmark = pytest.mark.usefixtures("engine_stays")

EXAMPLES = SHARED / "examples" / "ledger"
CLOSE_ENOUGH = 1e-6
EXACT = 1.01e-9
"""The expected books are printed with nine decimals."""

NUMBERS = ("101", "102", "103")


@pytest.fixture
def example(number: str) -> Path:
    folder = EXAMPLES / number
    if not folder.is_dir():
        pytest.skip(f"no worked examples in {EXAMPLES}")
    return folder


@pytest.mark.parametrize("number", NUMBERS)
def test_the_oracle_says_what_was_worked_out_by_hand(example: Path) -> None:
    expected = json.loads((example / "expected.json").read_text())
    rates = yaml.safe_load((example / "rates.yaml").read_text())["rates"]

    books = oracle.books(oracle.read_facts(example), rates, oracle.ms(expected["closed_until"]))

    tenants, fleet = oracle.report(books)
    assert tenants.keys() == {row["tenant"] for row in expected["rows"]}
    for row in expected["rows"]:
        line = tenants[row["tenant"]]
        assert float(line.allocated) == pytest.approx(float(row["allocated_gpu_hours"]), abs=EXACT)
        assert float(line.used) == pytest.approx(float(row["used_gpu_hours"]), abs=EXACT)
        assert float(line.idle) == pytest.approx(float(row["idle_gpu_hours"]), abs=EXACT)
        assert float(line.unmetered) == pytest.approx(float(row["unmetered_gpu_hours"]), abs=EXACT)
        assert float(line.allocated_cost) == pytest.approx(float(row["list_cost"]), abs=EXACT)
    platform = expected["platform"]
    assert float(fleet.unallocated) == pytest.approx(float(platform["unallocated_gpu_hours"]), abs=EXACT)
    assert float(fleet.unavailable) == pytest.approx(float(platform["unavailable_gpu_hours"]), abs=EXACT)
    assert float(fleet.unallocated_cost) == pytest.approx(float(platform["unallocated_cost"]), abs=EXACT)
    assert float(fleet.unavailable_cost) == pytest.approx(float(platform["unavailable_cost"]), abs=EXACT)
    assert float(fleet.capacity) == pytest.approx(float(expected["capacity"]["gpu_hours"]), abs=EXACT)
    assert float(fleet.cost) == pytest.approx(float(expected["capacity"]["cost"]), abs=EXACT)


@pytest.mark.parametrize("number", drawn(NUMBERS, 0.25))
def test_the_ledger_says_what_was_worked_out_by_hand(example: Path, tmp_path: Path) -> None:
    expected = json.loads((example / "expected.json").read_text())
    store = f"chdb://{tmp_path}/store"

    fresh_store(tmp_path / "store").close()
    # Samples first and twice: order and repetition are the sender's business, not the ledger's.
    for kind in ("samples", "events", "devices", "samples"):
        gpuledger("ingest", kind, *map(str, sorted(example.glob(f"{kind}*"))), "--store", store)
    gpuledger("rates", "apply", str(example / "rates.yaml"), "--store", store)
    gpuledger("close", "--until", expected["closed_until"], "--store", store)
    gpuledger("verify", "--store", store)
    printed = gpuledger("ledger", "--period", "2026-10", "--by", "tenant", "--format", "json", "--store", store)

    books = json.loads(printed)
    rows = {row["tenant"]: row for row in books["rows"]}
    assert rows.keys() == {row["tenant"] for row in expected["rows"]}
    for row in expected["rows"]:
        _agree(rows[row["tenant"]], row, exact=("allocated_gpu_hours", "list_cost"))
    _agree(books["platform"], expected["platform"], exact=tuple(expected["platform"]))
    _agree(books["capacity"], expected["capacity"], exact=tuple(expected["capacity"]))


def _agree(found: dict[str, Any], expected: dict[str, Any], exact: tuple[str, ...]) -> None:
    for name, value in expected.items():
        if name == "tenant":
            continue
        assert isinstance(found[name], str), f"{name}: a decimal is printed as a string"
        tolerance = {"abs": EXACT} if name in exact else {"rel": CLOSE_ENOUGH, "abs": EXACT}
        assert float(found[name]) == pytest.approx(float(value), **tolerance), name


@cache
def _app() -> typer.Typer:
    from gpuledger.cli import build

    return build()


def gpuledger(*arguments: str, exit_code: int = 0) -> str:
    """What the command prints, run in this process."""
    result = CliRunner().invoke(_app(), arguments)
    assert result.exit_code == exit_code, f"gpuledger {' '.join(arguments)}: {result.output}\n{result.exception!r}"
    return result.stdout
