"""The format of exporter profiles: which of an exporter's metrics become which of ours, in which unit, and what to
trust.

A profile is a YAML file; the built-in ones are in profiles/. docs/exporters.md explains every key.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from collectors.profile_files import Named, ProfileFiles
from collectors.readings import State
from warehouse.records import MAX_UNITS
from warehouse.written_model import Written

PROFILES = Path(__file__).with_name("profiles")

_RATIO = (0.0, 1.0)
_ANY = (-math.inf, math.inf)
_COUNT = (0.0, math.inf)
ALLOWED: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(
        (
            *("gpu_utilization", "graphics_active", "sm_active", "sm_occupancy", "tensor_active", "dram_active"),
            *("memory_copy_utilization", "encoder_utilization", "decoder_utilization", "process_activity"),
            *("row_remap_failure", "row_remap_pending", "context_switch_active"),
        ),
        _RATIO,
    ),
    **dict.fromkeys(
        (
            *("memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes", "memory_total_bytes"),
            *("power_watts", "power_limit_watts", "energy_joules", "energy_joules_total"),
            *("sm_clock_hertz", "memory_clock_hertz"),
            *("pcie_transmit_bytes_per_second", "pcie_receive_bytes_per_second"),
            *("pcie_transmit_bytes", "pcie_receive_bytes"),
            *("nvlink_transmit_bytes_per_second", "nvlink_receive_bytes_per_second"),
            *("throttle_power_seconds", "throttle_thermal_seconds", "throttle_hardware_seconds"),
            *("throttle_sync_seconds", "last_kernel_seconds", "context_switch_requests_per_second"),
            *("ecc_corrected_total", "ecc_uncorrected_total", "pcie_replay_total", "xid_last"),
            *("rows_remapped_corrected_total", "rows_remapped_uncorrected_total"),
        ),
        _COUNT,
    ),
    **dict.fromkeys(("temperature_celsius", "memory_temperature_celsius"), _ANY),
}
"""The names of docs/telemetry.md, and what their unit allows: no profile can let a ratio of 57 through."""


def _patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in value:
        try:
            re.compile(pattern)
        except re.error as mistake:
            raise ValueError(f"{pattern!r} is not a pattern: {mistake}") from None
    return value


def _texts(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _fraction(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("expected a whole number such as 1048576 or a fraction such as 1/1000")
    try:
        factor = Fraction(value)
    except (ValueError, ZeroDivisionError):
        raise ValueError("expected a whole number such as 1048576 or a fraction such as 1/1000") from None
    if factor <= 0:
        raise ValueError("expected a number above 0")
    return factor


Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
"""One text or a list of them."""
Patterns = Annotated[Texts, AfterValidator(_patterns)]
Factor = Annotated[Fraction, BeforeValidator(_fraction)]
Interval = tuple[float, float]
Scope = Literal["each", "device", "whole", "workload"]
Combine = Literal["one", "min", "max", "mean", "sum"]


class _Strict(Written):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Unit(_Strict):
    """A unit that an exporter may use. factor: ours = theirs x factor.   range: plausible values in this unit."""

    name: str = ""
    factor: Factor = Fraction(1)
    range: Interval
    step: float | None = Field(default=None, gt=0)
    exact: bool = False

    def fits(self, value: float) -> bool:
        low, high = self.range
        return low <= value <= high and (not self.exact or self.steps(value))

    def steps(self, value: float) -> bool:
        return self.step is None or value % self.step == 0

    def scaled(self, value: float) -> float:
        """A value of theirs in our unit."""
        if not math.isfinite(value):
            return value
        return value * self.factor.numerator / self.factor.denominator


class Rule(_Strict):
    """One metric of the exporter. names: its spellings, the preferred first; of several rules with the same `metric`
    the first that has a series counts.

    metric: our name for the value as it stands.
    per_interval: our name for what a counter gained within the interval.   factor: ours = theirs x factor.
    range: what is believable, in the exporter's unit, inclusive; anything else is blank.
    units: instead of factor, where versions of the exporter differ: names of the profile's units, the oldest first, of
    which the numbers decide (`units.py`); `range` is then in our unit.
    min_per_second, max_per_second: the least and most that a counter of a running device gains, in our unit; the least
    only tells units apart.
    scope: whom the series speaks of. each: the device or partition that its labels name. device: the whole device,
    however many partitions repeat it. whole: the whole device, and only where no partition is named. workload: the
    pod that its labels name.
    node_names: spellings that are used only where no pod is bound to the device.
    where: label -> texts (globs) of which it must be one.   combine: what to do with several series of one device.
    false_zero: when a 0 is no measurement, and what it is instead. always. partition: the device is divided. replica:
    the series is a copy for one of several that share the device.
    """

    names: Texts = Field(min_length=1)
    metric: str = ""
    per_interval: str = ""
    factor: Factor = Fraction(1)
    range: Interval = _ANY
    units: Texts = ()
    min_per_second: float = 0.0
    max_per_second: float | None = None
    scope: Scope = "each"
    node_names: Texts = ()
    where: Mapping[str, Texts] = Field(default_factory=dict)
    combine: Combine = "one"
    false_zero: Mapping[Literal["always", "partition", "replica"], State] = Field(default_factory=dict)

    @field_validator("metric", "per_interval")
    @classmethod
    def _known(cls, value: str) -> str:
        if value and value not in ALLOWED:
            raise ValueError("expected a name of docs/telemetry.md")
        return value

    @model_validator(mode="after")
    def _fits(self) -> Rule:
        low, high = self.range
        if not self.metric and not self.per_interval:
            raise ValueError("metric or per_interval is missing")
        if not low <= high:
            raise ValueError(f"range [{low:g}, {high:g}] is empty")
        if not self.units:
            if "range" not in self.model_fields_set:
                raise ValueError("range is missing")
            self.check(self.unit)
        elif "factor" in self.model_fields_set:
            raise ValueError("factor is that of each of its units")
        return self

    @property
    def unit(self) -> Unit:
        """The unit of a rule that has one."""
        return Unit.model_construct(factor=self.factor, range=self.range)

    def check(self, unit: Unit) -> None:
        """Errors: ValueError if values in this unit are more than our metric can be."""
        if not self.metric:
            return
        (low, high), (least, most) = unit.range, ALLOWED[self.metric]
        if unit.scaled(low) < least or unit.scaled(high) > most:
            scaled = f"range [{low:g}, {high:g}] x factor {unit.factor}"
            raise ValueError(f"{scaled} is more than {least:g} to {most:g}, which {self.metric} is")


class Identity(_Strict):
    """Labels that identify the device; the first non-empty one counts, ignoring case."""

    device_id: Texts = Field(min_length=1)
    node: Texts = ()
    vendor: Texts = ()
    model: Texts = ()
    index: Texts = ()
    partition: Texts = ()
    partition_id: Texts = ()
    partition_profile: Texts = ()
    whole: Texts = ()


class Workload(_Strict):
    """Labels that name the holder of the device, according to the exporter. replica: the label that distinguishes
    copies."""

    pod: Texts = ()
    namespace: Texts = ()
    container: Texts = ()
    uid: Texts = ()
    job: Texts = ()
    replica: Texts = ()
    exporter_pods: Texts = ()


class OwnLabels(_Strict):
    """Where the exporter writes its own labels, if it also repeats the labels of pods, which users write: before and
    after them."""

    first: Texts = Field(min_length=1)
    last: Texts = Field(min_length=1)

    def of(self, labels: Sequence[tuple[str, str]], version: Sequence[str]) -> Sequence[tuple[str, str]]:
        """The exporter's own among these labels of one series, in their order. All are, where they do not stand as the
        exporter writes them: then others have sorted them, as Prometheus does.

        version: globs of labels that change with its version; they stand among those of pods.
        """
        names = [name for name, _ in labels]
        runs = [run.split(",") for run in self.first]
        if not self.unsorted(names) or not set(self.last) <= set(names):
            return labels
        begin = len(names) - 1 - names[::-1].index(self.last[0])
        if not set(self.last) <= set(names[begin:]):
            return labels
        end = 0
        for run in runs:
            if names[end : end + len(run)] == run:
                end += len(run)
        if self.first[-1] in names[:begin]:
            end = names.index(self.first[-1]) + 1
        between = [one for one in labels[end:begin] if any(fnmatchcase(one[0], glob) for glob in version)]
        return [*labels[:end], *between, *labels[begin:]]

    def unsorted(self, names: Iterable[str]) -> bool:
        """Whether the labels still begin as the exporter writes them, so that nobody has sorted them."""
        return next(iter(names), None) == self.first[0].split(",")[0]


class Inventory(_Strict):
    """What the exporter's devices are to the books (`inventory.py`). reported: false where something else reports
    them, and more.   units: profile of its partitions (globs, in lower case) -> units of a divided device."""

    reported: bool = True
    units: Mapping[str, Annotated[int, Field(ge=1, le=MAX_UNITS)]] = Field(default_factory=dict)


class Profile(_Strict, Named):
    """recognise: patterns of metric names that only this exporter has; a group `prefix` in one is what the site has
    put before all of its names.   model: where no label tells it.   blanks: numbers that mean "no value", each from
    and to, inclusive.   expected: what a device must have; where it is missing it is said to be blank.
    own_labels: where it repeats those of pods.   units: those that rules name.   version: labels (globs) that change
    with the exporter's or the driver's version.
    catalogue: the vendor's fields: (number, name, unit, since which of its versions); names that have changed their
    unit are there once for each.
    """

    name: str = Field(min_length=1)
    vendor: str = Field(min_length=1)
    model: str = ""
    recognise: Patterns = Field(min_length=1)
    identity: Identity
    workload: Workload = Field(default_factory=Workload)
    own_labels: OwnLabels | None = None
    inventory: Inventory = Inventory()
    blanks: tuple[Interval, ...] = ()
    expected: Texts = ()
    units: Mapping[str, Unit] = Field(default_factory=dict)
    version: Texts = ()
    catalogue: tuple[tuple[int, str, str, str], ...] = ()
    metrics: tuple[Rule, ...] = Field(min_length=1)

    @field_validator("catalogue")
    @classmethod
    def _versions(cls, value: tuple[tuple[int, str, str, str], ...]) -> tuple[tuple[int, str, str, str], ...]:
        for _, name, _, since in value:
            if not re.fullmatch(r"\d+(\.\d+)*", since):
                raise ValueError(f'{name}: {since!r} is not a version such as "4.7"')
        return value

    @field_validator("expected")
    @classmethod
    def _expected_known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in ALLOWED:
                raise ValueError(f"{name!r} is not in docs/telemetry.md")
        return value

    @model_validator(mode="after")
    def _one_meaning(self) -> Profile:
        seen: dict[tuple[str, str], Rule] = {}
        for rule in self.metrics:
            for name in (*rule.names, *rule.node_names):
                for ours in filter(None, (rule.metric, rule.per_interval)):
                    other = seen.setdefault((name, ours), rule)
                    if other is not rule and other.where == rule.where:
                        raise ValueError(f"{name} is {ours} twice")
        return self

    @model_validator(mode="after")
    def _units_known(self) -> Profile:
        for rule in self.metrics:
            for name in rule.units:
                if name not in self.units:
                    raise ValueError(
                        f"{rule.names[0]}: unit {name!r} is not in units: {', '.join(self.units) or 'empty'}"
                    )
            if len(rule.units) == 1:
                raise ValueError(f"{rule.names[0]}: one unit needs no evidence: use factor and range")
            for unit in self.units_of(rule):
                rule.check(unit)
        return self

    @model_validator(mode="after")
    def _expected_read(self) -> Profile:
        read = {name for rule in self.metrics for name in (rule.metric, rule.per_interval) if rule.scope != "workload"}
        for name in self.expected:
            if name not in read:
                raise ValueError(f"expected: no metric here is {name} of a device, so it would always be missing")
        return self

    @property
    def labels(self) -> frozenset[str]:
        """The labels that it reads, in lower case."""
        identity, workload = (
            {name for texts in part.model_dump(exclude=set(others)).values() for name in texts}
            for part, others in ((self.identity, {"whole"}), (self.workload, {"exporter_pods"}))
        )
        plain = {name for text in identity for name in (re.findall(r"\{(\w+)\}", text) or [text])}
        where = {label for rule in self.metrics for label in rule.where}
        return frozenset(name.lower() for name in plain | workload | where)

    def own(self, labels: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
        """Of a series's labels, as they stand on the exporter's page, those that are the exporter's word."""
        return labels if self.own_labels is None else self.own_labels.of(labels, self.version)

    def unit_by_version(self, names: Iterable[str]) -> dict[str, str]:
        """Name -> unit, of those of these names that have changed their unit from one version to another, where other
        names among them are of so late a version that the last unit is meant. Older ones prove nothing: a site's own
        list of fields may keep them."""
        here = set(names)
        meanings: dict[str, list[tuple[tuple[int, ...], str]]] = defaultdict(list)
        for _, name, unit, since in self.catalogue:
            if name in here:
                meanings[name].append((_version(since), unit))
        proven = max((some[0][0] for some in meanings.values() if len(some) == 1), default=())
        last = {name: max(some) for name, some in meanings.items() if len(some) > 1}
        return {name: unit for name, (since, unit) in last.items() if proven >= since}

    def units_of(self, rule: Rule) -> tuple[Unit, ...]:
        """The units among which the numbers of a rule decide; none where it has one."""
        found = []
        for name in rule.units:
            unit = self.units[name]
            theirs = [float(Fraction(bound) / unit.factor) if math.isfinite(bound) else bound for bound in rule.range]
            low, high = max(theirs[0], unit.range[0]), min(theirs[1], unit.range[1])
            found.append(unit.model_copy(update={"name": name, "range": (low, high)}))
        return tuple(found)

    def recognised(self, names: set[str]) -> tuple[int, str]:
        """How many of these names are this exporter's, and the prefix that the site has put before them."""
        patterns = [re.compile(pattern) for pattern in self.recognise]
        matches = [match for name in sorted(names) for pattern in patterns if (match := pattern.search(name))]
        prefixes = [match.group("prefix") or "" for match in matches if "prefix" in match.re.groupindex]
        return len(matches), min(prefixes, key=len, default="")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


FILES = ProfileFiles(PROFILES, Profile, "docs/exporters.md")
read_profile, profile_of = FILES.read, FILES.named


def recognise(names: set[str], profiles: tuple[Profile, ...] | None = None) -> tuple[Profile, str] | None:
    """The profile that knows most of these metric names, and the names' prefix; None if no profile knows any."""
    known = FILES.built_in if profiles is None else profiles
    scores = [(profile.recognised(names), profile) for profile in known]
    (count, prefix), best = max(scores, key=lambda score: score[0][0])
    return (best, prefix) if count else None


def matches(rule: Rule, labels: Mapping[str, str]) -> bool:
    """Whether the labels (names in lower case) satisfy the rule's conditions."""
    return all(
        any(fnmatchcase(labels.get(label.lower(), ""), glob) for glob in globs) for label, globs in rule.where.items()
    )
