"""A kind of invoice line is known wherever kinds are listed (CONTRIBUTING.md, "Add a kind of charge")."""

from __future__ import annotations

import pytest

from billing.documents.page import TITLES
from billing.exports.lines import CATEGORIES
from billing.invoicing.explain import _BASE
from billing.lines import KINDS
from dashboards.languages import language

ADJUSTMENTS = {"discount", "shared"}
"""What FOCUS calls so: every kind without a category of its own."""


def test_every_kind_has_a_title_a_category_and_is_taxed_or_not() -> None:
    assert tuple(TITLES) == KINDS
    assert {*CATEGORIES, *ADJUSTMENTS} == set(KINDS)
    assert (*_BASE["tax"], "tax") == KINDS


@pytest.mark.parametrize("code", ["en", "zh"])
def test_every_kind_has_a_word_on_the_pages(code: str) -> None:
    words = language(code)
    assert [kind for kind in KINDS if not words.of(f"line.{kind}", "")] == []
