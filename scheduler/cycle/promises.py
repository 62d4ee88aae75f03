"""Promises: capacity held for pending jobs from a future time on, and what one cycle passes to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from scheduler.model import Grant, Request


@dataclass(frozen=True, slots=True)
class Promise:
    """Grants held for a job during [start, end).

    made_at: when it was promised.   extra: units and bytes left over at `start`, by (node, device).   extra_host:
    milli-CPUs and bytes left over, by node.   entitled: whether the job stays within its tenant's guarantee.   spare:
    units left over for ordinary jobs, by the kinds of headroom that the promise takes from.
    """

    job_id: str
    start: float
    end: float
    grants: tuple[Grant, ...]
    request: Request
    extra: dict[tuple[int, int], tuple[int, int]]
    extra_host: dict[int, tuple[int, int]]
    made_at: float
    entitled: bool = False
    spare: dict[int, int] = field(default_factory=dict)

    def copy(self) -> Promise:
        """A copy, of which other jobs may consume what is left over."""
        return replace(self, extra=dict(self.extra), extra_host=dict(self.extra_host), spare=dict(self.spare))


@dataclass(frozen=True, slots=True)
class Promised:
    """The promises after a cycle, in the order in which they were made; its starts have consumed their part.

    freed, at: `State.freed` and the time when the first was made.   starts: the starts of that cycle that they assume.
    """

    freed: int
    at: float
    promises: tuple[Promise, ...]
    starts: frozenset[str] = frozenset()


NOTHING_PROMISED = Promised(-1, 0.0, ())


@dataclass(frozen=True, slots=True)
class Estimated:
    """Estimated starts of jobs without a promise, in order. They affect no decision.

    version, freed: of the state then.   behind: job and start of each promise before them.   places: the promises that
    they would get.
    """

    version: int
    freed: int
    behind: tuple[tuple[str, float], ...]
    places: tuple[Promise, ...]


NOTHING_ESTIMATED = Estimated(-1, -1, (), ())


def leaves(promise: Promise, grants: Sequence[Grant], request: Request) -> bool:
    """Whether the grants take no more than the promise leaves over."""
    units, memory, nodes = _used(grants, request, promise)
    if any(taken > promise.extra[at][0] for at, taken in units.items()):
        return False
    if any(taken > promise.extra[at][1] for at, taken in memory.items() if taken):
        return False
    if any(grant.profile and (grant.node, d) in promise.extra for grant in grants for d in grant.devices):
        return False
    return all(
        count * request.cpu_milli <= promise.extra_host[node][0]
        and count * request.host_memory_bytes <= promise.extra_host[node][1]
        for node, count in nodes.items()
    )


def consume(promise: Promise, grants: Sequence[Grant], request: Request, times: int = 1) -> None:
    """Takes the grants from what the promise leaves over, or puts them back (-1); a negative rest breaks the
    promise."""
    units, memory, nodes = _used(grants, request, promise)
    for at, taken in units.items():
        left, bytes_left = promise.extra[at]
        promise.extra[at] = (left - times * taken, bytes_left - times * memory[at])
    for node, count in nodes.items():
        cpu, host = promise.extra_host[node]
        count *= times
        promise.extra_host[node] = (cpu - count * request.cpu_milli, host - count * request.host_memory_bytes)


def _used(
    grants: Sequence[Grant], request: Request, promise: Promise
) -> tuple[Counter[tuple[int, int]], Counter[tuple[int, int]], Counter[int]]:
    """Units and bytes by (node, device), and grants by node, that overlap the promise."""
    units: Counter[tuple[int, int]] = Counter()
    memory: Counter[tuple[int, int]] = Counter()
    nodes: Counter[int] = Counter()
    for grant in grants:
        if grant.node in promise.extra_host:
            nodes[grant.node] += 1
            for device, held in zip(grant.devices, grant.units, strict=True):
                if (grant.node, device) in promise.extra:
                    units[grant.node, device] += held
                    memory[grant.node, device] += request.memory_bytes
    return units, memory, nodes
