"""Two tenants' books (tests/dashboards/site.py), a GPU cut by MIG, something found, something that fires, a slow-down;
and a server over them that needs no sign-in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from access.current import set_current
from access.principal import ANYBODY
from access.settings import AccessSettings
from billing.close import close
from tests.dashboards import site
from tests.dashboards.browser import browser
from tests.stores import fresh_store
from warehouse.store import Store

DAY = "period=2026-10-02"
"""On which everything is held: GPU-a by vision, GPU-b by speech, a part of GPU-m by each, GPU-c by nobody."""


def fill_more(store: Store) -> None:
    store.command(
        "INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, pool, state) "
        "VALUES ('2026-10-01 00:00:00', 'c1', 'n2', 'GPU-m', 'NVIDIA', 'H100', 7, 'research', 'available')"
    )
    for number, (tenant, units, profile) in enumerate((("vision", 3, "3g.40gb"), ("speech", 1, "1g.10gb"))):
        place = f"'n2', 'GPU-m', 'MIG-{number}', '{profile}', {units}"
        what = f"'c1', 'm{number}', 'w-mig-{tenant}', '{{}}', '{tenant}', 'p-{tenant}', 'main', {place}, '{{}}'"
        store.command(
            "INSERT INTO events (ts, cluster, allocation_id, workload_id, event, tenant, project, queue, node, "
            "device_id, partition_id, partition_profile, units, reason) VALUES "
            f"('2026-10-02 00:00:00', {what.format('started', '')}), "
            f"('2026-10-03 00:00:00', {what.format('preempted', 'HigherPriority')})"
        )
    store.command(
        "INSERT INTO findings (ts, cluster, node, device_id, finding, severity, message) "
        "VALUES ('2026-10-02 06:00:00', 'c1', 'n1', 'GPU-b', 'xid', 'critical', 'XID 79: fell off the bus')"
    )
    store.command(
        "INSERT INTO alert_transitions (run, rule, fingerprint, at, state, severity, active_at, labels, evidence, "
        "annotations) VALUES (1, 'idle-holder', 'f1', '2026-10-02 06:00:00', 'firing', 'warning', "
        """'2026-10-02 05:00:00', '{"tenant": "vision"}', '{}', '{"summary": "vision holds an idle GPU"}')"""
    )
    store.command("INSERT INTO alert_runs (run, evaluated_until) VALUES (1, '2026-10-02 06:00:00')")
    store.command(
        "INSERT INTO interference_samples (run, hour, at, window_seconds, cluster, workload_id, tenant, slowdown, "
        "disturbed) VALUES (1, '2026-10-02 05:00:00', '2026-10-02 05:10:00', 60, 'c1', 'w-vision', 'vision', 1.4, 1)"
    )
    store.command("INSERT INTO interference_hours (hour, run) VALUES ('2026-10-02 05:00:00', 1)")
    close(store, until=datetime(2026, 11, 1, tzinfo=UTC), now=site.NOW)


@pytest.fixture(autouse=True)
def signed_out() -> Iterator[None]:
    """Nobody is signed in after a test."""
    yield
    set_current(None)


@pytest.fixture
def anybody() -> None:
    """Someone is signed in who may see everything."""
    set_current(ANYBODY)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("pages") / "store", site.fill, fill_more) as store:
        yield store


@pytest.fixture(scope="module")
def url(house: Store) -> Iterator[str]:
    with site.serving(house, AccessSettings()) as address:
        yield address


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with browser() as found:
        yield found
