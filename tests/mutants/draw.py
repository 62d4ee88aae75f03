"""The sample: lines drawn evenly, and on each of them one fault."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.mutants.fault import Fault
from tests.mutants.python import faults_of_python
from tests.mutants.sql import faults_of_sql


def faults_in(root: Path, paths: Iterable[str]) -> list[Fault]:
    """Of every .py and .sql file in or at `paths`, which are from the root."""
    found: list[Fault] = []
    for file in sorted({file for path in paths for file in _files(root / path)}):
        name = str(file.relative_to(root))
        faults = faults_of_python if file.suffix == ".py" else faults_of_sql
        found += faults(name, file.read_text(encoding="utf-8"))
    return found


def draw(faults: Sequence[Fault], number: int, seed: int) -> list[Fault]:
    """Lines with many faults are no likelier than others: else long conditions and calls would be most of a sample."""
    by_line: dict[tuple[str, int], list[Fault]] = defaultdict(list)
    for fault in faults:
        by_line[fault.path, fault.line].append(fault)
    dice = random.Random(seed)
    lines = dice.sample(sorted(by_line), min(number, len(by_line)))
    return [dice.choice(by_line[line]) for line in lines]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [file for pattern in ("*.py", "*.sql") for file in path.rglob(pattern) if not file.name.endswith("_pb2.py")]
