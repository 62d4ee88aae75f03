"""What idle policies gave back, as a section of an invoice's or statement's page: in none of the amounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from billing.documents.figures import hours, money, price, since_in_words, until_in_words
from billing.money import minor_digits

LISTED = 20
"""How many reclaims are named; of more, those of the most GPU-hours."""
TITLE = "Given back by idle policies"
MORE = "for information, not part of the amount"
ENDS = {
    "resumed": "it asked for GPUs again",
    "grew": "it was given more GPUs",
    "rescaled": "somebody changed its replicas",
    "ended": "it ended",
    "time_limit": "its time limit",
    "month_end": "the end of the month: at most",
    "books_end": "the end of the books so far: at most",
}
"""Why a reclaim counts no longer."""
NOTE = (
    "GPUs that the scheduler took back from idle workloads. For how long these would have kept them is not known: "
    "they count until the workload asked for GPUs again, grew, was rescaled, ended or met its time limit, or the month "
    "ended. "
    "Costs are at the contract price last billed for the same GPUs, before minimums, commitments, discounts and taxes."
)


@dataclass(frozen=True)
class Reclaimed:
    """A reclaim, or a sum of several."""

    title: str
    more: str
    gpus: str
    hours: str
    cost: str


@dataclass(frozen=True)
class GivenBack:
    """The section; the last of `sums` is of what is an upper bound, where any is."""

    title: str
    more: str
    note: str
    rows: list[Reclaimed]
    sums: list[Reclaimed]


def given_back(document: Mapping[str, Any]) -> GivenBack | None:
    """None: the document has none of it."""
    section = document.get("idle_reclaims")
    if not section:
        return None
    reclaims: Sequence[Mapping[str, Any]] = section["reclaims"]
    listed = sorted(reclaims, key=lambda one: -Decimal(one["gpu_hours"]))[:LISTED]
    others = len(reclaims) - len(listed)
    zone, digits = document["period"]["timezone"], minor_digits(document["currency"])
    sums = [_sum("Total", f"with {others:,} not listed" if others else "", section, digits)]
    if section["at_most"]:
        why = "nothing but the end of the month, or of the books, has ended it"
        sums.append(_sum("of which at most", why, section["at_most"], digits))
    rows = [_row(one, zone, digits) for one in reclaims if one in listed]
    return GivenBack(TITLE, MORE, NOTE, rows, sums)


def _row(one: Mapping[str, Any], zone: str, digits: int) -> Reclaimed:
    by = "the idle policy" if one["by"] == "policy" else "an operator, as the idle policy allows"
    evidence = f": {one['evidence']}" if one["evidence"] else ""
    act = f"{one['act']} {since_in_words(one['at'], zone)}, by {by}{evidence}"
    until = until_in_words(one["until"], zone)
    more = f"{act} · until {until}: {ENDS.get(one['until_because'], one['until_because'])}"
    project = f"project {one['project']} · " if one["project"] else ""
    return Reclaimed(one["workload"], project + more, price(one["gpus"]), hours(one["gpu_hours"]), _cost(one, digits))


def _sum(title: str, more: str, of: Mapping[str, Any], digits: int) -> Reclaimed:
    return Reclaimed(title, more, "", hours(of["gpu_hours"]), _cost(of, digits))


def _cost(of: Mapping[str, Any], digits: int) -> str:
    """With how many hours of it have no price."""
    if of["cost"] is None:
        return "unknown"
    unpriced = Decimal(of["unpriced_gpu_hours"])
    without = f" (without {hours(unpriced)} GPU-hours that have no price)" if unpriced else ""
    return money(round(Decimal(of["cost"]), digits)) + without
