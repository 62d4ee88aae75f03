"""Scrapes exporters directly, cycle after cycle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from collectors.errors import CollectorError
from collectors.exporters import exposition
from collectors.exporters.fetching import Access, Answer, Pages, SourceError
from collectors.exporters.memory import Memory
from collectors.exporters.observations import Reader
from collectors.exporters.profile import Profile, profile_of, recognise
from collectors.exporters.tracker import Measurement, PartitionId, Tracker
from collectors.exporters.units import SourceUnits
from collectors.readings import Collected, DeviceReading, Row

AGAIN_SECONDS = 300.0
"""A source that stays away is a finding again after this long."""


@dataclass
class Scrape:
    """The result of one cycle. up: url -> whether it answered with devices, so that an empty answer does not look
    quiet."""

    observed: list[Measurement] = field(default_factory=list)
    collected: Collected = field(default_factory=Collected)
    up: dict[str, bool] = field(default_factory=dict)

    @property
    def devices(self) -> list[DeviceReading]:
        return [one.reading for one in self.observed]


class Trouble:
    """A source's problem, reported when it begins, when it changes, and every AGAIN_SECONDS."""

    def __init__(self) -> None:
        self._reported, self._at = "", -math.inf

    def over(self) -> None:
        self._reported, self._at = "", -math.inf

    def finding(self, now: datetime, node: str, cluster: str, what: str) -> list[Row]:
        if what == self._reported and abs(now.timestamp() - self._at) < AGAIN_SECONDS:
            return []
        self._reported, self._at = what, now.timestamp()
        row: Row = {"ts": now, "node": node, "finding": "source_unreachable", "severity": "warning", "message": what}
        return [row | ({"cluster": cluster} if cluster else {})]


@dataclass
class _Target:
    """One URL and its state between cycles."""

    url: str
    profile: Profile | None
    units: SourceUnits
    reader: Reader | None = None
    tracker: Tracker | None = None
    trouble: Trouble = field(default_factory=Trouble)


class ExporterCollector:
    """Scrapes one or more exporters."""

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        profile: Profile | str | None = None,
        node: str = "",
        cluster: str = "",
        period_seconds: float = 15.0,
        honor_timestamps: bool = True,
        access: Access | None = None,
        partition_id: PartitionId | None = None,
        memory: Memory | None = None,
    ) -> None:
        self.memory = memory or Memory()
        chosen = profile_of(profile) if isinstance(profile, str) else profile
        self._targets = [
            _Target(checked_url(url), chosen, self.memory.units(url))
            for url in ((urls,) if isinstance(urls, str) else urls)
        ]
        self._node, self._cluster, self._period = node, cluster, period_seconds
        self._max_age = 2 * period_seconds if honor_timestamps else None
        self._partition_id = partition_id
        self._before = datetime.min.replace(tzinfo=UTC)
        self._pages = Pages([one.url for one in self._targets], access or Access())

    def collect(self, now: datetime) -> Scrape:
        """One cycle. A source that does not answer makes its devices stale, never idle."""
        scrape = Scrape()
        if now < self._before:
            for target in self._targets:
                if target.tracker is not None:
                    target.tracker.start_anew()
        self._before = now
        for target, answer in zip(self._targets, self._pages.get(), strict=True):
            try:
                observed = self._scrape(target, answer, now, scrape.collected)
            except SourceError as trouble:
                observed = target.tracker.stale(now.timestamp()) if target.tracker else []
                target.units.doubt()
                for row in target.trouble.finding(now, self._node, self._cluster, str(trouble)):
                    scrape.collected.add("findings", row)
                scrape.up[target.url] = False
            else:
                target.trouble.over()
                scrape.up[target.url] = True
            scrape.observed += observed
            if target.tracker is not None:
                take_notes(target.tracker, scrape.collected, self._cluster)
            for row in target.units.notes(now.timestamp(), node=self._node, cluster=self._cluster):
                scrape.collected.add("findings", row)
        if self.memory.inventory is not None:
            for row in self.memory.inventory.missing(now.timestamp()):
                scrape.collected.add("devices", row)
        return scrape

    def close(self) -> None:
        self._pages.close()

    def _scrape(
        self, target: _Target, answer: Answer | SourceError, now: datetime, collected: Collected
    ) -> list[Measurement]:
        if isinstance(answer, SourceError):
            raise answer
        if target.reader is None or target.tracker is None:
            profile, prefix = recognised(target.url, target.profile, answer.body)
            target.reader = Reader(profile, prefix)
            target.tracker = Tracker(profile.vendor, self._period, self._partition_id, target.units)
        openmetrics = answer.content_type.startswith("application/openmetrics-text")
        own = target.reader.profile.own
        read = exposition.parse(answer.body, target.reader.wants, openmetrics=openmetrics, own=own)
        at = now.timestamp()
        seen = target.reader.read(read.series, at, node=self._node, max_age=self._max_age, units=target.units)
        collected.dropped += read.dropped + seen.dropped
        if not seen.devices:
            raise SourceError(target.url, f"answers without a device that profile {target.reader.profile.name} knows")
        observed = target.tracker.advance(seen)
        if self.memory.inventory is not None:
            for row in self.memory.inventory.take(observed, target.reader.profile, target.url):
                collected.add("devices", row)
        return observed + target.tracker.gone(((one.device_id, one.partition) for one in seen.devices), at)


def take_notes(tracker: Tracker, collected: Collected, cluster: str) -> None:
    """Moves what a tracker noticed into the cycle's findings and counts."""
    for row in tracker.findings:
        collected.add("findings", row | ({"cluster": cluster} if cluster else {}))
    collected.dropped += tracker.dropped
    tracker.findings.clear()
    tracker.dropped.clear()


def checked_url(url: str) -> str:
    """Errors: CollectorError unless it is an http or https URL."""
    if not url.startswith(("http://", "https://")):
        raise CollectorError(
            f"exporter {url!r}", "not an http or https URL", "Write it like http://localhost:9400/metrics"
        )
    return url


def recognised(url: str, chosen: Profile | None, body: bytes) -> tuple[Profile, str]:
    """The profile that fits a page, and the prefix that the site put before its metric names. Errors: SourceError."""
    found = recognise(exposition.names(body), (chosen,) if chosen else None)
    if found is not None:
        return found
    if chosen is not None:
        return chosen, ""
    raise SourceError(url, "answers with metrics that no profile recognises; name one, or write one")
