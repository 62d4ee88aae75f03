"""The frozen copy of the documented tables, which the workers of people's SQL read.

A part of a table never changes once it is written, so a copy is a folder of hard links to the files of the table's
active parts: it takes no space and no time worth mentioning, and stays as it is when the engine merges or drops the
parts. A copy of a table is made anew, in another folder, when the set of its active parts is another one.

    FOLDER/open/TABLE/NUMBER/PART/...     every documented table
    FOLDER/audit/TABLE/NUMBER/PART/...    those that only some may see; workers of the others may not open this folder
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from api.sql.allowed import AUDIT, SECRET
from warehouse.errors import StoreError
from warehouse.private_files import FULL
from warehouse.store import MAKE_SPACE, EmbeddedStore, migrations, read_sql

log = logging.getLogger(__name__)
SMALL_PARTS = 300
"""Up to so many parts, they are listed for every statement, which takes some milliseconds."""
SURE_SECONDS, QUIET_NS = 10.0, 1_000_000_000
"""After so long, the parts are listed again even if no folder seems to have changed."""
SHARE = 10
"""A larger store is listed so seldom that listing, linking and attaching take at most this share of the time."""
PATIENCE_SECONDS = 10.0
"""How long to retry if parts disappear while they are linked."""
FORMAT_VERSION = "1"
_CREATES = re.compile(r"^CREATE (?:OR REPLACE )?(?:TABLE|VIEW) (?:IF NOT EXISTS )?(\w+)", re.M)
_ACTIVE_PARTS = read_sql(__file__, "active_parts")
_ON_DISK = (
    "table_disk = 1, disk = disk(readonly = 1, type = object_storage, object_storage_type = local_blob_storage, "
    "metadata_type = plain, path = '{path}/')"
)


@dataclass(frozen=True)
class Frozen:
    """A table or view as a worker has it. create: the statement that makes it.   folder: of its copy; None: a view.
    parts: folders of the store's own that it is a copy of.
    """

    name: str
    create: str
    folder: Path | None
    parts: frozenset[str]


Tables = Mapping[str, Frozen]


class Snapshot:
    """The copy of one store, in a folder on the same file system. Safe to use from several threads."""

    def __init__(self, store: EmbeddedStore, folder: Path) -> None:
        self._store = store
        self._data = Path(store.value("SELECT path FROM system.disks WHERE name = 'default'")) / "data" / store.database
        self.open, self.audit = folder / "open", folder / "audit"
        for place in (self.open, self.audit):
            place.mkdir(parents=True, mode=0o700)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._definitions: dict[str, _Definition] = {}
        self._listed: dict[str, frozenset[str]] = {}
        self._tables: dict[str, Frozen] = {}
        self._made: set[Path] = set()
        self._held: dict[Hashable, frozenset[Frozen]] = {}
        self._state: tuple[tuple[int, int], ...] | None = None
        self._listed_at = float("-inf")
        self._took = 0.0

    def tables(self, holder: Hashable, audit: bool, wanted: Collection[str] | None) -> Tables:
        """The tables and views as they are now; in a large store perhaps as they were ten times as long ago as it takes
        to look. Their copies stay until the holder has `settled` for others, or `ended`.

        audit: with those that only some may see.   wanted: that a statement reads, the ones behind them come with
        them; None: perhaps any.
        """
        with self._lock:
            if not self._definitions:
                self._define()
            names = self._needed(audit, wanted)
            began = time.monotonic()
            if self._is_due(began):
                self._list()
                self._listed_at, self._took = began, 0.0
            self._link(names)
            self._took += time.monotonic() - began
            found = {name: self._tables[name] for name in names}
            self._held[holder] = self._held.get(holder, frozenset()) | frozenset(found.values())
            return found

    def settled(self, holder: Hashable, tables: Iterable[Frozen], took: float) -> None:
        """The holder now has these tables and no others. took: seconds that attaching took."""
        with self._lock:
            self._held[holder] = frozenset(tables)
            self._took = max(self._took, took)
            self._tidy()

    def ended(self, holder: Hashable) -> None:
        """The holder has no tables any more."""
        with self._lock:
            self._held.pop(holder, None)
            self._tidy()

    def _is_due(self, now: float) -> bool:
        """Whether to list the parts anew: something has changed since, and that was not just now in a large store."""
        ago = now - self._listed_at
        if ago < SURE_SECONDS and self._state is not None and self._state == self._folders():
            return False
        return sum(map(len, self._listed.values())) <= SMALL_PARTS or ago >= SHARE * self._took

    def _folders(self) -> tuple[tuple[int, int], ...] | None:
        """Which folder each table has and when something in it changed last; None: not known, or only just. A part
        that becomes active is renamed into its table's folder; what changes at the very moment shows in no time."""
        try:
            found = [(self._data / name).stat() for name, one in self._definitions.items() if not one.is_view]
        except OSError as error:
            log.debug("sql: the folders of the tables are not where they should be: %s", error)
            return None
        if max((one.st_mtime_ns for one in found), default=0) > time.time_ns() - QUIET_NS:
            return None
        return tuple((one.st_ino, one.st_mtime_ns) for one in found)

    def _define(self) -> None:
        self._definitions = _definitions(self._store)
        for name, one in self._definitions.items():
            if one.is_view:
                self._tables[name] = Frozen(name, one.create, None, frozenset())

    def _needed(self, audit: bool, wanted: Collection[str] | None) -> list[str]:
        """The given tables, and those that their views read."""
        may = {name for name in self._definitions if audit or name not in AUDIT}
        names = set(wanted or ()) & may
        if wanted is None or names != set(wanted):  # such as the engine's own, which describe all
            return sorted(may)
        while more := {each for name in names for each in self._definitions[name].names} & may - names:
            names |= more
        return sorted(names)

    def _list(self) -> None:
        """Lists the active parts of each table."""
        self._state = self._folders()
        found: dict[str, list[str]] = {name: [] for name, one in self._definitions.items() if not one.is_view}
        for row in self._store.rows(_ACTIVE_PARTS):
            if row["table"] in found:
                found[row["table"]].append(row["path"])
        self._listed = {name: frozenset(paths) for name, paths in found.items()}

    def _link(self, names: Collection[str]) -> None:
        """Copies the tables whose active parts have changed since their last copy."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                for name in names:
                    parts = self._listed.get(name)
                    if parts is not None and (name not in self._tables or self._tables[name].parts != parts):
                        self._tables[name] = self._frozen(self._definitions[name], parts)
            except FileNotFoundError as error:  # a part that has been merged or dropped since it was listed
                log.debug("sql: a part went while it was linked: %s", error)
                if time.monotonic() >= until:
                    problem = f"its parts changed for {PATIENCE_SECONDS:g} s while they were linked"
                    raise StoreError(self._store.url, problem, "Try again") from error
                self._list()
                continue
            except OSError as error:
                problem = f"its tables cannot be linked: {error.strerror}"
                raise StoreError(self._store.url, problem, MAKE_SPACE if error.errno in FULL else "") from error
            return

    def _frozen(self, definition: _Definition, parts: frozenset[str]) -> Frozen:
        name = definition.name
        folder = (self.audit if name in AUDIT else self.open) / name / str(next(self._numbers))
        self._made.add(folder)
        folder.mkdir(parents=True)
        (folder / "format_version.txt").write_text(FORMAT_VERSION, encoding="ascii")
        for path in parts:
            part = Path(path)
            link_folder(part, folder / part.name)
        return Frozen(name, definition.on_disk(folder), folder, parts)

    def _tidy(self) -> None:
        """Removes the copies that are neither the newest nor held."""
        kept = {one.folder for held in (self._tables.values(), *self._held.values()) for one in held}
        for folder in self._made - kept:
            shutil.rmtree(folder, ignore_errors=True)
            self._made.discard(folder)


def link_folder(source: Path, target: Path) -> None:
    """Hard-links a folder's files, and those below it. Errors: FileNotFoundError if it disappears meanwhile."""
    target.mkdir()
    for entry in os.scandir(source):
        if entry.is_dir(follow_symlinks=False):
            link_folder(source / entry.name, target / entry.name)
        else:
            os.link(entry.path, target / entry.name, follow_symlinks=False)
    source.stat()  # the engine renames a part before it removes its files: all of them were there


@dataclass(frozen=True)
class _Definition:
    """Of a table or view. names: what may be tables in it."""

    name: str
    engine: str
    engine_full: str
    create: str

    @property
    def is_view(self) -> bool:
        return self.engine == "View"

    @functools.cached_property
    def names(self) -> frozenset[str]:
        return frozenset(re.findall(r"\w+", self.create)) if self.is_view else frozenset()

    def on_disk(self, folder: Path) -> str:
        """The statement that makes the table over the copy of its parts."""
        path = str(folder)
        head, engine, tail = self.create.partition(f" ENGINE = {self.engine_full}")
        if not engine or "'" in path or "\\" in path:
            raise StoreError(path, f"the table {self.name} cannot be copied there", "Choose another --store")
        more = ", " if " SETTINGS " in self.engine_full else " SETTINGS "
        return f"{head}{engine}{more}{_ON_DISK.format(path=path)}{tail}"


def _definitions(store: EmbeddedStore) -> dict[str, _Definition]:
    """Of the documented tables and views: those of the schema, but for identity data."""
    documented = {"schema_migrations"}.union(*(_CREATES.findall(text) for _, _, text in migrations())) - SECRET
    rows = store.rows(read_sql(__file__, "definitions"))
    return {row["name"]: _Definition(**row) for row in rows if row["name"] in documented}
