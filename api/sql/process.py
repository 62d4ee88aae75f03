"""A worker process, as seen by the server: starts it, talks to it, ends it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from api.sql.errors import ENDED, MEMORY, TIMEOUT, SqlError
from api.sql.frames import HEAD, LONGEST_PIECE, Kind, frame
from api.sql.snapshot import Frozen, Tables
from api.sql.worker import MEMORY_BESIDE, Confinement, start
from warehouse.this_python import this_python

log = logging.getLogger(__name__)
START_SECONDS = 60.0
"""Limit for loading the engine, or the copy of a table: generous, because the machine may be busy."""
STOP_SECONDS = 0.3
"""How long an abandoned statement may take to end by itself; then its process is killed."""
PIPE_BYTES = 1 << 20
LOG_BYTES = 2000
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo")


def program_folders() -> list[str]:
    """The folders of Python, its packages, the system's libraries and time zones (which ORC's writer reads); not all of
    `sys.path`, which may name a checkout."""
    packages = [path for path in sys.path if "-packages" in path]
    python = {f"{prefix}/{name}" for prefix in (sys.prefix, sys.base_prefix) for name in ("lib", sys.platlibdir)}
    return sorted(path for path in {*_SYSTEM, *python, *packages} if Path(path).exists())


class Process:
    """Answers one caller at a time, each of which may use another thread or event loop.

    held: the tables it has.   deadline: when it is killed, whatever it does.   is_sound: it is idle and can be asked.
    """

    def __init__(self, folder: Path, read: list[Path], database: str, audit: bool) -> None:
        self.audit = audit
        self.held: dict[str, Frozen] = {}
        self.idle_since = time.monotonic()
        self.deadline = self.idle_since + START_SECONDS
        self._memory = self._base = 0
        self._verdict: SqlError | None = None
        self._lock = threading.Lock()
        self._received = bytearray()
        self._is_starting = True
        self.is_sound, self._is_asked = True, False
        self._folder = folder / uuid.uuid4().hex
        self._folder.mkdir(parents=True, mode=0o700)
        place = Confinement(os.getpid(), str(self._folder), [str(path) for path in read], program_folders(), database)
        asked, self._requests = os.pipe()
        self._replies, replied = os.pipe()
        try:
            for end in (self._replies, self._requests):
                os.set_blocking(end, False)
                with contextlib.suppress(OSError):  # a user may have used up what the system allows for large pipes
                    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            with self._log.open("wb") as errors:
                self._popen = subprocess.Popen(  # noqa: S603 (this very Python, with our own arguments)
                    this_python(start, json.dumps(asdict(place))),
                    stdin=asked, stdout=replied, stderr=errors, cwd=self._folder, umask=0o077, process_group=0,
                    env={"LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": str(self._folder), "TMPDIR": str(self._folder),
                         "OPENBLAS_NUM_THREADS": "1"},
                )  # fmt: skip
        except BaseException:
            os.close(self._requests)
            os.close(self._replies)
            raise
        finally:
            os.close(asked)
            os.close(replied)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    @property
    def is_alive(self) -> bool:
        return self._verdict is None and self._popen.poll() is None

    def kill(self, verdict: SqlError | None = None) -> None:
        """Ends it now. verdict: the error for the caller that waits for it."""
        with self._lock:
            self._verdict = self._verdict or verdict or SqlError(ENDED, "the statement was ended")
        self._popen.kill()

    def clean_up(self) -> None:
        """Ends it, and removes its pipes and its folder."""
        self._popen.kill()
        self._popen.wait()
        os.close(self._requests)
        os.close(self._replies)
        shutil.rmtree(self._folder, ignore_errors=True)

    def enforce_limits(self, now: float) -> None:
        """Kills it if it is past its deadline or has taken too much memory."""
        if now > self.deadline:
            self.kill(SqlError(TIMEOUT, "Timeout exceeded: the statement was ended"))
        elif self._memory and (has := self._memory_used()) > self._memory:
            self.kill(SqlError(MEMORY, f"Memory limit exceeded: the statement's process had {has:,} bytes"))

    def _memory_used(self) -> int:
        """Bytes of memory that the process has for itself."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        except OSError:  # it has just ended
            return 0
        own = (line.split()[1] for line in status.splitlines() if line.startswith(("RssAnon:", "RssShmem:")))
        return sum(map(int, own)) * 1024

    async def attach(self, tables: Tables) -> None:
        """Attaches the tables as they are now. Errors: SqlError if that fails."""
        self.deadline = time.monotonic() + START_SECONDS
        self.is_sound = False
        if self._is_starting:
            await self._expect(Kind.ready)
            self._is_starting = False
            self._base = self._memory_used()
        new = [one for name, one in tables.items() if self.held.get(name) != one]
        if not new:
            self.is_sound = True
            return
        gone = [one.name for one in new if one.name in self.held]
        self.held.update({one.name: one for one in new})
        await self._send(Kind.attach, [gone, [one.create for one in new]])
        await self._expect(Kind.attached)
        self.is_sound = True

    async def ask(self, request: Mapping[str, Any]) -> AsyncGenerator[tuple[Kind, bytes], None]:
        """The frames of an answer: its format, its pieces. Errors: SqlError, also in the middle of it."""
        self._memory = self._base + int(request["settings"]["max_memory_usage"]) + MEMORY_BESIDE // 2
        self.deadline = time.monotonic() + float(request["settings"]["max_execution_time"]) + 1
        self.is_sound, self._is_asked = False, True
        await self._send(Kind.statement, request)
        while (received := await self._frame())[0] != Kind.end:
            yield received

    def seconds_left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    async def stop(self) -> None:
        """Lets a statement that nobody waits for any more end; one that does not is killed."""
        if self._is_asked:
            with contextlib.suppress(SqlError, TimeoutError):
                async with asyncio.timeout(STOP_SECONDS):
                    await self._send(Kind.stop)
                    while (await self._frame())[0] != Kind.end:
                        pass

    def mark_idle(self) -> None:
        """Removes its limits while it is idle."""
        self.idle_since = time.monotonic()
        self.deadline = float("inf")
        self._memory = 0

    async def _expect(self, kind: Kind) -> None:
        found, _ = await self._frame()
        if found != kind:
            raise SqlError(ENDED, f"a worker said {found.name}, not {kind.name}")

    async def _send(self, kind: Kind, content: Any = None) -> None:
        data = memoryview(frame(kind, content))
        while data:
            try:
                data = data[os.write(self._requests, data) :]
            except BlockingIOError:
                await _writable(self._requests)
            except BrokenPipeError:
                raise self._ended() from None

    async def _frame(self) -> tuple[Kind, bytes]:
        """The next frame. Errors: SqlError if it is an error, or if the process has ended."""
        await self._at_least(HEAD.size)
        kind, length = HEAD.unpack_from(self._received)
        if length > 2 * LONGEST_PIECE:
            raise SqlError(ENDED, "a worker sent a longer frame than there is")
        await self._at_least(HEAD.size + length)
        body = bytes(memoryview(self._received)[HEAD.size : HEAD.size + length])
        del self._received[: HEAD.size + length]
        if kind in (Kind.end, Kind.error) and self._is_asked:
            self.is_sound, self._is_asked = True, False
        if kind == Kind.error:
            raise _error(body)
        return Kind(kind), body

    async def _at_least(self, size: int) -> None:
        while len(self._received) < size:
            try:
                more = os.read(self._replies, PIPE_BYTES)
            except BlockingIOError:
                await _readable(self._replies)
                continue
            if not more:
                raise self._ended()
            self._received += more

    def _ended(self) -> SqlError:
        """Why it ended: it was killed, else by itself, which the log explains."""
        with self._lock:
            if self._verdict is None:
                code = self._popen.wait()
                with self._log.open("rb") as file:
                    file.seek(max(0, self._log.stat().st_size - LOG_BYTES))
                    last = file.read().decode(errors="replace").strip()
                log.error("sql: a worker ended by itself (%s): %s", code, last)
                self._verdict = SqlError(ENDED, "the statement's process ended; gpuledger's log has the details")
            return self._verdict


def _error(body: bytes) -> SqlError:
    error = json.loads(body)
    return SqlError(int(error["code"]), str(error["what"]), str(error["next_step"]))


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(descriptor, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


async def _writable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(descriptor, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_writer(descriptor)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
