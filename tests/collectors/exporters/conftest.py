"""Recorded scrapes beside this checkout, and an exporter to scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.collectors.exporters.serving import Exporter, serving

TELEMETRY = Path(__file__).resolve().parents[4] / "shared" / "telemetry"


@pytest.fixture
def recorded() -> Callable[[str], str]:
    """The text of a recorded scrape, by its path below the folder of samples."""

    def read(name: str) -> str:
        path = TELEMETRY / name
        if not path.exists():
            pytest.skip(f"the recorded scrape {name} is not beside this checkout")
        return path.read_text(encoding="utf-8")

    return read


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    with serving() as fake:
        yield fake
