"""What the statements of billing/ answered while something ran: the result of each .sql file, or the table that it
filled.

The documents say what comes of it all. Between a fact and a document lie tables of which a wrong cell may come to
nothing by chance: a device that is looked at in vain, a month that is computed again for nothing, the first of two
equal samples. Golden files compare these, too.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import billing
from tests.billing.golden import digest
from warehouse.store import Store

FILLS = re.compile(r"^(?:CREATE TABLE|INSERT INTO) \{(\w+):Identifier\}[^;]*?(?:\bAS\b|\bSELECT\b)", re.MULTILINE)
FINGERPRINTS = {"close/carried_facts", "close/carried_hours", "close/carried_last", "close/parts_of_months"}
"""Statements that answer what one close leaves to the next: of tables and runs, which are others each time."""
UNREADABLE = {"alive", "batches", "recently_read"}
"""Tables of the engine Set: they are there to be looked up in."""
DRAWN = {"run", "last_run", "books_run", "as_of_run", "follows", "name", "document", "digest", "version", "again"}
"""Columns of which the values are others each time. Of a document golden files say more."""


@cache
def files() -> Mapping[str, str]:
    """The name of each statement, by the line that it begins with: they all say first what one row is."""
    paths = sorted(Path(billing.__path__[0]).rglob("*.sql"))
    return {path.read_text(encoding="utf-8").partition("\n")[0]: f"{path.parent.name}/{path.stem}" for path in paths}


class Answers:
    """found: by statement, a digest of each answer."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = defaultdict(list)
        self._lock = threading.Lock()

    def keep(self, name: str, rows: list[dict[str, Any]]) -> None:
        texts = sorted(str({column: value for column, value in row.items() if column not in DRAWN}) for row in rows)
        with self._lock:
            self._found[name].append("" if name in FINGERPRINTS else digest(texts))

    def reported(self) -> dict[str, str]:
        """Of each statement how often it was asked, and a digest of its answers in any order."""
        return {name: f"{len(one)} {digest(sorted(one))}" for name, one in sorted(self._found.items())}


@contextmanager
def heard() -> Iterator[Answers]:
    """What the statements answer within, whichever connection they are asked over."""
    answers = Answers()
    asks, commands = Store.rows, Store.command

    def rows(store: Store, sql: str, params: Any = None, *more: Any, **named: Any) -> list[dict[str, Any]]:
        answer = asks(store, sql, params, *more, **named)
        if name := files().get(sql.partition("\n")[0]):
            answers.keep(name, answer)
        return answer

    def command(store: Store, sql: str, params: Any = None, *more: Any, **named: Any) -> None:
        commands(store, sql, params, *more, **named)
        name, fills = files().get(sql.partition("\n")[0]), FILLS.search(sql)
        if name and fills and fills[1] not in UNREADABLE:
            answers.keep(name, asks(store, "SELECT * FROM {table:Identifier}", {"table": params[fills[1]]}))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "rows", rows)
        patch.setattr(Store, "command", command)
        yield answers
