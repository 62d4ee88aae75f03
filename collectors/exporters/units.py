"""Decides the unit of each field of each target from evidence, because the metric's name does not determine it.

DCGM 4.6 calls a percentage ..._RATIO, DCGM 4.7 uses the same name for 0 to 1, and some collectors rescale under the old
name. So the numbers decide, once for each target and field, and the decision is remembered:

    value      a number that only one unit allows: 57 is no ratio, 0.87 no percentage of DCGM's, which are whole
    version    a field on the page that only later versions have
    activity   several readings that fit the other activity metric of the same device in one unit only

A number that several units allow is read by the evidence on its page, else by the remembered decision; else it is
blank, with a finding. Zero is zero in every unit. A remembered decision is suspended, until new evidence comes, if the
target was away or its version changed, if another target of the source changed its unit, and for a device that would
have jumped.

Pure; `memory.py` stores it. A source is an exporter, a Prometheus or a sender; a target is one exporter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from collectors.exporters.profile import Unit
from collectors.readings import Row, Severity

VOTES = 5
"""Readings in a row that must fit the activity in the same unit, before they decide."""
NEAR = 3.0
"""How many times a reading may be more or less than the activity of its device, and still be the same."""
MOST_TARGETS = 20_000
"""Targets that a source remembers; those longest unheard of go first."""
MOST_DEVICES = 4096
"""Devices of a target whose last readings are remembered."""
AGAIN_SECONDS = 3600.0
"""How often an undecided field is reported."""
NAMED = 3
"""Targets that a finding names."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One reading of a field. device: that it is of.   activity: another activity metric of the same device, 0 to 1."""

    device: Hashable
    value: int | float
    activity: float | None = None


@dataclass(slots=True)
class _Field:
    """What is known about one field of one target."""

    unit: str = ""
    how: str = ""
    version: str = ""
    proven_at: float = 0.0
    doubted: bool = False
    reported_at: float = 0.0
    blank_since: float = 0.0
    assumed: int = 0
    whole: bool = True
    votes: tuple[str, int] = ("", 0)
    last: dict[Hashable, float] = field(default_factory=dict)
    jumps: dict[Hashable, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Target:
    fields: dict[str, _Field] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Note:
    finding: str
    severity: Severity
    field: str
    what: str
    target: str


class SourceUnits:
    """The remembered units of one source's targets. `notes` returns what changed and clears it."""

    def __init__(self) -> None:
        self._targets: dict[str, _Target] = {}
        self._notes: list[_Note] = []
        self.changed = False

    def decide(
        self,
        target: str,
        name: str,
        units: Sequence[Unit],
        shown: Sequence[Shown],
        at: float,
        *,
        version: str = "",
        by_version: str = "",
    ) -> list[Unit | None]:
        """The unit of each of these readings of one field, of one instant; None where nothing tells it, and for 0.

        version: whatever of the page changes with the exporter's version.   by_version: the unit that the field has in
        the version that the page proves, if it does.
        """
        known = self._field(target, name, version)
        evident = [_evident(units, one, known.whole) for one in shown]
        if known.whole and any(
            hard and unit and not unit.steps(one.value) for one, (unit, hard) in zip(shown, evident, strict=True)
        ):
            known.whole, self.changed = False, True  # means of percentages: a fraction proves nothing here
            evident = [_evident(units, one, known.whole) for one in shown]
        proven = {unit.name for unit, _ in evident if unit is not None}
        shows = bool(proven)
        if len(proven) > 1:
            self._undecided(known, target, name, f"{' and '.join(sorted(proven))} in one answer", at)
            return [unit if hard else None for unit, hard in evident]
        if proven:
            self._prove(known, target, name, proven.pop(), "value", at)
        elif any(one.value for one in shown):
            self._without_proof(known, target, name, units, shown, at, by_version)
        believed = None if known.doubted else next((unit for unit in units if unit.name == known.unit), None)
        found = [
            self._one(known, unit or believed, units, one, evident=unit is not None, proven=shows)
            for one, (unit, _) in zip(shown, evident, strict=True)
        ]
        fits = (
            unit is None and one.value and any(each.fits(one.value) for each in units)
            for unit, one in zip(found, shown, strict=True)
        )
        if any(fits):
            self._undecided(known, target, name, "its numbers fit " + " and ".join(unit.name for unit in units), at)
        return found

    def by_rate(self, target: str, name: str, fitting: Sequence[str], at: float) -> str:
        """The unit of a counter; empty if it is not known. fitting: those in which its rate is believable.

        A rate that fits another unit than the one remembered must do so several times: a board that draws nearly
        nothing looks the same.
        """
        known = self._field(target, name)
        if len(fitting) == 1:
            (unit,) = fitting
            known.votes = unit, (known.votes[1] + 1 if known.votes[0] == unit else 1)
            if known.unit in ("", unit) or known.votes[1] >= VOTES:
                self._prove(known, target, name, unit, "value", at)
            else:
                self._undecided(known, target, name, f"it was {known.unit}, and its rate is that of {unit}", at)
                return ""
        return "" if known.doubted else known.unit

    @property
    def targets(self) -> frozenset[str]:
        return frozenset(self._targets)

    def unit(self, target: str, name: str) -> str:
        """What is remembered of a field, empty if nothing is or it is doubted."""
        one = self._targets.get(target)
        known = one.fields.get(name) if one else None
        return known.unit if known and not known.doubted else ""

    def doubt(self, target: str | None = None) -> None:
        """The target (None: each of the source) was away: it may come back as another version."""
        for name, one in self._targets.items():
            if target in (None, name):
                for known in one.fields.values():
                    self.changed |= not known.doubted
                    known.doubted = True

    def notes(self, at: float, *, reported: bool = True, **whose: str) -> list[Row]:
        """The findings since the last time: one for each field and what is the matter, however many targets.

        reported: False where these are not sent: what is still undecided is then among the next.
        """
        for note in self._notes if not reported else ():
            one = self._targets.get(note.target)
            if note.finding == "unit_undecided" and one is not None and note.field in one.fields:
                one.fields[note.field].reported_at = 0.0
        together: dict[tuple[str, Severity, str, str], list[str]] = defaultdict(list)
        for note in self._notes:
            together[note.finding, note.severity, note.field, note.what].append(note.target)
        self._notes.clear()
        rows: list[Row] = []
        for (finding, severity, name, what), targets in together.items():
            names = ", ".join(sorted(targets)[:NAMED]) + (
                f" and {len(targets) - NAMED} more" if len(targets) > NAMED else ""
            )
            row: Row = {"ts": datetime.fromtimestamp(at, UTC), "finding": finding, "severity": severity}
            row["message"] = f"{name} of {names or 'the exporter'}: {what}"
            rows.append(row | {key: text for key, text in whose.items() if text})
        return rows

    def plain(self) -> dict[str, Any]:
        """What a restart needs, as JSON has it."""
        return {
            target: {
                name: [
                    one.unit,
                    one.how,
                    one.version,
                    one.proven_at,
                    one.doubted,
                    one.reported_at,
                    one.whole,
                    one.assumed,
                ]
                for name, one in known.fields.items()
            }
            for target, known in self._targets.items()
        }

    @staticmethod
    def of(plain: Mapping[str, Any]) -> SourceUnits:
        """Errors: KeyError, TypeError, ValueError if it is not what `plain` gives."""
        source = SourceUnits()
        for target, fields in plain.items():
            source._targets[str(target)] = _Target(
                {
                    str(name): _Field(
                        str(unit),
                        str(how),
                        str(version),
                        float(at),
                        bool(doubted),
                        float(reported_at),
                        whole=bool(whole),
                        assumed=int(assumed),
                    )
                    for name, (unit, how, version, at, doubted, reported_at, whole, assumed) in fields.items()
                }
            )
        return source

    def _field(self, target: str, name: str, version: str | None = None) -> _Field:
        one = self._targets.pop(target, None) or _Target()
        self._targets[target] = one  # the last, so that the first are those longest unheard of
        if len(self._targets) > MOST_TARGETS:
            del self._targets[next(iter(self._targets))]
        known = one.fields.setdefault(name, _Field(version=version or ""))
        if version is not None and version != known.version:
            known.version, known.doubted, self.changed = version, True, True
        return known

    def _prove(self, known: _Field, target: str, name: str, unit: str, how: str, at: float) -> None:
        if known.unit and known.unit != unit:
            since = datetime.fromtimestamp(known.proven_at, UTC)
            what = f"was {known.unit}, is {unit} now; last shown to be {known.unit} at {since:%Y-%m-%dT%H:%M:%SZ}"
            if known.assumed:
                what += f", and at least {known.assumed} readings since were taken for {known.unit} and may be wrong"
            self._notes.append(_Note("unit_changed", "warning" if known.assumed else "info", name, what, target))
            for one in self._targets.values():
                other = one.fields.get(name)
                if other is not None and other is not known and other.unit == known.unit and other.proven_at < at:
                    other.doubted = True
            known.last.clear()
        self.changed |= known.unit != unit or known.doubted
        known.unit, known.how, known.proven_at = unit, how, at
        known.doubted, known.blank_since = False, 0.0
        known.assumed, known.votes = 0, ("", 0)

    def _without_proof(
        self,
        known: _Field,
        target: str,
        name: str,
        units: Sequence[Unit],
        shown: Sequence[Shown],
        at: float,
        by_version: str,
    ) -> None:
        """No number tells the unit: perhaps the version does, or what else is known of the devices."""
        for one in shown:
            vote = next((unit.name for unit in units if _speaks_for(one, unit)), "")
            if vote:
                known.votes = vote, (known.votes[1] + 1 if known.votes[0] == vote else 1)
        vote, times = known.votes
        if times >= VOTES and (not known.unit or known.doubted or vote != known.unit):
            self._prove(known, target, name, vote, "activity", at)
        elif by_version and (not known.unit or known.doubted) and (not vote or vote == by_version):
            self._prove(known, target, name, by_version, "version", at)

    def _one(
        self, known: _Field, unit: Unit | None, units: Sequence[Unit], one: Shown, *, evident: bool, proven: bool
    ) -> Unit | None:
        """The unit of one reading. evident: its own number shows it.   proven: another one of the page does."""
        if not one.value or unit is None or not unit.fits(one.value):
            return None
        if not evident:
            if _against(units, one, unit):
                return None
            if not proven and _jumped(units, unit, one.value, known.last.get(one.device)):
                # Exporters go from the first of the units to the last: back again is not to be feared for ever.
                known.jumps[one.device] = known.jumps.get(one.device, 0) + 1
                if unit is not units[-1] or known.jumps[one.device] <= VOTES:
                    return None
            if not proven:
                self.changed |= not known.assumed
                known.assumed += 1
        known.jumps.pop(one.device, None)
        if len(known.last) < MOST_DEVICES or one.device in known.last:
            known.last[one.device] = unit.scaled(one.value)
        return unit

    def _undecided(self, known: _Field, target: str, name: str, why: str, at: float) -> None:
        """Info at first, because the next numbers may decide it; a warning if they have not after an hour."""
        known.blank_since = known.blank_since or at
        if at - known.reported_at >= AGAIN_SECONDS:
            known.reported_at, self.changed = at, True
            severity: Severity = "warning" if at - known.blank_since >= AGAIN_SECONDS else "info"
            what = f"the unit is not known: {why}; left blank"
            self._notes.append(_Note("unit_undecided", severity, name, what, target))


def _evident(units: Sequence[Unit], one: Shown, whole: bool) -> tuple[Unit | None, bool]:
    """The unit that the number itself shows, and whether no other can be so large or small; else it is no step of
    another, which counts for less: not where steps are known to mean nothing, nor against the activity."""
    fitting = [unit for unit in units if unit.fits(one.value)] if one.value else []
    if len(fitting) == 1:
        return fitting[0], True
    steps = [unit for unit in fitting if unit.steps(one.value)]
    if whole and len(steps) == 1 and not _against(units, one, steps[0]):
        return steps[0], False
    return None, False


def apart(one: float, other: float) -> float:
    """The ratio of the two numbers, at least 1."""
    return max(one / other, other / one)


def _against(units: Sequence[Unit], one: Shown, unit: Unit) -> bool:
    """Whether the device's activity contradicts this unit."""
    return any(other is not unit and _speaks_for(one, other) for other in units)


def _speaks_for(one: Shown, unit: Unit) -> bool:
    """Whether the reading fits its device's activity in this unit. Units are so far apart that no other can fit."""
    return bool(
        one.value and one.activity and unit.fits(one.value) and apart(unit.scaled(one.value), one.activity) <= NEAR
    )


def _jumped(units: Sequence[Unit], unit: Unit, value: int | float, last: float | None) -> bool:
    """Whether the reading would be closer to the device's last one in another unit."""
    if last is None:
        return False
    here = apart(unit.scaled(value), last)
    return any(apart(other.scaled(value), last) < here for other in units if other is not unit and other.fits(value))
