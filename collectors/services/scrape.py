"""Scrapes services, cycle after cycle: rows of service_levels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlsplit

from collectors.errors import CollectorError
from collectors.exporters import exposition
from collectors.exporters.fetching import Access, Answer, Pages, SourceError
from collectors.exporters.scrape import Trouble, checked_url
from collectors.readings import Collected, Row
from collectors.services.measure import Level, Measure, MeasureKey, Reading, levels, measure, reading, together
from collectors.services.profile import Profile, profile_of, recognise

LONGEST_INTERVAL = 86_400.0
"""A row covers at most a day; what was gained since an older reading is left out."""
SHORTEST_INTERVAL = 0.001


@dataclass(frozen=True)
class Target:
    """The metrics endpoint of a replica."""

    url: str
    workload_id: str = ""


@dataclass(frozen=True)
class Service:
    """A service and those of its replicas that can be scraped from here."""

    name: str
    targets: tuple[Target, ...]
    tenant: str = ""
    profile: str = ""
    whole: bool = False


@dataclass
class _Replica:
    target: Target
    profile: Profile | None
    before: Reading | None = None
    trouble: Trouble = field(default_factory=Trouble)


class ServiceCollector:
    """Scrapes services.

    period_seconds: how often `collect` is called, which is the interval of what has no other.   access: as exporters.
    Errors: CollectorError for a URL, a profile or a file that cannot be used.
    """

    def __init__(
        self,
        services: Sequence[Service],
        *,
        cluster: str = "",
        node: str = "",
        period_seconds: float = 15.0,
        access: Access | None = None,
    ) -> None:
        self._cluster, self._node, self._period = cluster, node, period_seconds
        self._services = [(service, _replicas(service)) for service in services]
        urls = [replica.target.url for _, replicas in self._services for replica in replicas]
        self._pages = Pages(urls, access or Access())

    def collect(self, now: datetime) -> Collected:
        """One cycle. A replica that does not answer has no rows, and its service as a whole none either."""
        collected = Collected()
        answers = iter(self._pages.get())
        for service, replicas in self._services:
            found: list[tuple[float, dict[MeasureKey, Measure]]] = []
            for replica in replicas:
                try:
                    interval, measures = self._scrape(replica, next(answers), now, collected)
                except SourceError as trouble:
                    for row in replica.trouble.finding(now, self._node, self._cluster, str(trouble)):
                        collected.add("findings", row)
                    continue
                replica.trouble.over()
                found.append((interval, measures))
                for key, one in measures.items():
                    self._add(collected, service, key, replica.target.workload_id, now, interval, one)
            if service.whole and len(found) == len(replicas):
                self._add_whole(collected, service, now, found)
            elif service.whole:
                collected.dropped["a replica did not answer: nothing is reported of the whole service"] += 1
        return collected

    def acknowledge(self) -> None:
        """Nothing is asked again: the next interval begins where this one ended."""

    def close(self) -> None:
        self._pages.close()

    def _scrape(
        self, replica: _Replica, answer: Answer | SourceError, now: datetime, collected: Collected
    ) -> tuple[float, dict[MeasureKey, Measure]]:
        if isinstance(answer, SourceError):
            raise answer
        if replica.profile is None:
            replica.profile = recognise(exposition.names(answer.body))
            if replica.profile is None:
                raise SourceError(replica.target.url, "answers with metrics that no profile recognises; name one")
        profile = replica.profile
        openmetrics = answer.content_type.startswith("application/openmetrics-text")
        read = exposition.parse(answer.body, profile.names.__contains__, openmetrics=openmetrics)
        collected.dropped += read.dropped
        if not read.series and not _mentions(answer.body, profile):
            raise SourceError(
                replica.target.url,
                f"answers with none of the metrics that profile {profile.name} reads; correct the URL or the profile",
            )
        found = reading(read.series, now.timestamp())
        before, replica.before = replica.before, found
        interval = self._period if before is None else found.at - before.at
        if before is not None and not SHORTEST_INTERVAL <= interval <= LONGEST_INTERVAL:
            collected.dropped["the clock was set, or the last reading is too old"] += 1
            before, interval = None, self._period
        return interval, measure(profile, before, found, collected.dropped)

    def _add_whole(
        self,
        collected: Collected,
        service: Service,
        now: datetime,
        found: Sequence[tuple[float, Mapping[MeasureKey, Measure]]],
    ) -> None:
        parts: dict[MeasureKey, list[Measure]] = {}
        for _, measures in found:
            for key, one in measures.items():
                parts.setdefault(key, []).append(one)
        interval = max(interval for interval, _ in found)
        for key, several in parts.items():
            whole = together(several)
            if whole is None:
                collected.dropped["summaries of several series cannot be merged"] += 1
            elif len(several) < len(found) and not _split(key):
                collected.dropped["a replica tells less than the others"] += 1
            else:
                self._add(collected, service, key, "", now, interval, whole)

    def _add(
        self,
        collected: Collected,
        service: Service,
        key: MeasureKey,
        workload_id: str,
        now: datetime,
        interval: float,
        one: Measure,
    ) -> None:
        name = f"{service.name}/{_split(key)}" if _split(key) else service.name
        about: Row = {"ts": now, "interval_seconds": interval, "service": name, "workload_id": workload_id}
        about |= {"cluster": self._cluster, "tenant": service.tenant}
        about = {column: value for column, value in about.items() if value != ""}
        for level in levels(one):
            collected.add("service_levels", about | _columns(level))


def _replicas(service: Service) -> list[_Replica]:
    """Errors: CollectorError for two targets with rows that could not be distinguished."""
    if not service.name or not service.targets:
        raise CollectorError(f"service {service.name!r}", "has no name or no targets", "Give it both")
    profile = profile_of(service.profile) if service.profile else None
    several = len(service.targets) > 1 or service.whole
    replicas = []
    for target in service.targets:
        workload_id = target.workload_id or (urlsplit(checked_url(target.url)).netloc if several else "")
        replicas.append(_Replica(Target(checked_url(target.url), workload_id), profile))
    if len({replica.target.workload_id for replica in replicas}) < len(replicas):
        raise CollectorError(f"service {service.name!r}", "two targets have one workload_id", "Name each its own")
    return replicas


def _mentions(body: bytes, profile: Profile) -> bool:
    """Whether the page declares a metric of the profile: before its first request, a server lacks some series."""
    return any(
        set(line.split()[2:3]) & profile.names
        for line in body.decode("utf-8", "replace").splitlines()
        if line.startswith("# ")
    )


def _split(key: MeasureKey) -> str:
    return key[0]


def _columns(level: Level) -> Row:
    reported: Row = {
        "metric": level.metric,
        "quantile": level.quantile,
        "value": level.value,
        "value_low": level.low,
        "value_high": level.high,
        "observations": level.observations,
    }
    return {column: value for column, value in reported.items() if value is not None}
