"""A server that asks for sign-in, for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dashboards.site import Site, site


@pytest.fixture(scope="module")
def served_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site")) as served:
        yield served
