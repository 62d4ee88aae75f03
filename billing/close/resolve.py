"""Decides which of several contradictory claims the books accept. Pure; works on a handful of claims.

Claims are admitted in order of their start (then by allocation). A claim that does not fit into what the device has
left is refused as a whole, unless an open claim is in its way: that one has lost its end event, and is ended at its
last sign of life. If a device comes to have fewer units, the claims that no longer fit end there. Where timestamps are
whole seconds, the end of one holder may be a second after the start of the next: the start is believed, and the earlier
claim ends there; a claim that lasts only that second is refused.

If only the node is known, a device is chosen for each GPU and instant: one that the workload's own samples name, else
the one that stays free longest, then by id. So a GPU moves to another device when a claim that names the device comes;
only the time for which the node has no device left is refused.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

FOREVER = 1 << 62
"""End of what has no known end, in ms since the epoch."""

STAMP_MS = 1000
"""How much two holders of a device may overlap if their stamps are whole seconds."""

SILENT = "end lost: last sign of life of a silent workload"
LOST = "end lost: last sign of life before the next holder"

DeviceKey = tuple[str, str]
"""(cluster, device_id)"""


@dataclass(frozen=True)
class Claim:
    """An allocation claims `units` (0: all) of a device during [start_ms, end_ms); device_id '' = any of the node."""

    claim: int
    cluster: str
    allocation_id: str
    workload_id: str
    tenant: str
    node: str
    device_id: str
    partition_id: str
    units: int
    gpus: float
    start_ms: int
    end_ms: int
    estimated: str = ""
    part: int = 0
    place: int = 0
    """part: 0, or which piece of a claim on a node this is.   place: after how many pieces it was given a device."""

    @property
    def source_claim(self) -> int:
        """The claim that was reported; one on a node becomes a `part` for each device it got."""
        return (self.claim - self.part) % (1 << 64)

    @property
    def device(self) -> DeviceKey:
        return self.cluster, self.device_id

    @property
    def order(self) -> tuple[int, str, str, str, int]:
        return self.start_ms, self.allocation_id, self.device_id, self.partition_id, self.place


@dataclass(frozen=True)
class DeviceState:
    """A device had `units` and stood in `node` during [start_ms, end_ms)."""

    cluster: str
    device_id: str
    node: str
    units: int
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Refusal:
    """A claim that the books refuse, with the reason to show."""

    claim: Claim
    reason: str
    detail: str


@dataclass
class Resolution:
    """lost_ends: claims, by number, that were ended at their last sign of life, and when the next holder came (ms)."""

    kept: list[Claim] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    lost_ends: dict[int, int] = field(default_factory=dict)


Piece = tuple[int, str]
"""A claim, by number, on a device."""

LastSeen = Callable[[Claim, int], int | None]
"""When the claim's own workload was last sampled on its device, at or before an instant (ms); None: never."""


def resolve(
    claims: Iterable[Claim],
    states: Sequence[DeviceState],
    last_seen: LastSeen,
    named: Mapping[tuple[str, str], Sequence[str]],
    silent_ends: Mapping[Piece, int] | None = None,
) -> Resolution:
    """Decides over claims that may contradict each other.

    named: devices on which a workload's own samples were seen, by (cluster, workload_id).   silent_ends: when claims
    without an end fell silent, in ms. Their devices are free for claims on the node from then on; to claims that name
    the device they are open, as ever.
    """
    by_device: dict[DeviceKey, list[DeviceState]] = defaultdict(list)
    for state in sorted(states, key=lambda state: state.start_ms):
        by_device[state.cluster, state.device_id].append(state)
    resolution = Resolution()
    devices = {device: _Device(by_device[device]) for device in sorted(by_device)}
    ordered = sorted(claims, key=lambda claim: claim.order)
    for claim in (claim for claim in ordered if claim.device_id):
        device = devices.setdefault(claim.device, _Device([]))
        device.go_to(claim.start_ms, resolution)
        _admit(claim, device.states, device.active, resolution, last_seen)
    for device in devices.values():
        device.go_back()
    by_node: dict[DeviceKey, list[DeviceKey]] = defaultdict(list)
    for key, device in devices.items():
        for node in {state.node for state in device.states}:
            by_node[key[0], node].append(key)
    reported = {claim.claim: claim for claim in ordered}
    for claim in (claim for claim in ordered if not claim.device_id):
        places = {key: devices[key] for key in by_node[claim.cluster, claim.node]}
        _place(claim, places, resolution, named, reported, silent_ends or {})
    for device in devices.values():
        device.go_back()
        device.ahead = [_until_silent(claim, silent_ends or {}) for claim in device.ahead]
        _cut_to_fit(device.ahead, device.states, resolution)
        resolution.kept.extend(device.ahead)
    resolution.kept.sort(key=lambda claim: claim.order)
    return resolution


@dataclass
class _Device:
    """The claims that a device was given, while one goes through others in order of their start: what is over does not
    slow down what follows.

    active: began, and are not over.   ahead: begin later, in order of their start.   over: the others.
    """

    states: Sequence[DeviceState]
    active: list[Claim] = field(default_factory=list)
    ahead: list[Claim] = field(default_factory=list)
    over: list[Claim] = field(default_factory=list)
    fitted: int = 0
    """How many of the states have cut what does not fit."""

    def go_to(self, instant: int, resolution: Resolution | None = None) -> None:
        """resolution: what no longer fits when a state begins is cut, and is refused there."""
        while self.ahead and self.ahead[-1].start_ms <= instant:
            self.active.append(self.ahead.pop())
        if resolution is not None:
            begun = bisect_right(self.states, instant, key=lambda state: state.start_ms)
            _cut_to_fit(self.active, self.states[self.fitted : begun], resolution)
            self.fitted = begun
        self.over.extend(claim for claim in self.active if claim.end_ms <= instant)
        self.active[:] = [claim for claim in self.active if claim.end_ms > instant]

    def go_back(self) -> None:
        """To before the first claim."""
        every = [*self.over, *self.active, *self.ahead]
        self.over, self.active, self.ahead = [], [], sorted(every, key=lambda claim: -claim.start_ms)

    def meeting(self, claim: Claim, silent_ends: Mapping[Piece, int]) -> list[Claim]:
        """What it was given that overlaps with the claim, at whose start it is."""
        first = bisect_left(self.ahead, -claim.end_ms + 1, key=lambda other: -other.start_ms)
        others = (_until_silent(other, silent_ends) for other in (*self.active, *self.ahead[first:]))
        return [other for other in others if _meet(other, claim)]

    def give(self, claim: Claim, now_ms: int) -> None:
        if claim.start_ms <= now_ms:
            self.active.append(claim)
        else:
            insort(self.ahead, claim, key=lambda other: -other.start_ms)


def _admit(
    claim: Claim, states: Sequence[DeviceState], admitted: list[Claim], resolution: Resolution, last_seen: LastSeen
) -> None:
    if not states:
        resolution.refused.append(Refusal(claim, "unknown_device", f"no device row names {claim.device_id}"))
        return
    capacity = _units_at(states, claim.start_ms)
    claim = replace(claim, units=claim.units or capacity)
    if claim.units > capacity:
        detail = f"claims {claim.units} of {capacity} units"
        resolution.refused.append(Refusal(claim, "more_units_than_device", detail))
        return
    # Others give way only if the claim fits once they have: else it is the one that cannot be true.
    staying = [other for other in admitted if other.end_ms < FOREVER and not _hands_over(other, claim)]
    if blockers := _rivals(claim, staying, capacity):
        holders = ", ".join(sorted({rival.allocation_id for rival in blockers}))
        resolution.refused.append(Refusal(claim, "units_already_claimed", f"held by {holders}"))
        return
    while leaving := [other for other in _rivals(claim, admitted, capacity) if _hands_over(other, claim)]:
        first = min(leaving, key=lambda other: (other.end_ms, other.order))
        if first.start_ms < claim.start_ms:
            admitted[admitted.index(first)] = replace(first, end_ms=claim.start_ms)
        else:
            admitted.remove(first)
            resolution.refused.append(Refusal(first, "units_already_claimed", f"held by {claim.allocation_id}"))
    while rivals := [rival for rival in _rivals(claim, admitted, capacity) if rival.end_ms >= FOREVER]:
        rival = min(rivals, key=lambda rival: rival.order)
        seen = last_seen(rival, claim.start_ms)
        end_ms = min(max(rival.start_ms, seen if seen is not None else rival.start_ms), claim.start_ms)
        admitted[admitted.index(rival)] = replace(rival, end_ms=end_ms, estimated=LOST)
        resolution.lost_ends[rival.claim] = claim.start_ms
    admitted.append(claim)


def _cut_to_fit(admitted: list[Claim], states: Sequence[DeviceState], resolution: Resolution) -> None:
    """Ends claims where their device comes to have fewer units than are held; the first to start keep theirs, what
    the others claim from then on is refused."""
    for state in states:
        free = state.units
        across = [claim for claim in admitted if claim.start_ms < state.start_ms < claim.end_ms]
        for claim in sorted(across, key=lambda claim: claim.order):
            if claim.units <= free:
                free -= claim.units
            else:
                admitted[admitted.index(claim)] = replace(claim, end_ms=state.start_ms)
                rest = replace(claim, start_ms=state.start_ms)
                detail = f"the device has {state.units} units from then on"
                resolution.refused.append(Refusal(rest, "more_units_than_device", detail))


def _hands_over(earlier: Claim, later: Claim) -> bool:
    """Whether two claims overlap by no more than whole-second timestamps can cause, and the later one goes on or began
    later."""
    in_order = (earlier.start_ms, earlier.end_ms) < (later.start_ms, later.end_ms)
    return in_order and _is_a_stamp(later.start_ms, earlier.end_ms)


def _is_a_stamp(start_ms: int, end_ms: int) -> bool:
    """Whether this is a whole second; collectors may report a start a millisecond later, to keep it apart from an
    end."""
    return start_ms // STAMP_MS + 1 == end_ms // STAMP_MS and start_ms % STAMP_MS <= 1 and end_ms % STAMP_MS == 0


def _rivals(claim: Claim, admitted: Sequence[Claim], capacity: int) -> list[Claim]:
    """Claims in the way when this one starts; none if it fits."""
    active = [other for other in admitted if other.start_ms <= claim.start_ms < other.end_ms]
    same_partition = [other for other in active if claim.partition_id and other.partition_id == claim.partition_id]
    if same_partition:
        return same_partition
    return active if sum(other.units for other in active) + claim.units > capacity else []


def _place(
    claim: Claim,
    places: Mapping[DeviceKey, _Device],
    resolution: Resolution,
    named: Mapping[tuple[str, str], Sequence[str]],
    reported: Mapping[int, Claim],
    silent_ends: Mapping[Piece, int],
) -> None:
    """Gives a claim on a node its devices, instant by instant; time for which the node has none is refused.

    places: the devices that are ever in the node, in order.
    """
    known = set(named.get((claim.cluster, claim.workload_id), ()))
    rooms = []
    for key, device in places.items():
        if any(state.node == claim.node and _meet(state, claim) for state in device.states):
            device.go_to(claim.start_ms)
            rooms.append(_Room(key, _units_at(device.states, claim.start_ms), device.meeting(claim, silent_ends)))
    wanted = max(1, round(claim.gpus))
    pieces = 0
    homeless: dict[tuple[int, int], int] = defaultdict(int)
    for number in range(wanted):
        at_ms, part, before = claim.start_ms, wanted - number, pieces
        without: list[tuple[int, int]] = []
        while at_ms < claim.end_ms:
            free = [(room, until_ms) for room in rooms if (until_ms := room.free_until(claim, at_ms)) > at_ms]
            if not free:
                ends = [other.end_ms for room in rooms for other in room.holders if other.end_ms > at_ms]
                until_ms = min([claim.end_ms, *ends])
                without.append((at_ms, until_ms))
            else:
                room, until_ms = max(free, key=lambda one: (one[0].device[1] in known, one[1]))
                piece = replace(
                    claim,
                    claim=(claim.claim + part) % (1 << 64),
                    part=part,
                    place=pieces,
                    device_id=room.device[1],
                    units=room.asked(claim),
                    start_ms=at_ms,
                    end_ms=until_ms,
                    estimated="" if room.device[1] in known else "device unknown: a free one of the node was assumed",
                )
                places[room.device].give(piece, claim.start_ms)
                room.holders.append(piece)
                pieces += 1
                part = wanted + pieces
            at_ms = until_ms
        # Where one got nothing, neither do those that follow it, of which anybody may ask for 10^18.
        alike = 1 if pieces > before else wanted - number
        for when in without:
            homeless[when] += alike
        if alike > 1:
            break
    for (start_ms, end_ms), count in sorted(homeless.items()):
        if pieces and _is_a_stamp(start_ms, end_ms):
            # The second in which one holder followed another, stamped on both.
            count -= sum(room.changed_hands(claim, start_ms, end_ms, reported) for room in rooms)
        if count <= 0:
            continue
        rest = replace(claim, start_ms=start_ms, end_ms=end_ms)
        detail = f"node {claim.node} has no free device for {count} of {claim.gpus:g} GPUs"
        resolution.refused.append(Refusal(rest, "no_free_device", detail))


@dataclass
class _Room:
    """What a device of a node has left for a claim on the node.   holders: who has some of it meanwhile."""

    device: DeviceKey
    capacity: int
    holders: list[Claim]

    def asked(self, claim: Claim) -> int:
        """Units that one GPU of the claim takes here."""
        if claim.units or claim.gpus >= 1:
            return claim.units or self.capacity
        return max(1, round(claim.gpus * self.capacity))

    def changed_hands(self, claim: Claim, start_ms: int, end_ms: int, reported: Mapping[int, Claim]) -> bool:
        """Whether a holder ended in the claim's first second, or began in its last.   reported: as in `_place`."""
        others = [reported[holder.source_claim] for holder in self.holders if holder.source_claim != claim.claim]
        came = start_ms == claim.start_ms and any(other.end_ms == end_ms for other in others)
        return came or (end_ms == claim.end_ms and any(other.start_ms == start_ms for other in others))

    def free_until(self, claim: Claim, at_ms: int) -> int:
        """Until when there is room from an instant on, the claim's end at the latest; `at_ms`: there is none."""
        starts = sorted(other.start_ms for other in self.holders if at_ms < other.start_ms < claim.end_ms)
        left = self.capacity - self.asked(claim)
        return next((instant for instant in (at_ms, *starts) if _taken(self.holders, instant) > left), claim.end_ms)


def _until_silent(claim: Claim, silent_ends: Mapping[Piece, int]) -> Claim:
    end_ms = silent_ends.get((claim.claim, claim.device_id), 0) if claim.end_ms >= FOREVER else 0
    if end_ms <= claim.start_ms:
        return claim
    return replace(claim, end_ms=end_ms, estimated="; ".join(filter(None, (claim.estimated, SILENT))))


def _meet(one: Claim | DeviceState, other: Claim) -> bool:
    return one.start_ms < other.end_ms and other.start_ms < one.end_ms


def _taken(admitted: Sequence[Claim], instant: int) -> int:
    return sum(other.units for other in admitted if other.start_ms <= instant < other.end_ms)


def _units_at(states: Sequence[DeviceState], instant: int) -> int:
    """Units of the device at an instant; before it was first seen, those it was first seen with."""
    units = states[0].units
    for state in states:
        if state.start_ms <= instant:
            units = state.units
    return units
