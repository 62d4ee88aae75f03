"""Turns the instants of one target, in order, into rows. No store and no clock.

Between instants, a target has the same state as between scrapes: counters, holders, the scrape period. After a restart
it is rebuilt by replaying earlier instants from the log (with a new `Memory`); no rows are made of those. The units of
its fields outlive the log: `assembler.py` keeps them in the store.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise

from collectors.exporters.exposition import Series
from collectors.exporters.observations import Observation, Reader
from collectors.exporters.profile import FILES, Profile
from collectors.exporters.prometheus import Result, TargetPods
from collectors.exporters.rows import rows
from collectors.exporters.scrape import take_notes
from collectors.exporters.tracker import FLIP_SECONDS, Measurement, Tracker
from collectors.exporters.units import SourceUnits
from collectors.readings import Collected, Row, Severity
from collectors.receivers.lagging import Measures
from collectors.receivers.points import NAME, Target

TellDevices = Callable[[Iterable[Measurement], Profile], list[Row]]
"""What is seen of devices -> their rows."""
UP = "up"
"""Prometheus's own word on a target: its labels are the target's, and no exporter's."""
OWN_LABELS = frozenset({NAME, "cluster", "job", "instance", "node", "kubernetes_node"})
STATUS = "hw.status"
"""OpenTelemetry's word on a component's health: 1 for the state that it is in (`hw.state`)."""
UNHEALTHY: Mapping[str, Severity] = {
    **dict.fromkeys(("degraded", "predicted_failure", "needs_cleaning"), "warning"),
    "failed": "critical",
}
PERIOD_SECONDS = 30.0
"""How often a target is asked, as long as nothing says otherwise."""
GAPS = 9
"""The median of so many gaps between instants says how often a target is asked."""
ROUND_SECONDS, NEAR = (60.0, 10.0, 5.0, 1.0, 0.5, 0.1), 0.01
"""What is configured are multiples of these; looks jitter by a hundredth of their period."""
AWAY_PERIODS = 1.5
"""A target of whose devices nothing came for longer was away, and may be of another version since."""
LOOKBACK_SECONDS = FLIP_SECONDS + 300.0
"""What is read again to remember: counters and holders of so long ago."""
TOGETHER_SECONDS: Mapping[str, float] = {"prometheus": 0.0, "otlp": 1.0}
"""Points of one instant: a scrape stamps all of them alike; OpenTelemetry's Go SDK stamps each metric by itself."""


class Names:
    """Which metrics some profile reads. Names that a site has put its own prefix before count where the profile knows
    of prefixes: which it is, the reader finds out."""

    def __init__(self, profiles: Sequence[Profile] = FILES.built_in) -> None:
        readers = [Reader(profile) for profile in profiles]
        self._plain = frozenset(name for reader in readers for name in reader.names)
        self._ends = tuple(
            name for reader in readers if any("?P<prefix>" in one for one in reader.profile.recognise)
            for name in reader.names
        )  # fmt: skip
        self._labels = frozenset(name for profile in profiles for name in profile.labels)
        self.wanted = lru_cache(20_000)(self._wanted)

    def reads(self, label: str) -> bool:
        """Whether a profile reads labels of this name, or what is pushed is told apart by it."""
        plain = label.lower()
        return plain in OWN_LABELS or plain in self._labels or plain.removeprefix("exported_") in self._labels

    def _wanted(self, name: str) -> bool:
        plain = name.removesuffix("_total")
        return name in (UP, STATUS) or name in self._plain or plain in self._plain or plain.endswith(self._ends)


@dataclass
class _Source:
    """A profile that reads metrics of the target."""

    reader: Reader
    tracker: Tracker
    measures: Measures


@dataclass
class Memory:
    """What is known of a target after its last instant. at: that instant, seconds since 1970.   up: the series `up`,
    as they were last.   health: by device, in which of UNHEALTHY it was.   stopped: nothing but ends of series came.
    units: of its fields; changed_at: since when one of them is another.   node: of its devices.   devices_at: when it
    had any last."""

    profiles: Sequence[Profile] = FILES.built_in
    units: SourceUnits = field(default_factory=SourceUnits)
    at: float = -math.inf
    changed_at: float = -math.inf
    devices_at: float = -math.inf
    node: str = ""
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=GAPS))
    names: set[str] = field(default_factory=set)
    sources: dict[str, _Source] = field(default_factory=dict)
    up: list[Series] = field(default_factory=list)
    health: dict[str, frozenset[str]] = field(default_factory=dict)
    stopped: bool = False

    @property
    def period_seconds(self) -> float:
        """Of two in the middle the shorter one: what is missed makes gaps longer."""
        return _as_configured(statistics.median_low(self.gaps)) if self.gaps else PERIOD_SECONDS

    def saw(self, at: float) -> None:
        """An instant came."""
        if math.isfinite(self.at):
            self.gaps.append(at - self.at)
        self.at = at

    def guess(self, some: Sequence[Instant]) -> None:
        """How often a target is asked of which nothing is known before these instants: by the first gap, unless those
        after it say that it is another one's, of a restart or of what was missed."""
        gaps = [later.at - earlier.at for earlier, later in pairwise(some[: GAPS + 1])]
        if gaps:
            usual = statistics.median_low(gaps)
            self.gaps.append(gaps[0] if usual / 2 < gaps[0] < usual else usual)

    def take_late(self, other: Memory) -> None:
        """What was found in instants that came late and were assembled with another memory."""
        for name, source in other.sources.items():
            if name in self.sources:
                self.sources[name].measures.take_late(source.measures)

    def learn(self, names: Iterable[str]) -> None:
        """Which profiles' metrics it has."""
        new = set(names) - self.names
        if not new:
            return
        self.names |= new
        for profile in self.profiles:
            count, prefix = profile.recognised(self.names)
            if count and profile.name not in self.sources:
                tracker = Tracker(profile.vendor, self.period_seconds, units=self.units)
                self.sources[profile.name] = _Source(Reader(profile, prefix), tracker, Measures(profile))


def _as_configured(seconds: float) -> float:
    """The round number that a measured period is near to: nobody configures 29.98 s. So a period is the same whichever
    of its gaps came, and that of whoever scrapes."""
    for step in ROUND_SECONDS:
        near = round(seconds / step) * step
        if abs(near - seconds) <= NEAR * seconds:
            return near
    return seconds


@dataclass(frozen=True)
class Instant:
    """All that is known of a target at one instant. at: seconds since 1970.   members: the times that its points have.
    series: its values.   ended: series that end here."""

    at: float
    members: frozenset[datetime]
    series: Sequence[Series]
    ended: Sequence[Series]


def instants(points: Iterable[tuple[datetime, str, Mapping[str, str], float, bool]], together: float) -> list[Instant]:
    """The points of one target by instant. together: how many seconds apart points of one instant may be."""
    by_time: dict[datetime, tuple[list[Series], list[Series]]] = defaultdict(lambda: ([], []))
    for ts, name, labels, value, stale in points:
        by_time[ts][stale].append(Series(name, labels, math.nan if stale else value))
    found = []
    for members in _groups(sorted(by_time), together):
        values, ended = [], []
        for ts in members:
            values += by_time[ts][0]
            ended += by_time[ts][1]
        found.append(Instant(members[-1].timestamp(), frozenset(members), values, ended))
    return found


def _groups(times: Sequence[datetime], together: float) -> Iterator[list[datetime]]:
    group: list[datetime] = []
    for ts in times:
        if group and (ts - group[0]).total_seconds() > together:
            yield group
            group = []
        group.append(ts)
    if group:
        yield group


def assemble(
    target: Target,
    memory: Memory,
    some: Sequence[Instant],
    reported: Callable[[Instant], bool] = lambda _: True,
    devices: TellDevices | None = None,
) -> Collected:
    """The rows of a target's instants, oldest first; `memory` is then of the last.

    reported: instants whose rows are wanted; others are only remembered.   devices: None: no device rows are wanted.
    """
    if not math.isfinite(memory.at):
        memory.guess(some)
    collected = Collected()
    for instant in some:
        wanted = reported(instant)
        found = rows_of(target, memory, instant, devices if wanted else None)
        for row in memory.units.notes(instant.at, reported=wanted, node=memory.node, cluster=target.cluster):
            found.add("findings", row)
            if row["finding"] == "unit_changed":
                memory.changed_at = instant.at
        if wanted:
            collected += found
    return collected


def rows_of(target: Target, memory: Memory, instant: Instant, devices: TellDevices | None = None) -> Collected:
    """Turns the series of one target at one instant into rows, using the target's state."""
    memory.saw(instant.at)
    if math.isfinite(memory.devices_at) and instant.at - memory.devices_at > AWAY_PERIODS * memory.period_seconds:
        memory.units.doubt()
    memory.learn(one.name for one in (*instant.series, *instant.ended))
    memory.up = [one for one in instant.series if one.name == UP] or memory.up
    own_pod = TargetPods(Result({instant.at: memory.up})) if memory.up else None
    # `job` and `instance` are the target's own, of which the exporter says nothing.
    collected = Collected()
    observed: list[Measurement] = []
    present = False
    for source in memory.sources.values():
        source.tracker.period_seconds = memory.period_seconds
        seen = source.reader.read(
            instant.series,
            instant.at,
            own_pod=own_pod,
            honor_labels=None if target.way == "prometheus" else True,
            units=memory.units,
            divided=source.tracker.divided(instant.at),
        )
        collected.dropped += seen.dropped
        present |= bool(seen.devices)
        ended = source.reader.read(instant.ended, instant.at, own_pod=own_pod).devices if instant.ended else []
        source.measures.withhold(seen.devices, ended, instant.at)
        now = source.tracker.advance(seen)
        for row in devices(now, source.reader.profile) if devices is not None else ():
            collected.add("devices", row)
        observed += now
        observed += _ended(source.tracker, instant.at, seen.devices, ended)
        take_notes(source.tracker, collected, target.cluster)
    memory.node = next((one.node for one in observed), memory.node)
    if present:
        memory.stopped, memory.devices_at = False, instant.at
    elif instant.ended and observed and not memory.stopped:
        memory.stopped = True
        collected.add("findings", _stopped(target, observed[0], instant.at))
    for row in _unhealthy(target, memory, instant, observed):
        collected.add("findings", row)
    collected += rows(observed, cluster=target.cluster)
    return collected


def _ended(tracker: Tracker, at: float, seen: Sequence[Observation], ended: Sequence[Observation]) -> list[Measurement]:
    """Devices whose series end here. Where others of the target go on, these are gone; else the target does not answer,
    and nobody knows what became of them."""
    present = {(one.device_id, one.partition) for one in seen}
    over = {(one.device_id, one.partition) for one in ended} & tracker.known.keys() - present
    if not over:
        return []
    if present:
        return tracker.gone(tracker.known.keys() - over, at)
    return tracker.stale(at, sorted(over))


def _unhealthy(target: Target, memory: Memory, instant: Instant, observed: Iterable[Measurement]) -> Iterator[Row]:
    """Changes in the health of the target's devices since the last instant, if they are not healthy."""
    nodes = {one.reading.device_id: one.node for one in observed}
    found: dict[str, set[str]] = defaultdict(set)
    for series in instant.series:
        device, state = series.labels.get("hw.id", ""), series.labels.get("hw.state", "")
        if series.name == STATUS and device in nodes and series.labels.get("hw.type") == "gpu":
            found[device] |= {state} if series.value == 1 and state in UNHEALTHY else set()
    for device, states in found.items():
        for state in sorted(states - memory.health.get(device, frozenset())):
            row = _finding(target, nodes[device], instant.at, "device_unhealthy", f"{STATUS}: {state}")
            yield row | {"device_id": device, "severity": UNHEALTHY[state]}
        memory.health[device] = frozenset(states)


def _stopped(target: Target, one: Measurement, at: float) -> Row:
    return _finding(target, one.node, at, "source_unreachable", f"{target.words}: its series have ended")


def silent(target: Target, memory: Memory, at: float, seconds: float) -> Row:
    """The finding for a target that has been silent for so long. Its devices keep their state."""
    message = f"{target.words}: nothing of it was pushed for {seconds:.0f} s"
    return _finding(target, memory.node, at, "source_unreachable", message)


def _finding(target: Target, node: str, at: float, finding: str, message: str) -> Row:
    row: Row = {"ts": datetime.fromtimestamp(at, UTC), "node": node, "finding": finding, "message": message}
    return row | {"severity": "warning"} | ({"cluster": target.cluster} if target.cluster else {})
