"""A report on one exporter: for each metric of its profile, how many devices have a value, and why the others have
none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from collectors.exporters import exposition
from collectors.exporters.fetching import Access, Fetcher, SourceError
from collectors.exporters.observations import Reader
from collectors.exporters.profile import Profile, Rule, profile_of
from collectors.exporters.scrape import checked_url, recognised
from collectors.exporters.tracker import Measurement, Tracker
from collectors.exporters.units import SourceUnits

NO_DEVICE = "Check that it has devices, and that its labels are those of the profile's identity (docs/exporters.md)"


@dataclass(frozen=True, slots=True)
class Line:
    """source: the exporter's name of it, empty if it has none.   unit: the exporter's, empty if it is not known or not
    in question.   of, values: devices and partitions, and those that have a value.   why: state -> how many others."""

    metric: str
    source: str
    unit: str
    values: int
    of: int
    why: dict[str, int]


@dataclass(frozen=True, slots=True)
class Card:
    """version: from its labels.   lost: readings that every device should have and none has."""

    exporter: str
    version: str
    devices: int
    lines: tuple[Line, ...]
    lost: tuple[str, ...]
    dropped: dict[str, int]


def look(
    url: str,
    wait: Callable[[], None],
    *,
    profile: str | None = None,
    access: Access | None = None,
    seconds: float = 5.0,
) -> Card:
    """Scrapes twice, so that counters have increased; `wait` passes the `seconds` in between."""
    fetcher = Fetcher(access or Access(), tls=checked_url(url).startswith("https:"))
    units = SourceUnits()
    try:
        body = fetcher.get(url).body
        chosen, prefix = recognised(url, profile_of(profile) if profile else None, body)
        reader, tracker = Reader(chosen, prefix), Tracker(chosen.vendor, seconds, units=units)
        dropped: Counter[str] = Counter()
        for again in (False, True):
            if again:
                wait()
                body = fetcher.get(url).body
            read = exposition.parse(body, reader.wants, own=reader.profile.own)
            now = datetime.now(UTC).timestamp()
            seen = reader.read(read.series, now, max_age=None, units=units)
            if not seen.devices:  # whose ids are made of a node that the page does not name, and an agent knows
                seen = reader.read(read.series, now, node=urlsplit(url).hostname or "", max_age=None, units=units)
            observed = tracker.advance(seen)
            dropped = read.dropped + seen.dropped
    finally:
        fetcher.close()
    if not observed:
        raise SourceError(url, f"answers without a device that profile {chosen.name} knows", NO_DEVICE)
    versions = {part for one in seen.devices for part in one.version.split(",") if "=" in part}
    lines = tuple(_line(metric, rules, observed, reader.prefix, units) for metric, rules in _metrics(chosen).items())
    lost = tuple(line.metric for line in lines if line.metric in chosen.expected and not line.values)
    devices = len({one.reading.device_id for one in observed})
    return Card(chosen.name, ", ".join(sorted(versions)), devices, lines, lost, dict(dropped))


def _metrics(profile: Profile) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for rule in profile.metrics:
        for metric in filter(None, (rule.metric, rule.per_interval)):
            if rule.scope != "workload":
                found.setdefault(metric, []).append(rule)
    return found


def _line(metric: str, rules: list[Rule], observed: list[Measurement], prefix: str, units: SourceUnits) -> Line:
    readings = [(one, one.reading.readings.get(metric)) for one in observed]
    sources = sorted({reading.source for _, reading in readings if reading is not None and reading.source})
    usable = [(one, reading) for one, reading in readings if reading is not None and reading.usable]
    why = Counter("missing" if reading is None else reading.state for _, reading in readings)
    known = {
        units.unit(one.target, reading.source.removeprefix(prefix).removesuffix("_total"))
        for one, reading in usable
        if rules[0].units
    }
    return Line(
        metric,
        ", ".join(sources) if usable or why.keys() - {"missing", "unsupported"} else "",
        " or ".join(sorted(filter(None, known))),
        len(usable),
        len(observed),
        {state: count for state, count in sorted(why.items()) if state != "ok"},
    )
