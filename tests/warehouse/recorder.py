"""A shard that answers every statement with no rows, and keeps what it was sent.

It speaks as much of ClickHouse's native protocol, as of revision 54429, as an engine needs that sends it a part of a
statement on a Distributed table: its greeting, how far behind tables are, the statement with its settings, and the
tables that come with it, of which the names are kept alone.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

REVISION = 54429
HELLO, EXCEPTION, PONG, END_OF_STREAM, TABLES_STATUS = 0, 2, 4, 5, 9
ASKED, DATA, CANCEL, PING, ASKS_STATUS, SCALARS = 1, 2, 3, 4, 5, 7
EMPTY_BLOCK = b"\x02\x00\x01\x00\x02\xff\xff\xff\xff\x00\x00\x00"
"""Data of no name, its header, no columns and no rows: what follows a statement, after the tables that come with it."""
NAMED = re.compile(r"`(?!__table|system`)\w+`\.`(\w+)`|`(_data_\w+)`")
SENT_TABLE = re.compile(rb"[\x02\x07].(_data_\w+|_scalars)")


@dataclass
class Sent:
    """A statement that the shard was sent.   tables: those that came with it."""

    sql: str
    settings: dict[str, str]
    tables: list[str]

    def lacking(self) -> set[str]:
        """What it needs besides the tables of a shard, what came with it, and what the engine has everywhere."""
        if self.sql.startswith("INSERT "):
            return {"place for rows"}
        named = {name[1] or name[2] for name in NAMED.finditer(self.sql)}
        return {name for name in named if not name.endswith("_local") and name not in self.tables}


@dataclass
class Recorder:
    """sent: what it got.   refused: of that, what it refused, for want of a table, and rows that are inserted."""

    port: int
    sent: list[Sent] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


@contextlib.contextmanager
def recording() -> Iterator[Recorder]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        recorder = Recorder(listener.getsockname()[1])
        threading.Thread(target=_accept, args=(listener, recorder), daemon=True).start()
        yield recorder


def _accept(listener: socket.socket, recorder: Recorder) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(connection, recorder), daemon=True).start()


def _serve(connection: socket.socket, recorder: Recorder) -> None:
    with connection, contextlib.suppress(EOFError, ConnectionError):
        stream = _Stream(connection)
        while True:
            packet = stream.number()
            if packet == HELLO:
                _ = [stream.text(), *(stream.number() for _ in range(3)), *(stream.text() for _ in range(3))]
                names = _number(HELLO) + _text("recorder") + b"".join(map(_number, (26, 9, REVISION)))
                connection.sendall(names + _text("UTC") + _text("recorder") + _number(1))
            elif packet == PING:
                connection.sendall(_number(PONG))
            elif packet == ASKS_STATUS:
                asked = [(stream.text(), stream.text()) for _ in range(stream.number())]
                told = b"".join(_text(database) + _text(table) + b"\x00" for database, table in asked)
                connection.sendall(_number(TABLES_STATUS) + _number(len(asked)) + told)
            elif packet == ASKED:
                sent = _statement(stream)
                recorder.sent.append(sent)
                if lacks := sent.lacking():
                    recorder.refused.append(sent.sql)
                    why = f"the other shard has no {', '.join(lacks)}: {sent.sql}"
                    told = struct.pack("<i", 60) + _text("DB::Exception") + _text(why) + _text("") + b"\x00"
                    connection.sendall(_number(EXCEPTION) + told)
                else:
                    connection.sendall(_number(END_OF_STREAM))
            elif packet != CANCEL:
                raise AssertionError(f"packet {packet} is not known here")


def _statement(stream: _Stream) -> Sent:
    stream.text()
    assert stream.take(1) != b"\x00", "a statement of nobody"
    _ = [stream.text() for _ in range(3)]
    if (interface := stream.take(1)) == b"\x01":
        _ = [*(stream.text() for _ in range(3)), *(stream.number() for _ in range(3))]
    stream.text()
    if interface == b"\x01":
        stream.number()
    settings = {}
    while name := stream.text():
        stream.number()
        settings[name] = stream.text()
    stream.number()
    assert stream.number() == 0, "compressed"
    sql = stream.text()
    return Sent(sql, settings, [name.decode() for name in SENT_TABLE.findall(stream.until(EMPTY_BLOCK))])


class _Stream:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""

    def take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def until(self, end: bytes) -> bytes:
        """All that was sent, which ends so: then the other side waits, or it needs no more and says so."""
        while not self._buffer.rstrip(_number(CANCEL)).endswith(end):
            self._more()
        size = self._buffer.rindex(end) + len(end)
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text(self) -> str:
        return self.take(self.number()).decode(errors="replace")

    def _more(self) -> None:
        arrived = self._connection.recv(1 << 16)
        if not arrived:
            raise EOFError
        self._buffer += arrived


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _text(text: str) -> bytes:
    return _number(len(text.encode())) + text.encode()
