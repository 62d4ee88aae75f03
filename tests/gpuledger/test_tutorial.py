"""docs/tutorial.md, typed as it stands: what it shows is what one sees. `…` is the rest of a line, or lines."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuledger.cli import build
from tests.conftest import REPO
from tests.draws import seldom


def sessions(text: str) -> list[tuple[str, list[str]]]:
    """Each command that is shown with its answer."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("    $ gpuledger "):
            found.append((line.removeprefix("    $ gpuledger "), []))
        elif line.startswith("    ") and found:
            found[-1][1].append(line.strip())
        elif not line.startswith("    "):
            found.append(("", []))
    return [(command, answer) for command, answer in found if command]


def matches(shown: list[str], seen: str) -> bool:
    """Whatever the width of the terminal and however columns are padded."""
    lines = [r"[\s\S]*" if line == "…" else re.escape(" ".join(line.split())).replace("…", ".*") for line in shown]
    said = "\n".join(" ".join(line.split()) for line in seen.splitlines() if line.strip())
    return re.fullmatch(r"\n".join(lines), said) is not None


@seldom(5, "the tutorial")
def test_the_tutorial_is_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEDGER_STORE", f"chdb://{tmp_path}/store")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(REPO / "docs")
    typed = sessions((REPO / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    assert len(typed) == 14
    for command, shown in typed:
        done = CliRunner().invoke(build(), shlex.split(command))
        assert done.exit_code == 0, (command, done.output)
        assert matches(shown, done.stderr + done.stdout), f"{command}\n{done.stderr}{done.stdout}"
    assert len(list((tmp_path / "invoices").iterdir())) == 8


def test_an_answer_that_differs_is_told() -> None:
    assert matches(["a  b", "…", "c … d"], "a b\nmore\n\nmore\nc 5 d\n")
    assert not matches(["a b", "c … d"], "a b\nc 5 e\n")
