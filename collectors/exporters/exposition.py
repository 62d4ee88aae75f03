"""Parses the text format of exporters into series, line by line; a bad line loses only itself.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/ and the OpenMetrics specification.
Why not prometheus_client's parsers: docs/exporters.md, "The parser".
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MOST_SERIES = 100_000
"""Of one page: forty times what eight devices with ten virtual GPUs each have."""
MOST_LABELS = 64
"""Of one series; the others are not read."""
MOST_TEXT = 1000
"""Characters of a label; a longer one is not read."""
MAX_DIGITS = 400
"""Longer numbers are no numbers; it also keeps int() from its own limit."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line: the metric's name as written, without changes to its suffix."""

    name: str
    labels: Mapping[str, str]
    value: int | float
    timestamp: float | None = None


@dataclass
class Exposition:
    """A parsed body. dropped: lines or series that were not used, by reason."""

    series: list[Series] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


# Possessive, so that no line takes more than linear time. A label value may hold any of `{},# ` and escaped quotes.
_SAMPLE = re.compile(
    r"""(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)[ \t]*+
        (?:\{(?P<labels>(?:[^"{}]++|"(?:[^"\\]++|\\.)*+")*+)\})?+[ \t]*+
        (?P<value>[^ \t\#{}"]++)
        (?:[ \t]++(?P<timestamp>[^ \t\#]++))?+
        [ \t]*+(?:\#.*+)?""",
    re.VERBOSE,
)
_LABEL = re.compile(r'[ \t,]*+([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"((?:[^"\\]++|\\.)*+)"[ \t]*+')
_NAME = re.compile(r"^[ \t]*+([a-zA-Z_:][a-zA-Z0-9_:]*+)", re.MULTILINE)
_ESCAPE = re.compile(r"\\(.)")
_INTEGER = re.compile(r"[+-]?[0-9]++")
_UNESCAPED = {"n": "\n", "\\": "\\", '"': '"'}


Labels = Sequence[tuple[str, str]]
"""In the order of the page, perhaps with several of one name."""


def parse(
    body: str | bytes,
    wanted: Callable[[str], bool] | None = None,
    *,
    openmetrics: bool = False,
    own: Callable[[Labels], Labels] = lambda labels: labels,
) -> Exposition:
    """The series of a body in its order.

    wanted: says by the name whether a series is of interest; the others are counted, and cost little.
    openmetrics: timestamps are seconds; in the text format they are milliseconds.   own: picks from a series's labels
    those that its exporter vouches for.
    Types and help texts are not read: users of dcgm-exporter write them (research: its CSV is theirs to edit).
    """
    found = Exposition()
    use: dict[str, bool] = {}
    known: dict[str, dict[str, str] | None] = {"": {}}  # a device's series repeat its labels letter by letter
    for line in _lines(body, found.dropped):
        match = _SAMPLE.fullmatch(line)
        if match is None:
            found.dropped["malformed line"] += 1
            continue
        name, labels, value, timestamp = match.groups()
        if wanted is not None:
            if name not in use:
                use[name] = wanted(name)
            if not use[name]:
                found.dropped["not in the profile"] += 1
                continue
        if len(found.series) >= MOST_SERIES:
            found.dropped["too many series"] += 1
            continue
        read, at = number(value), None if timestamp is None else number(timestamp)
        text = labels or ""
        if text not in known:
            known[text] = _labels(text, own)
        pairs = known[text]
        if read is None:
            found.dropped["not a number"] += 1
        elif timestamp is not None and (at is None or not math.isfinite(at)):
            found.dropped["malformed timestamp"] += 1
        elif pairs is None:
            found.dropped["malformed labels"] += 1
        else:
            seconds = None if at is None else float(at) if openmetrics else at / 1000
            found.series.append(Series(name, pairs, read, seconds))
    return found


def names(body: str | bytes) -> set[str]:
    """The metric names in a body, without parsing anything else."""
    return set(_NAME.findall(body if isinstance(body, str) else body.decode("utf-8", "replace")))


def _lines(body: str | bytes, dropped: Counter[str]) -> Iterator[str]:
    """Lines with samples. A last line without a line end may be truncated within its number: 741 of 74166."""
    for piece in _text_lines(body, dropped):
        line = piece.strip(" \t\r")
        if line and not line.startswith("#"):
            yield line


def _text_lines(body: str | bytes, dropped: Counter[str]) -> Iterator[str]:
    if isinstance(body, str):
        text = body
    else:
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            yield from _decoded(body, dropped)
            return
    *whole, last = text.split("\n")
    yield from whole
    if last.strip(" \t\r") and not last.lstrip(" \t\r").startswith("#"):
        dropped["cut short"] += 1


def _decoded(body: bytes, dropped: Counter[str]) -> Iterator[str]:
    """The valid UTF-8 lines of a body that is not valid as a whole."""
    *whole, last = body.split(b"\n")
    for line in whole:
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            dropped["not UTF-8"] += 1
    if last.strip(b" \t\r") and not last.lstrip(b" \t\r").startswith(b"#"):
        dropped["cut short"] += 1


def number(text: str) -> int | float | None:
    """The number that a text is, as Prometheus writes numbers; None if it is none."""
    if len(text) > MAX_DIGITS or "_" in text or not text.isascii():
        return None
    if _INTEGER.fullmatch(text):
        whole = int(text)
        return whole if abs(whole) < 1 << 1000 else math.copysign(math.inf, whole)
    try:
        return float(text)
    except ValueError:
        return None


def _labels(text: str, own: Callable[[Labels], Labels]) -> dict[str, str] | None:
    """Label -> value; None where the text is no list of labels.

    Users may write labels: dcgm-exporter repeats those of pods among its own, as they are. So of a label that is there
    twice the first counts, and many or long ones cost the series nothing but themselves: a device must not vanish, or
    become another, by what is written at its pod.
    """
    pairs: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _LABEL.match(text, position)
        if match is None:
            rest = text[position:].strip(" \t")
            if rest == "" or (rest == "," and pairs):
                break
            return None
        if position and text[position] != ",":
            return None
        name, value = match.groups()
        if max(len(name), len(value)) <= MOST_TEXT:
            pairs.append((name, value))
        position = match.end()
    found: dict[str, str] = {}
    for name, value in own(pairs):
        if name not in found and len(found) < MOST_LABELS:
            found[name] = _ESCAPE.sub(_unescape, value) if "\\" in value else value
    return found


def _unescape(match: re.Match[str]) -> str:
    return _UNESCAPED.get(match[1], match[0])
