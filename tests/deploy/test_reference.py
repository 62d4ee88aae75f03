"""The reference's pages are what the code says."""

from __future__ import annotations

import re

import pytest

from alerts import metrics as of_alerts
from api import metrics as of_books
from docs.reference import DOCS, EXAMPLES, PAGES, SAYS_NO, commands, shown_elsewhere
from tests.conftest import REPO
from warehouse.store import Store


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), f"{name}: run make docs"


def test_examples_are_only_of_commands_that_no_other_document_shows() -> None:
    every = {words for words, _ in commands()}
    assert set(EXAMPLES) | set(shown_elsewhere()) == every
    assert set(EXAMPLES) & set(shown_elsewhere()) == set()
    assert set(SAYS_NO) - every == set()


def test_every_metric_is_on_its_page(store: Store) -> None:
    page = (DOCS / "reference-metrics.md").read_text(encoding="utf-8")
    for family in (*of_books.families(store), *of_alerts.families(store)):
        assert f"| `{family.name}` | {family.kind} | " in page
    source = (REPO / "scheduler" / "exposition.py").read_text(encoding="utf-8")
    assert len(re.findall(r"[^s] Series\(|\(Series\(", source)) == page.count("`gpuledger_scheduler_")
    source = (REPO / "collectors" / "agent" / "own_metrics.py").read_text(encoding="utf-8")
    assert set(re.findall(r'"(agent_[a-z_]+)"', source)) <= set(re.findall(r"`(agent_[a-z_]+)`", page))
