"""The style sheet: what two of its rules say of the same thing."""

from __future__ import annotations

import re

from tests.conftest import REPO

SHEET = (REPO / "dashboards" / "assets" / "gpuledger.css").read_text(encoding="utf-8")
TOKEN = re.compile(r"(--gl-[\w-]+): ([^;]+);")


def tokens(selector: str) -> dict[str, str]:
    rule = re.search(re.escape(selector) + r" \{(.*?)\}", SHEET, re.DOTALL)
    assert rule is not None
    return dict(TOKEN.findall(rule[1]))


def test_a_page_without_scripts_is_as_dark_as_the_others() -> None:
    """As found: the page to sign in had dark fields on a light page."""
    chosen = tokens(':root[data-mantine-color-scheme="dark"]')
    assert chosen and tokens(":root:not([data-mantine-color-scheme])") == chosen


def test_heat_maps_on_paper_have_their_light_colors() -> None:
    for name in (f"gl-{kind}-{step}" for kind in ("cool", "hot") for step in range(8)):
        light = re.search(
            rf"^\.gl-cool-\d.*?\.{name} \{{ background: (#\w+)|^\.{name} \{{ background: (#\w+)", SHEET, re.M
        )
        paper = re.search(rf":root\[data-mantine-color-scheme\] \.{name} \{{ background: (#\w+)", SHEET)
        assert light is not None and paper is not None
        assert paper[1] == (light[1] or light[2])
