"""Files of what was said and computed before: a test that compares with them notices that something else is.

GPULEDGER_GOLDEN=write renews them, with GPULEDGER_ALL=1 those too that a run draws from. Whether they are
right is for the tests that reckon another way.
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
    """With what stands under a name of FILE.json; written there if asked for. found: as JSON has it."""
    path = folder / f"{file}.json"
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if is_renewed():
        known = dict(sorted({**known, name: found}.items()))
        path.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert found == known.get(name)
