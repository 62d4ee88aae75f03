"""Reads devices from a Prometheus that already scrapes the exporters.

It asks for raw samples with their own timestamps (a range selector in an instant query), not for values at an instant
or query_range: both repeat a value for up to five minutes if Prometheus did not notice that its exporter died. (A long
history may be read more coarsely, `every_seconds`, with a subquery that repeats each value once.)
`observations.Reader._holder` explains how the labels that Prometheus adds differ from the exporter's; `up` has each
target's own.
Source: https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from collectors.exporters.exposition import Series, number
from collectors.exporters.fetching import Access, Fetcher, SourceError
from collectors.exporters.inventory import STEP_SECONDS
from collectors.exporters.memory import Memory
from collectors.exporters.observations import OwnPod, Reader, target_name
from collectors.exporters.profile import FILES, Profile, profile_of
from collectors.exporters.scrape import Scrape, Trouble, checked_url, take_notes
from collectors.exporters.tracker import MISSED_PERIODS, Measurement, PartitionId, Tracker
from warehouse.printable import counted

WINDOW_SECONDS = 3600.0
"""The longest range of one query, and how long a vanished device is still reported as stale."""
NAMES_SECONDS = 600.0
"""How long the list of metric names is believed."""


@dataclass
class Result:
    """The series of an answer by the instant of their samples, in seconds since 1970."""

    at: dict[float, list[Series]] = field(default_factory=lambda: defaultdict(list))
    dropped: Counter[str] = field(default_factory=Counter)


def read_result(body: bytes | str) -> Result:
    """A matrix or a vector, as /api/v1/query answers. A vector's instant is the query's: see the module.

    Errors: ValueError if it is no such answer. A series or sample that is none is counted.
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as mistake:
        raise ValueError(f"not JSON: {mistake}") from None
    if not isinstance(content, dict) or content.get("status") != "success":
        error = content.get("error") if isinstance(content, dict) else None
        raise ValueError(f"Prometheus says: {error}" if error else "not an answer of Prometheus")
    data = content.get("data")
    series = data.get("result") if isinstance(data, dict) else None
    if not isinstance(data, dict) or data.get("resultType") not in ("matrix", "vector") or not isinstance(series, list):
        raise ValueError("neither a matrix nor a vector")
    result = Result()
    for one in series:
        metric = one.get("metric") if isinstance(one, dict) else None
        if not isinstance(metric, dict) or not all(isinstance(text, str) for text in metric.values()):
            result.dropped["malformed labels"] += 1
            continue
        labels = {name: text for name, text in metric.items() if name != "__name__"}
        samples = one.get("values", [one["value"]] if "value" in one else [])
        for sample in samples if isinstance(samples, list) else []:
            at, value = _sample(sample)
            if at is None or value is None:
                result.dropped["not a number"] += 1
            else:
                result.at[at].append(Series(metric.get("__name__", ""), labels, value))
        if not samples:
            result.dropped["no number, perhaps a histogram"] += 1
    return result


def _sample(sample: Any) -> tuple[float | None, int | float | None]:
    if not isinstance(sample, list) or len(sample) != 2:
        return None, None
    at, text = sample
    if isinstance(at, bool) or not isinstance(at, int | float) or not isinstance(text, str):
        return None, None
    return (float(at) if 0 <= at < 1e11 else None), number(text)


class TargetPods:
    """The pods of the targets that Prometheus scrapes, by (job, instance): from `up`, which has a target's labels and
    no other."""

    def __init__(self, result: Result) -> None:
        self._pods: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
        for series in (one for some in result.at.values() for one in some):
            labels = series.labels
            if labels.get("pod"):
                target = labels.get("job", ""), labels.get("instance", "")
                self._pods[target].add((labels.get("namespace", ""), labels["pod"]))

    def __call__(self, labels: Mapping[str, str]) -> bool:
        target = labels.get("job", ""), labels.get("instance", "")
        return (labels.get("namespace", ""), labels.get("pod", "")) in self._pods.get(target, ())


def target_states(up: Result) -> dict[str, bool]:
    """Target -> whether Prometheus's last scrape of it succeeded."""
    return {
        target_name(one.labels, ""): one.value == 1
        for at in sorted(up.at)
        for one in up.at[at]
        if "instance" in one.labels
    }


def dead_targets(up: Mapping[str, bool], known: Iterable[str], late: Mapping[str, int]) -> dict[str, str]:
    """Target -> why Prometheus cannot scrape it."""
    heard = frozenset(known)
    mixed = {job_of(target) for target, answers in up.items() if answers and target not in heard}
    jobs = {job_of(target) for target in heard} - mixed
    found = {}
    for target in sorted({*late, *(target for target, answers in up.items() if not answers)}):
        if up.get(target) is False and (target in heard or job_of(target) in jobs):
            found[target] = "Prometheus cannot scrape it (up is 0)"
        elif target in late and target in up:
            found[target] = (
                f"says nothing of {counted(late[target], 'device')} that it had, although Prometheus scrapes it"
            )
        elif target in late:
            found[target] = f"nothing came of its {counted(late[target], 'device')}" + (
                ", and Prometheus no longer scrapes it" if up else ""
            )
    return found


def job_of(target: str) -> str:
    return target.split("/", 1)[0]


@dataclass
class _Source:
    """A profile with metrics in this Prometheus."""

    reader: Reader
    tracker: Tracker


class PrometheusCollector:
    """Reads the devices of all profiles, or of those given, from one Prometheus.

    selector: more matchers for every query, e.g. `cluster="a"`.   period_seconds: how often Prometheus scrapes the
    exporters.   every_seconds: no more than the newest sample of so many seconds counts, on a grid; 0: every sample.
    honor_labels: as its scrape job has it; None: inferred from the labels, series by series.
    Errors: CollectorError for a URL, a profile or a file that cannot be used.
    """

    def __init__(
        self,
        url: str,
        *,
        profiles: Sequence[Profile | str] = (),
        selector: str = "",
        cluster: str = "",
        period_seconds: float = 30.0,
        every_seconds: int = 0,
        honor_labels: bool | None = None,
        access: Access | None = None,
        partition_id: PartitionId | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.memory = memory or Memory()
        self._units = self.memory.units(url)
        self._url = checked_url(url).rstrip("/")
        self._profiles = [profile_of(one) if isinstance(one, str) else one for one in profiles] or list(FILES.built_in)
        self._selector, self._cluster, self._period = selector, cluster, max(period_seconds, every_seconds)
        self._every = every_seconds
        self._honor_labels, self._partition_id = honor_labels, partition_id
        self._fetcher = Fetcher(access or Access(), tls=self._url.startswith("https:"))
        self._sources: dict[str, _Source] = {}
        self._named_at = -math.inf
        self._until: datetime | None = None
        self._trouble = Trouble()
        self._up: dict[str, bool] = {}
        self._dead: dict[str, Trouble] = {}

    def collect(self, now: datetime) -> Scrape:
        """What came since the last time; the first time, of the last two periods. Prometheus away: all is stale."""
        start = self._until.timestamp() if self._until else now.timestamp() - 2 * self._period
        scrape = Scrape()
        try:
            scrape = self.between(datetime.fromtimestamp(start, UTC), now)
        except SourceError as trouble:
            for row in self._trouble.finding(now, "", self._cluster, str(trouble)):
                scrape.collected.add("findings", row)
            scrape.up[self._url] = False
        else:
            self._until = now
            self._trouble.over()
            self._tell_dead(now, scrape)
        for source in self._sources.values():
            scrape.observed += self._silent(source.tracker, now.timestamp())
            take_notes(source.tracker, scrape.collected, self._cluster)
        return scrape

    def between(self, start: datetime, end: datetime) -> Scrape:
        """What was measured in (start, end], oldest first.

        Errors: SourceError if Prometheus does not answer; nothing of it is remembered then as seen.
        """
        scrape = Scrape(up={self._url: True})
        self._find_names(end.timestamp())
        own_pod = self._own_pods(end)
        results: list[tuple[_Source, Result]] = []
        since = start.timestamp()
        while since < end.timestamp():
            until = min(since + WINDOW_SECONDS, end.timestamp())
            results += [(source, self._samples(source.reader, since, until)) for source in self._sources.values()]
            since = until
        for _, result in results:
            scrape.collected.dropped += result.dropped
        before, since = -math.inf, start.timestamp()
        while since < end.timestamp():
            since = min(since + STEP_SECONDS, end.timestamp())
            for source, result in results:
                looks = [at for at in sorted(result.at) if before < at <= since]
                scrape.observed += self._observe(source, result, looks, own_pod, scrape)
            if self.memory.inventory is not None:
                for row in self.memory.inventory.missing(since):
                    scrape.collected.add("devices", row)
            before = since
        for source in self._sources.values():
            take_notes(source.tracker, scrape.collected, self._cluster)
        for row in self._units.notes(end.timestamp(), cluster=self._cluster):
            scrape.collected.add("findings", row)
        return scrape

    def close(self) -> None:
        self._fetcher.close()

    def _observe(
        self, source: _Source, result: Result, looks: Sequence[float], own_pod: OwnPod | None, scrape: Scrape
    ) -> list[Measurement]:
        observed: list[Measurement] = []
        for at in looks:
            seen = source.reader.read(
                result.at[at], at, own_pod=own_pod, honor_labels=self._honor_labels, units=self._units
            )
            scrape.collected.dropped += seen.dropped
            now = source.tracker.advance(seen)
            if self.memory.inventory is not None:
                for row in self.memory.inventory.take(now, source.reader.profile):
                    scrape.collected.add("devices", row)
            observed += now
        return observed

    def _silent(self, tracker: Tracker, at: float) -> list[Measurement]:
        """Stale: what should have come by now. Gone: what has not come for an hour."""
        young = {key for key, known in tracker.known.items() if at - known.at <= WINDOW_SECONDS}
        gone = tracker.gone(young, at)
        late = [key for key, known in tracker.known.items() if at - known.at > MISSED_PERIODS * self._period]
        return gone + tracker.stale(at, late)

    def _tell_dead(self, now: datetime, scrape: Scrape) -> None:
        """A finding for each exporter that is away behind a Prometheus that answers; its devices stay what they are."""
        late: Counter[str] = Counter()
        nodes: dict[str, str] = {}
        for source in self._sources.values():
            for (_, partition), known in source.tracker.known.items():
                nodes[known.last.target] = known.last.node
                if not partition and now.timestamp() - known.at > MISSED_PERIODS * self._period:
                    late[known.last.target] += 1
        dead = dead_targets(self._up, {*self._units.targets, *nodes}, late)
        for target in self._dead.keys() - dead.keys():
            del self._dead[target]
        for target, what in dead.items():
            scrape.up[target] = False
            self._units.doubt(target)
            trouble = self._dead.setdefault(target, Trouble())
            for row in trouble.finding(now, nodes.get(target, ""), self._cluster, f"{target}: {what}"):
                scrape.collected.add("findings", row)

    def _samples(self, reader: Reader, since: float, until: float) -> Result:
        matchers = f'__name__=~"{"|".join(reader.names)}"' + (f",{self._selector}" if self._selector else "")
        seconds = math.ceil(until - since)
        # A range has both of its ends; on a grid the first is the last of the range before.
        span = f"{max(1, seconds - 1)}s:{self._every}s" if self._every else f"{max(1, seconds)}s"
        return self.query(f"{{{matchers}}}[{span}]", until)

    def _own_pods(self, end: datetime) -> TargetPods | None:
        result = self.query(f"up{{{self._selector}}}", end.timestamp())
        self._up = target_states(result)
        return TargetPods(result) if result.at else None

    def query(self, query: str, at: float) -> Result:
        """What an instant query answers. Errors: SourceError."""
        answer = self._fetcher.get(f"{self._url}/api/v1/query", {"query": query, "time": f"{at:.3f}"})
        try:
            return read_result(answer.body)
        except ValueError as mistake:
            raise SourceError(self._url, str(mistake)) from mistake

    def names(self, start: datetime | None = None, end: datetime | None = None) -> set[str]:
        """Of the metrics that it has, or had between the two; of whole blocks, so perhaps some more.

        Errors: SourceError."""
        limits = {"start": start, "end": end}
        asked = {name: f"{at.timestamp():.3f}" for name, at in limits.items() if at is not None}
        answer = self._fetcher.get(f"{self._url}/api/v1/label/__name__/values", asked or None)
        return _names(answer.body, self._url)

    def known(self, names: Iterable[str]) -> list[str]:
        """Those of the names that a profile reads, in the order of the profiles and of what they hold for best."""
        some, found = set(names), []
        for profile in self._profiles:
            count, prefix = profile.recognised(some)
            found += [name for name in Reader(profile, prefix).names if name in some] if count else []
        return found

    def _find_names(self, at: float) -> None:
        """Which profiles' metrics this Prometheus has, and under which prefix."""
        if self._sources and at - self._named_at < NAMES_SECONDS:
            return
        names = self.names()
        self._named_at = at
        for profile in self._profiles:
            count, prefix = profile.recognised(names)
            if count and profile.name not in self._sources:
                tracker = Tracker(profile.vendor, self._period, self._partition_id, self._units)
                self._sources[profile.name] = _Source(Reader(profile, prefix), tracker)
        if not self._sources:
            known = ", ".join(profile.name for profile in self._profiles)
            raise SourceError(self._url, f"has no metric that a profile recognises (of {known})")


def _names(body: bytes, url: str) -> set[str]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as mistake:
        raise SourceError(url, f"not JSON: {mistake}") from mistake
    names: Iterable[Any] = content.get("data") or () if isinstance(content, dict) else ()
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()
