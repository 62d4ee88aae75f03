"""Turns the series of one instant into observations of each device, partition and workload, each counted once.

Pure: the result depends on the profile, the series, and the known units of the targets (units.py). Nothing else is
remembered from one scrape to the next (that is tracker.py).
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from collectors.exporters.exposition import Series
from collectors.exporters.profile import Profile, Rule, Unit, matches
from collectors.exporters.units import Shown, SourceUnits
from collectors.readings import Reading

NO_NODES = ("localhost", "localhost.localdomain")
"""What `Hostname` is where the exporter asks a host engine of its own: no node's name."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a device, as the exporter's labels say.   uid: the pod's, empty if not reported.   job: Slurm's."""

    namespace: str = ""
    pod: str = ""
    uid: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a counter shows. reading: in our unit; where several `units` are possible, in the exporter's.   target,
    name: where it was read."""

    rule: Rule
    reading: Reading
    units: tuple[Unit, ...] = ()
    target: str = ""
    name: str = ""


@dataclass(slots=True)
class Observation:
    """A device, or one partition of it (partition not empty), at one instant.

    at: seconds since 1970, of the series' own timestamps where they have them.   counters: ours -> what counts since
    some start.   holders: whom labels name.   shared: several hold it, or copies of a share exist.
    workloads: what was measured of a holder alone.   divided: the device has partitions.   series: how many it is of.
    target: which exporter.   version: what of its labels changes with its version.   vendor: empty: the profile's.
    """

    device_id: str
    partition: str
    partition_id: str = ""
    partition_profile: str = ""
    index: int | None = None
    vendor: str = ""
    model: str = ""
    node: str = ""
    at: float = 0.0
    divided: bool = False
    readings: dict[str, Reading] = field(default_factory=dict)
    counters: dict[str, Counted] = field(default_factory=dict)
    holders: tuple[Holder, ...] = ()
    shared: bool = False
    workloads: dict[Holder, dict[str, Reading]] = field(default_factory=dict)
    series: int = 0
    target: str = ""
    version: str = ""


@dataclass
class Observations:
    """used: series that made a reading; every other one is in `dropped`, with its reason.   unreported: device -> node,
    where only labels that a pod's user can set name the partition of series.   at: seconds since 1970."""

    devices: list[Observation] = field(default_factory=list)
    used: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    unreported: dict[str, str] = field(default_factory=dict)
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class _Subject:
    """Device, partition and holder that a series' labels identify."""

    device_id: str
    partition: str
    partition_id: str
    partition_profile: str
    index: int | None
    vendor: str
    model: str
    node: str
    holder: Holder | None
    replica: str
    target: str
    version: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A series under one rule. rank: a lower rank is a better spelling.   unit: None if unknown."""

    place: int
    series: Series
    subject: _Subject
    rule: Rule
    rank: tuple[int, int]
    of_node: bool
    timely: bool
    unit: Unit | None
    reading: Reading


Ranked = tuple[Rule, tuple[int, int], bool]
"""A rule, the rank of a name in it, and whether it is one of its node_names."""
Picked = tuple[int, Series, _Subject, list[Ranked]]
"""A series that the profile knows, with its place on the page."""

MOST_DEVICES = 100_000
"""Of which a reader remembers whether they are divided."""

CHECKED_BY = {"gpu_utilization": "graphics_active"}
"""Our metric -> another one that says nearly the same in a unit that never changed."""

OF_PODS = frozenset({"pod_template_hash", "batch_kubernetes_io_controller_uid", "statefulset_kubernetes_io_pod_name"})
"""Labels that Kubernetes writes at pods of Deployments, Jobs and StatefulSets: who has them has all labels of pods."""

UID_MISSING_SECONDS = 3600.0
"""For how long UIDs are not believed after a pod's series came without one: an exporter tells all pods' or none."""

AHEAD = 10.0
"""Seconds that a timestamp may be in the future: clocks differ a little."""

OwnPod = Callable[[Mapping[str, str]], bool]
"""Whether the labels (names in lower case) name the exporter's own pod, as the target's labels in Prometheus do."""


class Reader:
    """A profile, prepared for reading. prefix: that the site has put before all metric names."""

    def __init__(self, profile: Profile, prefix: str = "") -> None:
        self.profile = profile
        self.prefix = prefix
        self._rules: dict[str, list[Ranked]] = defaultdict(list)
        self._units = [profile.units_of(rule) for rule in profile.metrics]
        self._repeats_pods = False
        self._uid_missing_at = -math.inf
        self._divided: dict[str, bool] = {}
        for place, rule in enumerate(profile.metrics):
            for nth, name in enumerate((*rule.names, *rule.node_names)):
                self._rules[prefix + name].append((rule, (place, nth), nth >= len(rule.names)))

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that the profile knows, prefix included."""
        return tuple(self._rules)

    def wants(self, name: str) -> bool:
        return bool(self._find(name))

    def _find(self, name: str) -> list[Ranked]:
        """OpenMetrics ends the names of counters in _total, and so do some parsers."""
        return self._rules.get(name) or self._rules.get(name.removesuffix("_total")) or []

    def read(
        self,
        series: Iterable[Series],
        at: float,
        *,
        node: str = "",
        max_age: float | None = math.inf,
        own_pod: OwnPod | None = None,
        honor_labels: bool | None = True,
        units: SourceUnits | None = None,
        divided: Collection[str] = (),
    ) -> Observations:
        """What the series say.

        divided: devices that have partitions, also where no series of one is here.

        units: what is known of this source's units; it learns from the series. None: the series alone tell.
        node: where they were read, if that is known better than from labels.   max_age: seconds after which a
        timestamp is stale; None: timestamps are not looked at.   own_pod, honor_labels: see `_holder`.
        """
        found = Observations(at=at)
        subjects: dict[int, _Subject | None] = {}
        picked: list[Picked] = []
        all_series = list(series)
        self._repeats_pods |= self.profile.own_labels is not None and any(
            OF_PODS & one.labels.keys() for one in all_series
        )
        for place, one in enumerate(all_series):
            rules = self._find(one.name)
            if not rules:
                found.dropped["not in the profile"] += 1
                continue
            if id(one.labels) not in subjects:
                subjects[id(one.labels)] = self._subject(one.labels, node, own_pod, honor_labels)
            subject = subjects[id(one.labels)]
            if subject is None:
                found.dropped["names no device"] += 1
                continue
            rules = [entry for entry in rules if matches(entry[0], subject.labels)]
            if not rules:
                found.dropped["other labels than the profile's"] += 1
                continue
            picked.append((place, one, subject, rules))
        picked = self._without_users_uids(picked, at)
        if self._repeats_pods:
            picked = self._not_by_users(picked, found)
        has_parts = {*divided, *(subject.device_id for _, _, subject, _ in picked if subject.partition)}
        late = {
            place
            for place, one, _, _ in picked
            if one.timestamp is not None and max_age is not None and not at - max_age <= one.timestamp <= at + AHEAD
        }
        chosen = self._chosen_units([one for one in picked if one[0] not in late], at, units or SourceUnits())
        candidates = []
        reasons: dict[int, str] = {}
        for place, one, subject, rules in picked:
            for rule, rank, of_node in rules:
                timely = place not in late
                unit = chosen.get((place, rank[0])) if rule.units else rule.unit
                is_divided = subject.device_id in has_parts
                reading, reason = self._reading(rule, rank[0], unit, one, subject, is_divided, timely)
                own_time = timely and max_age is not None
                candidates.append(_Candidate(place, one, subject, rule, rank, of_node, own_time, unit, reading))
                if reason:
                    reasons[place] = reason
        used = self._assemble(candidates, at, found, reasons)
        found.used = len(used)
        for place in {candidate.place for candidate in candidates} - used:
            found.dropped[reasons.get(place, "another series says it")] += 1
        return found

    def _without_users_uids(self, picked: list[Picked], at: float) -> list[Picked]:
        """Where a Prometheus has sorted the labels, a pod's user may have written its UID. An exporter tells the UIDs
        of all pods or of none: where one pod has none, the others' users wrote theirs."""
        own = self.profile.own_labels
        if own is None:
            return picked
        of_pods = {
            place: subject.holder
            for place, one, subject, _ in picked
            if subject.holder is not None and subject.holder.pod and not own.unsorted(one.labels)
        }
        if not all(holder.uid for holder in of_pods.values()):
            self._uid_missing_at = max(self._uid_missing_at, at)
        if at - self._uid_missing_at > UID_MISSING_SECONDS:
            return picked
        return [
            (place, one, replace(subject, holder=replace(of_pods[place], uid="")), rules)
            if place in of_pods and of_pods[place].uid
            else (place, one, subject, rules)
            for place, one, subject, rules in picked
        ]

    def _not_by_users(self, picked: list[Picked], found: Observations) -> list[Picked]:
        """Where labels of pods stand among the exporter's, and a Prometheus has sorted them, a pod's user may have
        written on which partition it is. Whether a device is divided shows in its series without a pod, now or when
        there last were any, or by several partitions at once: a pod can write but one. Else nobody knows."""
        at_once: dict[str, set[str]] = defaultdict(set)
        free: dict[str, bool] = {}
        for _, _, subject, _ in picked:
            if subject.holder is None or not subject.holder.pod:
                free[subject.device_id] = bool(subject.partition) or free.get(subject.device_id, False)
            elif subject.partition and not subject.replica:
                at_once[subject.device_id].add(subject.partition)
        if len(self._divided) > MOST_DEVICES:
            self._divided.clear()
        self._divided |= free | {device: True for device, some in at_once.items() if len(some) > 1}
        believed = []
        for place, one, subject, rules in picked:
            divided = self._divided.get(subject.device_id)
            if subject.holder is not None and subject.holder.pod and subject.partition and not divided:
                if divided is None:
                    found.dropped["partition reported by a pod's labels alone"] += 1
                    found.unreported[subject.device_id] = subject.node
                    continue
                subject = replace(subject, partition="", partition_id="", partition_profile="")
            believed.append((place, one, subject, rules))
        return believed

    def _subject(
        self, given: Mapping[str, str], node: str, own_pod: OwnPod | None, honor_labels: bool | None
    ) -> _Subject | None:
        labels: dict[str, str] = {}
        for name, text in given.items():
            labels.setdefault(name.lower(), text)  # an exporter's own labels come before those of pods
        identity, workload = self.profile.identity, self.profile.workload
        where = node or _node(labels, identity.node)
        device_id = next(filter(None, (_named(labels, text, where) for text in identity.device_id)), "")
        if not device_id:
            return None
        profile = _plain(labels, identity.partition_profile)
        partition = _plain(labels, identity.partition)
        if identity.whole and profile in identity.whole:
            partition = profile = ""
        index = _plain(labels, identity.index)
        return _Subject(
            device_id=device_id,
            partition=partition,
            partition_id=_plain(labels, identity.partition_id) if partition else "",
            partition_profile=profile if partition else "",
            index=int(index) if index.isdecimal() and len(index) < 10 else None,
            vendor=_plain(labels, identity.vendor),
            model=_plain(labels, identity.model) or self.profile.model,
            node=where,
            holder=self._holder(labels, own_pod, honor_labels),
            replica=_plain(labels, workload.replica),
            target=target_name(labels, where),
            version=self._version(given),
            labels=labels,
        )

    def _holder(self, labels: Mapping[str, str], own_pod: OwnPod | None, honor_labels: bool | None) -> Holder | None:
        """The pod or job that the exporter names, never the exporter itself.

        Prometheus with honorLabels false moves what the exporter said to exported_pod and writes the target's own pod;
        with honorLabels true it keeps what the exporter said, and writes the target's own where that said nothing. So
        exported_ labels count where there are any; else `pod` counts unless it is the exporter's: because honorLabels
        is known to be false, because `own_pod` knows the target, or by the pod's name.

        Where the exporter was seen to repeat all labels of pods, and Prometheus to sort them, a pod's user may have
        written its UID and its job: neither counts.
        """
        names = self.profile.workload
        job = _first(labels, names.job)
        moved = any(f"exported_{label.lower()}" in labels for label in (*names.pod, *names.namespace, *names.container))
        before = "exported_" if moved else ""
        pod, namespace, uid = (
            _plain(labels, [before + label for label in some]) for some in (names.pod, names.namespace, names.uid)
        )
        uid = uid or _plain(labels, names.uid)
        if self._repeats_pods and pod:
            uid = job = ""
        own = any(fnmatchcase(pod, glob) for glob in names.exporter_pods)
        if not moved:
            own = own or honor_labels is False or (own_pod is not None and own_pod(labels))
        if own or not pod:
            return Holder(job=job) if job else None
        return Holder(namespace, pod, uid, job)

    def _chosen_units(self, picked: list[Picked], at: float, known: SourceUnits) -> dict[tuple[int, int], Unit | None]:
        """(place of the series, place of the rule) -> its unit, of those rules that have several."""
        groups: dict[tuple[str, str, int], list[tuple[int, Series, _Subject]]] = defaultdict(list)
        names: dict[str, set[str]] = defaultdict(set)
        activity: dict[tuple[str, str, str, str], float] = {}
        for place, one, subject, rules in picked:
            name = one.name.removeprefix(self.prefix).removesuffix("_total")
            names[subject.target].add(name)
            for rule, (nth, _), _ in rules:
                if rule.units and not (rule.scope == "whole" and subject.partition) and not self._blank(one.value):
                    groups[subject.target, name, nth].append((place, one, subject))
                elif rule.metric in CHECKED_BY.values() and rule.unit.fits(one.value):
                    activity[rule.metric, subject.target, subject.device_id, subject.partition] = float(one.value)
        by_version = {target: self.profile.unit_by_version(some) for target, some in names.items()}
        chosen: dict[tuple[int, int], Unit | None] = {}
        for (target, name, nth), some in groups.items():
            rule, units = self.profile.metrics[nth], self._units[nth]
            if rule.per_interval:
                remembered = known.unit(target, name)
                found = [next((unit for unit in units if unit.name == remembered), None)] * len(some)
            else:
                other = CHECKED_BY.get(rule.metric, "")
                shown = [
                    Shown(
                        (subject.device_id, subject.partition),
                        one.value,
                        activity.get((other, target, subject.device_id, subject.partition)),
                    )
                    for _, one, subject in some
                ]
                version = ";".join(sorted({subject.version for _, _, subject in some}))
                found = known.decide(
                    target, name, units, shown, at, version=version, by_version=by_version[target].get(name, "")
                )
            chosen |= {(place, nth): unit for (place, _, _), unit in zip(some, found, strict=True)}
        return chosen

    def _version(self, labels: Mapping[str, str]) -> str:
        """What of the labels changes with the exporter's version: their spelling, and what they say of the driver."""
        identity = {name.lower() for name in (*self.profile.identity.device_id, *self.profile.identity.node)}
        reported = [
            f"{name}={text}"
            for name, text in labels.items()
            if any(fnmatchcase(name, glob) for glob in self.profile.version)
        ]
        return ",".join(sorted([*(name for name in labels if name.lower() in identity), *reported]))

    def _blank(self, value: int | float) -> bool:
        return math.isnan(value) or any(start <= value <= end for start, end in self.profile.blanks)

    def _reading(
        self, rule: Rule, nth: int, unit: Unit | None, series: Series, subject: _Subject, divided: bool, timely: bool
    ) -> tuple[Reading, str]:
        """The reading, and why it has no value where it has none."""
        source, value = series.name, series.value
        if not timely:
            return Reading("stale", source=source), "stale"
        if rule.scope == "whole" and subject.partition:
            return Reading("unsupported", source=source), "no measure of a partition"
        if self._blank(value):
            return Reading("blank", source=source), "blank"
        if not any(one.fits(value) for one in self._units[nth] or (rule.unit,)) and not (value == 0 and rule.units):
            return Reading("blank", source=source), "out of range"
        if value == 0:
            zero = rule.false_zero.get("always") or (rule.false_zero.get("partition") if divided else None)
            zero = zero or (rule.false_zero.get("replica") if subject.replica else None)
            if zero:
                return Reading(zero, source=source), "a zero that is no measurement"
        if rule.units and rule.per_interval:
            return Reading("ok", float(value), source), ""  # in the exporter's unit: `Counted`
        if unit is None:
            return (
                (Reading("ok", 0.0, source), "") if value == 0 else (Reading("blank", source=source), "unit not known")
            )
        return Reading("ok", unit.scaled(value), source), ""

    def _assemble(
        self, candidates: list[_Candidate], at: float, found: Observations, reasons: dict[int, str]
    ) -> set[int]:
        """Fills in the devices; answers the places of the series that were used."""
        devices = _devices(candidates, at)
        used: set[int] = set()
        for (device_id, partition, holder, ours), some in _grouped(candidates, reasons).items():
            bound = any(devices[device_id, one.subject.partition].holders for one in some)
            chosen, reading = _choose(some, bound, reasons)
            used.update(candidate.place for candidate in chosen)
            observation, rule = devices[device_id, partition], (chosen or some)[0].rule
            if holder is not None:
                observation.workloads.setdefault(holder, {})[ours] = reading
                continue
            if rule.per_interval:
                best = (chosen or some)[0]
                units, name = self._units[best.rank[0]], best.series.name.removeprefix(self.prefix)
                counted = Counted(rule, reading, units, best.subject.target, name.removesuffix("_total"))
                observation.counters[rule.per_interval] = counted
                if units and reading.usable:
                    reading = _in_unit(best.unit, reading)
            if rule.metric:
                observation.readings[ours] = reading
        for observation in devices.values():
            self._complete(observation)
        found.devices = list(devices.values())
        return used

    def _complete(self, observation: Observation) -> None:
        """Says of what is missing that it is missing: of a whole that is divided, or of a part, perhaps forever."""
        for rule in self.profile.metrics:
            if observation.partition and rule.scope in ("device", "whole") and rule.metric:
                observation.readings[rule.metric] = Reading("unsupported", source=rule.names[0])
        for name in self.profile.expected:
            if name not in observation.readings:
                whole_of_parts = observation.divided and not observation.partition
                observation.readings[name] = Reading("unsupported" if whole_of_parts else "blank")


def _devices(candidates: list[_Candidate], at: float) -> dict[tuple[str, str], Observation]:
    """The devices and partitions that occur, and their holders, without readings."""
    devices: dict[tuple[str, str], Observation] = {}
    holders: dict[tuple[str, str], dict[tuple[str, str, str], Holder]] = defaultdict(dict)
    for candidate in candidates:
        subject = candidate.subject
        key, whole = (subject.device_id, subject.partition), (subject.device_id, "")
        for one in (whole, key):
            if one not in devices:
                devices[one] = _observation(subject, whole=one == whole)
        observation, timestamp = devices[key], candidate.series.timestamp
        devices[whole].divided |= bool(subject.partition)
        observation.series += 1
        for each in (observation, devices[whole]):  # not every series need tell them
            each.vendor, each.model = each.vendor or subject.vendor, each.model or subject.model
        if timestamp is not None and candidate.timely:
            observation.at = max(observation.at, timestamp)
        if candidate.rule.scope != "workload":
            observation.shared |= bool(subject.replica)
            if subject.holder is not None:
                name = subject.holder.namespace, subject.holder.pod, subject.holder.job
                if name not in holders[key] or not holders[key][name].uid:
                    holders[key][name] = subject.holder
    for key, observation in devices.items():
        observation.holders = tuple(holders[key].values())
        observation.shared |= len(observation.holders) > 1
        observation.divided = devices[observation.device_id, ""].divided
        observation.at = observation.at or at
    return devices


def _observation(subject: _Subject, *, whole: bool) -> Observation:
    return Observation(
        device_id=subject.device_id,
        partition="" if whole else subject.partition,
        partition_id="" if whole else subject.partition_id,
        partition_profile="" if whole else subject.partition_profile,
        index=subject.index,
        vendor=subject.vendor,
        model=subject.model,
        node=subject.node,
        target=subject.target,
        version=subject.version,
    )


def _grouped(
    candidates: list[_Candidate], reasons: dict[int, str]
) -> dict[tuple[str, str, Holder | None, str], list[_Candidate]]:
    """Series by (device, partition, holder, our metric): those in a group measure the same thing."""
    groups: dict[tuple[str, str, Holder | None, str], list[_Candidate]] = defaultdict(list)
    for candidate in candidates:
        subject, rule = candidate.subject, candidate.rule
        if rule.scope == "whole" and subject.partition:
            continue
        if rule.scope == "workload" and subject.holder is None:
            reasons.setdefault(candidate.place, "names no pod")
            continue
        partition = "" if rule.scope == "device" else subject.partition
        holder = subject.holder if rule.scope == "workload" else None
        groups[subject.device_id, partition, holder, rule.metric or rule.per_interval].append(candidate)
    return groups


def _choose(some: list[_Candidate], bound: bool, reasons: dict[int, str]) -> tuple[list[_Candidate], Reading]:
    """The one reading of several series that measure the same thing, and the series it was made from."""
    if bound:
        for candidate in some:
            if candidate.of_node:
                reasons[candidate.place] = "the node's, while a pod is bound"
        some = [candidate for candidate in some if not candidate.of_node]
    if not some:
        return [], Reading("blank")
    usable = [candidate for candidate in some if candidate.reading.usable]
    if not usable:
        return [], min(some, key=lambda candidate: candidate.rank).reading
    best = min(candidate.rank for candidate in usable)
    usable = [candidate for candidate in usable if candidate.rank == best]
    usable = [one for one in usable if one.rule.scope == "device" and not one.subject.partition] or usable
    usable = [one for one in usable if one.subject.holder is None and not one.subject.replica] or usable
    source, rule = usable[0].reading.source, usable[0].rule
    values = [candidate.reading.value for candidate in usable if candidate.reading.value is not None]
    how = rule.combine
    if how == "one":
        if len(set(values)) > 1 and rule.scope != "device":
            for candidate in usable:
                reasons[candidate.place] = "copies that disagree"
            return [], Reading("blank", source=source)
        usable, how = usable[:1], "max"
    most = max(one.unit.scaled(one.unit.range[1]) if one.unit else math.inf for one in usable)
    return usable, Reading("ok", min(_COMBINE[how](values), most), source)


def _in_unit(unit: Unit | None, reading: Reading) -> Reading:
    if unit is None or reading.value is None:
        return Reading("blank", source=reading.source)
    return Reading("ok", unit.scaled(reading.value), reading.source)


_COMBINE: Mapping[str, Callable[[list[float]], float]] = {
    "max": max,
    "min": min,
    "sum": math.fsum,
    "mean": lambda values: math.fsum(values) / len(values),
}


def _node(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """The node from the target's labels, else from the exporter's own labels, else the scraped host."""
    for text in (labels.get("node"), labels.get("kubernetes_node"), _first(labels, names)):
        if text and text not in NO_NODES:
            return text
    return re.sub(r":\d+$", "", labels.get("instance", ""))


def target_name(labels: Mapping[str, str], node: str) -> str:
    """The exporter's name: Prometheus's for its target, else its node."""
    return f"{labels.get('job', '')}/{labels.get('instance') or node}"


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """The first of these labels that is not empty, before it its exported_ twin: that is what the exporter said where
    the target has such a label. Labels that name the device have no twin: no target has them, but a pod's user may."""
    for name in names:
        text = labels.get(f"exported_{name.lower()}") or labels.get(name.lower())
        if text:
            return text
    return ""


def _plain(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return next(filter(None, (labels.get(name.lower()) for name in names)), "")


def _named(labels: Mapping[str, str], template: str, node: str) -> str:
    """A label's text, or a template with {label}s, none of which may be empty."""
    if "{" not in template:
        return _plain(labels, (template,))
    parts = [node if name == "node" else _plain(labels, (name,)) for name in re.findall(r"\{(\w+)\}", template)]
    if not all(parts):
        return ""
    texts = iter(parts)
    return re.sub(r"\{\w+\}", lambda _: next(texts), template)
