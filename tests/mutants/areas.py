"""Which tests are asked about a file, and in which order.

First the area's own tests: those whose imports lead to the file in fewest steps, small ones first. If they all pass,
those elsewhere that go through the area. Of a .sql file the modules count that read it.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

TESTS = {
    "billing": (
        "tests/billing",
        "tests/gpuledger/test_billing_commands.py",
        "tests/gpuledger/test_account_commands.py",
        "tests/gpuledger/test_allocation_command.py",
        "tests/gpuledger/test_written_files.py",
        "tests/api/test_opencost.py",
        "tests/api/test_capacity.py",
        "tests/alerts/slo/test_credits.py",
        "tests/collectors/slurm/test_books.py",
        "tests/ingest/test_issued_months.py",
        "tests/warehouse/test_chain.py",
    ),
    "access": (
        "tests/access",
        "tests/gpuledger/test_access_commands.py",
        "tests/api",
        "tests/dashboards/test_app.py",
    ),
    "scheduler": (
        "tests/scheduler",
        "tests/gpuledger/test_scheduler_command.py",
        "tests/api/test_capacity.py",
        "tests/gpuledger/test_simulate_command.py",
    ),
    "alerts": ("tests/alerts", "tests/gpuledger/test_alerts_command.py", "tests/api/test_alerts.py"),
}
"""The folder of an area, its tests, and tests elsewhere that go through it."""
FAR = 1_000


def area_of(path: str) -> str:
    for area in TESTS:
        if path == area or path.startswith(f"{area}/"):
            return area
    raise KeyError(path)


def asked(root: Path, path: str) -> list[list[str]]:
    """The runs of pytest, one after the other: the test files of each, in order."""
    own, *others = TESTS[area_of(path)]
    wanted = _modules(root, path)
    files = root.joinpath(own).rglob("test_*.py")
    ordered = sorted((_steps(root, file, wanted), file.stat().st_size, str(file.relative_to(root))) for file in files)
    return [[file for _, _, file in ordered], others]


def _modules(root: Path, path: str) -> set[Path]:
    """The module, or those that read the statement; else all of its folder."""
    file = root / path
    if file.suffix == ".py":
        return {file}
    named = re.compile(rf"""["']{re.escape(file.stem)}["']""")
    beside = list(file.parent.glob("*.py")) or list(file.parent.parent.glob("*.py"))
    return {one for one in beside if named.search(one.read_text(encoding="utf-8"))} or set(beside)


def _steps(root: Path, file: Path, wanted: set[Path]) -> int:
    """How many imports lie between a test and what it is asked about."""
    seen, edge, steps = {file}, [file], 0
    while edge:
        steps += 1
        edge = [one for at in edge for one in _imports(root, at) if one not in seen]
        seen.update(edge)
        if not wanted.isdisjoint(edge):
            return steps
    return FAR


@functools.cache
def _imports(root: Path, file: Path) -> Sequence[Path]:
    """The files of the tree that a module imports itself."""
    return list(dict.fromkeys(found for name in _names(file) if (found := _file_of(root, name)) is not None))


def _names(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for one in node.names:
                yield f"{node.module}.{one.name}"
            yield node.module


def _file_of(root: Path, name: str) -> Path | None:
    path = root.joinpath(*name.split("."))
    return next((one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()), None)
