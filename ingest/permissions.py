"""What a sender may write: which clusters, nodes, services, record types and times its rows may be about.

A row outside of these goes to quarantine. A row within them may still be held for approval: if it is older than the
sender may write by itself, or contradicts the inventory (`Doubt`).
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
"""How far back a sender may write by default: as long as agents spool; a watcher's first report of a cluster has the
whole lifecycle of all that runs."""

OUT_OF_PLACE = "out_of_place"
"""Reason in the quarantine."""
BEYOND_WINDOW = "beyond_window"
DEVICE_ELSEWHERE = "device_elsewhere"
DEVICE_CHANGED = "device_changed"
ALLOCATION_ELSEWHERE = "allocation_elsewhere"
ISSUED_MONTH = "issued_month"
HELD_FOR = (BEYOND_WINDOW, DEVICE_ELSEWHERE, DEVICE_CHANGED, ALLOCATION_ELSEWHERE, ISSUED_MONTH)
"""Reasons for which rows are held; the page of held pushes has words for each."""

DeviceLocation = tuple[str, str, str, str]
"""Cluster, node, model and pool of a device in the inventory; a removed device has none."""


@dataclass(frozen=True)
class Permissions:
    """records, clusters, nodes, services: what it may write about.   back: how far back; None: by default; `all`: any
    time.

    past: what happens to rows that are too old: held, or refused (quarantined).
    inventory: whether it may change a device's node, model and pool.
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

    def on_node(self, node: str) -> Permissions:
        """The same permissions, limited to this node."""
        return replace(self, nodes=(_exactly(node),))


@dataclass(frozen=True)
class Doubt:
    """Why a row is not simply stored. detail: in words, for the person who decides."""

    reason: str
    detail: str


def fits(name: str, names: Names) -> bool:
    return names == ALL or any(fnmatchcase(name, pattern) for pattern in names)


def other_clusters(permissions: Permissions, table: pa.Table) -> list[str]:
    """Clusters named by the rows that the sender may not write about."""
    if permissions.clusters == ALL:
        return []
    return sorted(name for name in _texts(table, "cluster") if not fits(name, permissions.clusters))


def out_of_place(permissions: Permissions, record: RecordType, table: pa.Table) -> dict[int, Doubt]:
    """Rows about nodes, or services, that are not the sender's. Only senders with `all` may write rows without a name.

    service_levels have no node: there, only the service is checked.
    """
    column, names, what = "node", permissions.nodes, "node"
    if record.name == "service_levels":
        column, names, what = "service", permissions.services or (() if permissions.nodes != ALL else ALL), "service"
    if names == ALL or all(fits(name, names) for name in _texts(table, column)):
        return {}
    codes, groups = distinct(table, [column])
    others = {code: name for code, (name,) in enumerate(groups) if not fits(name, names)}
    return {
        int(index): Doubt(OUT_OF_PLACE, f"{what} {others[codes[index]][:100]!r} is not the sender's")
        for index in (np.flatnonzero(np.isin(codes, list(others))) if others else ())
    }


def beyond_window(permissions: Permissions, record: RecordType, table: pa.Table, now: datetime) -> dict[int, Doubt]:
    """Rows that are older than the sender may write without approval."""
    window = permissions.window(record.name)
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
    permissions: Permissions,
    record: RecordType,
    table: pa.Table,
    known: Callable[[Iterable[str]], Mapping[str, DeviceLocation]],
) -> dict[int, Doubt]:
    """Rows about devices that the inventory has on another node or cluster, and device rows with another model or pool.

    known: locations of these devices; devices without one are left out.
    """
    limited = permissions.nodes != ALL or permissions.clusters != ALL
    if permissions.inventory or not len(table) or "device_id" not in table.column_names:
        return {}
    if not (limited or record.name == "devices"):
        return {}
    names = ["cluster", "device_id"]
    # Of an allocation's rows the node may be left out.
    names += [name for name in ("node", "model", "pool") if name in table.column_names]
    if record.name != "devices":
        names = [name for name in names if name not in ("model", "pool")]
    whereabouts = known({device for device in _texts(table, "device_id") if device})
    if not whereabouts or (record.name != "devices" and _is_at(table, whereabouts.values())):
        return {}
    codes, groups = distinct(table, names)
    doubts: dict[int, Doubt] = {}
    for code, group in enumerate(groups):
        about = dict(zip(names, group, strict=True))
        at = whereabouts.get(about["device_id"])
        doubt = None if at is None else _doubt(permissions, record, about, at)
        if doubt is not None:
            doubts |= {int(index): doubt for index in np.flatnonzero(codes == code)}
    return doubts


def _is_at(table: pa.Table, known: Iterable[DeviceLocation]) -> bool:
    """Whether all rows are about the one place where the known devices are, as a node's are."""
    (cluster, node), *others = {(at[0], at[1]) for at in known}
    nodes = _texts(table, "node") if "node" in table.column_names else [node]
    return not others and _texts(table, "cluster") == [cluster] and nodes == [node]


def _doubt(permissions: Permissions, record: RecordType, about: Mapping[str, str], at: DeviceLocation) -> Doubt | None:
    cluster, node, model, pool = at
    says_node = record.name != "events" or about.get("node")
    elsewhere = about["cluster"] != cluster or (says_node and about.get("node", node) != node)
    if elsewhere and (record.name == "devices" or permissions.nodes != ALL or about["cluster"] != cluster):
        return Doubt(DEVICE_ELSEWHERE, f"{about['device_id'][:100]} is in cluster {cluster!r}, node {node!r}")
    if record.name == "devices" and (about["model"], about["pool"]) != (model, pool):
        return Doubt(DEVICE_CHANGED, f"{about['device_id'][:100]} is known as model {model!r}, pool {pool!r}")
    return None


def distinct(table: pa.Table, names: Iterable[str]) -> tuple[npt.NDArray[np.int64], list[tuple[str, ...]]]:
    """The distinct combinations of some text columns, and for each row the index of its combination."""
    arrays = [one_array(table[name]) for name in names]
    codes, kinds = np.zeros(len(table), np.int64), 1
    indices = []
    for array in arrays:
        indices.append(array.indices.to_numpy())
        own = max(1, len(array.dictionary))
        if kinds * own >= 1 << 62:
            codes = np.unique(codes, return_inverse=True)[1]
            kinds = len(table)
        kinds *= own
        codes = codes * own + indices[-1]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    texts = (
        array.dictionary.take(pa.array(own[first])).to_pylist() for array, own in zip(arrays, indices, strict=True)
    )
    return inverse, list(zip(*texts, strict=True))


def _texts(table: pa.Table, name: str) -> list[str]:
    """The distinct texts of a column."""
    array = one_array(table[name])
    found: list[str] = array.dictionary.take(pc.unique(array.indices)).to_pylist()
    return found


def _exactly(name: str) -> str:
    """A pattern that matches this name only."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _span(window: timedelta) -> str:
    return f"{window.days}d" if window.days and not window.seconds else f"{window.total_seconds() / 3600:g}h"
