"""Caches answers of the store; each stays valid while the tables that it was read from are unchanged."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from access.scope import RULES
from warehouse.cluster import LOCAL
from warehouse.errors import StoreError
from warehouse.store import Store, read_sql

log = logging.getLogger(__name__)

ANSWERS_CACHED, ROWS_CACHED = 512, 20_000
RECENT_CACHED = 32
WRITTEN_ROWS_CACHED = 40_000
Written = tuple[int, int]
"""An hour or a day, by its start in Unix seconds, and what wrote it: the run of its entries, or the version of its
sums. What these wrote never changes."""
AskWritten = Callable[[Sequence[Written]], Sequence[Mapping[str, Any]]]
"""The rows of some hours or days, each with its hour or day as `at`."""
BY_THEIR_END = frozenset({"allocations"})
"""Tables with partitions of months that say when something ended: a later one matters to an earlier time, too."""
UNCACHEABLE = re.compile(r"\b(now|now64|today|yesterday|rand\w*|generate\w+)\(", re.IGNORECASE)


class AnswerCache:
    """The cached answers, one cache per server; the least recently used are evicted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: OrderedDict[Hashable, Any] = OrderedDict()
        self._rows = 0
        self._written: OrderedDict[Hashable, dict[Written, list[Any]]] = OrderedDict()
        self._written_rows = 0
        self._recent: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._reached: OrderedDict[Hashable, datetime] = OrderedDict()
        self._views: Mapping[str, str] = {}
        self._reads: dict[str, frozenset[str]] = {}
        self._sees_parts = True

    def cached(self, key: Hashable, ask: Callable[[], Any]) -> Any:
        """The answer to `key`: as it was cached, else as asked now."""
        with self._lock:
            if key in self._cached:
                self._cached.move_to_end(key)
                return self._cached[key]
        answer = ask()
        with self._lock:
            if key not in self._cached:
                self._cached[key] = answer
                self._rows += _rows_of(answer)
            while len(self._cached) > ANSWERS_CACHED or self._rows > ROWS_CACHED:
                self._rows -= _rows_of(self._cached.popitem(last=False)[1])
        return answer

    def written(self, key: Hashable, asked: Sequence[Written], ask: AskWritten) -> list[Any]:
        """The rows of all hours or days: as they were cached, of those that are not as asked now."""
        with self._lock:
            known = dict(self._written.get(key, {}))
        missing = [one for one in asked if one not in known]
        if missing:
            found: dict[Written, list[Any]] = {one: [] for one in missing}
            by = dict(missing)
            for row in ask(missing):
                at = int(row["at"].timestamp())
                found[at, by[at]].append(row)
            known |= found
            with self._lock:
                cached = self._written.setdefault(key, {})
                self._written_rows += sum(len(rows) for one, rows in found.items() if one not in cached)
                cached |= found
                self._written.move_to_end(key)
                while self._written_rows > WRITTEN_ROWS_CACHED:
                    self._written_rows -= sum(map(len, self._written.popitem(last=False)[1].values()))
        return [row for one in asked for row in known[one]]

    def recent(self, key: Hashable, seconds: float, ask: Callable[[], Any]) -> Any:
        """The answer to `key` that was asked for less than so many seconds ago, else as asked now."""
        with self._lock:
            until, answer = self._recent.get(key, (0.0, None))
            if time.monotonic() < until:
                return answer
        answer = ask()
        with self._lock:
            self._recent[key] = time.monotonic() + seconds, answer
            self._recent.move_to_end(key)
            while len(self._recent) > RECENT_CACHED:
                self._recent.popitem(last=False)
        return answer

    def reached(self, key: Hashable, at: datetime, ask: Callable[[], datetime | None]) -> datetime | None:
        """How far something has come that never goes back: as was known if that is far enough, else as asked now."""
        with self._lock:
            known = self._reached.get(key)
            if known is not None:
                self._reached.move_to_end(key)
        if known is not None and known >= at:
            return known
        found = ask()
        if found is not None:
            with self._lock:
                self._reached[key] = max(found, self._reached.get(key, found))
                while len(self._reached) > ANSWERS_CACHED:
                    self._reached.popitem(last=False)
        return found

    def parts(self, store: Store) -> Mapping[str, Sequence[tuple[str, int]]] | None:
        """The partitions of each table, each with a fingerprint; None if the server does not let us see them."""
        if not self._sees_parts:
            return None
        try:
            found = store.rows(read_sql(__file__, "parts_in_force"))
            if store.in_shards:
                asked = {"database": store.database, "suffix": LOCAL}
                parts = store.of_shards("system.parts")
                found += store.rows(read_sql(__file__, "parts_of_shards", parts=parts), asked)
            return {row["table"]: row["partitions"] for row in found}
        except StoreError as error:
            if "ACCESS_DENIED" not in str(error):
                raise
            self._sees_parts = False
            log.warning("pages cannot cache answers; GRANT SELECT ON system.parts makes them fast: %s", error)
            return None

    def tables(self, store: Store, sql: str) -> frozenset[str]:
        """The tables that a statement reads, also through views; it may list too many, never too few."""
        if not self._views:
            self._views = {row["name"]: row["reads"] for row in store.rows(read_sql(__file__, "tables"))}
        if sql not in self._reads:
            self._reads[sql] = self._named(sql)
        return self._reads[sql]

    def _named(self, sql: str) -> frozenset[str]:
        named = set(re.findall(r"\w+", re.sub(r"--[^\n]*", "", sql))) & self._views.keys()
        within = (self._named(self._views[name]) if self._views[name] else frozenset([name]) for name in named)
        return frozenset().union(*within)


def _rows_of(answer: Any) -> int:
    return len(answer) if isinstance(answer, list) else 0


@dataclass(frozen=True)
class DataVersion:
    """The version of the data from which a page is drawn, for readers of one scope: no other scope gets its cached
    answers."""

    parts: Mapping[str, Sequence[tuple[str, int]]] = field(default_factory=dict)
    scope: Hashable = None
    cache: AnswerCache | None = None
    books: int = 0

    @staticmethod
    def of(store: Store, scope: Hashable = None, cache: AnswerCache | None = None) -> DataVersion:
        """The store's current version. Without a `cache`, nothing is cached."""
        parts = cache.parts(store) if cache else None
        here = DataVersion(parts or {}, scope, None if parts is None else cache)
        sql = read_sql(__file__, "books_version")
        return replace(here, books=here.cached(store, "books", sql, lambda: store.value(sql)))

    def cached(
        self, store: Store, what: Hashable, reads: str, ask: Callable[[], Any], until: datetime | None = None
    ) -> Any:
        """The answer to the question `what`, from the cache or else from `ask`. Callers must not change it.

        reads: the SQL of the question, or the names of its tables.   until: the question is about nothing later, so
        later partitions of months and days do not matter.
        """
        if self.cache is None or UNCACHEABLE.search(reads):
            return ask()
        tables = self.cache.tables(store, reads if self.scope is None else f"{reads}\n{RULES}")
        read = tuple((table, self._state(table, until)) for table in sorted(tables))
        return self.cache.cached((self.scope, what, read), ask)

    def written(self, store: Store, what: Hashable, asked: Sequence[Written], ask: AskWritten) -> list[Any]:
        """The rows of a question about hours or days of which what was written never changes: they are asked for once.
        Callers must not change them.

        On a cluster they are asked for each time: a node may know of a run before all of its entries are there.
        """
        if self.cache is None or store.cluster or not asked:
            return list(ask(asked)) if asked else []
        return self.cache.written((self.scope, what), asked, ask)

    def recent(self, what: Hashable, seconds: float, ask: Callable[[], Any]) -> Any:
        """The answer to a question about the present, at most so many seconds old, whatever has come since. It must say
        of when it is. Callers must not change it."""
        return ask() if self.cache is None else self.cache.recent((self.scope, what), seconds, ask)

    def reached(self, what: Hashable, at: datetime, ask: Callable[[], datetime | None]) -> datetime | None:
        """How far something has come that never goes back, such as the facts: asked for until that is far enough."""
        return ask() if self.cache is None else self.cache.reached((self.scope, what), at, ask)

    def _state(self, table: str, until: datetime | None) -> int:
        partitions = self.parts.get(table, ())
        if until is None or table in BY_THEIR_END:
            return hash(frozenset(partitions))
        last = {6: f"{until - timedelta(milliseconds=1):%Y%m}", 8: f"{until:%Y%m%d}", 10: f"{until:%Y-%m-%d}"}
        return hash(frozenset((name, print_) for name, print_ in partitions if name <= last.get(len(name), name)))


UNCACHED = DataVersion()
"""For callers that do not cache."""
