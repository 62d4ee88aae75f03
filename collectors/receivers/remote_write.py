"""Prometheus's remote write, 1.0 and 2.0: a request becomes points.

A series that cannot be read is refused alone; the others of its request are taken. Metadata is passed over. Native
histograms and exemplars are counted: nothing here reads them.
Source: https://prometheus.io/docs/specs/prw/remote_write_spec/ and .../remote_write_spec_2_0/
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from collectors.receivers.points import (
    NAME,
    MalformedError,
    Point,
    Push,
    Target,
    Terms,
    labels_of,
)
from collectors.receivers.remote_write_pb2 import TimeSeries, TimeSeriesV2
from collectors.receivers.wire import made, parts

V1, V2 = "prometheus.WriteRequest", "io.prometheus.write.v2.Request"
STALE = 0x7FF0000000000002
"""The NaN that Prometheus ends a series with. Any other is a value."""

_SERIES_V1, _METADATA_V1 = 1, 3
_SYMBOLS_V2, _SERIES_V2 = 4, 5


def read(text: bytes, message: str, terms: Terms) -> Push:
    """message: V1 or V2.   Errors: MalformedError if it is no such request."""
    return _read_v2(text, terms) if message == V2 else _read_v1(text, terms)


def _read_v1(text: bytes, terms: Terms) -> Push:
    push, known = Push(), False
    for number, part in parts(memoryview(text)):
        known |= number in (_SERIES_V1, _METADATA_V1) and part is not None
        if number != _SERIES_V1 or part is None:
            continue
        series = made(TimeSeries, part)
        if series is None:
            push.refused["not a series, or too long"] += 1
        else:
            pairs = ((one.name, one.value) for one in series.labels)
            _take(push, labels_of(pairs, len(series.labels), terms.reads), series, terms)
        push.check_room()
    _check_known(text, known, V1)
    return push


def _read_v2(text: bytes, terms: Terms) -> Push:
    push, known = Push(), False
    symbols: list[memoryview] = []
    found: list[memoryview] = []
    for number, part in parts(memoryview(text)):
        if number == _SYMBOLS_V2 and part is not None:
            symbols.append(part)
        elif number == _SERIES_V2 and part is not None:
            found.append(part)
        else:
            continue
        known = True
    _check_known(text, known, V2)
    texts = _Symbols(symbols)
    for part in found:
        series = made(TimeSeriesV2, part)
        labels = None if series is None else texts.labels(series.labels_refs, terms.reads)
        if series is None or labels is None:
            push.refused["not a series, or too long"] += 1
        else:
            _take(push, labels, series, terms)
        push.check_room()
    return push


class _Symbols:
    """The symbol table of a request; each text is decoded when a label first uses it."""

    def __init__(self, parts: Sequence[memoryview]) -> None:
        self._parts = parts
        self._texts: dict[int, str] = {}

    def labels(self, places: Sequence[int], reads: Callable[[str], bool]) -> dict[str, str] | str | None:
        """As `labels_of`. None: they are not pairs, name none that there is, or one that is no text."""
        if len(places) % 2:
            return None
        words = (self._texts.get(place) or self._text(place) for place in places)
        try:
            return labels_of(zip(words, words, strict=True), len(places) // 2, reads)
        except (IndexError, UnicodeDecodeError):
            return None

    def _text(self, place: int) -> str:
        text = self._texts[place] = bytes(self._parts[place]).decode("utf-8")
        return text


def _check_known(text: bytes, known: bool, message: str) -> None:
    if text and not known:
        raise MalformedError("body", f"it is not a {message}", "Send what the Content-Type says")


def _take(push: Push, labels: dict[str, str] | str, series: Any, terms: Terms) -> None:
    """One series: refused as a whole, skipped, or its points taken."""
    samples = len(series.samples)
    push.check_room(samples)
    if isinstance(labels, str) or not labels.get(NAME):
        push.refused[labels if isinstance(labels, str) else "a series without a name"] += max(1, samples)
        return
    for kind, some in (("histograms", series.histograms), ("exemplars", series.exemplars)):
        if some:
            push.accepted[kind] += len(some)
            push.ignored[kind] += len(some)
    name = labels.pop(NAME)
    if not terms.wanted(name):
        push.accepted["samples"] += samples
        push.ignored["in no profile"] += samples
        return
    target = Target(
        "prometheus", labels.get("cluster", terms.cluster), labels.get("job", ""), labels.get("instance", "")
    )
    taken: Counter[str] = Counter()
    for sample in series.samples:
        why = terms.why_not(target.cluster, sample.timestamp)
        if why:
            push.refused[why] += 1
            continue
        stale = sample.value != sample.value and struct.pack("<d", sample.value) == _STALE_BYTES
        push.points.append(Point(target, name, labels, sample.timestamp, sample.value, stale))
        taken["samples"] += 1
    push.accepted += taken


_STALE_BYTES = struct.pack("<Q", STALE)
