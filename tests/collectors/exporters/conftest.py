"""An exporter to scrape."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.collectors.exporters.serving import Exporter, serving


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    with serving() as fake:
        yield fake
