"""The leader: of several servers on one ClickHouse store the one that does the background work.

    with leading(store, settings) as leads:     # warehouse.leads.Leads; an embedded store's only server always leads
        ...

The lease is a row of the access store (0004_leases.sql), which its holder renews. No two clocks are compared. A holder
counts from before it asked for a renewal, and stops `MARGIN` before the lease is over: what it began by then (the call
of a notification) is over, too. Others count from when they saw that renewal, which is later. Each counts seconds of
its own machine that nobody sets and that go on while the process or the machine stands still; a process that wakes up
from a longer pause therefore knows that it no longer leads.

It is not a lock: between the last look at one's own clock and an effect elsewhere a process can be paused. What such a
straggler may write is fenced where it is written: turns (warehouse/turns.py), chains and run numbers.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import select, update

from access.opening import open_access, peeking
from access.settings import AccessSettings
from access.store import AccessStore, AccessStoreError, leases
from warehouse.elapsed import elapsed
from warehouse.leads import ALONE, Leads
from warehouse.store import EmbeddedStore, Store

log = logging.getLogger(__name__)
NAME = "background work"
LEASE_SECONDS = 45.0
MARGIN = 0.5
"""Part of a lease: a holder no longer acts, others do not take over yet. It is longer than a call of a notification."""
RENEWALS = 10
"""In a lease; as often the others look."""


@dataclass(frozen=True)
class Holder:
    """Who leads. renewed_at: by its own clock."""

    who: str
    renewed_at: datetime


class Leadership:
    """One server's part in it. clock: seconds that go on by themselves."""

    def __init__(
        self,
        access: AccessStore,
        lease_seconds: float,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self._access, self._lease, self._clock = access, lease_seconds, clock
        self._mine, self._who = secrets.token_hex(16), f"process {os.getpid()} on {socket.gethostname()}"
        self._until = clock()
        self._led = False
        self._seen: tuple[str, int] | None = None
        self._seen_at = 0.0
        self._gained: list[Callable[[], None]] = []

    def leading(self) -> bool:
        return self._clock() < self._until

    def when_gained(self, call: Callable[[], None]) -> None:
        self._gained.append(call)

    def look(self) -> None:
        """Renews the lease, or takes it if nobody does. Errors: AccessStoreError; the lease is as it was."""
        asked_at = self._clock()
        with self._access.reading() as connection:
            row = connection.execute(select(leases).where(leases.c.name == NAME)).mappings().one()
        found = (row["holder"], row["renewals"])
        if row["holder"] not in ("", self._mine):
            self._until = min(self._until, asked_at)
            if found != self._seen:
                self._seen, self._seen_at = found, self._clock()
            if self._clock() - self._seen_at <= self._lease:
                self._tell()
                return
        if self._swap(found, self._mine):
            self._until = asked_at + self._lease * (1 - MARGIN)
        self._tell()

    def release(self) -> None:
        """Lets another one lead at once. Nothing that only the leader does may be going on."""
        self._until = self._clock()
        with self._access.reading() as connection:
            row = connection.execute(select(leases).where(leases.c.name == NAME)).mappings().one()
        if row["holder"] == self._mine:
            self._swap((row["holder"], row["renewals"]), "")

    def _swap(self, found: tuple[str, int], holder: str) -> bool:
        """Writes who holds it, if it still is as it was found."""
        holder_found, renewals = found
        return self._access.swap(
            update(leases)
            .where(leases.c.name == NAME, leases.c.holder == holder_found, leases.c.renewals == renewals)
            .values(holder=holder, who=self._who if holder else "", renewals=renewals + 1, renewed_at=datetime.now(UTC))
        )

    def _tell(self) -> None:
        led, self._led = self._led, self.leading()
        if self._led and not led:
            log.info("this server leads: it closes the books, evaluates alerts and sends")
            for call in self._gained:
                call()
        elif led and not self._led:
            log.warning("this server no longer leads")

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Looks now, and again and again in a thread; released at the end."""
        over = threading.Event()

        def keep() -> None:
            while not over.wait(self._lease / RENEWALS):
                self._look_anyway()

        self._look_anyway()
        keeper = threading.Thread(target=keep, name="leader", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            over.set()
            keeper.join()
            try:
                self.release()
            except AccessStoreError as error:
                log.warning("the lease cannot be released, another server leads in %.0f s: %s", self._lease, error)

    def _look_anyway(self) -> None:
        try:
            self.look()
        except AccessStoreError as error:
            self._tell()
            log.error("the leader's lease cannot be renewed or taken: %s", error)


@contextlib.contextmanager
def leading(store: Store, settings: AccessSettings | None = None) -> Iterator[Leads]:
    """Takes part while the server runs. Errors: AccessError if the access store cannot be opened."""
    if isinstance(store, EmbeddedStore):
        yield ALONE
        return
    with open_access(store, settings) as access:
        leadership = Leadership(access, LEASE_SECONDS)
        with leadership.kept():
            yield leadership


def holder_of(store: Store, settings: AccessSettings | None = None) -> Holder | None:
    """Who led last and has not released it; None: nobody, or no server has opened the access store yet. Changes
    nothing.   Errors: AccessError."""
    with peeking(store, settings) as access:
        if access is None or not access.has(leases):
            return None
        with access.reading() as connection:
            row = connection.execute(select(leases).where(leases.c.name == NAME)).mappings().one()
    return Holder(row["who"], row["renewed_at"]) if row["holder"] else None
