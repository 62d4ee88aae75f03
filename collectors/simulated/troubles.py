"""Hardware in trouble: heat, throttling, memory errors and XIDs, as metrics and findings; and near misses.

An agent tells metrics of the first two H100 and A100 nodes only, every five minutes, so that a month stays small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from collectors.simulated.fleet import A100, DAY, H100, HOUR, MINUTE, Fleet, FleetPlan
from collectors.simulated.streams import Blind, blind_spots
from collectors.tables import Records, table, words
from warehouse.records import FINDINGS, METRICS, RecordType

REPORTED_EVERY = 5 * MINUTE
HOT_CELSIUS = 92.0


@dataclass(frozen=True)
class Trouble:
    """A trouble of a device (its index in the fleet) during [start_ms, end_ms), with its effect on metrics and
    temperature."""

    name: str
    device: int
    start_ms: int
    end_ms: int
    metrics: tuple[tuple[str, float], ...] = ()
    xid: int = 0
    message: str = ""
    lost: bool = False
    hot: bool = False


NORMAL = {
    "throttle_thermal_seconds": 0.0,
    "throttle_power_seconds": 0.0,
    "throttle_hardware_seconds": 0.0,
    "memory_temperature_celsius": 74.0,
    "ecc_corrected_total": 3.0,
    "ecc_uncorrected_total": 0.0,
    "rows_remapped_uncorrected_total": 0.0,
    "row_remap_pending": 0.0,
    "row_remap_failure": 0.0,
}
"""What a metric shows without trouble; seconds are of five minutes."""


def troubles(plan: FleetPlan, fleet: Fleet) -> list[Trouble]:
    """The troubles of the plan, on devices that no incident hits; a clean fleet has none."""
    if plan.clean:
        return []
    reported = [place for place in reported_devices(fleet) if not fleet.devices[place].down]
    found = []

    def add(name: str, at: float, hours: float, which: int, **what: object) -> None:
        start = plan.at(at) // MINUTE * MINUTE
        found.append(Trouble(name, reported[which % len(reported)], start, start + int(hours * HOUR), **what))  # type: ignore[arg-type]

    heat = (("throttle_thermal_seconds", 90.0), ("memory_temperature_celsius", 99.0))
    add("fan failed", 0.64, 3, 3, metrics=heat, hot=True)
    add("dusty filter", 0.66, 12, 4, metrics=(("throttle_thermal_seconds", 15.0), ("memory_temperature_celsius", 93.0)))
    add("power limit", 0.68, 4, 5, metrics=(("throttle_power_seconds", 240.0),))
    add("near the power limit", 0.7, 8, 6, metrics=(("throttle_power_seconds", 120.0),))
    add("power brake", 0.72, 2, 2, metrics=(("throttle_hardware_seconds", 60.0),))
    broken = (("ecc_uncorrected_total", 2.0), ("rows_remapped_uncorrected_total", 1.0), ("row_remap_pending", 1.0))
    add("memory error", 0.63, 6, 1, metrics=broken, xid=48, message="double bit ECC error")
    add("corrected errors", 0.65, 1, 0, metrics=(("ecc_corrected_total", 1500.0),))
    add("a few corrected errors", 0.67, 1, 5, metrics=(("ecc_corrected_total", 400.0),))
    add("no spare rows", 0.74, 5, 7, metrics=(("row_remap_failure", 1.0),), xid=64, message="row remapping failed")
    add("application fault", 0.76, 1, 3, xid=31, message="MMU fault (pid=4711)")
    add("row remapped", 0.78, 1, 4, xid=63, message="row remapping recorded")  # NVIDIA: nothing to do
    add("new code", 0.8, 1, 5, xid=999, message="no such code yet")
    for incident in fleet.incidents:
        if incident.reason == "XID 79":
            place, start, end = incident.devices[0], incident.start_ms, incident.end_ms
            found.append(Trouble("lost", place, start, end, xid=79, message=incident.message, lost=True))
    return found


def reported_devices(fleet: Fleet) -> list[int]:
    """Indexes of the devices that have metrics."""
    nodes = {f"{group.name}-{number:02d}" for group in (H100, A100) for number in (1, 2)}
    return [place for place, device in enumerate(fleet.devices) if device.node in nodes]


def trouble_tables(plan: FleetPlan, fleet: Fleet) -> Records:
    """Metrics day by day, then findings, each in time order; an exporter that is down tells no metrics."""
    found, blind = troubles(plan, fleet), blind_spots(plan, fleet)
    for day in range(plan.days):
        yield _metrics(plan, fleet, found, blind, plan.start_ms + day * DAY)
    yield _findings(plan, fleet, found, blind)


def _metrics(
    plan: FleetPlan, fleet: Fleet, found: Sequence[Trouble], blind: Sequence[Blind], since: int
) -> tuple[RecordType, object]:
    names, places = tuple(NORMAL), reported_devices(fleet)
    at = np.arange(since + REPORTED_EVERY, since + DAY + 1, REPORTED_EVERY)
    shape = (len(at), len(places), len(names))
    values = np.broadcast_to(np.array(list(NORMAL.values())), shape).copy()
    reported = np.ones(shape[:2], bool)
    for column, place in enumerate(places):
        device = fleet.devices[place]
        reported[:, column] &= (at > device.since_ms) & (at <= device.until_ms)
        for down, up in device.down:
            reported[:, column] &= (at <= down) | (at > up)
        for spot in blind:
            if spot.node == device.node and not spot.state:
                reported[:, column] &= (at <= spot.start_ms) | (at > spot.end_ms)
        for trouble in found:
            if trouble.device == place:
                for name, value in trouble.metrics:
                    cell = (slice(None), column, names.index(name))
                    if name.endswith("_total"):
                        values[cell] += value * (at > trouble.start_ms)
                    else:
                        values[cell] = np.where((at > trouble.start_ms) & (at <= trouble.end_ms), value, values[cell])
    where = np.nonzero(np.broadcast_to(reported[..., None], shape))
    ids = [fleet.devices[place].device_id for place in places]
    return METRICS, table(
        METRICS,
        len(where[0]),
        {
            "ts": at[where[0]],
            "interval_seconds": REPORTED_EVERY / 1000,
            "cluster": plan.cluster,
            "node": words(where[1], [fleet.devices[place].node for place in places]),
            "device_id": words(where[1], ids),
            "metric": words(where[2], names),
            "state": "ok",
            "value": values[where],
            "source": "simulated",
        },
    )


def _findings(
    plan: FleetPlan, fleet: Fleet, found: Sequence[Trouble], blind: Sequence[Blind]
) -> tuple[RecordType, object]:
    rows = list(_finding_rows(fleet, found, blind))
    rows.sort()
    return FINDINGS, table(
        FINDINGS,
        len(rows),
        {
            "ts": np.array([row[0] for row in rows], np.int64),
            "cluster": plan.cluster,
            "node": [row[1] for row in rows],
            "device_id": [row[2] for row in rows],
            "finding": [row[3] for row in rows],
            "severity": [row[4] for row in rows],
            "message": [row[5] for row in rows],
            "source": "simulated",
        },
    )


def _finding_rows(
    fleet: Fleet, found: Sequence[Trouble], blind: Sequence[Blind]
) -> Iterator[tuple[int, str, str, str, str, str]]:
    for trouble in found:
        device = fleet.devices[trouble.device]
        if trouble.xid:
            message = f"XID {trouble.xid}: {trouble.message}"
            yield trouble.start_ms, device.node, device.device_id, "xid", "critical", message
        if trouble.lost:
            yield trouble.start_ms, device.node, device.device_id, "gpu_lost", "critical", trouble.message
    nodes = {device.node for device in fleet.devices}
    for spot in blind:
        if spot.state == "no_permission" and spot.node in nodes:
            yield spot.start_ms, spot.node, "", "no_permission", "warning", "the driver refuses metrics"
