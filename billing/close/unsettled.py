"""Which disputes the next close must decide again. Pure.

A decision is a claim that was refused, or accepted otherwise than as reported. Decisions on a device that overlap,
directly or through others, are one dispute, together with whatever else was on the device meanwhile: these claims alone
lead to the same decisions again. Who was accepted as reported is so without the others, too. A claim whose end was lost
was in a dispute until the next holder came.

A dispute whose claims all ended before the horizon is settled: what was decided stays published, and its claims are
made again only if a fact from before the horizon arrives, or one about an allocation of which something was decided
(late.sql, late_samples.sql). All other disputes are decided again by each close, because later reports may change the
decision. So is whatever is on a node where only the node of a claim is known, where samples decide, which may come
late.

An allocation whose claims are made again may be one of which something was decided in another, settled dispute; then
that is not settled either.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from billing.close.resolve import FOREVER, Claim, DeviceKey, DeviceState, Resolution

AllocationKey = tuple[str, str]
"""(cluster, allocation_id)"""
HeldElsewhere = Callable[[Collection[AllocationKey], Collection[int]], Collection[AllocationKey]]
"""Those of some allocations that the next close looks at anyway, because they hold something by other claims than the
given ones."""


@dataclass(frozen=True)
class Unsettled:
    """Claims, by number.   again: the next close decides them.   given_up: it does not look at them, although they are
    reported without an end, because their ends were lost in disputes that are settled."""

    again: frozenset[int]
    given_up: frozenset[int]


@dataclass(frozen=True)
class _Dispute:
    """decided: whose claims were not accepted as reported.   given_up: claims, by number, whose ends were lost."""

    claims: Sequence[Claim]
    decided: frozenset[AllocationKey]
    given_up: frozenset[int]
    is_over: bool


def unsettled_claims(
    claims: Sequence[Claim],
    states: Sequence[DeviceState],
    resolution: Resolution,
    horizon_ms: int,
    held_elsewhere: HeldElsewhere,
) -> Unsettled:
    """claims, states: as `resolve` had them."""
    nodes = {(claim.cluster, claim.node) for claim in claims if not claim.device_id}
    open_to_change = {(state.cluster, state.device_id) for state in states if (state.cluster, state.node) in nodes}
    again = [claim for claim in claims if not claim.device_id or claim.device in open_to_change]
    others = [claim for claim in claims if claim.device_id and claim.device not in open_to_change]
    disputes = [*_disputes(others, resolution, horizon_ms)]
    again.extend(claim for dispute in disputes if not dispute.is_over for claim in dispute.claims)
    over = [dispute for dispute in disputes if dispute.is_over]
    decided = {key for dispute in over for key in dispute.decided}
    given_up = {number for dispute in over for number in dispute.given_up}
    carried = {_allocation(claim) for claim in again} | set(held_elsewhere(decided, given_up) if decided else ())
    while reopened := [claim for dispute in over if dispute.decided & carried for claim in dispute.claims]:
        over = [dispute for dispute in over if not dispute.decided & carried]
        again.extend(reopened)
        carried.update(_allocation(claim) for claim in reopened)
    return Unsettled(
        again=frozenset(claim.claim for claim in again),
        given_up=frozenset(number for dispute in over for number in dispute.given_up),
    )


def _disputes(claims: Sequence[Claim], resolution: Resolution, horizon_ms: int) -> Iterator[_Dispute]:
    refused = {refusal.claim.claim for refusal in resolution.refused}
    kept = {claim.claim: claim for claim in resolution.kept}
    moved = {claim.claim for claim in claims if claim.claim in kept and _is_moved(claim, kept[claim.claim])}
    by_device: dict[DeviceKey, list[Claim]] = defaultdict(list)
    for claim in claims:
        by_device[claim.device].append(claim)
    for on_device in by_device.values():
        spans = {claim.claim: _span(claim, refused, resolution.lost_ends) for claim in on_device}
        for together in _together(on_device, spans, moved | refused):
            given_up = frozenset(claim.claim for claim in together if claim.claim in resolution.lost_ends)
            is_over = all(resolution.lost_ends.get(claim.claim, claim.end_ms) <= horizon_ms for claim in together)
            decided = frozenset(_allocation(claim) for claim in together if claim.claim in moved | refused)
            yield _Dispute(together, decided, given_up, is_over)


def _span(claim: Claim, refused: Collection[int], lost_ends: Mapping[int, int]) -> tuple[int, int]:
    """When it was in others' way, or they in its, in ms: [start, end)."""
    if (until := lost_ends.get(claim.claim)) is not None:
        return claim.start_ms, until + 1
    if claim.claim in refused and claim.end_ms >= FOREVER:
        return claim.start_ms, claim.start_ms + 1
    return claim.start_ms, claim.end_ms


def _together(
    claims: Sequence[Claim], spans: Mapping[int, tuple[int, int]], decided: Collection[int]
) -> Iterator[Sequence[Claim]]:
    """Groups of decided claims of a device that overlap, each with what overlaps with one of them."""
    starts: list[int] = []
    ends: list[int] = []
    for start_ms, end_ms in sorted(spans[claim.claim] for claim in claims if claim.claim in decided):
        if ends and start_ms < ends[-1]:
            ends[-1] = max(ends[-1], end_ms)
        else:
            starts.append(start_ms)
            ends.append(end_ms)
    groups: list[list[Claim]] = [[] for _ in starts]
    for claim in claims:
        start_ms, end_ms = spans[claim.claim]
        for number in range(bisect_right(ends, start_ms), bisect_left(starts, end_ms)):
            groups[number].append(claim)
    yield from groups


def _is_moved(reported: Claim, kept: Claim) -> bool:
    return bool(kept.estimated) or (kept.start_ms, kept.end_ms) != (reported.start_ms, reported.end_ms)


def _allocation(claim: Claim) -> AllocationKey:
    return claim.cluster, claim.allocation_id
