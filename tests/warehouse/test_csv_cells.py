"""No cell of a table is a formula, numbers stay numbers, and what was written is read again."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.output import print_csv
from tests.conftest import REPO
from tests.patience import PATIENCE_SECONDS
from warehouse.csv_cells import escape_formula, unescape_formula, write_csv

FORMULAS = [
    "=cmd|'/c calc'!A0",
    "+1+cmd",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "=",
    "-",
    "＝1",
    "-1-1",
    "+",
    "'=1",
]
NUMBERS = ["-5", "+5", "-5.25", "1,234.5", "-1e-9", "12%", "-0"]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_made_text(text: str) -> None:
    assert escape_formula(text) == f"'{text}"


@pytest.mark.parametrize("cell", [*NUMBERS, "", "a=b", "physics-lab", None, -5, Decimal("-5.00"), 1.5, True])
def test_what_is_no_formula_stays_as_it_is(cell: object) -> None:
    assert escape_formula(cell) is cell


@given(st.text(max_size=8) | st.text("'=+-@\t\r\n01.", max_size=8))
def test_what_was_written_is_read_again(text: str) -> None:
    assert unescape_formula(str(escape_formula(text))) == text
    assert escape_formula(text) == text or escape_formula(text)[0] == "'"


def test_the_command_line_writes_no_formula(capsys: pytest.CaptureFixture[str]) -> None:
    print_csv(["tenant", "=head"], [{"tenant": text, "=head": Decimal("-1.50")} for text in FORMULAS])
    head, *rows = csv.reader(io.StringIO(capsys.readouterr().out, newline=""))
    assert head == ["tenant", "'=head"]
    assert rows == [[f"'{text}", "-1.50"] for text in FORMULAS]


def test_the_tables_of_pages_do_the_same() -> None:
    """The script's own function, run by the same rules as Python's where there is no engine for it here."""
    source = (REPO / "dashboards/assets/frame.js").read_text()
    function = re.search(r"  function escapeFormula\(cell\) \{.*?\n  \}", source, re.S)
    assert function is not None
    patterns = re.findall(r"/(\^.*?)/\.test", function[0])
    for text in [*FORMULAS, *NUMBERS, "a=b", "", "'a"]:
        formula, number = (re.search(one.replace("$", r"\Z"), text) for one in patterns)
        assert (formula is not None and number is None) == (escape_formula(text) != text), text
    node = shutil.which("node")
    if node is not None:
        asked = json.dumps([*FORMULAS, *NUMBERS])
        code = f"{function[0]}; console.log(JSON.stringify({asked}.map(escapeFormula)))"
        done = subprocess.run([node, "-e", code], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS)
        assert json.loads(done.stdout) == [escape_formula(text) for text in [*FORMULAS, *NUMBERS]]


def test_an_end_of_line_within_a_cell_begins_no_row_of_its_own() -> None:
    """For no reader: a lone CR is an end of line to a spreadsheet."""
    for end in ("\r", "\n", "\r\n"):
        written = io.StringIO(newline="")
        write_csv(written, [["tenant", "n"], [f"x{end}=cmd", 1]])
        assert list(csv.reader(io.StringIO(written.getvalue(), newline=""))) == [["tenant", "n"], [f"x{end}=cmd", "1"]]
        assert f'"x{end}=cmd"' in written.getvalue()
