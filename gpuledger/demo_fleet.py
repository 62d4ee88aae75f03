"""The demo's fleet in a process of its own: it takes as much memory as the server, and half a minute to place its jobs.

It is told which fleet it is and since when, and says when its jobs are placed. Then it is asked for what has happened
until an instant, again and again, and answers with tables of records in Arrow's format for streams.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime
from itertools import count
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self

from gpuledger import apart
from gpuledger.resident import give_back
from warehouse.errors import LedgerError
from warehouse.instants import epoch_ms

if TYPE_CHECKING:
    import pyarrow as pa

    from collectors.simulated import FleetPlan
    from warehouse.records import RecordType

WAIT_SECONDS = 0.5
NICE = 10
"""Of a fleet that a server waits for while people look at its pages."""
STOP_SECONDS = 5
_PLACED, _END = b"placed", b""


class Feed:
    """The records of the fleet, in the order in which they would arrive.   since: earlier ones are left out."""

    def __init__(self, plan: FleetPlan, since: datetime | None = None) -> None:
        from collectors.simulated import simulate
        from scheduler.records.events import SOURCE as SCHEDULER
        from scheduler.simulate.fleet import FleetScheduler

        self._records = simulate(plan, FleetScheduler, SCHEDULER, since_ms=epoch_ms(since) if since else 0)
        self._next = next(self._records, None)
        self._not_due: list[tuple[RecordType, pa.Table]] = []
        self._since = since

    def is_placed(self) -> bool:
        """As of a fleet elsewhere: its jobs are placed."""
        return True

    def close(self) -> None:
        """As of a fleet elsewhere: there is nothing to end."""

    def until(
        self, at: datetime, waiting: Callable[[float], None] | None = None
    ) -> Iterator[tuple[RecordType, pa.Table]]:
        """The records up to that instant that were not returned before, table by table.   waiting: as of a fleet
        elsewhere: there is nothing to wait for."""
        later, self._not_due = self._not_due, []
        for record, table in later:
            yield from self._due(record, table, at)
        while self._next is not None and self._begins(self._next[1]) <= at:
            record, table = self._next
            self._next = next(self._records, None)
            yield from self._due(record, table, at)

    def _due(self, record: RecordType, table: pa.Table, at: datetime) -> Iterator[tuple[RecordType, pa.Table]]:
        import pyarrow as pa
        import pyarrow.compute as pc

        is_due = pc.less_equal(table["ts"], pa.scalar(at, pa.timestamp("ms", "UTC")))
        due, rest = table.filter(is_due), table.filter(pc.invert(is_due))
        if self._since is not None:
            due = due.filter(pc.greater(due["ts"], pa.scalar(self._since, pa.timestamp("ms", "UTC"))))
        if rest.num_rows:
            self._not_due.append((record, rest))
        if due.num_rows:
            yield record, due

    @staticmethod
    def _begins(table: pa.Table) -> datetime:
        import pyarrow.compute as pc

        begins: datetime = pc.min(table["ts"]).as_py()
        return begins


class Fleet:
    """A fleet elsewhere.   process: its own, which ends with it; None: another's."""

    def __init__(self, end: Connection, process: subprocess.Popen[bytes] | None = None) -> None:
        self.end = end
        self._process = process
        self._is_placed = False

    @classmethod
    def start(cls) -> Self:
        process, end = apart.begin(run)
        return cls(end, process)

    def begin(self, plan: FleetPlan, since: datetime | None = None) -> Self:
        """since: earlier records are left out.   Errors: LedgerError if its process is gone, as of all that follow."""
        told = {**asdict(plan), "since": since, "nice": 0 if since is None else NICE}
        with self._said():
            self.end.send_bytes(json.dumps(told, default=datetime.isoformat).encode())
        return self

    def goes_on(self) -> Self:
        """Another process began it, heard that its jobs are placed, and asks it for nothing more."""
        self._is_placed = True
        return self

    def is_placed(self) -> bool:
        """Whether its jobs are placed, so that it answers at once."""
        with self._said():
            if not self._is_placed and self.end.poll():
                self._is_placed = self.end.recv_bytes() == _PLACED
        return self._is_placed

    def until(self, at: datetime, waiting: Callable[[float], None]) -> Iterator[tuple[RecordType, pa.Table]]:
        """The records up to that instant that were not returned before, table by table; it waits until its jobs are
        placed.

        waiting: called twice a second while nothing comes, with the seconds since something came. What it raises ends
        the wait, and with it the use of this fleet.
        """
        import pyarrow as pa

        from warehouse.records import RECORD_TYPES

        if not self._is_placed:
            self._is_placed = self._received(waiting) == _PLACED
        with self._said():
            self.end.send_bytes(at.isoformat().encode())
        while (name := self._received(waiting)) != _END:
            with pa.ipc.open_stream(self._received(waiting)) as reader:
                yield RECORD_TYPES[name.decode()], reader.read_all()

    def _received(self, waiting: Callable[[float], None]) -> bytes:
        since = time.monotonic()
        with self._said():
            while not self.end.poll(WAIT_SECONDS):
                waiting(time.monotonic() - since)
            return self.end.recv_bytes()

    @contextlib.contextmanager
    def _said(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, OSError) as error:
            raise LedgerError("the simulated fleet", f"its process is gone ({str(error) or 'it ended'})") from error

    def close(self) -> None:
        """Ends it."""
        self.end.close()
        if self._process is None:
            return
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:  # it places jobs
            self._process.kill()
            self._process.wait()


def run(end: Connection) -> None:
    """The fleet's process."""
    from collectors.simulated import FleetPlan

    asked: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_hear, args=(end, asked), name="asked", daemon=True).start()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # nobody asks any more
        told = json.loads(asked.get())
        since, nice = told.pop("since"), told.pop("nice")
        os.nice(nice)
        times = {name: _instant(told[name]) for name in ("start", "watched_from")}
        feed = Feed(FleetPlan(**{**told, **times}), _instant(since))
        end.send_bytes(_PLACED)
        for number in count():
            at = datetime.fromisoformat(asked.get().decode())
            for record, table in feed.until(at):
                end.send_bytes(record.name.encode())
                end.send_bytes(_streamed(table))
            end.send_bytes(_END)
            if not number:  # the weeks before it is watched; later it is a few records
                give_back()


def _hear(end: Connection, asked: SimpleQueue[bytes]) -> None:
    """Hears what it is asked, and ends the process once nobody can ask any more, whatever it does."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            asked.put(end.recv_bytes())
    os._exit(0)


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _streamed(table: pa.Table) -> memoryview:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return memoryview(sink.getvalue())
