"""Points and pushes in a common form for both protocols."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from collectors.exporters.exposition import MOST_LABELS, MOST_TEXT
from ingest.errors import IngestError

MOST_POINTS = 200_000
"""Of one push, as many as rows of any other."""

NAME = "__name__"


class MalformedError(IngestError):
    """The request does not match its declared format; resending it will not help."""


class Target(NamedTuple):
    """What was scraped, or an OTLP resource: all series of one device come from one target."""

    way: str
    cluster: str
    job: str
    instance: str

    @property
    def text(self) -> str:
        return json.dumps(self, ensure_ascii=False, separators=(",", ":"))

    @property
    def words(self) -> str:
        """For whoever reads of it."""
        return " ".join(filter(None, (self.way, self.job, self.instance)))

    @classmethod
    def of(cls, text: str) -> Target:
        return cls(*json.loads(text))


class Point(NamedTuple):
    """ts: milliseconds since 1970.   stale: the series ends here; `value` means nothing then."""

    target: Target
    name: str
    labels: Mapping[str, str]
    ts: int
    value: float
    stale: bool


@dataclass
class Push:
    """A request that was read. points: what a profile may read.   ignored: what nothing here reads, by reason: it is
    what it should be, and not needed.   refused: what cannot be taken, by reason.   accepted: points and others that
    were not refused."""

    points: list[Point] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)

    def check_room(self, more: int = 0) -> None:
        """Errors: MalformedError if it has, with so many more, more points than are taken at once."""
        if self.accepted["samples"] + self.refused.total() + more > MOST_POINTS:
            raise MalformedError("body", f"more than {MOST_POINTS:,} points", "Send fewer at once")


@dataclass(frozen=True)
class Terms:
    """What a point must keep to. wanted, reads: whether a profile reads metrics, labels of this name.   cluster: of
    what names none.   allowed: whether it may be of this cluster.   earliest, latest: milliseconds since 1970."""

    wanted: Callable[[str], bool]
    reads: Callable[[str], bool]
    allowed: Callable[[str], bool]
    cluster: str
    earliest: int
    latest: int

    def why_not(self, cluster: str, ts: int) -> str:
        if not self.earliest <= ts <= self.latest:
            return "a time more than an hour ahead, or before 2000"
        return "" if self.allowed(cluster) else f"cluster {cluster[:100]!r} is not the sender's"


def labels_of(pairs: Iterable[tuple[str, str]], count: int, reads: Callable[[str], bool]) -> dict[str, str] | str:
    """A series's labels, or why they cannot be taken. Of many, and of long ones, only those that a profile reads: a
    pod's user may write any number, and its device must not vanish by that. count: of the pairs."""
    found: dict[str, str] = {}
    names: set[str] = set()
    for name, text in pairs:
        if not name or name in names:
            return "a label without a name, or there twice"
        names.add(name)
        is_long = max(len(name), len(text)) > MOST_TEXT
        if (count <= MOST_LABELS and not is_long) or reads(name):
            if is_long:
                return f"a label of more than {MOST_TEXT} characters"
            found[name] = text
    return found
