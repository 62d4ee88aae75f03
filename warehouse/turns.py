"""Locks that are granted in order of arrival (turns): within a process, and between all processes that use one server.

    with store.turn():                      # exclusive
    with store.turn(together=True):         # shared: with others that are not exclusive

An embedded store belongs to one process, so a queue in memory is enough. The processes that share a ClickHouse server
coordinate through the table `turns`. A process writes that it waits, and waits for all that asked before it. Then it
writes that it has the turn, and checks once more: if two do so at the same time, at least one sees the other and starts
over. Shared turns do not block each other.

The holder of a turn renews it regularly. If the last renewal is older than `LEASE_SECONDS`, by the store's clock, the
process counts as killed, and nobody waits for it any longer; nor if somebody who waits saw no renewal for that long by
a clock of their own, so that a store's clock that was set back blocks nobody. If a process was only suspended, or the
store's clock was set forward, `check` finds out that others may have had the turn since: by its own clock, and by what
the store has of its signs of life:

    with store.turn() as held:
        ...
        held.check()                        # before each write that must not come late
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from warehouse.elapsed import elapsed
from warehouse.errors import LedgerError
from warehouse.sql import read_sql

if TYPE_CHECKING:
    from warehouse.store import Store

log = logging.getLogger(__name__)
LEASE_SECONDS = 60.0
LOOK_SECONDS = 0.05
"""Time between two checks whether it is our turn."""
LOG_SECONDS = 5.0
"""After this long a wait, log whom we wait for."""


class TurnLostError(LedgerError):
    """The process was suspended for longer than a turn lasts without renewal; others may have had it since."""


class Held:
    """A turn that this process has."""

    def check(self) -> None:
        """Errors: TurnLostError if the turn may be over; nothing may be written in it then."""


class HeldTogether(Held):
    """Several turns as one."""

    def __init__(self, *turns: Held) -> None:
        self._turns = turns

    def check(self) -> None:
        for one in self._turns:
            one.check()


class Turns:
    """Exclusive turns within this process, one queue for each thing (`at`), in order of arrival."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queues: dict[str, deque[object]] = {}

    @contextlib.contextmanager
    def turn(self, at: str, together: bool = False) -> Iterator[Held]:
        """together: may overlap with shared turns of other processes; within this process, turns never overlap."""
        mine = object()
        with self._changed:
            queue = self._queues.setdefault(at, deque())
            queue.append(mine)
        try:
            with self._changed:
                self._changed.wait_for(lambda: queue[0] is mine)
            yield Held()
        finally:
            with self._changed:
                queue.remove(mine)
                if not queue:
                    del self._queues[at]
                self._changed.notify_all()

    def close(self) -> None:
        """No turn can be taken afterwards."""


class TurnsBetween(Turns):
    """Turns among all processes that use one ClickHouse server.

    connect: opens a connection that is used for turns only, so that nothing slow delays them.
    Errors: StoreError of `turn` if the server cannot be asked; nothing has begun then.
    """

    def __init__(self, connect: Callable[[], Store], lease_seconds: float = LEASE_SECONDS) -> None:
        super().__init__()
        self._connect, self._lease = connect, lease_seconds
        self._opening = threading.Lock()
        self._opened: Store | None = None

    @contextlib.contextmanager
    def turn(self, at: str, together: bool = False) -> Iterator[Held]:
        with super().turn(at, together):
            mark = _TableTurn(self._store(), at, not together, self._lease)
            try:
                mark.take()
                with mark.renewing():
                    yield mark
            finally:
                mark.end()

    def close(self) -> None:
        with self._opening:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def _store(self) -> Store:
        with self._opening:
            if self._opened is None:
                self._opened = self._connect()
            return self._opened


class _TableTurn(Held):
    """A turn in the table `turns`."""

    def __init__(self, store: Store, at: str, alone: bool, lease_seconds: float) -> None:
        self._store, self._at, self._alone, self._lease = store, at, alone, lease_seconds
        self._mine = uuid.uuid4()
        self._renewed_at = elapsed()
        self._over = threading.Event()
        self._has, self._lost = False, False
        self._seen: dict[uuid.UUID, tuple[int, float]] = {}

    def take(self) -> None:
        """Blocks until it is our turn."""
        while True:
            self._write_state("waits")
            self._wait()
            self._write_state("has")
            self._has = True
            before, after = self._others()
            if not any(other["has"] for other in (*before, *after)):
                return
            self._has = False
            self._write_state("over")
            self._mine = uuid.uuid4()
            time.sleep(LOOK_SECONDS * random.random())  # noqa: S311 (who is first)

    @contextlib.contextmanager
    def renewing(self) -> Iterator[None]:
        renewer = threading.Thread(target=self._renew, name="turn-keep", daemon=True)
        renewer.start()
        try:
            yield
        finally:
            self._over.set()
            renewer.join()

    def check(self) -> None:
        # Our own clock last: we may have stood still while the store answered.
        if self._was_silent() or self._is_late():
            raise TurnLostError(
                self._at, f"no sign of life for over {self._lease:g} s", "Others carry on; run it again"
            )

    def _is_late(self) -> bool:
        """Whether others may have had the turn meanwhile; a later renewal does not give it back."""
        self._lost = self._lost or (self._has and elapsed() - self._renewed_at >= self._lease)
        return self._lost

    def _was_silent(self) -> bool:
        """Whether the store's clock shows, or showed once, no sign of life for a lease: it was set forward."""
        rows = self._store.rows(read_sql(__file__, "turns_silence"), {"at": self._at, "mine": str(self._mine)})
        self._lost = self._lost or any(row["silence_ms"] >= self._lease * 1000 for row in rows)
        return self._lost

    def end(self) -> None:
        if self._is_late():
            log.error("%s: no sign of life for over %g s, others may have started meanwhile", self._at, self._lease)
        try:
            self._write_state("over")
        except LedgerError as error:
            log.warning("%s: its turn cannot be released, others wait up to %.0f s: %s", self._at, self._lease, error)

    def _wait(self) -> None:
        """Waits for those that asked earlier, and for those that have the turn."""
        began, logged = time.monotonic(), False
        while True:
            before, after = self._others()
            others = [*before, *(other for other in after if other["has"])]
            if not others:
                return
            if not logged and time.monotonic() > began + LOG_SECONDS:
                log.warning("%s waits for %s", self._at, ", ".join(sorted({other["who"] for other in others})))
                logged = True
            time.sleep(LOOK_SECONDS)
            if elapsed() > self._renewed_at + self._lease / 4:
                self._write_state("waits")

    def _renew(self) -> None:
        while not self._over.wait(self._lease / 4):
            if self._is_late():
                return
            try:
                self._write_state("has")
            except LedgerError as error:
                log.warning("%s: its turn cannot be renewed: %s", self._at, error)

    def _others(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The turns that block this one: those asked for earlier, and later. One renewed too late goes last."""
        self._store.catch_up("turns")
        rows = self._store.rows(read_sql(__file__, "turns_at"), {"at": self._at, "lease_ms": round(self._lease * 1000)})
        rows = [row for row in rows if row["holder"] == self._mine or self._gives_signs(row)]
        mine = [number for number, row in enumerate(rows) if row["holder"] == self._mine] or [len(rows)]
        parts = rows[: mine[0]], rows[mine[0] + 1 :]
        before, after = ([row for row in part if self._alone or row["alone"]] for part in parts)
        return before, after

    def _gives_signs(self, other: dict[str, Any]) -> bool:
        """Whether we saw a sign of life of another turn within a lease, by our own clock."""
        signs, seen_at = self._seen.get(other["holder"], (0, 0.0))
        if signs != other["signs"]:
            self._seen[other["holder"]] = other["signs"], elapsed()
            return True
        return elapsed() - seen_at < self._lease

    def _write_state(self, state: str) -> None:
        written_at = elapsed()
        about = {"at": self._at, "mine": str(self._mine), "alone": self._alone, "state": state}
        who = f"process {os.getpid()} on {socket.gethostname()}"
        self._store.command(read_sql(__file__, "turns_say"), {**about, "who": who})
        self._renewed_at = written_at
