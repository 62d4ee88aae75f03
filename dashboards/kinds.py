"""The five kinds that every GPU-hour of capacity is one of, and how each looks.

Colours hold on light and on dark ground. What is not known or not available is hatched, so that it can be told
from zero and from the plain kinds without colour.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """`key`: as in the columns `<key>_gpu_hours`.   `hatch`: plotly's pattern shape, empty for a plain fill."""

    key: str
    label: str
    meaning: str
    colour: str
    hatch: str = ""


USED = Kind("used", "Used", "held, and the telemetry says it worked", "#3f6ce6")
IDLE = Kind("idle", "Idle", "held, and the telemetry says it did not: waste", "#f09a2e")
UNMETERED = Kind("unmetered", "Unmetered", "held, but no trustworthy telemetry: unknown, not zero", "#9479d6", "/")
UNALLOCATED = Kind("unallocated", "Unallocated", "free, nobody asked for it", "rgba(126,141,166,0.34)")
UNAVAILABLE = Kind("unavailable", "Unavailable", "down or drained, nobody's charge", "rgba(126,141,166,0.85)", "x")

ALLOCATED = (USED, IDLE, UNMETERED)
KINDS = (*ALLOCATED, UNALLOCATED, UNAVAILABLE)
