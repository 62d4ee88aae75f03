"""Promises: capacity held from a future time for pending jobs, and what one cycle hands to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from scheduler.model import Grant, Request


@dataclass(frozen=True, slots=True)
class Promise:
    """Grants kept for a job during [start, end).

    made_at: when it was promised.   extra: units and bytes over at `start`, by (node, device).   extra_host: milli-CPUs
    and bytes over, by node.   entitled: to a job that stays within what its tenant is guaranteed.   spare: units over
    of what ordinary jobs may hold, by kind of the pools' headroom, of those that it takes of.
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
        """Of which others may take what is over."""
        return replace(self, extra=dict(self.extra), extra_host=dict(self.extra_host), spare=dict(self.spare))


@dataclass(frozen=True, slots=True)
class Promised:
    """Promises as a cycle left them, in the order in which they were made: what it started has taken its part.

    freed, at: of the state, and when, as the first of them were made.   starts: of that cycle, on which they count.
    """

    freed: int
    at: float
    promises: tuple[Promise, ...]
    starts: frozenset[str] = frozenset()


NOTHING_PROMISED = Promised(-1, 0.0, ())


@dataclass(frozen=True, slots=True)
class Estimated:
    """What was announced last: places of jobs without a promise, in the order of their turns. It decides nothing.

    version, freed: of the state then.   behind: job and start of each promise that comes first.   places: as if they
    were promised as well.
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
    """The grants are taken out of what the promise leaves over, or put back (-1); less than nothing is left where they
    break it."""
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
    """Units and bytes by (node, device), grants by node, of what lies where the promise does."""
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
