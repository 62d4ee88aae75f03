"""docs/glossary.md: its words are used, in order and once; and the site's navigation has every page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import REPO

GLOSSARY = REPO / "docs/glossary.md"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+\.) \| \[[^]]+\]\(([\w.-]+)\) \| ([^|]+) \|$", re.M)
GROUPS = ["Metering", "Money", "Scheduling", "Alerting", "Sources", "Access"]


def groups() -> dict[str, list[tuple[str, ...]]]:
    _, *sections = re.split(r"^## ", GLOSSARY.read_text(encoding="utf-8"), flags=re.M)
    return {section.partition("\n")[0]: ROW.findall(section) for section in sections}


def test_each_term_has_one_line_and_groups_are_alphabetical() -> None:
    found = groups()
    assert list(found) == GROUPS
    lines = [line for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(lines) == sum(map(len, found.values())) + len(GROUPS), "a line is no row of four cells"
    for rows in found.values():
        terms = [row[0].casefold() for row in rows]
        assert terms == sorted(terms)
    terms = [row[0].casefold() for rows in found.values() for row in rows]
    assert len(set(terms)) == len(terms)


def test_each_term_is_used_in_the_document_it_names() -> None:
    unused = []
    for rows in groups().values():
        for term, _, target, chinese in rows:
            text = (REPO / "docs" / target).read_text(encoding="utf-8")
            pages = (REPO / "dashboards/languages/en.toml").read_text(encoding="utf-8")
            root = re.escape(term.casefold()).replace(r"\ ", r"[\s_-]?").replace(r"\-", r"[\s-]")
            if not re.search(rf"\b{root}", f"{text}\n{pages}".casefold()):
                unused.append(term)
            assert re.search(r"[\u4e00-\u9fff]", chinese) or chinese.startswith(term), term
    assert unused == []


def pages_of(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [page for one in (nav.values() if isinstance(nav, dict) else nav) for page in pages_of(one)]


def test_the_navigation_lists_every_page_once() -> None:
    listed = pages_of(yaml.safe_load((REPO / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert sorted(listed) == sorted(path.name for path in REPO.glob("docs/*.md"))


def test_the_glossary_is_linked_from_where_readers_begin() -> None:
    for name, link in (("README.md", "(docs/glossary.md)"), ("docs/index.md", "(glossary.md)")):
        assert link in Path(REPO / name).read_text(encoding="utf-8"), name
