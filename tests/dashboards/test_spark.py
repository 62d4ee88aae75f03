"""The small line of a row's numbers, as the browser draws it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import playwright
import pytest

from dashboards import figures
from tests.patience import PATIENCE_SECONDS

COMPONENTS = Path(figures.__file__).parent / "assets" / "dashAgGridComponentFunctions.js"


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([4.0, 2.0], "M0.0 2.0L100.0 12.0"),
        ([4.0], "M0.0 2.0L100.0 2.0"),
        ([4.0, None, 2.0, 2.0, 0.0], "M0.0 2.0L12.5 2.0M50.0 12.0L75.0 12.0L100.0 22.0"),
        ([None, None], ""),
    ],
)
def test_a_number_alone_is_drawn_as_wide_as_its_step(values: Sequence[float | None], line: str) -> None:
    """As found on the first of a month: a column called Trend with nothing in it."""
    code = f"""globalThis.window = globalThis;
        globalThis.React = {{createElement: (name, more, inner) => ({{name, more, inner}})}};
        require({json.dumps(str(COMPONENTS))});
        const drawn = dashAgGridComponentFunctions.Spark({{value: {json.dumps(values)}}});
        console.log(JSON.stringify(drawn.inner.map(one => one.more.d)));"""
    node = str(Path(playwright.__file__).with_name("driver") / "node")
    done = subprocess.run([node, "-e", code], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS)
    ground, drawn = json.loads(done.stdout)
    assert drawn == line
    assert ground.count("Z") == line.count("M"), "each line has its ground"
