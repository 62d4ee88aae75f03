"""The inputs of the published fragmentation experiment: nodes, workloads, arrival and tie orders by seed.

Files, in one folder: csv/openb_node_list_gpu_node.csv (the nodes), csv/openb_pod_list_<workload>.csv (what a workload
asks for), event_order/<workload>_pods.csv (arrivals by seed), event_order/<workload>_nodes.csv (which node wins ties);
each may be gzipped.
Source: hkust-adsl/kubernetes-scheduler-simulator (Weng et al., "Beware of Fragmentation", USENIX ATC 2023).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from collectors.errors import CollectorError
from collectors.traces.files import read_rows
from scheduler.model import Device, Node, Request
from scheduler.placement.fragmentation import Demand, demand_of

MILLI = 1000
"""Units of a device: the trace asks for thousandths."""
_MIB = 1 << 20


class PodShape(NamedTuple):
    """What a pod asks for, in the order in which the published simulator sorts shapes. It leaves memory out of it, and
    keeps the text of `gpu_spec`, so that two spellings of one set of models are two shapes."""

    cpu_milli: int
    gpu_milli: int
    gpus: int
    gpu_spec: str

    @property
    def arriving_milli(self) -> int:
        return self.gpu_milli * self.gpus


@dataclass(frozen=True)
class Workload:
    """pods: by name.   arrivals: names by seed.   nodes: in the order of each seed, first wins ties.   demand: what is
    typically asked for, from the pods listed."""

    name: str
    shapes: dict[str, PodShape]
    requests: dict[str, Request]
    arrivals: dict[int, list[str]]
    nodes: dict[int, list[Node]]
    demand: Demand = field(repr=False)

    def seeds(self, wanted: Sequence[int]) -> list[int]:
        """Errors: CollectorError naming a seed that is not there."""
        missing = [seed for seed in wanted if seed not in self.arrivals or seed not in self.nodes]
        if missing:
            there = ", ".join(str(seed) for seed in sorted(set(self.arrivals) & set(self.nodes)))
            raise CollectorError(f"workload {self.name}", f"has no seed {missing[0]}", f"It has {there}")
        return list(wanted)


def read_workload(folder: Path, name: str) -> Workload:
    """Errors: CollectorError naming the file, and the row or what is missing."""
    pods = read_rows(
        _file(folder, f"csv/openb_pod_list_{name}.csv", "csv/openb_pod_list_*.csv*"),
        ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
        ("gpu_spec",),
        _pod,
    )
    nodes = {node.name: node for node in read_nodes(folder)}
    arrivals = _by_seed(folder, f"event_order/{name}_pods.csv", "seq", "name", {pod for pod, _s, _m in pods})
    orders = _by_seed(folder, f"event_order/{name}_nodes.csv", "rank", "sn", set(nodes))
    requests: dict[tuple[PodShape, int], Request] = {}
    return Workload(
        name,
        {pod: shape for pod, shape, _memory in pods},
        {pod: requests.setdefault((shape, memory), _request(shape, memory)) for pod, shape, memory in pods},
        arrivals,
        {seed: [nodes[node] for node in order] for seed, order in orders.items()},
        _demand([shape for _pod, shape, _memory in pods]),
    )


def read_nodes(folder: Path) -> list[Node]:
    """The nodes of every workload."""
    path = _file(folder, "csv/openb_node_list_gpu_node.csv", "csv/*node*.csv*")
    return read_rows(path, ("sn", "cpu_milli", "memory_mib", "gpu", "model"), (), _node)


def _demand(shapes: list[PodShape]) -> Demand:
    counted = sorted(((count, shape) for shape, count in Counter(shapes).items()), reverse=True)
    return demand_of([(_request(shape, 0), count) for count, shape in counted])


def _request(shape: PodShape, memory_bytes: int) -> Request:
    return Request(
        devices=shape.gpus,
        units=shape.gpu_milli,
        cpu_milli=shape.cpu_milli,
        host_memory_bytes=memory_bytes,
        models=frozenset(filter(None, shape.gpu_spec.split("|"))),
    )


def _pod(row: dict[str, str]) -> tuple[str, PodShape, int]:
    gpus, milli = int(row["num_gpu"]), int(row["gpu_milli"])
    if gpus < 0 or (gpus and not 1 <= milli <= MILLI):
        raise ValueError(f"num_gpu is {gpus} and gpu_milli {milli}, not 1 to {MILLI} of each")
    cpu, memory = int(row["cpu_milli"]), int(row["memory_mib"])
    if cpu < 0 or memory < 0:
        raise ValueError(f"cpu_milli is {cpu} and memory_mib {memory}: below nothing")
    spec = (row.get("gpu_spec") or "") if gpus else ""
    return row["name"], PodShape(cpu, milli if gpus else 0, gpus, spec), memory * _MIB


def _node(row: dict[str, str]) -> Node:
    devices = tuple(Device(f"{row['sn']}/{gpu}", row["model"], MILLI) for gpu in range(int(row["gpu"])))
    return Node(row["sn"], devices, int(row["cpu_milli"]), int(row["memory_mib"]) * _MIB)


def _by_seed(folder: Path, name: str, order: str, column: str, known: set[str]) -> dict[int, list[str]]:
    """Names by seed, in their order. Errors: also a name that the lists do not know."""

    def parse(row: dict[str, str]) -> tuple[int, int, str]:
        if row[column] not in known:
            raise ValueError(f"{column} {row[column]!r} is not in the list of csv/")
        return int(row["seed"]), int(row[order]), row[column]

    rows = read_rows(_file(folder, name, "event_order/*.csv*"), ("seed", order, column), (), parse)
    found: dict[int, list[str]] = {}
    for seed, _place, item in sorted(rows):
        found.setdefault(seed, []).append(item)
    return found


def _file(folder: Path, name: str, others: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    there = ", ".join(sorted(path.name for path in folder.glob(others))) or "nothing of the kind"
    raise CollectorError(str(folder / name), "no such file, plain or .gz", f"There is {there}")
