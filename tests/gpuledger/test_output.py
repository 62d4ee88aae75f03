"""What a command prints for people shows every text as what it is."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from billing.closed import HOUR, Closed, period_document
from billing.periods import Period, parse_period
from gpuledger import output
from gpuledger.cli import build, run
from gpuledger.closed_spans import closed_part_of, note_of
from gpuledger.documents import ClosedSpan
from gpuledger.options import Format
from tests.conftest import REPO
from tests.draws import drawn_seed
from tests.stores import fresh_store
from warehouse.errors import LedgerError
from warehouse.json_values import as_json

HOSTILE = "a\x1b[2Kb\r\nml  0.00\x9b31m\u202edecrof\u2028\x07[red]"


@pytest.mark.parametrize("cell", [HOSTILE, output.Lines([HOSTILE, "second"])])
def test_a_name_draws_nothing_in_a_table(cell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """As found: a tenant's escape sequences reached the terminal, and its end of a line made a row of the table."""
    output.print_rows([{"tenant": cell}], ("tenant",), Format.table)
    heading, *lines = [line.strip() for line in capsys.readouterr().out.rstrip("\n").split("\n")]
    shown = r"a\x1b[2Kb\r\nml  0.00\x9b31m\u202edecrof\u2028\x07[red]"
    assert heading == "tenant" and lines == [shown, "second"][: 1 + isinstance(cell, output.Lines)]


def test_a_row_of_somebody_s_file_stays_as_it_was_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found: doctor had a line break in place of the T of every time, and nobody found the row in their file. An
    instant alone has its time on a second line if the column is narrow."""
    monkeypatch.setenv("COLUMNS", "70")
    raw = "2026-09-01T10:40:00Z,600,lab,gpu-1,GPU-1a,,,ok,50"
    newest = output.Lines(("v.csv row 6: utilization 50.0: expected 0 to 1", raw))
    row = {"newest": newest, "at": "2026-09-01T10:40:00.000Z"}
    output.print_rows([row], tuple(row), Format.table)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[2:] == [[raw, "10:40:00.000Z"]] and lines[1][-1] == "2026-09-01"


def test_shares_are_aligned_as_numbers_are(capsys: pytest.CaptureFixture[str]) -> None:
    """As found: left, so that `8.1%` stood above the tens of `12.5%`."""
    rows = [{"tenant": "a", "part": output.percent(one)} for one in (0.125, None, 0.081, -1.5)]
    output.print_rows(rows, ["tenant", "part"], Format.table)
    ends = {len(line) for line in capsys.readouterr().out.splitlines()}
    assert len(ends) == 1, ends


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        (Decimal("1380.00"), "1,380.00"),
        (Decimal("-74900.5"), "-74,900.5"),
        (Decimal("0.004"), "0.004"),
        (Decimal("999"), "999"),
        (1234567.25, "1,234,567.25"),
        (1e-05, "1e-05"),
        (20261201, "20261201"),
        ("1380.00", "1380.00"),
    ],
)
def test_figures_have_separators_in_a_table_and_none_for_programs(
    figure: Any, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As found: 1380.000 of one command, 1380.00 of another, 1,380.00 of a third. Integers and texts may be names."""
    output.print_rows([{"h": figure}], ["h"], Format.table)
    assert capsys.readouterr().out.split() == ["h", shown]
    for fmt in (Format.csv, Format.json):
        output.print_rows([{"h": figure}], ["h"], fmt)
        assert str(as_json(figure)) in capsys.readouterr().out


def test_a_long_name_leaves_the_texts_beside_it_readable(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found in `scheduler idle`: of a job with a very long name, the name was whole and its policy a word a line."""
    monkeypatch.setenv("COLUMNS", "112")
    row = {"job_id": "x" * 90, "next": "proposal: suspend", "policy": "warn after 30 min, suspend after 2 h"}
    output.print_rows([row], tuple(row), Format.table)
    _, first, *_ = capsys.readouterr().out.splitlines()
    assert "proposal:" in first and "warn after 30" in first, first
    assert len(first.split()[0]) >= 40


def test_a_complaint_is_one_line_whatever_it_names(capsys: pytest.CaptureFixture[str]) -> None:
    output.complain(f"job {HOSTILE}")
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "\x1b" not in said and "\x9b" not in said and r"\x1b[2Kb" in said


def test_what_is_a_sentence_already_ends_with_one_stop() -> None:
    assert (
        str(LedgerError("http://db", "HTTP 301 Moved.", "Give its new URL"))
        == "http://db: HTTP 301 Moved. Give its new URL"
    )
    assert (
        str(LedgerError("rates.yaml", "no such file", "Check the path")) == "rates.yaml: no such file. Check the path"
    )
    assert str(LedgerError("http://db", "HTTP 301 Moved.")) == "http://db: HTTP 301 Moved."


def test_a_name_in_a_line_begins_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    """As found: the heading of an invoice of a tenant with an end of a line in its name was two lines."""
    output.print_lines(f"draft  {HOSTILE}  2026-09", "and", "")
    output.say(f"{HOSTILE} is not closed")
    printed = capsys.readouterr()
    shown = r"a\x1b[2Kb\r\nml  0.00\x9b31m\u202edecrof\u2028\x07[red]"
    assert printed.out.split("\n") == [f"draft  {shown}  2026-09", "and", "", ""]
    assert printed.err == f"{shown} is not closed\n"


@pytest.mark.parametrize("name", ["none.csv", "folder.csv"])
@pytest.mark.parametrize("command", ["export check", "rates show", "tenants check"])
def test_a_file_that_is_not_there_is_unusable_input_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    fresh_store(tmp_path / "store").close()
    monkeypatch.setenv("GPULEDGER_STORE", f"chdb://{tmp_path / 'store'}")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(SystemExit) as left:
        run(build(), [*command.split(), str(tmp_path / name)])
    assert left.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    (line,) = lines
    assert name in line


def test_of_two_periods_each_says_itself_what_is_not_closed_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    """`changes` of a closed day said that only 22 of 24 hours are closed: those of the day before."""
    books, before, now = (parse_period(text, "UTC") for text in ("2026-10-01..2026-10-04", "2026-10-01", "2026-10-02"))
    assert output.figures_of(Closed(before, 24, 22, books), "before") and output.figures_of(
        Closed(now, 24, 24, books), "now"
    )
    assert capsys.readouterr().err.splitlines() == [
        "before: only 22 of 24 hours are closed, and the figures are of those: "
        "the books are closed from 2026-10-01 00:00Z to 2026-10-04 00:00Z"
    ]


def test_of_a_month_in_which_the_inventory_begins_no_hour_is_said_to_be_open() -> None:
    """Of a month that was complete and issued it said that only 95 of 745 hours are closed, as if data were missing."""
    month, books = (parse_period(text, "UTC") for text in ("2026-10", "2026-10-28..2026-11-02"))
    begins = "the books begin with the inventory, at 2026-10-28 00:00Z: the figures are of all 96 hours since"
    assert Closed(month, 744, 96, books).note() == begins
    assert Closed(month, 744, 95, books).note().startswith("only 95 of 744 hours are closed")
    until = parse_period("2026-10-28..2026-10-31", "UTC")
    assert Closed(month, 744, 72, until).note().startswith("only 72 of 744 hours are closed")


@pytest.mark.parametrize("seed", [drawn_seed("what is closed") + n for n in range(200)])
def test_a_server_tells_whoever_asks_it_as_much_as_its_own_commands_know(seed: int) -> None:
    """As found: over a server `energy`, the assistant's tools and kubectl said "only 95 of 744 hours are closed" of an
    inventory that had ended."""
    draw = random.Random(seed)
    first, last, begin, end = (datetime(2026, 10, 1, tzinfo=UTC) + HOUR * draw.randrange(40) for _ in range(4))
    of, books = Period(min(first, last), max(first, last) + HOUR), Period(min(begin, end), max(begin, end) + HOUR)
    hours = (of.end - of.start) // HOUR
    overlap = max(0, (min(of.end, books.end) - max(of.start, books.start)) // HOUR)
    closed = draw.choice([hours, overlap, draw.randrange(hours + 1), 0])
    until = draw.choice([None, books.end, of.end, books.end + HOUR * draw.randrange(9)])
    here = Closed(of, hours, closed, books, until)
    said = ClosedSpan.model_validate_json(json.dumps(as_json(here.document())))
    assert closed_part_of(said) == here
    assert note_of(said) == here.note()


def test_where_nothing_was_ever_closed_a_server_says_that() -> None:
    said = ClosedSpan.model_validate(period_document(None))
    assert closed_part_of(said) is None
    assert note_of(said) == "no hour is closed yet"


def test_a_command_whose_outputs_are_closed_does_what_it_is_asked(tmp_path: Path) -> None:
    """As found: `doctor >&-` ended with two tracebacks; a file that it opened had the number of its standard output."""
    fresh_store(tmp_path / "store").close()
    command = f"exec {sys.executable} -m gpuledger doctor --store chdb://{tmp_path / 'store'} "
    for closed in (">&-", "<&- >&- 2>&-"):
        done = subprocess.run(["sh", "-c", command + closed], capture_output=True, text=True, check=False, cwd=REPO)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
