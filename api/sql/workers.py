"""A pool of worker processes for one store; each runs one statement at a time.

One thread starts the workers and enforces their limits, so that a busy event loop delays no deadline. The kernel kills
the workers when that thread ends, so none outlives the server, however that ends.
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
"""A worker that is idle for so long is ended, which frees the old copies that it holds."""
LOOK_SECONDS = 0.1
CLOSE_SECONDS = 10.0
NEEDED = "GPULEDGER_SQL_ISOLATION"
"""An environment variable: `required` refuses statements where the kernel cannot isolate them."""
Started = concurrent.futures.Future[None]


class Workers:
    """at_once: statements that run.   waiting_seconds: how long others may wait for a turn."""

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
        """A worker for one statement, with the tables as they are now; the caller must have a turn.

        audit: whether it may read the audit's tables.   tables: those that the statement reads; None: unknown.
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
                self._put_back(worker)

    def close(self) -> None:
        """Ends all workers and removes the copy."""
        with self._lock:
            self._closed = True
        self.turns.refuse(_ending())
        self._jobs.put(None)
        self._thread.join(CLOSE_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._own.close()

    async def _worker(self, audit: bool) -> Process:
        """An idle worker, else a new one."""
        while True:
            with self._lock:
                if self._closed:
                    raise _ending()
                if (found := self._idle_one(audit)) is not None:
                    self._leased.add(found)
                    return found
                while self._idle and self._count() >= self.turns.at_once:
                    self._kill(self._idle.pop(0))
                started = self._start(audit)
            # Once started it is idle, so another statement may take it; then this loop starts one more.
            await asyncio.wrap_future(started)

    def _idle_one(self, audit: bool) -> Process | None:
        for one in [one for one in reversed(self._idle) if one.audit == audit]:
            self._idle.remove(one)
            if one.is_alive:
                return one
            self._kill(one)
        return None

    def _put_back(self, worker: Process) -> None:
        with self._lock:
            self._leased.discard(worker)
            if worker.is_sound and worker.is_alive and not self._closed:
                worker.mark_idle()
                self._idle.append(worker)
                return
            self._kill(worker)
            if not self._closed and self._count() < self.turns.at_once:
                self._start(worker.audit)  # so that the next statement need not wait for it

    def _count(self) -> int:
        return len(self._idle) + len(self._leased) + self._starting

    def _start(self, audit: bool) -> Started:
        started: Started = concurrent.futures.Future()
        self._starting += 1
        self._jobs.put((audit, started))
        return started

    def _kill(self, worker: Process) -> None:
        worker.kill()
        self._dead.append(worker)

    def _watch(self) -> None:
        """The thread's loop: starts workers, enforces their limits, and cleans up after them."""
        while True:
            there = self._idle or self._leased or self._dead
            try:
                job = self._jobs.get(timeout=LOOK_SECONDS if there else None)
            except queue.Empty:
                self._check_workers()
                continue
            if job is None:
                break
            self._start_worker(*job)
        with self._lock:
            for worker in (*self._idle, *self._leased):
                worker.kill(_ending())
            dead = [*self._dead, *self._idle, *self._leased]
            self._idle, self._dead = [], []
        for worker in dead:
            self._clean_up(worker)

    def _start_worker(self, audit: bool, started: Started) -> None:
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

    def _check_workers(self) -> None:
        now = time.monotonic()
        with self._lock:
            for worker in self._leased:
                worker.enforce_limits(now)
            for worker in [one for one in self._idle if now - one.idle_since > IDLE_SECONDS or not one.is_alive]:
                self._idle.remove(worker)
                self._kill(worker)
            dead, self._dead = self._dead, []
        for worker in dead:
            self._clean_up(worker)

    def _clean_up(self, worker: Process) -> None:
        worker.clean_up()
        self._snapshot.ended(worker)


def _ending() -> SqlError:
    return SqlError(ENDED, "the server ends")


def _folder(store: EmbeddedStore) -> Path:
    """A folder on the engine's file system, for hard links; emptied of what a killed server left."""
    engine = Path(str(store.value("SELECT path FROM system.disks WHERE name = 'default'")))
    if store.path is None:
        return Path(tempfile.mkdtemp(prefix="gpuledger-sql-", dir=engine.parent))
    folder = store.path / "sql"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder
