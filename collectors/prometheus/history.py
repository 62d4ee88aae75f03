"""Reads a Prometheus's history, and then the present, in pieces, the oldest first: devices, measurements, allocations.

A piece is at most an hour, or less if the Prometheus cannot answer that much at once. The rows of a piece depend on its
content and on the pieces before, so an interrupted history resumes after the last piece that was recorded, and comes to
the same rows; a piece that was written but not recorded is written again, with the same keys.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from collectors.errors import CollectorError
from collectors.exporters.fetching import NO_METRICS, Access, SourceError, TooMuchError
from collectors.exporters.inventory import ExporterInventory
from collectors.exporters.memory import Memory
from collectors.exporters.profile import FILES
from collectors.exporters.prometheus import WINDOW_SECONDS, PrometheusCollector
from collectors.exporters.rows import rows
from collectors.kubernetes.settings import Settings
from collectors.prometheus.holders import Holders
from collectors.readings import Collected
from warehouse.private_files import private_folder

DEFAULT_DAYS = 30
TIMEOUT_SECONDS = 60.0
MOST_BYTES = 64 << 20
"""Of one answer; where it has more, less is asked for."""
LAG_SECONDS = 60.0
"""What is younger may still be on its way: a scrape is stored when it has ended."""
LEAST_PIECE_SECONDS = 60.0
PERIOD_SECONDS = 30.0
"""Of the scrapes, where nothing tells."""
MOST_SAMPLES = 4_000_000
"""Of the exporters' series, of a history; what has more is read more coarsely, as so many take minutes."""
GRIDS = (60, 120, 300)
"""Seconds. A coarser one would miss what Prometheus looks back for: five minutes."""


@dataclass(frozen=True)
class Asked:
    """url: of the Prometheus.   selector: more matchers for every query.   since: None: the last DEFAULT_DAYS, or as
    far as it has."""

    url: str
    cluster: str = ""
    selector: str = ""
    since: datetime | None = None
    access: Access = field(default_factory=lambda: Access(TIMEOUT_SECONDS, MOST_BYTES))


@dataclass
class _Position:
    """since: where the history begins.   until: up to where it was taken.   period: of the scrapes, in seconds.
    every: in seconds, how coarsely it is read before `coarse_until`; 0: every sample."""

    since: float
    until: float
    period: float
    every: int
    coarse_until: float

    @property
    def is_coarse(self) -> bool:
        return bool(self.every) and self.until < self.coarse_until


class History:
    """folder: where its position is kept; None: nowhere, so that a restart starts over.
    clusters: values of the label `cluster` on the exporters' series, at the beginning or now.

    Errors: CollectorError where what was kept is damaged, or the Prometheus cannot be asked.
    """

    def __init__(self, asked: Asked, folder: Path | None, now: datetime) -> None:
        self._asked, self._path = asked, None
        if folder is not None:
            private_folder(folder)
            self._path = folder / "position.json"
        self._memory = Memory(folder / "learned.json" if folder is not None else None, ExporterInventory(asked.cluster))
        if self._memory.damaged:
            raise CollectorError("what was learned of exporters", self._memory.damaged, "Delete it: it is learned anew")
        kept = self._kept()
        self.is_resumed = kept is not None
        self._length = WINDOW_SECONDS
        probe = self._collector(PERIOD_SECONDS, 0)
        try:
            self._check(probe)
            self._at = kept[0] if kept is not None else self._beginning(probe, now)
            self.clusters = self._named_clusters(probe, now)
        finally:
            probe.close()
        self._holders = Holders(Settings(cluster=asked.cluster), self._at.since, asked.selector)
        if kept is not None:
            self._holders.restore(kept[1])
        self._reads_grid = False
        self._source: PrometheusCollector | None = None
        self._open()

    @property
    def since(self) -> datetime:
        return datetime.fromtimestamp(self._at.since, UTC)

    @property
    def until(self) -> datetime:
        return datetime.fromtimestamp(self._at.until, UTC)

    @property
    def period_seconds(self) -> float:
        return self._at.period

    @property
    def every_seconds(self) -> int:
        """How coarsely what lay behind at the beginning is read; 0: every sample."""
        return self._at.every

    @property
    def has_holders(self) -> bool:
        """Whether kube-state-metrics reported a pod that asks for an accelerator."""
        return self._holders.seen_any

    def next(self, now: datetime) -> Collected | None:
        """The rows of the next piece; None if none is over. Errors: SourceError; nothing is taken then."""
        if self._reads_grid and not self._at.is_coarse:
            self._open()
        while True:
            start = self._at.until
            hour = (start // WINDOW_SECONDS + 1) * WINDOW_SECONDS
            end = min(start + self._length, hour, now.timestamp() - LAG_SECONDS)
            if self._at.is_coarse:
                end = min(end, self._at.coarse_until)
            if end - start < 1:
                return None
            try:
                collected = self._read(start, end)
            except TooMuchError:
                if end - start <= LEAST_PIECE_SECONDS:
                    raise
                self._length = max((end - start) / 2, LEAST_PIECE_SECONDS)
                continue
            self._at.until = end
            return collected

    def keep(self) -> None:
        """What `next` gave is where it belongs. Errors: OSError."""
        self._memory.save()
        if self._path is None:
            return
        plain = {"at": self._at.__dict__, "holders": self._holders.plain()}
        beside = self._path.with_name("position.new")
        beside.write_text(json.dumps(plain, separators=(",", ":")), encoding="utf-8")
        beside.replace(self._path)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()

    def _collector(self, period: float, every: int) -> PrometheusCollector:
        asked = self._asked
        return PrometheusCollector(
            asked.url,
            selector=asked.selector,
            cluster=asked.cluster,
            period_seconds=period,
            every_seconds=every,
            access=asked.access,
            memory=self._memory,
        )

    def _kept(self) -> tuple[_Position, Mapping[str, Any]] | None:
        if self._path is None or not self._path.exists():
            return None
        try:
            plain = json.loads(self._path.read_text(encoding="utf-8"))
            return _Position(**plain["at"]), plain["holders"]
        except (OSError, ValueError, KeyError, TypeError) as mistake:
            raise CollectorError(str(self._path), f"damaged: {mistake}", "Read into another --store") from mistake

    def _check(self, probe: PrometheusCollector) -> None:
        """Errors: SourceError, in words for whoever named the URL."""
        try:
            probe.query("vector(1)", datetime.now(UTC).timestamp())
        except SourceError as mistake:
            other = "Give a Prometheus's address, like http://prometheus:9090"
            hint = other if mistake.next_step in ("", NO_METRICS) else mistake.next_step
            raise SourceError(mistake.where, mistake.what, hint) from mistake

    def _beginning(self, probe: PrometheusCollector, now: datetime) -> _Position:
        """The first instant of an exporter's series, and the period of its scrapes."""
        names = probe.known(probe.names())
        if not names:
            looked = ", ".join(f"{one.metrics[0].names[0]} ({one.name})" for one in FILES.built_in)
            raise SourceError(self._asked.url, f"has no series of a GPU exporter. Looked for {looked} and others")
        day = self._asked.since or now - timedelta(days=DEFAULT_DAYS)
        while day < now:
            if some := probe.known(probe.names(day, min(day + timedelta(days=1), now))):
                for hour in range(24):
                    start = day + timedelta(hours=hour)
                    seen = self._instants(probe, some[0], start.timestamp(), start.timestamp() + WINDOW_SECONDS)
                    if seen:
                        latest = self._instants(probe, names[0], now.timestamp() - WINDOW_SECONDS, now.timestamp())
                        first = min(at for instants in seen for at in instants)
                        period = max(_period(seen), _period(latest)) or PERIOD_SECONDS
                        end = now.timestamp() - LAG_SECONDS
                        series = max(self._count(probe, names, at) for at in (first + WINDOW_SECONDS / 2, end))
                        return _Position(first, first - 1, period, _every(period, series * (end - first)), end)
            day += timedelta(days=1)
        since = f"{self._asked.since or now - timedelta(days=DEFAULT_DAYS):%Y-%m-%d}"
        if not self._asked.selector:
            raise SourceError(
                self._asked.url, f"has no series of a GPU exporter since {since}", "Give an earlier --since"
            )
        raise SourceError(
            self._asked.url,
            f"has no series of a GPU exporter with {self._asked.selector} since {since}",
            "Give another --prometheus-selector, or an earlier --since",
        )

    def _count(self, probe: PrometheusCollector, names: Sequence[str], at: float) -> float:
        """How many series of these names there are."""
        selector = f",{self._asked.selector}" if self._asked.selector else ""
        result = probe.query(f'count({{__name__=~"{"|".join(names)}"{selector}}})', at)
        return max((one.value for some in result.at.values() for one in some), default=0)

    def _named_clusters(self, probe: PrometheusCollector, now: datetime) -> Sequence[str]:
        names = probe.known(probe.names())
        selector = f",{self._asked.selector}" if self._asked.selector else ""
        query = f'count({{__name__=~"{"|".join(names)}"{selector}}}) by (cluster)'
        found: set[str] = set()
        for at in (self._at.since + WINDOW_SECONDS / 2, now.timestamp() - LAG_SECONDS) if names else ():
            result = probe.query(query, at)
            found |= {one.labels.get("cluster", "") for some in result.at.values() for one in some}
        return sorted(found - {""})

    def _instants(self, probe: PrometheusCollector, name: str, start: float, end: float) -> list[list[float]]:
        """Of each series of that name, when it has samples."""
        selector = f",{self._asked.selector}" if self._asked.selector else ""
        result = probe.query(f'{{__name__="{name}"{selector}}}[{round(end - start)}s]', end)
        found: dict[int, list[float]] = {}
        for at in sorted(result.at):
            for one in result.at[at]:
                found.setdefault(id(one.labels), []).append(at)
        return list(found.values())

    def _open(self) -> None:
        """Reads as coarsely as it is to be now. Counters, flips of labels and devices that were silent are known from
        the hour before; its rows are in the store, or were never to be there.

        Errors: SourceError; what is read is read as before then.
        """
        source = self._collector(self._at.period, self._at.every if self._at.is_coarse else 0)
        start = max(self._at.since - 1, self._at.until - WINDOW_SECONDS)
        while start < self._at.until:
            end = min(start + self._length, self._at.until)
            try:
                source.between(datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC))
            except TooMuchError:
                if end - start <= LEAST_PIECE_SECONDS:
                    raise
                self._length = max((end - start) / 2, LEAST_PIECE_SECONDS)
            else:
                start = end
        self.close()
        self._source, self._reads_grid = source, self._at.is_coarse

    def _read(self, start: float, end: float) -> Collected:
        assert self._source is not None
        answers = self._holders.ask(self._source.query, start, end)
        scrape = self._source.between(datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC))
        collected = self._holders.take(answers)
        collected += scrape.collected
        observed = sorted(scrape.observed, key=lambda one: one.ts)
        for ts, some in groupby(observed, key=lambda one: one.ts):
            at = ts.timestamp()
            collected += rows(
                some,
                cluster=self._asked.cluster,
                uid_of=lambda namespace, pod, at=at: self._holders.uid_at(namespace, pod, at),  # type: ignore[misc]
            )
        return collected


def _every(period: float, series_seconds: float) -> int:
    """How coarsely so much is read; 0: not at all coarsely."""
    if series_seconds / period <= MOST_SAMPLES:
        return 0
    fitting = (grid for grid in GRIDS if grid > period and series_seconds / grid <= MOST_SAMPLES)
    return next(fitting, GRIDS[-1] if GRIDS[-1] > period else 0)


def _period(series: list[list[float]]) -> float:
    """Of the scrapes of these series; 0 if nothing tells."""
    steps = [later - earlier for instants in series for earlier, later in pairwise(instants)]
    return round(statistics.median(steps), 3) if steps else 0.0
