"""The JSON of OpenCost's AllocationJSON: its field names, its rounding done later and finer.

What the ledger does not measure (CPU, memory, volumes, network) is 0, as OpenCost has it where it finds nothing; what
the ledger knows to be unknown (no price, no telemetry) is null. `gpuledger` holds the exact figures as text.
Source: core/pkg/opencost/allocation_json.go, allocationprops.go and allocation.go of opencost/opencost (2026).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing.exact import DIGITS, NANO, quotient, rounded
from billing.opencost.allocation import Allocation, Allocations
from billing.opencost.words import LABELS, PROPERTIES
from warehouse.instants import rfc3339

NOT_MEASURED = dict.fromkeys(
    (
        "cpuCores", "cpuCoreRequestAverage", "cpuCoreLimitAverage", "cpuCoreUsageAverage", "cpuCoreHours", "cpuCost",
        "cpuCostAdjustment", "cpuCostIdle", "cpuEfficiency", "networkTransferBytes", "networkReceiveBytes",
        "networkCost", "networkCrossZoneCost", "networkCrossRegionCost", "networkInternetCost",
        "networkCostAdjustment", "loadBalancerCost", "loadBalancerCostAdjustment", "pvBytes", "pvByteHours", "pvCost",
        "pvCostAdjustment", "ramBytes", "ramByteRequestAverage", "ramByteLimitAverage", "ramByteUsageAverage",
        "ramByteHours", "ramCost", "ramCostAdjustment", "ramCostIdle", "ramEfficiency", "externalCost", "sharedCost",
    ),
    0.0,
)  # fmt: skip

_MINUTE = timedelta(minutes=1)


def response(answer: Allocations) -> dict[str, Any]:
    """The whole answer; `warning`, where there is one, is OpenCost's own field for it."""
    document = success(
        [{name: allocation_json(found, answer.currency) for name, found in one.items()} for one in answer.sets]
    )
    return {**document, "warning": "; ".join(answer.warnings)} if answer.warnings else document


def success(data: Any) -> dict[str, Any]:
    """What was asked, in the envelope that every answer comes in."""
    return {"code": 200, "status": "success", "data": data}


def error(code: int, message: str) -> dict[str, Any]:
    """An error, in OpenCost's format."""
    return {"code": code, "data": None, "message": f"Error: {message}"}


def allocation_json(found: Allocation, currency: str | None) -> dict[str, Any]:
    """One allocation. Costs are in the rate card's currency; `gpuCost` at list price with the share of idle time,
    `gpuCostAdjustment` brings it to the contracted price, `totalCost` is both."""
    held = found.held
    minutes = (found.end - found.start) / _MINUTE
    hours = held.quantity / held.scale.hour
    count = hours * 60 / minutes
    metered = 0 if found.is_platform else held.quantity - held.kinds["unmetered"]
    efficiency = held.kinds["used"] / metered if metered else None
    priced = held.priced or not held.unpriced
    money = held.scale.hour * NANO
    cost = _sum(held.listed, money, found.idle_cost) if priced else None
    adjustment = (held.contracted - held.listed) / money if priced else None
    total = _sum(held.contracted, money, found.idle_cost) if priced else None
    return {
        "name": found.name,
        "properties": _properties(found.properties),
        "window": {"start": _instant(found.window.start), "end": _instant(found.window.end)},
        "start": _instant(found.start),
        "end": _instant(found.end),
        "minutes": _number(minutes),
        **NOT_MEASURED,
        "gpuCount": _number(count),
        "gpuHours": _number(hours),
        "gpuCost": _number(cost),
        "gpuCostAdjustment": _number(adjustment),
        "gpuCostIdle": _number(float(found.idle_cost)),
        "gpuEfficiency": _number(efficiency),
        "pvs": None,
        "lbAllocations": None,
        "totalCost": _number(total),
        "totalEfficiency": _number(efficiency),
        "gpuAllocation": None if found.is_platform else _gpu(found, count, efficiency),
        "gpuledger": _exact(found, priced, currency),
    }


def _gpu(found: Allocation, count: float, efficiency: float | None) -> dict[str, Any]:
    """`gpuUsageAverage` is of the metered time, as an average over samples is; in GPUs, so that usage / request is the
    efficiency also of a pod with eight."""
    named = {"gpuModel": found.properties["model"], "gpuUUID": found.properties["device"]}
    return {
        **{key: value for key, value in named.items() if value},
        "isGPUShared": found.shared,
        "gpuUsageAverage": _number(None if efficiency is None else count * efficiency),
        "gpuRequestAverage": _number(count),
    }


def _exact(found: Allocation, priced: bool, currency: str | None) -> dict[str, Any]:
    """Exact to nine digits. Hours of the platform's own time are neither used nor idle: nobody held them."""
    held = found.held
    kinds = {} if found.is_platform else {kind: held.scale.hours(part) for kind, part in held.kinds.items()}
    amounts: dict[str, Decimal | None] = {
        "gpuHours": held.hours(),
        **{f"{kind}GpuHours": hours for kind, hours in kinds.items()},
        "unpricedGpuHours": held.scale.hours(held.unpriced),
        "totalCost": _total(found) if priced else None,
    }
    texts = {key: None if value is None else format(value, "f") for key, value in amounts.items()}
    return {**texts, "currency": currency}


def _properties(known: Mapping[str, str | None]) -> dict[str, Any]:
    """Without what is unknown or differs, as OpenCost leaves out what is empty."""
    properties: dict[str, Any] = {key: known[key] for key in PROPERTIES if known[key]}
    labels = {key: known[key] for key in LABELS if known[key]}
    return {**properties, "labels": labels} if labels else properties


def _total(found: Allocation) -> Decimal:
    if found.idle_cost:
        return rounded(found.held.billed() + found.idle_cost)
    return quotient(found.held.contracted, found.held.scale.hour * NANO)


def _sum(amount: int, one: int, idle_cost: Fraction) -> float:
    """The amount, an integer on a scale on which `one` is a unit of currency, and the share of idle time's cost."""
    return float(Fraction(amount, one) + idle_cost) if idle_cost else amount / one


def _number(value: float | None) -> float | None:
    """What came from exact integers, divided once, without digits that no double can promise."""
    return None if value is None else round(value, DIGITS)


@functools.lru_cache(4096)
def _instant(at: datetime) -> str:
    return rfc3339(at).replace(".000Z", "Z")
