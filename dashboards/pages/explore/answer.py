"""The beginning of a statement's answer, and a chart of it where its columns make one."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from access.principal import Principal
from api.sql.engine import Engine, Question
from api.sql.errors import SYNTAX_ERROR, TOO_MANY, SqlError
from api.sql.limits import Limits
from dashboards import figures
from dashboards.languages import Language
from warehouse.store import Store

MOST = 1000
"""Rows shown; an export has all of them."""
SECONDS = 20
"""That somebody waits at a page; the endpoint gives a statement more."""
FORMAT = "JSONCompactEachRowWithNamesAndTypes"
AT_ONCE = 2
"""Statements of pages that run or wait at a time: they hold the threads that pages are drawn on."""
BARS, SERIES = 40, 8
_SLOTS = threading.BoundedSemaphore(AT_ONCE)
_NUMBER = re.compile(r"(U?Int|Float|Decimal|BFloat)\d*")
_TIME = re.compile(r"Date")


@dataclass(frozen=True)
class Column:
    """kind: the engine's type, without Nullable and LowCardinality."""

    name: str
    kind: str

    @property
    def is_number(self) -> bool:
        return bool(_NUMBER.match(self.kind))

    @property
    def is_time(self) -> bool:
        return bool(_TIME.match(self.kind))


@dataclass(frozen=True)
class Answer:
    """rows: values as tables show them; those of arrays and the like as text.   is_cut: there are more."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    is_cut: bool
    ms: int


def answer_of(store: Store, principal: Principal, sql: str) -> Answer:
    """The first rows of a statement's answer. Errors: SqlError saying why it is refused or does not run."""
    started = time.monotonic()
    if not _SLOTS.acquire(timeout=5):
        raise SqlError(TOO_MANY, "more statements than pages run at once", "Try again in a while")
    try:
        question = Question(sql, FORMAT, {"output_format_json_quote_64bit_integers": "0"})
        with Engine(store, Limits(seconds=SECONDS)).ask_blocking(principal, question) as (name, pieces):
            if name != FORMAT:
                raise SqlError(SYNTAX_ERROR, f"the page shows tables, not FORMAT {name}", "Leave FORMAT out")
            lines = _lines(pieces)
    finally:
        _SLOTS.release()
    names, kinds = (json.loads(line) for line in lines[:2])
    rows = [[_shown(value) for value in json.loads(line)] for line in lines[2 : MOST + 2]]
    columns = [Column(name, _bare(kind)) for name, kind in zip(names, kinds, strict=True)]
    return Answer(columns, rows, len(lines) > MOST + 2, round((time.monotonic() - started) * 1000))


def _lines(pieces: Iterator[bytes]) -> list[bytes]:
    """Heading and rows, one more than is shown; what comes after is not asked for."""
    text, breaks = b"", 0
    for piece in pieces:
        text += piece
        breaks += piece.count(b"\n")
        if breaks > MOST + 2:
            break
    return text.splitlines()


def _bare(kind: str) -> str:
    while found := re.fullmatch(r"(?:Nullable|LowCardinality)\((.*)\)", kind):
        kind = found[1]
    return kind


def _shown(value: Any) -> Any:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else value


def chart_of(answer: Answer, words: Language) -> tuple[figures.Chart, int] | None:
    """The first numbers over the first column: lines over time, else bars; a second column of names makes series. And
    how many of the rows are in it."""
    numbers = [at for at, column in enumerate(answer.columns) if at and column.is_number]
    if not numbers or len(answer.rows) < 2:
        return None
    first, y = answer.columns[0], numbers[0]
    named = next((at for at, one in enumerate(answer.columns[1:y], 1) if not one.is_time), None)
    series: dict[str, list[Sequence[Any]]] = {}
    for row in answer.rows:
        series.setdefault("" if named is None or row[named] is None else str(row[named]), []).append(row)
    over_time = first.is_time and len({row[0] for row in answer.rows}) > 2
    if not over_time and len({row[0] for row in answer.rows}) > BARS:
        series = {name: rows[:BARS] for name, rows in series.items()}
    unnamed = answer.columns[y].name if named is None else words("explore.blank")
    traces, drawn = [], dict(list(series.items())[:SERIES])
    for number, (name, rows) in enumerate(drawn.items()):
        colour = figures.PALETTE[number % len(figures.PALETTE)]
        x = [row[0] if over_time else str(row[0]) for row in rows]
        line = {"type": "scatter", "mode": "lines", "line": {"color": colour, "width": 1.8}}
        look = line if over_time else {"type": "bar", "marker": {"color": colour}}
        traces.append({**look, "x": x, "y": [row[y] for row in rows], "name": name or unnamed})
    # Above the axis, not beside it on its side.
    above = {
        "text": answer.columns[y].name, "x": 0, "y": 1, "xref": "paper", "yref": "paper", "xanchor": "left",
        "yanchor": "bottom", "xshift": -56, "yshift": 8, "showarrow": False, "font": {"size": 12},
    }  # fmt: skip
    chart = figures.made(
        traces,
        words,
        xaxis=None if over_time else {"type": "category", "tickformat": "", "tickangle": None},
        yaxis={"tickformat": ","},  # not "50k", which is no unit of what a statement counts
        showlegend=named is not None,
        margin={"l": 60, "r": 8, "t": 30, "b": 40},
        barmode="stack",
        bargap=0.3,
        legend={"orientation": "h", "y": 1.14, "x": 0},
        annotations=[above],
    )
    return chart, sum(map(len, drawn.values()))
