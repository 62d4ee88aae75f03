"""Recorded scrapes beside this checkout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

TELEMETRY = Path(__file__).resolve().parents[3] / "shared" / "telemetry"


@pytest.fixture
def recorded() -> Callable[[str], str]:
    """The text of a recorded scrape, by its path below the folder of samples."""

    def read(name: str) -> str:
        path = TELEMETRY / name
        if not path.exists():
            pytest.skip(f"the recorded scrape {name} is not beside this checkout")
        return path.read_text(encoding="utf-8")

    return read
