"""A server that asks for sign-in, for all tests of a module; a store with two days of books."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dashboards.conftest import two_days
from tests.dashboards.site import Site, site
from warehouse.store import Store


@pytest.fixture(scope="module")
def served_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as served:
        yield served


@pytest.fixture
def filled(store: Store) -> Store:
    two_days(store)
    return store
