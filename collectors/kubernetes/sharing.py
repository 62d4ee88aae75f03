"""Splits the devices of a claim that several pods hold into equal parts, so that every GPU-second belongs to one pod.

They are split again whenever a pod joins or leaves. Units are whole: a remainder goes to those who came first, and a
device with one unit belongs to the first pod until it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """What a pod holds by one claim, if no other pod shares it.   units: None = all.   of: the device's."""

    claim: str
    device_id: str
    partition_id: str
    profile: str
    units: int | None
    of: int


Shares = dict[tuple[str, str, str], int | None]
"""Units held of each (device, partition, profile); None = all."""


def shares(held: Sequence[Held], uid: str, holders: Mapping[str, Sequence[str]]) -> Shares:
    """What the pod holds. holders: claim -> the pods that hold it, in the order in which they came."""
    found: Shares = {}
    for each in held:
        place = each.device_id, each.partition_id, each.profile
        together = holders.get(each.claim, (uid,))
        units = each.units
        if len(together) > 1:
            all_ = each.of if units is None else units
            units = all_ // len(together) + (together.index(uid) < all_ % len(together))
        if units == 0:
            continue
        before = found.get(place, 0)
        found[place] = None if units is None or before is None else before + units
    return found


def gpus(held: Sequence[Held], of: Shares) -> float:
    """The shares in devices."""
    units = {(each.device_id, each.partition_id, each.profile): each for each in held}
    return sum(_part(units[place], taken) for place, taken in of.items())


def _part(held: Held, units: int | None) -> float:
    return 1.0 if units is None else units / held.of
