"""The score."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.mutants.trial import Trial


def by_folder(trials: Iterable[Trial]) -> list[dict[str, Any]]:
    """A row for each folder, and one for all."""
    trials = list(trials)
    folders: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        folders[str(Path(trial.fault.path).parent)].append(trial)
    rows = [*sorted(folders.items()), ("all", trials)]
    return [
        {"folder": name, "mutants": len(of), "caught": (caught := sum(one.is_caught for one in of)),
         "percent": round(100 * caught / len(of), 1) if of else None}
        for name, of in rows
    ]  # fmt: skip


def document(about: dict[str, Any], trials: Sequence[Trial]) -> dict[str, Any]:
    mutants = [
        {**one.fault.row(), "verdict": str(one.verdict), "by": one.by, "seconds": round(one.seconds, 1)}
        for one in trials
    ]
    return {**about, "score": by_folder(trials), "mutants": mutants}


def write_json(path: Path, about: dict[str, Any], trials: Sequence[Trial]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document(about, trials), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def print_table(console: Console, trials: Sequence[Trial]) -> None:
    table = Table("Folder", "Mutants", "Caught", "%")
    for row in by_folder(trials):
        table.add_row(*(str(row[name]) for name in ("folder", "mutants", "caught", "percent")))
    console.print(table)
    for one in trials:
        if not one.is_caught:
            console.print(f"{one.verdict}: {one.fault}", markup=False)
