"""What sources told beside a tenant's own names: who else's job took a place, whose processes were on a device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboards.access.principal import ANYBODY, Principal
from dashboards.access.roles import Role
from dashboards.access.scope import Stores
from dashboards.filters import filters_of
from dashboards.pages import workload
from tests.dashboards.site import fill
from tests.stores import fresh_store
from warehouse.store import Store

VISION = Principal("vera", frozenset({Role.tenant}), frozenset({"vision"}))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder: Path = tmp_path_factory.mktemp("told")
    with fresh_store(folder / "store", fill) as store:
        at = "'2026-10-02 0{}:00:00', 'c1', '1', 'w-vision', 'preempted', 'vision', '{}', '{}'"
        rows = [at.format(1, "for w-speech of speech", "w-speech"), at.format(2, "for w-vision", "w-vision"),
                at.format(3, "said nobody, of speech", "")]  # fmt: skip
        store.command(
            "INSERT INTO events (ts, cluster, allocation_id, workload_id, event, tenant, message, actor) VALUES "
            + ", ".join(f"({row})" for row in rows)
        )
        store.command(
            "INSERT INTO samples (ts, interval_seconds, cluster, node, device_id, workload_id, state, utilization) "
            "VALUES "
            "('2026-10-02 05:00:00', 60, 'c1', 'n1', 'GPU-a', 'w-speech', 'ok', 0.5), "
            "('2026-10-02 05:00:00', 60, 'c1', 'n1', 'GPU-a', 'w-vision', 'ok', 0.5)"
        )
        store.command(
            "INSERT INTO metrics (ts, interval_seconds, cluster, node, device_id, workload_id, metric, value, state) "
            "VALUES ('2026-10-02 05:00:00', 60, 'c1', 'n1', 'GPU-a', 'w-speech', 'x', 1, 'ok')"
        )
        yield store


def test_a_tenant_is_not_told_whose_job_took_its_place(told: Store) -> None:
    with Stores(told).lend(VISION) as own:
        for source in ("told_events", "v_events"):
            rows = own.rows(f"SELECT actor, message FROM {source} WHERE event = 'preempted' ORDER BY ts")
            assert [tuple(row.values()) for row in rows] == [("", ""), ("w-vision", "for w-vision"), ("", "")]
        page = str(filters_of(own, "?period=2026-10").rows(own, workload.__file__, "events", workload="w-vision"))
        assert "speech" not in page
        assert "for w-vision" in page
        told_of_others = own.rows("SELECT event, actor FROM told_events WHERE workload_id != 'w-vision'")
        assert {row["event"] for row in told_of_others} == {"submitted"}
    with Stores(told).lend(ANYBODY) as all_of_it:
        rows = all_of_it.rows("SELECT actor FROM told_events WHERE event = 'preempted' ORDER BY ts")
        assert [row["actor"] for row in rows] == ["w-speech", "w-vision", ""]


def test_a_tenant_sees_no_processes_of_others_on_a_device_that_it_held(told: Store) -> None:
    with Stores(told).lend(VISION) as own:
        assert {row["w"] for row in own.rows("SELECT workload_id AS w FROM samples")} == {"", "w-vision"}
        assert own.value("SELECT count() AS n FROM metrics") == 0
    assert told.value("SELECT uniqExact(workload_id) AS n FROM samples") == 3
