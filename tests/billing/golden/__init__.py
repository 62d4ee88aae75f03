"""Golden files: recorded results and messages, against which tests detect changes.

GPULEDGER_GOLDEN=write renews them, with GPULEDGER_ALL=1 also those that runs sample. Whether they are right is checked
by tests that compute the results independently.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def is_renewed() -> bool:
    return os.environ.get("GPULEDGER_GOLDEN") == "write"


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def compare(file: str, name: str, found: Any, folder: Path = FOLDER) -> None:
    """Compares a JSON value with the recorded one of that name in FILE.json; with GPULEDGER_GOLDEN=write, records
    it."""
    path = folder / f"{file}.json"
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if is_renewed():
        known = dict(sorted({**known, name: found}.items()))
        path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert found == known.get(name)
