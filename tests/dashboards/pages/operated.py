"""What those who run a fleet see: a queue that waits, a pager that fails, a scheduler's metrics, interference."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from alerts.slo.applied import apply_objectives
from alerts.slo.measure import measure
from alerts.slo.objectives import parse_objectives
from tests.dashboards import site
from warehouse.store import Store


def operate(store: Store) -> None:
    """All of it, over the books of conftest."""
    fires(store)
    schedules(store)
    disturbs(store)


def fires(store: Store) -> None:
    """A queue that waits since the 2nd, critically; told to a pager that fails."""
    labels = {"alertname": "long-queue", "severity": "critical", "cluster": "c1", "queue": "main", "owner": "platform"}
    since = "2026-10-02 13:00:00.250000+00:00"
    evidence = {
        "waiting": 2,
        "oldest_since": since,
        "cause": "capacity: it asks for 8 GPUs",
        "oldest_workload_id": "w2-vision",
    }
    notes = {
        "summary": "the oldest of 2 in queue main has waited 12 h",
        "action": "Free or add capacity",
        "runbook": "long-queue",
    }
    texts = ", ".join(f"'{json.dumps(one)}'" for one in (labels, evidence, notes))
    store.command(
        "INSERT INTO alert_transitions (run, rule, fingerprint, at, state, severity, active_at, fired_at, value, "
        "labels, evidence, annotations) VALUES (1, 'long-queue', 'f2', '2026-10-02 14:00:00', 'firing', 'critical', "
        f"'2026-10-02 13:00:00', '2026-10-02 14:00:00', 43200, {texts})"
    )
    store.command(
        "INSERT INTO alert_deliveries (at, target, rule, fingerprint, active_at, kind, attempt, outcome, detail) "
        "VALUES "
        "('2026-10-02 14:00:01', 'chat/slack', 'long-queue', 'f2', '2026-10-02 13:00:00', 'firing', 1, 'sent', ''), "
        "('2026-10-02 14:00:02', 'pager/pagerduty', 'long-queue', 'f2', '2026-10-02 13:00:00', 'firing', 1, 'failed', "
        "'no route to host')"
    )


def schedules(store: Store) -> None:
    """A scheduler that told at 05:00 and at 20:00 of the 2nd; speech lost its place; an objective for waits."""
    rows = []
    for hour, fragmented in (("05", 1.0), ("20", 3.0)):
        for service, tenant, metric, value in (
            ("scheduler", "", "capacity_gpus", 4.0),
            ("scheduler", "", "held_gpus", 1.0),
            ("scheduler", "", "fragmented_gpus", fragmented),
            ("scheduler", "", 'largest_gang_replicas{shape="2 GPUs"}', 1.0),
            ("scheduler", "vision", 'tenant_guaranteed_gpus{pool="train"}', 2.0),
            ("scheduler", "vision", 'tenant_held_gpus{pool="train"}', 1.0),
            ("scheduler", "vision", 'quota_redemption_ratio{pool="train"}', 0.625),
            ("scheduler/main", "", 'pending_jobs{cause="WaitingForQuota"}', 5.0),
            ("scheduler/main", "", 'pending_jobs{cause="Priority"}', 2.0),
        ):
            rows.append(f"('2026-10-02 {hour}:00:00', 60, 'c1', '{service}', '{tenant}', '{metric}', {value})")
    columns = "ts, interval_seconds, cluster, service, tenant, metric, value"
    store.command(f"INSERT INTO service_levels ({columns}) VALUES {', '.join(rows)}")
    store.command(
        "INSERT INTO events (ts, cluster, allocation_id, workload_id, event, tenant, project, queue, reason, actor) "
        "VALUES ('2026-10-02 09:00:00', 'c1', 'm1', 'w-mig-speech', 'preempted', 'speech', 'p-speech', 'main', "
        "'reclaim', 'w-vision')"
    )
    objective = {"name": "main-wait", "kind": "queue_wait", "match": {"queue": "ma*"}, "within": "5m", "target": "0.9"}
    apply_objectives(store, parse_objectives({"objectives": [objective]}), "test", "", site.NOW)


def disturbs(store: Store) -> None:
    """w-vision runs at half its speed beside w-speech for seven minutes of the 2nd, then alone; waits are measured."""
    measure(store, datetime(2026, 10, 4, tzinfo=UTC), site.NOW)
    rows = [
        f"(1, '2026-10-02 05:00:00', '2026-10-02 05:{minute}:00', 60, 'c1', 'w-vision', 'chat', 'vision', "
        "'vision-train', 1, "
        + ("'shared', ['w-speech'], ['speech-train'], 2, 1)" if minute < 27 else "'exclusive', [], [], 1, 0)")
        for minute in range(20, 45)
    ]
    columns = (
        "run, hour, at, window_seconds, cluster, workload_id, service, tenant, identity, gpus, state, neighbours, "
        "neighbour_identities, slowdown, disturbed"
    )
    store.command(f"INSERT INTO interference_samples ({columns}) VALUES {', '.join(rows)}")
