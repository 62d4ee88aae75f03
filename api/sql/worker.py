"""A process that runs people's statements, and can reach nothing but the frozen copy of the tables.

It is started afresh, not forked, with an empty environment and two pipes. Before it loads the engine, whose threads
would keep what they had, it gives up files, network and other processes for good (`sandbox`). Then it answers one
statement after the other, each on a connection of its own that is read-only from its first moment.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from api.sql import formats, sandbox
from api.sql.compress import compressed
from api.sql.errors import SqlError, disagreement, of_engine
from api.sql.frames import HEAD, LONGEST_PIECE, Kind, frame
from api.sql.limits import set_clause
from api.sql.native import for_protocol

if TYPE_CHECKING:
    from chdb.state.sqlitelike import Connection

NICE = 15
FILE_BYTES = 64_000_000
"""The largest file in its own folder."""
MEMORY_BESIDE = 1_000_000_000
"""Addresses that threads' stacks and the allocator may take beyond what the engine counts as a statement's memory."""


@dataclass(frozen=True)
class Confinement:
    """parent: the server's process.   own: the worker's folder, the only one it writes to.   read: folders of copies.
    program: folders of Python, its packages and the system's libraries.   database: that the tables are in.
    """

    parent: int
    own: str
    read: list[str]
    program: list[str]
    database: str


def main(place: Confinement) -> None:
    """Runs until the server closes the pipe, or ends."""
    sandbox.die_with(place.parent)
    replies = _only_pipes()
    sandbox.step_back(NICE)
    sandbox.limit_files(FILE_BYTES)
    readable = [path for path in map(Path, (*place.read, *place.program, "/proc/self")) if path.exists()]
    found = sandbox.seal(readable, [Path(place.own)])
    with Worker(Path(place.own), place.database, replies) as worker:
        worker.send(Kind.ready, found.text())
        worker.run()


def _only_pipes() -> int:
    """Closes all files but the pipes, and sends what libraries print to the log. Returns where replies go."""
    replies = os.dup(1)
    os.dup2(2, 1)
    os.closerange(3, replies)
    os.closerange(replies + 1, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") > 0 else 65_536)
    return replies


class Worker:
    """The engine of this process. The tables live in its memory alone; their rows are in the copy."""

    def __init__(self, own: Path, database: str, replies: int) -> None:
        import chdb
        import pyarrow.parquet  # noqa: F401 (now, not while somebody waits)

        self._replies, self._database = replies, database
        self._path = str(own / "engine")
        with contextlib.closing(chdb.connect(self._path)) as first:
            _run(first, f"CREATE DATABASE `{database}` ENGINE = Memory")
            self._connection = self._new_connection()
        self._prepared: Connection | None = None
        self._mapped = sandbox.memory_mapped()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._prepared is not None:
            self._prepared.close()
        self._connection.close()

    def run(self) -> None:
        while True:
            # Prepares the next statement's connection while no statement waits for it.
            self._prepared = self._prepared or self._new_connection()
            if (asked := _next()) is None:
                return
            kind, body = asked
            if kind == Kind.stop:  # came too late: that statement has ended
                continue
            try:
                if kind == Kind.attach:
                    self._attach(*json.loads(body))
                    self.send(Kind.attached)
                else:
                    self._answer(json.loads(body))
                    self.send(Kind.end)
            except SqlError as error:
                self.send(Kind.error, {"code": error.code, "what": error.what, "next_step": error.next_step})
            except MemoryError:
                self.send(Kind.error, {"code": 241, "what": "more memory than a statement may take", "next_step": ""})

    def send(self, kind: Kind, content: Any = None) -> None:
        data = memoryview(frame(kind, content))
        while data:
            data = data[os.write(self._replies, data) :]

    def _attach(self, gone: list[str], creates: list[str]) -> None:
        for name in gone:
            _run(self._connection, f"DETACH TABLE `{name}`")
        for create in creates:
            _run(self._connection, create)

    def _answer(self, asked: Mapping[str, Any]) -> None:
        sandbox.limit_memory(self._mapped + int(asked["settings"]["max_memory_usage"]) + MEMORY_BESIDE)
        with self._read_only_connection(asked["settings"]) as connection:
            _check_agreement(connection, asked["agreement"])
            with _pieces(connection, asked) as pieces:
                self._send_answer(asked, compressed(for_protocol(pieces, asked["protocol"]), asked["encoding"]))

    def _send_answer(self, asked: Mapping[str, Any], pieces: Iterator[bytes]) -> None:
        """Sends the pieces once there are `enough` bytes, then as they come; an earlier error is the whole answer."""
        waiting: list[bytes] = []
        size = 0
        for piece in pieces:
            if size >= asked["enough"]:
                if _should_stop():
                    return
                self._send_piece(piece)
                continue
            waiting.append(piece)
            size += len(piece)
            if size >= asked["enough"]:
                self._send_beginning(asked["format"], waiting)
        if size < asked["enough"]:
            self._send_beginning(asked["format"], waiting)

    def _send_beginning(self, name: str, waiting: list[bytes]) -> None:
        self.send(Kind.format, name)
        for piece in waiting:
            self._send_piece(piece)
        waiting.clear()

    def _send_piece(self, piece: bytes) -> None:
        for at in range(0, len(piece), LONGEST_PIECE):
            self.send(Kind.piece, piece[at : at + LONGEST_PIECE])

    @contextlib.contextmanager
    def _read_only_connection(self, settings: Mapping[str, int | str]) -> Iterator[Connection]:
        """A connection that was made read-only before the statement reaches it."""
        connection = self._prepared or self._new_connection()
        try:
            _run(connection, f"SET {set_clause(settings)}, readonly = 1")
            yield connection
        finally:
            connection.close()
            self._prepared = None

    def _new_connection(self) -> Connection:
        import chdb

        connection: Connection = chdb.connect(self._path)
        _run(connection, f"USE `{self._database}`")
        return connection


def _check_agreement(connection: Connection, question: str) -> None:
    """Errors: SqlError if the engine reads the received text in another way than what was printed of it."""
    if _run(connection, question) != b"\x01":
        raise disagreement()


@contextlib.contextmanager
def _pieces(connection: Connection, asked: Mapping[str, Any]) -> Iterator[Iterator[bytes]]:
    """The answer in the format that was asked for, piece by piece where the format allows it."""
    text, name, params = asked["text"], asked["format"], asked["params"]
    if not asked["streams"]:
        yield iter([_run(connection, text, name, params)])
        return
    heading = b""
    if wanted := formats.heading_format(name):
        heading = _run(connection, f"SELECT * FROM ({text}) LIMIT 0", wanted, params)
    with _streaming(connection, text, formats.engine_format(name), params) as pieces:
        yield formats.one_document(name, pieces, heading)


@contextlib.contextmanager
def _streaming(connection: Connection, text: str, name: str, params: Mapping[str, str]) -> Iterator[Iterator[bytes]]:
    from chdb import ChdbError

    try:
        result = connection.send_query(text, name, params=dict(params))
    except (ChdbError, RuntimeError) as error:
        raise of_engine(str(error)) from error

    def pieces() -> Iterator[bytes]:
        try:
            for piece in result:
                if data := bytes(piece.bytes() or b""):
                    yield data
        except (ChdbError, RuntimeError) as error:
            raise of_engine(str(error)) from error

    try:
        yield pieces()
    finally:
        with contextlib.suppress(ChdbError, RuntimeError):
            result.cancel()


def _run(connection: Connection, sql: str, name: str = "RawBLOB", params: Mapping[str, str] | None = None) -> bytes:
    from chdb import ChdbError

    try:
        return bytes(connection.query(sql, name, params=dict(params or {})).bytes() or b"")
    except (ChdbError, RuntimeError) as error:
        raise of_engine(str(error)) from error


def _next() -> tuple[Kind, bytes] | None:
    """The next frame; None: the server has closed the pipe."""
    head = _exactly(HEAD.size)
    if head is None:
        return None
    kind, length = HEAD.unpack(head)
    body = _exactly(length)
    return None if body is None else (Kind(kind), body)


def _exactly(size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            return None
        data += more
    return data


def _should_stop() -> bool:
    """Whether the server has closed the pipe or sent something, which can only be STOP."""
    return bool(select.select([0], [], [], 0)[0])


def start(place: str) -> None:
    """Runs a worker.   place: its confinement, as JSON."""
    main(Confinement(**json.loads(place)))
    # Skips the interpreter's shutdown, which would wait for the engine's threads.
    os._exit(0)
