"""Samples of the streams, a day at a time: one per minute and stream, at the second at which the node's exporter is
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from collectors.simulated.activity import MEMORY_HELD, fraction, noise, utilization
from collectors.simulated.fleet import DAY, MINUTE, Fleet, FleetPlan
from collectors.simulated.streams import ACTIVITIES, Blind, Scope, Stream, blind_spots
from collectors.simulated.troubles import HOT_CELSIUS, Trouble, troubles
from collectors.tables import TABLE_ROWS, table, words
from warehouse.records import SAMPLE_STATES, SAMPLES

OK, IDLE, UNSUPPORTED, NO_PERMISSION, BLANK, STALE = range(len(SAMPLE_STATES))
MIB = 1 << 20


@dataclass(frozen=True)
class _Columns:
    """The streams' fields as arrays, and the vocabulary of their words."""

    streams: Sequence[Stream]
    scope: np.ndarray
    device: np.ndarray
    partition: np.ndarray
    workload: np.ndarray
    activity: np.ndarray
    start: np.ndarray
    end: np.ndarray
    began: np.ndarray
    share: np.ndarray
    partitions: tuple[str, ...]
    workloads: tuple[str, ...]


@dataclass(frozen=True)
class _Hardware:
    """Facts of devices as arrays, by their place in the fleet. offset: ms after the minute at which they are read."""

    node: np.ndarray
    nodes: tuple[str, ...]
    offset: np.ndarray
    memory: np.ndarray
    idle_watts: np.ndarray
    full_watts: np.ndarray
    profiled: np.ndarray


@dataclass
class _Rows:
    """A day's samples before they are words: arrays of equal length, mostly as the contract's columns."""

    stream: np.ndarray
    ts: np.ndarray
    bits: np.ndarray
    busy: np.ndarray
    memory: np.ndarray
    memory_total: np.ndarray
    watts: np.ndarray
    state: np.ndarray


def sample_tables(plan: FleetPlan, fleet: Fleet, streams: Sequence[Stream], since_ms: int = 0) -> Iterator[pa.Table]:
    """Tables of at most about TABLE_ROWS rows, in time order but for a few late rows; a few rows come twice. Days that
    were over by `since_ms` are left out."""
    columns, hardware, blind = _columns(streams), _hardware(plan, fleet), blind_spots(plan, fleet)
    hot = [trouble for trouble in troubles(plan, fleet) if trouble.hot]
    for day in range(plan.days):
        first = plan.start_ms + day * DAY
        if first + DAY <= since_ms:
            continue
        rows = _rows(plan, columns, hardware, blind, first, min(first + DAY, plan.end_ms))
        order = _delivery(rows)
        for start in range(0, len(order), TABLE_ROWS):
            yield _table(plan, fleet, columns, hardware, hot, rows, order[start : start + TABLE_ROWS])


def _columns(streams: Sequence[Stream]) -> _Columns:
    partitions = tuple(sorted({stream.partition_id for stream in streams}))
    workloads = tuple(sorted({stream.workload_id for stream in streams}))
    partition_codes = {word: code for code, word in enumerate(partitions)}
    workload_codes = {word: code for code, word in enumerate(workloads)}
    return _Columns(
        streams,
        np.array([s.scope for s in streams]),
        np.array([s.device for s in streams]),
        np.array([partition_codes[s.partition_id] for s in streams]),
        np.array([workload_codes[s.workload_id] for s in streams]),
        np.array([ACTIVITIES.index(s.activity) for s in streams]),
        np.array([s.start_ms for s in streams]),
        np.array([s.end_ms for s in streams]),
        np.array([s.began_ms for s in streams]),
        np.array([s.share for s in streams]),
        partitions,
        workloads,
    )


def _hardware(plan: FleetPlan, fleet: Fleet) -> _Hardware:
    nodes = tuple(sorted({device.node for device in fleet.devices}))
    node = np.array([nodes.index(device.node) for device in fleet.devices])
    groups = [device.group for device in fleet.devices]
    return _Hardware(
        node,
        nodes,
        node * 7919 % (plan.interval_seconds * 1000),
        np.array([float(group.memory_gib << 30) for group in groups]),
        np.array([group.watts[0] for group in groups]),
        np.array([group.watts[1] for group in groups]),
        np.array([group.profiled for group in groups]),
    )


def _rows(
    plan: FleetPlan, columns: _Columns, hardware: _Hardware, blind: Sequence[Blind], first: int, last: int
) -> _Rows:
    stream, ts = _grid(plan.interval_seconds * 1000, columns, hardware, first, last)
    dark, refusal = _blindness(blind, hardware, columns.device[stream], ts)
    stream, ts, refusal = stream[~dark], ts[~dark], refusal[~dark]
    device, scope, activity = columns.device[stream], columns.scope[stream], columns.activity[stream]
    bits = noise(plan.seed, stream + 1_000_003, ts // 1000)
    busy = utilization(plan.seed, activity, stream, ts, columns.began[stream])
    share = columns.share[stream]
    held = np.array([MEMORY_HELD[name] for name in ACTIVITIES])[activity] * (0.9 + 0.1 * fraction(bits, 3))
    total = hardware.memory[device] * np.where(scope == Scope.instance, share, 1.0)
    memory = hardware.memory[device] * share * held
    part = scope == Scope.part
    busy[part] = np.round(busy[part] * share[part], 4)
    whole = _add_up(device, scope, share, busy, memory, ts)
    minutes_on = (1.05 + 0.1 * fraction(bits, 2)) * whole
    watts = hardware.idle_watts[device] + (hardware.full_watts - hardware.idle_watts)[device] * minutes_on * 0.82
    watts[(scope == Scope.part) | (scope == Scope.instance)] = np.nan  # nobody meters a part's power
    state = np.where(busy > 0, OK, IDLE)
    state[scope == Scope.parent] = UNSUPPORTED
    state = np.where(refusal >= 0, refusal, _glitches(state, fraction(bits, 1)))
    return _Rows(stream, ts, bits, busy, memory // MIB * MIB, total, np.round(watts, 1), state)


def _grid(
    interval: int, columns: _Columns, hardware: _Hardware, first: int, last: int
) -> tuple[np.ndarray, np.ndarray]:
    """(stream, ts) of every reading in (first, last] that falls in a stream's own time."""
    offset = hardware.offset[columns.device]
    begin = (np.maximum(columns.start, first) - offset) // interval
    counts = np.maximum((np.minimum(columns.end, last) - offset) // interval - begin, 0)
    stream = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(stream)) - np.repeat(np.cumsum(counts) - counts, counts)
    return stream, (begin[stream] + within + 1) * interval + offset[stream]


def _blindness(
    blind: Sequence[Blind], hardware: _Hardware, device: np.ndarray, ts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(whether the exporter was down, the state that it answers with or -1)."""
    dark, refusal = np.zeros(len(ts), bool), np.full(len(ts), -1)
    if not len(ts):
        return dark, refusal
    node, earliest, latest = hardware.node[device], ts.min(), ts.max()
    for spot in blind:
        if spot.end_ms >= earliest and spot.start_ms < latest and spot.node in hardware.nodes:
            hit = (node == hardware.nodes.index(spot.node)) & (ts > spot.start_ms) & (ts <= spot.end_ms)
            if spot.state:
                refusal[hit] = SAMPLE_STATES.index(spot.state)
            else:
                dark |= hit
    return dark, refusal


def _add_up(
    device: np.ndarray, scope: np.ndarray, share: np.ndarray, busy: np.ndarray, memory: np.ndarray, ts: np.ndarray
) -> np.ndarray:
    """Utilization of the whole device for power; fills `busy` and `memory` of whole shared devices from their parts."""
    whole = busy.copy()
    if not len(ts):
        return whole
    minute = ts // MINUTE - ts.min() // MINUTE
    width = int(minute.max()) + 1
    place = device * width + minute
    parts = (scope == Scope.part) | (scope == Scope.instance)
    weight = np.where(scope == Scope.instance, share, 1.0)
    size = (int(device.max()) + 1) * width
    sums = np.bincount(place[parts], (busy * weight)[parts], minlength=size)
    held = np.bincount(place[parts], memory[parts], minlength=size)
    totals = (scope == Scope.together) | (scope == Scope.parent)
    whole[totals] = np.minimum(np.round(sums[place[totals]], 4), 1.0)
    busy[totals] = whole[totals]
    memory[totals] += held[place[totals]]
    return whole


def _glitches(state: np.ndarray, luck: np.ndarray) -> np.ndarray:
    """Makes a few readings in a thousand unusable."""
    state = np.where(luck < 0.0015, BLANK, state)
    return np.where((luck >= 0.0015) & (luck < 0.0025), STALE, state)


def _delivery(rows: _Rows) -> np.ndarray:
    """The order in which samples arrive: by time; one in a thousand late by up to ten minutes, a few twice."""
    luck, delay = fraction(rows.bits, 0), (fraction(rows.bits, 2) * 10 * MINUTE).astype(np.int64)
    twice = np.flatnonzero((luck >= 0.5) & (luck < 0.5003))
    arrival = np.concatenate([np.where(luck < 0.001, rows.ts + delay, rows.ts), rows.ts[twice] + delay[twice]])
    which = np.concatenate([np.arange(len(rows.ts)), twice])
    return which[np.argsort(arrival, kind="stable")]


def _table(
    plan: FleetPlan,
    fleet: Fleet,
    columns: _Columns,
    hardware: _Hardware,
    hot: Sequence[Trouble],
    rows: _Rows,
    order: np.ndarray,
) -> pa.Table:
    stream, state, watts = rows.stream[order], rows.state[order], rows.watts[order]
    device = columns.device[stream]
    known = (state == OK) | (state == IDLE)
    busy = np.where(known, rows.busy[order], np.nan)
    profile = np.where(hardware.profiled[device], busy, np.nan)
    answered = known | (state == UNSUPPORTED)
    watts = np.where(answered, watts, np.nan)
    heat = 27 + hardware.node[device] % 5 + 42 * (watts / hardware.full_watts[device]) ** 0.8
    for trouble in hot:
        ts = rows.ts[order]
        heat[(device == trouble.device) & (ts > trouble.start_ms) & (ts <= trouble.end_ms) & answered] = HOT_CELSIUS
    return table(
        SAMPLES,
        len(order),
        {
            "ts": rows.ts[order],
            "interval_seconds": float(plan.interval_seconds),
            "cluster": plan.cluster,
            "node": words(hardware.node[device], hardware.nodes),
            "device_id": words(device, [d.device_id for d in fleet.devices]),
            "partition_id": words(columns.partition[stream], columns.partitions),
            "workload_id": words(columns.workload[stream], columns.workloads),
            "state": words(state, SAMPLE_STATES),
            "utilization": busy,
            "utilization_source": words(device, [d.group.meter for d in fleet.devices]),
            "sm_active": np.round(profile * 0.9, 4),
            "tensor_active": np.round(profile * 0.48, 4),
            "dram_active": np.round(profile * 0.55, 4),
            "memory_used_bytes": _bytes(rows.memory[order], answered),
            "memory_total_bytes": _bytes(rows.memory_total[order] // MIB * MIB, answered),
            "power_watts": watts,
            "energy_joules": np.round(watts * plan.interval_seconds, 1),
            "temperature_celsius": np.round(heat, 1),
        },
    )


def _bytes(values: np.ndarray, known: np.ndarray) -> pa.Array:
    return pa.array(values.astype(np.uint64), mask=~known)
