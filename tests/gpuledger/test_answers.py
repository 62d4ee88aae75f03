"""What every command that lists something prints for people: as wide as their terminal, as long as they asked."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner, Result

from docs.reference import commands
from gpuledger.cli import build
from tests.billing.test_golden_books import COMMANDS, books, places  # noqa: F401 (fixtures)
from tests.draws import seldom

MANY = "sql 'SELECT number FROM numbers(1204)'"
OTHERS = (
    MANY,
    "close",
    "retention",
    "changes --period 2026-10",
    "alerts check --at 2026-11-05T00:00Z",
    "alerts list",
    "alerts rules",
    "alerts history",
    "alerts silence list",
    "simulate capacity --period 2026-10",
    "slo list",
    "slo status --at 2026-11-05T00:00Z",
    "slo credits --month 2026-10",
    "interference status",
    "interference victims",
    "interference aggressors",
    "interference speeds",
    "interference baselines",
    "sql 'SELECT * FROM v_charges LIMIT 3'",
    "queries list",
    "budget",
    "held list",
    "users list",
    "tokens list",
    "doctor",
    "report preview --tenant chem --period 2026-10",
    "report preview --tenant chem --period 2026-10 --language zh",
)
"""Beside those of the golden file."""
ASKED = [one for one in (*COMMANDS, *OTHERS) if "--out" not in one]
ELSEWHERE = {
    "scheduler": "asks a scheduler that runs",
    "simulate trace": "reads a trace",
    "simulate fragmentation": "reads an experiment",
    "exporter": "asks an exporter",
    "acceptance": "starts loads",
    "backup": "writes a folder",
    "ingest": "reads files",
    "invoice issue": "issues a month, and prints what `invoice draft` prints",
    "held show": "shows a push that is held",
    "queries show": "prints a query as it was written",
}
"""Commands with `--format` of which no table is drawn here, and why; they print by the same function."""
WIDTH = 80


def options(command: Any) -> set[str]:
    return {name for one in command.params for name in one.opts}


def test_every_command_that_prints_rows_is_asked_here_or_named_with_the_reason() -> None:
    prints = {words for words, command in commands() if "--format" in options(command)}
    asked = {words for words in prints if any(f"{one} ".startswith(f"{words} ") for one in ASKED)}
    excused = {words for words in prints if any(f"{words} ".startswith(f"{one} ") for one in ELSEWHERE)}
    assert prints - asked - excused == set()
    assert asked & excused == set()


def typed(command: str, places: dict[str, str], url: str, *more: str) -> Result:  # noqa: F811
    words = shlex.split(command) if command in OTHERS else [word.format(**places) for word in command.split()]
    store = [] if words[:2] == ["alerts", "rules"] else ["--store", url]
    return CliRunner().invoke(build(), [*words, *store, *more], env={"COLUMNS": str(WIDTH)})


@seldom(5, "answers in 80 columns")
@pytest.mark.parametrize("command", ASKED)
def test_an_answer_has_room_in_80_columns(
    books: tuple[str, dict[str, str]], places: dict[str, str], command: str  # noqa: F811
) -> None:  # fmt: skip
    done = typed(command, places, books[0])
    assert done.exit_code in (0, 1) and isinstance(done.exception, SystemExit | None), done.output
    assert [line for line in done.output.splitlines() if cell_len(line) > WIDTH] == []


@seldom(5, "answers in 80 columns")
def test_a_limit_cuts_tables_and_says_so_and_leaves_data_whole(
    books: tuple[str, dict[str, str]], places: dict[str, str]  # noqa: F811
) -> None:  # fmt: skip
    by_hour = "ledger --period 2026-10-25 --by device,hour"
    whole = typed(by_hour, places, books[0], "--limit", "0")
    rows = len(whole.stdout.splitlines())
    assert rows > 100 and "shows all" not in whole.stderr
    few = typed(by_hour, places, books[0], "--limit", "3")
    assert len(few.stdout.splitlines()) < rows - 50
    (said,) = [line for line in few.stderr.splitlines() if line.endswith("--limit 0 shows all")]
    assert said.startswith("3 of ")
    assert "total" in few.stdout and few.stdout.splitlines()[-1].startswith("capacity")
    assert f"40 of {said.split()[2]}" in typed(by_hour, places, books[0]).stderr
    for format in ("json", "csv"):
        cut, all_ = (typed(by_hour, places, books[0], "--format", format, *more) for more in (("--limit", "1"), ()))
        assert cut.stdout == all_.stdout and len(all_.stdout.splitlines()) > 40


@seldom(5, "answers in 80 columns")
def test_what_is_cut_is_said_wherever_rows_are_printed(
    books: tuple[str, dict[str, str]], places: dict[str, str]  # noqa: F811
) -> None:  # fmt: skip
    for command in ("audit", "invoice list", "rates list", "credits list", MANY):
        done = typed(command, places, books[0], "--limit", "1")
        assert " --limit 0 shows all" in done.stderr, command
    days = [one["at"][:10] for one in json.loads(typed("audit", places, books[0], "--format", "json").stdout)]
    shown = typed("audit", places, books[0], "--limit", "1").stdout
    assert days[-1] in shown and days[0] not in shown, "the newest are what a limit leaves"
    assert "1 of 1,204; --limit 0 shows all" in done.stderr


@seldom(5, "answers in 80 columns")
def test_a_name_is_whole_as_long_as_folding_between_words_will_do(
    books: tuple[str, dict[str, str]], places: dict[str, str]  # noqa: F811
) -> None:  # fmt: skip
    name, when = "GL-2026-000000001-x", "2026-11-28T08:21:13.043Z"
    columns = ", ".join(f"'{name}' AS n{at}, 'some words that fold' AS w{at}" for at in range(2))
    done = typed("sql", places, books[0], f"SELECT {columns}, '{when}' AS at")
    assert done.stdout.count(name) == 2 and done.stdout.count("08:21:13.043Z") == 1, done.stdout
    assert max(map(cell_len, done.stdout.splitlines())) <= WIDTH


@seldom(5, "answers in 80 columns")
def test_the_platforms_cost_has_its_currency_and_headings_that_part_after_underscores(
    books: tuple[str, dict[str, str]], places: dict[str, str]  # noqa: F811
) -> None:  # fmt: skip
    title, *heading = typed("invoice platform --period 2026-10", places, books[0]).stdout.splitlines()[:4]
    assert title == "2026-10, GPU-hours and EUR"
    parts = " ".join(heading).split()
    assert "unallocated_" in parts and not any(part.startswith("_") for part in parts), heading
