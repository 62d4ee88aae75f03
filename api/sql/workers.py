"""The worker processes of one store: lent for one statement each, kept warm, watched, ended.

One thread starts them and watches over those that run, so that no event loop that is busy delays a deadline. A worker
dies with that thread (the kernel sees to it), so none outlives the server, however that ends.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Collection
from pathlib import Path

from api.sql.errors import ENDED, NOT_IMPLEMENTED, SqlError
from api.sql.process import Process
from api.sql.sandbox import isolation
from api.sql.snapshot import Snapshot
from api.sql.turns import Turns
from warehouse.store import EmbeddedStore

log = logging.getLogger(__name__)
IDLE_SECONDS = 300.0
"""A worker that nobody asks for so long is ended; with it goes what it holds of old copies."""
LOOK_SECONDS = 0.1
CLOSE_SECONDS = 10.0
NEEDED = "GPULEDGER_SQL_ISOLATION"
"""An environment variable: `required` refuses statements where the kernel cannot isolate them."""
Started = concurrent.futures.Future[None]


class Workers:
    """at_once: statements that run.   waiting_seconds: that others wait for a turn."""

    def __init__(self, store: EmbeddedStore, at_once: int, waiting_seconds: float) -> None:
        found = isolation()
        if not found.is_whole:
            if os.environ.get(NEEDED, "") == "required":
                what = f"people's statements cannot be isolated on this machine ({found.text()})"
                raise SqlError(NOT_IMPLEMENTED, what, f"Leave {NEEDED} out to allow them all the same (docs/sql.md)")
            log.warning("sql: people's statements are not fully isolated here (%s); see docs/sql.md", found.text())
        self._own = store.another()
        self._folder = _folder(store)
        self._snapshot = Snapshot(self._own, self._folder / "tables")
        self._database = store.database
        self.turns = Turns(at_once, waiting_seconds)
        self._lock = threading.Lock()
        self._idle: list[Process] = []
        self._leased: set[Process] = set()
        self._dead: list[Process] = []
        self._starting = 0
        self._jobs: queue.SimpleQueue[tuple[bool, Started] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._watch, name="sql-workers", daemon=True)
        self._thread.start()

    @contextlib.asynccontextmanager
    async def leased(self, audit: bool, tables: Collection[str] | None) -> AsyncIterator[Process]:
        """A worker for one statement, which has the tables as they are now; whoever asks has a turn.

        audit: whether it has those that only some may see.   tables: that the statement reads; None: perhaps any.
        """
        worker = await self._worker(audit)
        try:
            frozen = await asyncio.to_thread(self._snapshot.tables, worker, audit, tables)
            began = time.monotonic()
            await worker.attach(frozen)
            self._snapshot.settled(worker, worker.held.values(), time.monotonic() - began)
            yield worker
        finally:
            try:
                await worker.stop()
            finally:
                self._take_back(worker)

    def close(self) -> None:
        """Ends all workers and takes away the copy."""
        with self._lock:
            self._closed = True
        self.turns.refuse(_ending())
        self._jobs.put(None)
        self._thread.join(CLOSE_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._own.close()

    async def _worker(self, audit: bool) -> Process:
        """An idle one, else a new one."""
        while True:
            with self._lock:
                if self._closed:
                    raise _ending()
                if (found := self._idle_one(audit)) is not None:
                    self._leased.add(found)
                    return found
                while self._idle and self._count() >= self.turns.at_once:
                    self._end(self._idle.pop(0))
                started = self._start(audit)
            # Started, it is idle: another may take it, or nobody, if whoever waits here leaves now.
            await asyncio.wrap_future(started)

    def _idle_one(self, audit: bool) -> Process | None:
        for one in [one for one in reversed(self._idle) if one.audit == audit]:
            self._idle.remove(one)
            if one.is_alive:
                return one
            self._end(one)
        return None

    def _take_back(self, worker: Process) -> None:
        with self._lock:
            self._leased.discard(worker)
            if worker.is_sound and worker.is_alive and not self._closed:
                worker.rest()
                self._idle.append(worker)
                return
            self._end(worker)
            if not self._closed and self._count() < self.turns.at_once:
                self._start(worker.audit)  # so that the next statement need not wait for it

    def _count(self) -> int:
        return len(self._idle) + len(self._leased) + self._starting

    def _start(self, audit: bool) -> Started:
        started: Started = concurrent.futures.Future()
        self._starting += 1
        self._jobs.put((audit, started))
        return started

    def _end(self, worker: Process) -> None:
        worker.kill()
        self._dead.append(worker)

    def _watch(self) -> None:
        """In its thread: starts workers, looks after them, and buries them."""
        while True:
            there = self._idle or self._leased or self._dead
            try:
                job = self._jobs.get(timeout=LOOK_SECONDS if there else None)
            except queue.Empty:
                self._look()
                continue
            if job is None:
                break
            self._begin(*job)
        with self._lock:
            for worker in (*self._idle, *self._leased):
                worker.kill(_ending())
            dead = [*self._dead, *self._idle, *self._leased]
            self._idle, self._dead = [], []
        for worker in dead:
            self._bury(worker)

    def _begin(self, audit: bool, started: Started) -> None:
        read = [self._snapshot.open, *([self._snapshot.audit] if audit else [])]
        try:
            worker = Process(self._folder / "workers", read, self._database, audit)
        except OSError as error:
            with self._lock:
                self._starting -= 1
            log.error("sql: a worker cannot be started: %s", error)
            with contextlib.suppress(concurrent.futures.InvalidStateError):
                started.set_exception(SqlError(ENDED, "the statement's process cannot be started; the log says why"))
            return
        with self._lock:
            self._starting -= 1
            self._idle.append(worker)
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            started.set_result(None)

    def _look(self) -> None:
        now = time.monotonic()
        with self._lock:
            for worker in self._leased:
                worker.look(now)
            for worker in [one for one in self._idle if now - one.idle_since > IDLE_SECONDS or not one.is_alive]:
                self._idle.remove(worker)
                self._end(worker)
            dead, self._dead = self._dead, []
        for worker in dead:
            self._bury(worker)

    def _bury(self, worker: Process) -> None:
        worker.bury()
        self._snapshot.ended(worker)


def _ending() -> SqlError:
    return SqlError(ENDED, "the server ends")


def _folder(store: EmbeddedStore) -> Path:
    """Beside the engine's own, where hard links to its files can be; what a killed server left there goes."""
    engine = Path(str(store.value("SELECT path FROM system.disks WHERE name = 'default'")))
    if store.path is None:
        return Path(tempfile.mkdtemp(prefix="gpuledger-sql-", dir=engine.parent))
    folder = store.path / "sql"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder
