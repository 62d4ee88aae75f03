"""PostgreSQL, where it is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.access.postgres import Cluster, binaries, cluster


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    server = binaries()
    if server is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with cluster(server) as found:
        yield found
