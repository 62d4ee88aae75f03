"""The agent's metrics about itself: its cost, sources, spool and deliveries."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from collectors.agent.cycle import Cycle
from collectors.agent.exposition import Family
from collectors.agent.outbox import Outbox
from collectors.agent.privileges import Privilege
from ingest.deliver import DeliveryState
from ingest.spool import SpoolState

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cost:
    """Of this process. cpu_seconds: user and system, since its start."""

    cpu_seconds: float
    resident_bytes: int


def cost() -> Cost:
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return Cost(used.ru_utime + used.ru_stime, pages * PAGE_BYTES)


def families(
    cycles: Sequence[Cycle],
    outbox: Outbox,
    spool: SpoolState,
    delivery: DeliveryState | None,
    privileges: Sequence[Privilege],
    now: datetime,
) -> list[Family]:
    """All of /metrics but the devices."""
    return [
        *_of_process(),
        *_of_sources(cycles),
        *_of_rows(outbox),
        *_of_spool(spool, now),
        *(_of_delivery(delivery, now) if delivery is not None else ()),
        _of_privileges(privileges),
    ]


def _of_process() -> list[Family]:
    now = cost()
    cpu = Family("agent_cpu_seconds_total", "counter", "CPU time of the agent, user and system.")
    cpu.add(now.cpu_seconds)
    resident = Family("agent_resident_bytes", "gauge", "Memory of the agent that is in RAM.")
    resident.add(now.resident_bytes)
    return [cpu, resident]


def _of_sources(cycles: Sequence[Cycle]) -> list[Family]:
    ticks = Family("agent_ticks_total", "counter", "Ticks at which a source was asked.")
    late = Family("agent_ticks_late_total", "counter", "Ticks that began noticeably after their time.")
    missed = Family("agent_ticks_missed_total", "counter", "Ticks that were left out: the one before was not over.")
    failed = Family("agent_ticks_failed_total", "counter", "Ticks at which a source failed as a whole.")
    seconds = Family("agent_collect_seconds_total", "counter", "Time that a source's ticks took.")
    last = Family("agent_last_tick_timestamp_seconds", "gauge", "Time of a source's last tick that is over.")
    rows = Family("agent_last_tick_rows", "gauge", "Rows of a source's last tick.")
    stalled = Family("agent_source_stalled", "gauge", "1: a source has not answered for several intervals.")
    for cycle in cycles:
        state = cycle.state
        counts = ((ticks, state.ticks), (late, state.late), (missed, state.missed), (failed, state.failed))
        for family, value in (*counts, (seconds, state.seconds), (rows, state.rows), (stalled, cycle.stalled())):
            family.add(value, source=cycle.name)
        if state.tick_ms is not None:
            last.add(state.tick_ms / 1000, source=cycle.name)
    return [ticks, late, missed, failed, seconds, last, rows, stalled]


def _of_rows(outbox: Outbox) -> list[Family]:
    good = Family("agent_rows_total", "counter", "Rows that were spooled.")
    for record, count in list(outbox.rows.items()):
        good.add(count, record=record)
    bad = Family("agent_rows_bad_total", "counter", "Rows that violate the contract; they go to quarantine.")
    for (record, reason), count in list(outbox.bad_rows.items()):
        bad.add(count, record=record, reason=reason)
    dropped = Family("agent_source_dropped_total", "counter", "What a source said that was not used, by reason.")
    for (source, reason), count in list(outbox.dropped.items()):
        dropped.add(count, source=source, reason=reason)
    return [good, bad, dropped]


def _of_spool(spool: SpoolState, now: datetime) -> list[Family]:
    simple = (
        ("agent_spool_batches", "Batches that wait for the store.", float(spool.batches)),
        ("agent_spool_rows", "Rows that wait for the store.", float(spool.rows)),
        ("agent_spool_bytes", "What waits on disk.", float(spool.bytes)),
        (
            "agent_spool_memory_bytes",
            "What waits in memory, because the disk takes nothing.",
            float(spool.memory_bytes),
        ),
        (
            "agent_spool_oldest_seconds",
            "Age of the oldest batch that waits; 0 if none does.",
            _age(spool.oldest_at, now),
        ),
        ("agent_spool_disk_ok", "0: the disk takes nothing.", float(not spool.disk_error)),
        ("agent_set_aside_batches", "What the store refused and the spool keeps.", float(spool.set_aside)),
    )
    found = []
    for name, reported, value in simple:
        family = Family(name, "gauge", reported)
        family.add(value)
        found.append(family)
    lost = Family("agent_lost_rows_total", "counter", "Rows that did not reach the store, by reason.")
    batches = Family("agent_lost_batches_total", "counter", "Batches that did not reach the store, by reason.")
    for loss in spool.lost:
        lost.add(loss.rows, reason=loss.reason, record=loss.record)
        batches.add(loss.batches, reason=loss.reason, record=loss.record)
    return [*found, lost, batches]


def _of_delivery(delivery: DeliveryState, now: datetime) -> list[Family]:
    simple: tuple[tuple[str, str, float], ...] = (
        ("agent_delivered_batches_total", "Batches that the store has.", delivery.batches),
        ("agent_delivered_rows_total", "Rows that the store has.", delivery.rows),
        ("agent_delivered_bytes_total", "Bytes of them as they travelled.", delivery.bytes),
        (
            "agent_delivered_quarantined_rows_total",
            "Rows of them that the store's side quarantined.",
            delivery.quarantined,
        ),
    )
    found = []
    for name, reported, value in simple:
        family = Family(name, "counter", reported)
        family.add(value)
        found.append(family)
    answers = Family("agent_delivery_answers_total", "counter", "What became of what was sent.")
    for outcome, count in list(delivery.answers.items()):
        answers.add(count, outcome=outcome)
    failing = Family("agent_delivery_failing_seconds", "gauge", "How long delivery has failed; 0 if it works.")
    failing.add(_age(delivery.failing_since, now))
    return [*found, answers, failing]


def _of_privileges(privileges: Sequence[Privilege]) -> Family:
    family = Family("agent_privilege_ok", "gauge", "0: missing at the start; the state says how.")
    for privilege in privileges:
        family.add(privilege.state == "ok", name=privilege.name, state=privilege.state)
    return family


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())
