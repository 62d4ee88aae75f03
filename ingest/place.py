"""A sender's rights: which nodes, services and times its rows may be about.

A row out of its place goes to quarantine. A row in its place may still have to wait for a person: it is older than the
sender's window, or says of a device what the inventory does not (`Doubt`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.columns import TIME, one_array
from warehouse.records import RECORD_TYPES, RecordType

ALL: Literal["all"] = "all"
Names = tuple[str, ...] | Literal["all"]
"""Names or patterns (`gpu-*`), or all there are."""

DEFAULT_BACK: Mapping[str, timedelta] = {
    **dict.fromkeys(RECORD_TYPES, timedelta(days=7)),
    "events": timedelta(days=31),
}
"""How far back a sender may write of itself if it does not say: as long as agents spool; schedulers tell the whole life
of what runs when they are first asked."""

OUT_OF_PLACE = "out_of_place"
"""Reason in the quarantine."""
BEYOND_WINDOW = "beyond_window"
DEVICE_ELSEWHERE = "device_elsewhere"
DEVICE_CHANGED = "device_changed"
ALLOCATION_ELSEWHERE = "allocation_elsewhere"
ISSUED_MONTH = "issued_month"
HELD_FOR = (BEYOND_WINDOW, DEVICE_ELSEWHERE, DEVICE_CHANGED, ALLOCATION_ELSEWHERE, ISSUED_MONTH)
"""Reasons for which rows are held; the page of held pushes has words for each."""

Whereabouts = tuple[str, str, str, str]
"""Of a device: cluster, node, model, pool, as the inventory has them; a device that was removed is nowhere."""


@dataclass(frozen=True)
class Place:
    """records, clusters, nodes, services: what it may tell of.   back: how far, where not as by default; None: any.

    past: what becomes of rows of the past that it may not write by itself: held, or refused (quarantined).
    inventory: whether it may say anew where a device stands, its model and its pool.
    """

    records: Names
    clusters: Names
    nodes: Names
    services: Names = ()
    back: timedelta | Literal["all"] | None = None
    past: Literal["held", "refused"] = "held"
    inventory: bool = False

    def may_send(self, record: str) -> bool:
        return self.records == ALL or record in self.records

    def window(self, record: str) -> timedelta | None:
        """How far back it may write; None: any time."""
        if self.back == ALL:
            return None
        return DEFAULT_BACK[record] if self.back is None else self.back

    def on_node(self, node: str) -> Place:
        """The same for a sender that stands on this node, and tells of nothing else."""
        return replace(self, nodes=(_exactly(node),))


@dataclass(frozen=True)
class Doubt:
    """Why a row is not simply stored. detail: in words, for the person who decides."""

    reason: str
    detail: str


def fits(name: str, names: Names) -> bool:
    return names == ALL or any(fnmatchcase(name, pattern) for pattern in names)


def other_clusters(place: Place, table: pa.Table) -> list[str]:
    """Clusters that the rows name and that are not the sender's."""
    if place.clusters == ALL:
        return []
    return sorted(name for name in table["cluster"].unique().to_pylist() if not fits(name, place.clusters))


def out_of_place(place: Place, record: RecordType, table: pa.Table) -> dict[int, Doubt]:
    """Rows of nodes, or of services, that are not the sender's. A row that names none is nobody's but theirs who may
    tell of all.

    service_levels have no node: what a sender with nodes may tell of is its services.
    """
    column, names, what = "node", place.nodes, "node"
    if record.name == "service_levels":
        column, names, what = "service", place.services or (() if place.nodes != ALL else ALL), "service"
    if names == ALL:
        return {}
    codes, groups = distinct(table, [column])
    others = {code: name for code, (name,) in enumerate(groups) if not fits(name, names)}
    return {
        int(index): Doubt(OUT_OF_PLACE, f"{what} {others[codes[index]][:100]!r} is not the sender's")
        for index in (np.flatnonzero(np.isin(codes, list(others))) if others else ())
    }


def beyond_window(place: Place, record: RecordType, table: pa.Table, now: datetime) -> dict[int, Doubt]:
    """Rows that are older than the sender may write by itself."""
    window = place.window(record.name)
    if window is None or not len(table):
        return {}
    earliest = now - window
    oldest = pc.min(table["ts"]).as_py()
    if oldest >= earliest:
        return {}
    old = pc.less(table["ts"], pa.scalar(earliest, TIME)).to_numpy(zero_copy_only=False)
    detail = f"before {earliest:%FT%TZ}, and the sender may write {_span(window)} back"
    return {int(index): Doubt(BEYOND_WINDOW, detail) for index in np.flatnonzero(old)}


def placed_elsewhere(
    place: Place, record: RecordType, table: pa.Table, known: Callable[[Iterable[str]], Mapping[str, Whereabouts]]
) -> dict[int, Doubt]:
    """Rows of devices that the inventory places on a node or cluster that is not the one they name, and device rows
    that say another model or pool than it has.

    known: where these devices are; one that is nowhere is not in the answer.
    """
    limited = place.nodes != ALL or place.clusters != ALL
    if place.inventory or not len(table) or "device_id" not in table.column_names:
        return {}
    if not (limited or record.name == "devices"):
        return {}
    names = ["cluster", "device_id"]
    # Of an allocation's rows the node may be left out.
    names += [name for name in ("node", "model", "pool") if name in table.column_names]
    if record.name != "devices":
        names = [name for name in names if name not in ("model", "pool")]
    codes, groups = distinct(table, names)
    whereabouts = known({group[1] for group in groups if group[1]})
    doubts: dict[int, Doubt] = {}
    for code, group in enumerate(groups):
        about = dict(zip(names, group, strict=True))
        at = whereabouts.get(about["device_id"])
        doubt = None if at is None else _doubt(place, record, about, at)
        if doubt is not None:
            doubts |= {int(index): doubt for index in np.flatnonzero(codes == code)}
    return doubts


def _doubt(place: Place, record: RecordType, about: Mapping[str, str], at: Whereabouts) -> Doubt | None:
    cluster, node, model, pool = at
    says_node = record.name != "events" or about.get("node")
    elsewhere = about["cluster"] != cluster or (says_node and about.get("node", node) != node)
    if elsewhere and (record.name == "devices" or place.nodes != ALL or about["cluster"] != cluster):
        return Doubt(DEVICE_ELSEWHERE, f"{about['device_id'][:100]} stands in cluster {cluster!r}, node {node!r}")
    if record.name == "devices" and (about["model"], about["pool"]) != (model, pool):
        return Doubt(DEVICE_CHANGED, f"{about['device_id'][:100]} is known as model {model!r}, pool {pool!r}")
    return None


def distinct(table: pa.Table, names: Iterable[str]) -> tuple[npt.NDArray[np.int64], list[tuple[str, ...]]]:
    """The distinct combinations of some text columns, and for each row the number of its own."""
    arrays = [one_array(table[name]) for name in names]
    codes, kinds = np.zeros(len(table), np.int64), 1
    for array in arrays:
        if kinds * max(1, len(array.dictionary)) >= 1 << 62:
            codes = np.unique(codes, return_inverse=True)[1]
            kinds = len(table)
        kinds *= max(1, len(array.dictionary))
        codes = codes * max(1, len(array.dictionary)) + array.indices.to_numpy().astype(np.int64)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return inverse, list(zip(*(array.take(pa.array(first)).to_pylist() for array in arrays), strict=True))


def _exactly(name: str) -> str:
    """A pattern that fits this name alone."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _span(window: timedelta) -> str:
    return f"{window.days}d" if window.days and not window.seconds else f"{window.total_seconds() / 3600:g}h"
