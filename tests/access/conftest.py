"""A server that asks for sign-in, for all tests of a module; PostgreSQL, where it is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.access.postgres import Cluster, binaries, cluster
from tests.dashboards.site import Site, site


@pytest.fixture(scope="module")
def served_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as served:
        yield served


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    server = binaries()
    if server is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with cluster(server) as found:
        yield found
