"""Tells a missing series from one that is only late: the shards of a Prometheus do not wait for each other.

A scrape has all series of an instant at once, so if the best activity metric is not on the page, the next best one
counts. In a push, the best may still be on its way, and a row made from the next best would then stand beside the right
one. So the next best does not count on devices that had a better metric before, until that one has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from collectors.attribution.measures import activity_measures
from collectors.exporters.observations import Observation
from collectors.exporters.profile import Profile
from collectors.exporters.tracker import FLIP_SECONDS, Key
from collectors.readings import Reading

BEHIND_SECONDS = 120.0
"""A device of a target whose others have a measure, or parts, has none if it was seen for so long without."""


@dataclass
class Measures:
    """The activity metrics that the devices of one target have, according to their series so far."""

    profile: Profile
    first: dict[Key, float] = field(default_factory=dict)
    last: dict[tuple[Key, str], float] = field(default_factory=dict)

    def withhold(self, seen: Sequence[Observation], ended: Iterable[Observation], at: float) -> None:
        """Makes blank what a device would be measured by for want of what may come later, and its zeros that would be
        none if it were divided. ended: whose series end here, so that nothing of them is on its way."""
        for device in seen:
            self.first.setdefault(_key(device), at)
            self.last |= {(_key(device), name): at for name in _named(device)}
        present = {_key(device) for device in seen}
        for device in ended:
            for name in _named(device) if _key(device) in present else ():
                self.last.pop((_key(device), name), None)
        for device in seen:
            for name in {*self._false_zeros(device, at), *self._in_their_stead(device, at)}:
                device.readings[name] = Reading("blank", source=device.readings[name].source)

    def take_late(self, other: Measures) -> None:
        """What late series of the same target reported."""
        for key, at in other.first.items():
            self.first[key] = min(at, self.first.get(key, at))
        for measure, at in other.last.items():
            self.last[measure] = max(at, self.last.get(measure, at))

    def _false_zeros(self, device: Observation, at: float) -> Iterator[str]:
        if (
            device.partition
            or device.divided
            or not self._is_new(device, at)
            or not any(part for _, part in self.first)
        ):
            return
        for rule in self.profile.metrics:
            reading = device.readings.get(rule.metric)
            if "partition" in rule.false_zero and reading is not None and reading.value == 0:
                yield rule.metric

    def _in_their_stead(self, device: Observation, at: float) -> Iterator[str]:
        named, behind = _named(device), False
        for name in activity_measures(bool(device.partition) or device.divided):
            if name not in named:
                behind |= self._may_come(device, name, at)
            elif behind and device.readings[name].usable:
                yield name

    def _may_come(self, device: Observation, name: str, at: float) -> bool:
        """Whether the device has the measure, as far as anybody can say yet."""
        last = self.last.get((_key(device), name))
        if last is not None:
            return at - last <= FLIP_SECONDS
        return self._is_new(device, at) and any(of == name for _, of in self.last)

    def _is_new(self, device: Observation, at: float) -> bool:
        return at - self.first[_key(device)] < BEHIND_SECONDS


def _key(device: Observation) -> Key:
    return device.device_id, device.partition


def _named(device: Observation) -> set[str]:
    """The metrics of which there was a series, whatever its value."""
    return {name for name, reading in device.readings.items() if reading.source}
