"""The five kinds of GPU-hours that add up to capacity, and how each looks.

Colours work on light and on dark ground. Unknown and unavailable are hatched, so that they differ from zero and from
the plain kinds without colour. Names are in the dictionaries: `kind.<key>`, `kind.<key>_is`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """`key`: as in the columns `<key>_gpu_hours`.   `hatch`: plotly's pattern shape, empty for a plain fill."""

    key: str
    colour: str
    hatch: str = ""


USED = Kind("used", "#3f6ce6")
IDLE = Kind("idle", "#f09a2e")
UNMETERED = Kind("unmetered", "#9479d6", "/")
UNALLOCATED = Kind("unallocated", "rgba(126,141,166,0.34)")
UNAVAILABLE = Kind("unavailable", "rgba(126,141,166,0.85)", "x")

ALLOCATED = (USED, IDLE, UNMETERED)
KINDS = (*ALLOCATED, UNALLOCATED, UNAVAILABLE)
