"""Elects the leader: of several servers on one ClickHouse store, the one that does the background work.

    with leading(store, settings) as leads:     # warehouse.leads.Leads; an embedded store's only server always leads
        ...

The lease is a row of the access store (0004_leases.sql), which its holder renews. Clocks of two machines are never
compared. The holder counts from before it asked for the renewal, and stops leading `MARGIN` before the lease ends, so
that whatever it began (such as sending a notification) is finished by then. Other servers count from when they saw the
renewal, which is later. Each uses its own monotonic clock, which runs on while the process or the machine is suspended,
so a process that wakes up from a long pause knows that it no longer leads.

A lease is not a lock: a process can be paused between checking its clock and writing. Such late writes are fenced where
they are made: by turns (warehouse/turns.py), chains and run numbers.
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

from access.opening import open_access, opened_read_only
from access.settings import AccessSettings
from access.store import AccessStore, AccessStoreError, leases
from warehouse.elapsed import elapsed
from warehouse.leads import ALONE, Leads
from warehouse.store import EmbeddedStore, Store

log = logging.getLogger(__name__)
NAME = "background work"
LEASE_SECONDS = 45.0
MARGIN = 0.5
"""The part of a lease in which its holder no longer acts and nobody takes over yet; longer than sending takes."""
RENEWALS = 10
"""Renewals in the time of a lease; other servers check as often."""


@dataclass(frozen=True)
class Holder:
    """The server that leads. renewed_at: by its own clock."""

    who: str
    renewed_at: datetime


class Leadership:
    """One server's part in the election. clock: monotonic seconds (warehouse.elapsed)."""

    def __init__(
        self,
        access: AccessStore,
        lease_seconds: float,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self._access, self._lease, self._clock = access, lease_seconds, clock
        self._id, self._who = secrets.token_hex(16), f"process {os.getpid()} on {socket.gethostname()}"
        self._until = clock()
        self._was_leading = False
        self._seen: tuple[str, int] | None = None
        self._seen_at = 0.0
        self._gained: list[Callable[[], None]] = []

    def leading(self) -> bool:
        return self._clock() < self._until

    def when_gained(self, call: Callable[[], None]) -> None:
        self._gained.append(call)

    def renew(self) -> None:
        """Renews the lease, or takes it if nobody does. Errors: AccessStoreError; the lease is as it was."""
        asked_at = self._clock()
        with self._access.reading() as connection:
            row = connection.execute(select(leases).where(leases.c.name == NAME)).mappings().one()
        found = (row["holder"], row["renewals"])
        if row["holder"] not in ("", self._id):
            self._until = min(self._until, asked_at)
            if found != self._seen:
                self._seen, self._seen_at = found, self._clock()
            if self._clock() - self._seen_at <= self._lease:
                self._note_changes()
                return
        if self._replace(found, self._id):
            self._until = asked_at + self._lease * (1 - MARGIN)
        self._note_changes()

    def release(self) -> None:
        """Lets another server lead at once. Background work must have stopped."""
        self._until = self._clock()
        with self._access.reading() as connection:
            row = connection.execute(select(leases).where(leases.c.name == NAME)).mappings().one()
        if row["holder"] == self._id:
            self._replace((row["holder"], row["renewals"]), "")

    def _replace(self, found: tuple[str, int], holder: str) -> bool:
        """Writes the new holder, unless the lease has changed since it was read."""
        holder_found, renewals = found
        return self._access.swap(
            update(leases)
            .where(leases.c.name == NAME, leases.c.holder == holder_found, leases.c.renewals == renewals)
            .values(holder=holder, who=self._who if holder else "", renewals=renewals + 1, renewed_at=datetime.now(UTC))
        )

    def _note_changes(self) -> None:
        led, self._was_leading = self._was_leading, self.leading()
        if self._was_leading and not led:
            log.info("this server leads: it closes the books, evaluates alerts and sends")
            for call in self._gained:
                call()
        elif led and not self._was_leading:
            log.warning("this server no longer leads")

    @contextlib.contextmanager
    def renewing(self) -> Iterator[None]:
        """Renews the lease now and regularly, on a thread; releases it at the end."""
        over = threading.Event()

        def keep() -> None:
            while not over.wait(self._lease / RENEWALS):
                self._try_to_renew()

        self._try_to_renew()
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

    def _try_to_renew(self) -> None:
        try:
            self.renew()
        except AccessStoreError as error:
            self._note_changes()
            log.error("the leader's lease cannot be renewed or taken: %s", error)


@contextlib.contextmanager
def leading(store: Store, settings: AccessSettings | None = None) -> Iterator[Leads]:
    """Takes part in the election while the server runs. Errors: AccessError if the access store cannot be opened."""
    if isinstance(store, EmbeddedStore):
        yield ALONE
        return
    with open_access(store, settings) as access:
        leadership = Leadership(access, LEASE_SECONDS)
        with leadership.renewing():
            yield leadership


def holder_of(store: Store, settings: AccessSettings | None = None) -> Holder | None:
    """Who led last and has not released it; None: nobody, or no server has opened the access store yet. Changes
    nothing.   Errors: AccessError."""
    with opened_read_only(store, settings) as access:
        if access is None or not access.has(leases):
            return None
        with access.reading() as connection:
            row = connection.execute(select(leases).where(leases.c.name == NAME)).mappings().one()
    return Holder(row["who"], row["renewed_at"]) if row["holder"] else None
