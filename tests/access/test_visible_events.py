"""What sources told beside a tenant's own names: who else's job took a place, whose processes were on a device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from access.principal import ANYBODY, Principal
from access.roles import Role
from access.scope import Stores
from dashboards.filters import filters_of
from dashboards.pages import workload
from tests.dashboards.site import fill
from tests.stores import fresh_store
from warehouse.store import Store

VISION = Principal("vera", frozenset({Role.tenant}), frozenset({"vision"}))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
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


def test_a_tenant_is_not_told_whose_job_took_its_place(store: Store) -> None:
    with Stores(store).scoped_to(VISION) as own:
        for source in ("visible_events", "v_events"):
            rows = own.rows(f"SELECT actor, message FROM {source} WHERE event = 'preempted' ORDER BY ts")
            assert [tuple(row.values()) for row in rows] == [("", ""), ("w-vision", "for w-vision"), ("", "")]
        page = str(
            filters_of(own, "?period=2026-10").rows(own, workload.__file__, "events", workload="w-vision", most=9)
        )
        assert "speech" not in page
        assert "for w-vision" in page
        told_of_others = own.rows("SELECT event, actor FROM visible_events WHERE workload_id != 'w-vision'")
        assert {row["event"] for row in told_of_others} == {"submitted"}
    with Stores(store).scoped_to(ANYBODY) as all_of_it:
        rows = all_of_it.rows("SELECT actor FROM visible_events WHERE event = 'preempted' ORDER BY ts")
        assert [row["actor"] for row in rows] == ["w-speech", "w-vision", ""]


EVENTS = [
    # event, reason, actor, whether a tenant is told actor and message
    ("submitted", "", "ada", True),
    ("submitted", "Unschedulable", "", True),
    ("submitted", "Requeued", "w-vision", True),
    ("submitted", "Requeued", "w-speech", False),
    ("submitted", "Requeued", "", False),
    *((event, "", actor, visible) for event in ("started", "resized", "suspended", "resumed")
      for actor, visible in (("", True), ("w-vision", True), ("w-speech", False))),
    *(("preempted", "", actor, visible) for actor, visible in (("", False), ("w-vision", True), ("w-speech", False))),
    *((event, "", "kubelet", True) for event in ("finished", "failed", "cancelled", "rejected")),
]  # fmt: skip


def test_what_anothers_job_may_have_caused_names_nobody(store: Store) -> None:
    """Every event that there is, by every kind of actor."""
    store.command("INSERT INTO allocations (cluster, allocation_id, workload_id, tenant, start_at, end_at) VALUES "
                 "('c2', '9', 'w-vision', 'vision', '2026-10-01', '2026-10-02')")  # fmt: skip
    for number, (event, reason, actor, _) in enumerate(EVENTS):
        store.command(
            "INSERT INTO events (ts, cluster, allocation_id, workload_id, event, tenant, reason, message, actor) "
            "SELECT toDateTime64('2026-10-03', 3, 'UTC') + {n:UInt32}, 'c2', '9', 'w-vision', {event:String}, "
            "'vision', {reason:String}, {message:String}, {actor:String}",
            {"n": number, "event": event, "reason": reason, "message": f"by {actor}", "actor": actor},
        )
    asked = "SELECT actor, message FROM {} WHERE cluster = 'c2' ORDER BY ts"
    for source in ("visible_events", "v_events"):
        with Stores(store).scoped_to(VISION) as own:
            seen = [tuple(row.values()) for row in own.rows(asked.format(source))]
        assert seen == [(actor, f"by {actor}") if is_told else ("", "") for _, _, actor, is_told in EVENTS]
        assert [row["actor"] for row in store.rows(asked.format(source))] == [actor for _, _, actor, _ in EVENTS]


def test_a_tenant_is_not_told_the_number_of_the_schedulers_decision(store: Store) -> None:
    for number, text in enumerate(
        ('{"sequence":5219,"entitlement":"borrowed"}', '{"sequence":5219}', '{"state":"cold"}')
    ):
        store.command(
            "INSERT INTO events (ts, cluster, allocation_id, workload_id, event, tenant, message) "
            "SELECT toDateTime64('2026-10-04', 3, 'UTC') + {n:UInt32}, 'c2', '9', 'w-vision', 'started', 'vision', "
            "{text:String}",
            {"n": number, "text": text},
        )
    asked = "SELECT message FROM v_events WHERE cluster = 'c2' AND ts >= '2026-10-04' ORDER BY ts"
    with Stores(store).scoped_to(VISION) as own:
        said = [row["message"] for row in own.rows(asked)]
    assert said == ['{"entitlement":"borrowed"}', "{}", '{"state":"cold"}']
    assert "5219" in store.rows(asked)[0]["message"]


def test_a_tenant_sees_no_processes_of_others_on_a_device_that_it_held(store: Store) -> None:
    with Stores(store).scoped_to(VISION) as own:
        assert {row["w"] for row in own.rows("SELECT workload_id AS w FROM samples")} == {"", "w-vision"}
        assert own.value("SELECT count() AS n FROM metrics") == 0
    assert store.value("SELECT uniqExact(workload_id) AS n FROM samples") == 3
