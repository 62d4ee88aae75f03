"""What a command says where a module that it needs is not installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import distribution

import pytest

from gpuledger.cli import extra_of
from tests.conftest import REPO

EXTRAS: Mapping[str, list[str]] = tomllib.loads((REPO / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


def modules(requirement: str) -> set[str]:
    """What `import` calls the packages of a requirement."""
    files = distribution(re.split(r"[\[>=<]", requirement)[0]).files or ()
    return {file.parts[0] for file in files if len(file.parts) == 2 and file.name == "__init__.py"}


def test_what_is_missing_is_installed_by_the_smallest_extra_that_brings_it() -> None:
    brought = {extra: {one for line in lines for one in modules(line)} for extra, lines in EXTRAS.items()}
    assert {"httpx"} == brought["client"] and "clickhouse_connect" in brought["server"]
    for module in set().union(*brought.values()):
        smallest = min((extra for extra in brought if module in brought[extra]), key=lambda one: len(EXTRAS[one]))
        assert extra_of(module) == smallest, module
    assert extra_of("google.protobuf.message") == "agent"  # a namespace, which has no file of its own


@pytest.mark.parametrize(
    ("entry", "typed", "missing", "extra"),
    [
        ("kubectl", "explain train", "httpx", "client"),
        ("kubectl", "cost", "httpx", "client"),
        ("main", "exporter http://127.0.0.1:9", "httpx", "client"),
        ("main", "simulate trace jobs.csv", "numpy", "server"),
        ("main", "mcp --store http://127.0.0.1:9", "mcp", "mcp"),
    ],
)
def test_it_is_one_line_and_names_the_extra(entry: str, typed: str, missing: str, extra: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; sys.argv = ['gpuledger', *{typed.split()!r}]\n"
        f"from gpuledger.__main__ import {entry}; {entry}()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=REPO)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert missing in line and line.endswith(f"pip install 'gpuledger[{extra}]'"), line


def test_no_document_installs_what_its_commands_do_not_have() -> None:
    for path in [REPO / "README.md", *(REPO / "docs").glob("*.md")]:
        for block in re.findall(r"(?:^ {4}.*\n)+", path.read_text(encoding="utf-8"), re.M):
            installs = re.findall(r"pip install (\S+)", block)
            assert "." not in installs, (path, block)
            if installs and re.search(r"gpuledger (up|close|ledger)\b", block):
                assert "[server]" in "".join(installs), (path, block)
