"""Several servers of one store that start at the same moment: one migrates it, the others wait for that one."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from billing.verify import verify
from tests.patience import PATIENCE_SECONDS
from tests.releases.test_upgrade import RELEASES, unpacked
from tests.warehouse.engine_over_http import served
from warehouse.store import Store, migrate, migrations, open_store

COPIED = "SELECT count() AS rows, sum(cityHash64(cluster, device_id, start_at, end_at, claim)) AS said FROM allocations"
"""Of what a migration copies to another table."""
TWICE = "SELECT number FROM schema_migrations GROUP BY number HAVING count() > 1"


def migrated_by_three(url: str) -> tuple[list[list[str]], list[dict[str, int]]]:
    """What each of three servers that start together applied; what was copied."""
    with contextlib.ExitStack() as opened:
        stores: list[Store] = [opened.enter_context(open_store(url)) for _ in range(3)]
        with ThreadPoolExecutor(len(stores)) as pool:
            applied = [*pool.map(migrate, stores, timeout=4 * PATIENCE_SECONDS)]
        assert stores[0].rows(TWICE) == []
        assert verify(stores[0]).balanced
        return applied, stores[0].rows(COPIED)


def test_servers_that_start_together_make_a_new_store_once(tmp_path: Path) -> None:
    """As found: the second one ended with `Table allocations_by_end doesn't exist`."""
    with served(tmp_path) as url:
        applied, _ = migrated_by_three(url)
    assert sorted(map(len, applied)) == [0, 0, len(migrations())]


@pytest.mark.parametrize("release", RELEASES, ids=[path.name.removesuffix(".tar.xz") for path in RELEASES])
def test_servers_that_start_together_upgrade_a_store_once(tmp_path: Path, release: Path) -> None:
    """Two that copy a table at the same time would drop each other's copy, or fill it twice."""
    with served(unpacked(release, tmp_path) / "store") as url:
        with open_store(url) as store:
            before = store.rows(COPIED)
        applied, copied = migrated_by_three(url)
    assert sorted(map(len, applied)) == [0, 0, len(migrations())]
    assert copied == before
