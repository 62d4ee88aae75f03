"""FOCUS files of a small rich book, cell by cell, and their rules under any names of tenants.

GPULEDGER_GOLDEN=write pytest tests/billing/test_focus_golden.py     renews the files in golden/
"""

from __future__ import annotations

import csv
import itertools
import os
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from billing.exports.ascii import ascii_id, ascii_name
from billing.exports.check import check_focus
from billing.exports.focus import FocusOptions, export_focus
from billing.periods import Period
from tests.billing.focus_book import NOVEMBER, OCTOBER, write_book
from tests.billing.focus_validator import ENVIRONMENT, failing_rules
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from tests.stores import fresh_store
from warehouse.store import Store

GOLDEN = Path(__file__).parent / "golden"
FILES: dict[str, tuple[Period, FocusOptions]] = {
    "focus-october": (OCTOBER, FocusOptions(version="1.3", platform=True)),
    "focus-november": (NOVEMBER, FocusOptions(grain="day", platform=True)),
}
KIND = ("ChargeCategory", "ChargeClass", "CommitmentDiscountStatus", "AllocatedMethodId", "x_LineKind")


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("book")) as store:
        write_book(store)
        yield store


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def turned(rows: list[list[str]]) -> list[list[str]]:
    """A column of the file a row, a charge a column: seventy columns are read from top to bottom."""
    return [list(row) for row in zip(*rows, strict=True)]


@pytest.mark.parametrize("name", FILES)
def test_every_cell_is_that_of_the_golden_file(book: Store, tmp_path: Path, name: str) -> None:
    period, options = FILES[name]
    report = export_focus(book, period, tmp_path / "focus.csv", options)
    assert [str(one) for one in check_focus(book, report.path, report)] == []
    found = turned(read(report.path))
    golden = GOLDEN / f"{name}.csv"
    if os.environ.get("GPULEDGER_GOLDEN") == "write":
        with golden.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(found)
    expected = read(golden)
    assert [row[0] for row in found] == [row[0] for row in expected]
    for cells, wanted in zip(found, expected, strict=True):
        assert cells == wanted


def test_what_is_found_where_any_cell_is_spoiled_is_that_of_the_golden_file(book: Store, tmp_path: Path) -> None:
    """Of a charge of each kind each cell in turn: how often a rule is broken tells of each of its clauses."""
    names, *charges = read(export_focus(book, OCTOBER, tmp_path / "focus.csv", FILES["focus-october"][1]).path)
    kinds = {tuple(charge[names.index(name)] for name in KIND): charge for charge in charges}
    spoiled = [
        [*charge[:place], text, *charge[place + 1 :]]
        for charge in kinds.values()
        for place in range(len(names))
        for text in ("", "-1", "0.5", "Unused", "é")
    ]
    with (tmp_path / "spoiled.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *spoiled])
    found = "".join(f"{one}\n" for one in check_focus(book, tmp_path / "spoiled.csv"))
    golden = GOLDEN / "focus-findings.txt"
    if os.environ.get("GPULEDGER_GOLDEN") == "write":
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_foundations_validator_finds_its_own_contradiction_alone(book: Store, tmp_path: Path) -> None:
    """With corrections, credits, commitments and taxes, and tenants in four scripts."""
    if not ENVIRONMENT.is_dir():
        pytest.skip("the FOCUS validator is not installed: make focus-validator (needs Python 3.12)")
    file = export_focus(book, NOVEMBER, tmp_path / "focus.csv", FocusOptions()).path
    kinds = {(row["ChargeCategory"], row["ChargeClass"]) for row in csv.DictReader(file.open(encoding="utf-8"))}
    assert kinds >= {
        ("Usage", ""),
        ("Purchase", ""),
        ("Tax", ""),
        ("Credit", ""),
        ("Usage", "Correction"),
        ("Tax", "Correction"),
    }
    assert failing_rules(file) == {"InvoiceId-C-004-C"}


NAMES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=12),
    st.text("研发一部🚀👩‍🔬שלוםمال=+-@\"'%,;\n\r\t\x07\\ az", min_size=1, max_size=12),
    st.sampled_from(
        [
            "NA",
            "na",
            "N/A",
            "NULL",
            "Null",
            "nan",
            "None",
            "<NA>",
            "\\N",
            "#N/A",
            "ΝΑ",
            " NA",
            "%4EA",
            " ",
            "nul",
            "nullx",
        ]
    ),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(NAMES, min_size=2, max_size=2, unique=True))
@example(["%E7%A0%94", "研"])
@example(["a b", "a\tb"])
@example(["\u200b", "\u200c"])
@example(["NA", "%4EA"])
@example([" a", "a "])
def test_ids_are_ascii_and_never_shared_and_names_are_ascii_and_never_empty(names: list[str]) -> None:
    one, other = names
    assert ascii_id(one) != ascii_id(other)
    for name in names:
        assert unquote(ascii_id(name)) == name
        for text in (ascii_id(name), ascii_name(name)):
            assert re.fullmatch("[ -~]+", text), name
            assert text == text.strip()
            assert text.lower() not in NULLS
    plain = re.sub("[^ -$&-~]", "", one).strip()
    assert (ascii_id(plain) == plain) == (plain.lower() not in NULLS)


# What pandas' readers of files take for null, by its documentation (`na_values`), and MySQL's.
NULLS = {
    text.lower()
    for text in ("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
                 "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "\\N", "nil")
}  # fmt: skip


RUNS = itertools.count(11)


# The first example is the least one: letters and digits.
@settings(max_examples=2, deadline=None, phases=[Phase.generate])
@given(st.lists(NAMES.filter(str.strip), min_size=60, max_size=60, unique=True))
def test_a_file_with_any_names_of_tenants_keeps_the_rules(
    book: Store, tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    """One export of sixty tenants: a row each, whose account can be read back."""
    january = Period(at("2027-01-01 00:00"), at("2027-01-02 00:00"))
    noon = at("2027-01-01 12:00")
    rows = [Row(noon, name, name, device=f"gpu-{number}", used=str(HOUR_MS), workload=name)
            for number, name in enumerate(names)]  # fmt: skip
    fill(book, rows, run=next(RUNS))
    path = tmp_path_factory.mktemp("any") / "focus.csv"
    report = export_focus(book, january, path, FocusOptions(which="draft"))
    assert [str(one) for one in check_focus(book, path, report)] == []
    header, *cells = read(path)
    charges = [dict(zip(header, row, strict=True)) for row in cells]
    used = [row for row in charges if row["x_LineKind"] == "usage"]
    assert sorted(row["x_Tenant"] for row in used) == sorted(names)
    assert {unquote(row["SubAccountId"]) for row in used} == set(names)
    assert all(row["ResourceId"] == ascii_id(row["x_Tenant"]) for row in used)
    assert sum(Fraction(row["ConsumedQuantity"]) for row in used) == len(names)
