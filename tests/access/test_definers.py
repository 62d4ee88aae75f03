"""A tenant's connection and views that run with somebody else's rights, through which its filters do not reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from access.principal import Principal
from access.roles import Role
from access.scope import Stores
from tests.dashboards.site import fill
from tests.stores import fresh_store
from warehouse.errors import StoreError
from warehouse.store import Store

VISION = Principal("vera", frozenset({Role.tenant}), frozenset({"vision"}))
OF_NOBODY = (
    "CREATE DATABASE elsewhere",
    "CREATE VIEW elsewhere.v_charges DEFINER = default SQL SECURITY DEFINER AS SELECT 1 AS x",
    "CREATE TABLE written (x UInt8) ENGINE = Memory",
    "CREATE MATERIALIZED VIEW writes TO written DEFINER = default SQL SECURITY DEFINER AS SELECT 1 AS x FROM devices",
)
"""A view of another database, and one that writes what follows from an insert."""
ANALYST = Principal("ann", frozenset({Role.analyst}))
TENANTS = "SELECT DISTINCT tenant FROM v_charges ORDER BY tenant"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with fresh_store(tmp_path / "store", fill) as opened:
        yield opened


def test_a_view_with_a_definer_is_found_before_it_shows_a_tenant_another_s_rows(store: Store) -> None:
    with Stores(store).scoped_to(VISION) as mine:
        assert mine.rows(TENANTS) == [{"tenant": "vision"}]
        for statement in OF_NOBODY:
            store.command(statement)
        with Stores(store).scoped_to(VISION) as another:
            assert another.rows(TENANTS) == [{"tenant": "vision"}]
        store.command("ALTER TABLE v_charges MODIFY DEFINER = default SQL SECURITY DEFINER")
        # As it is why: the engine does not carry the setting into such a view.
        assert mine.rows(TENANTS) == [{"tenant": "speech"}, {"tenant": "vision"}]
    with pytest.raises(StoreError, match=r"views with a definer .* v_charges"), Stores(store).scoped_to(VISION):
        pytest.fail("it was lent")
    with Stores(store).scoped_to(ANALYST) as whole:
        assert len(whole.rows(TENANTS)) == 2
    store.command("ALTER TABLE v_charges MODIFY SQL SECURITY INVOKER")
    with Stores(store).scoped_to(VISION) as mine:
        assert mine.rows(TENANTS) == [{"tenant": "vision"}]
