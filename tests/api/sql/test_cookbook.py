"""docs/sql.md says what is: every query of its cookbook runs where analysts run it, and it names the views' columns."""

from __future__ import annotations

import re

import pytest

from access.principal import ANYBODY
from api.sql.engine import Engine, Question
from api.sql.limits import Limits
from tests.conftest import REPO
from tests.dashboards.site import Site

TEXT = (REPO / "docs" / "sql.md").read_text(encoding="utf-8")
COOKBOOK = dict(re.findall(r"\n\n([^\n][^`]+?)\n\n```sql\n(.*?)```", TEXT.split("## Cookbook")[1], re.S))
VIEWS = dict(re.findall(r"^\| `(v_\w+)` \| [^|]+ \| (.+) \|$", TEXT, re.M))
NOTHING_THERE = "Pools and models with most unavailable time."
"""Of the test's two days."""


def asked(site: Site, query: str) -> list[str]:
    with Engine(site.store, Limits()).ask_blocking(ANYBODY, Question(query, "TSV")) as (_, pieces):
        return b"".join(pieces).decode().splitlines()


def test_there_are_twenty_queries() -> None:
    assert len(COOKBOOK) == TEXT.count("```sql") == 20


@pytest.mark.parametrize("title", COOKBOOK)
def test_a_query_of_the_cookbook_answers_rows(served_site: Site, title: str) -> None:
    assert bool(asked(served_site, COOKBOOK[title])) is (title != NOTHING_THERE)


def test_the_cookbook_counts_what_the_books_say(served_site: Site) -> None:
    (cost,) = (query for title, query in COOKBOOK.items() if title.startswith("Cost by tenant and month"))
    assert asked(served_site, cost) == ["2026-10-01\tvision\t96\tEUR\t48\t0", "2026-10-01\tspeech\t72\tEUR\t48\t0"]
    (idle,) = (query for title, query in COOKBOOK.items() if title.startswith("What idle time cost"))
    assert asked(served_site, idle) == ["vision\t48", "speech\t36"]


def test_the_table_functions_that_are_named_answer(served_site: Site) -> None:
    (named,) = re.findall(r"table functions other than ([^;]*?) and the views", TEXT.replace("\n", " "))
    given = {"numbers": "2", "generateSeries": "1, 3", "primes": "3", "values": "'a Int8', 1"}
    assert re.findall(r"`(\w+)`", named) == list(given)
    for name, arguments in given.items():
        assert asked(served_site, f"SELECT * FROM {name}({arguments})"), name


def test_the_views_are_described_as_they_are_with_a_comment_on_every_column(served_site: Site) -> None:
    rows = served_site.store.rows(
        "SELECT table, name, comment FROM system.columns "
        "WHERE database = currentDatabase() AND startsWith(table, 'v_') ORDER BY table, position"
    )
    there: dict[str, list[str]] = {}
    for row in rows:
        assert row["comment"], f"{row['table']}.{row['name']} says nothing"
        there.setdefault(row["table"], []).append(row["name"])
    assert {view: re.findall(r"`(\w+)`", columns) for view, columns in VIEWS.items()} == there
