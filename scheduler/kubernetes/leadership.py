"""Holds the Lease by which one operator of a cluster acts (see election), on a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from collectors.kubernetes.api import Absent, Api, Conflict, Interrupted
from collectors.kubernetes.connection import SERVICE_ACCOUNT, Connection, KubernetesError
from collectors.kubernetes.objects import Object
from scheduler.kubernetes.election import NAME, Election
from warehouse.elapsed import elapsed
from warehouse.errors import LedgerError
from warehouse.private_files import private_folder

log = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
ANSWER_SECONDS = 5.0
RELEASE_SECONDS = 3.0
LOG_NAME = "log-id"
"""The file beside a log that has its name."""
NAMESPACE = "gpuledger"


class LeaseTakenError(Exception):
    """Another operator acts now; this one must not any more. Not to be caught by whoever goes on."""


def log_name(folder: Path) -> str:
    """Of the log in that folder, which gets one if it has none; it stays with the log wherever that is moved."""
    path = folder / LOG_NAME
    try:
        private_folder(folder)
        try:
            found = path.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            found = ""
        if found:
            return found
        draft = path.with_name(f"{LOG_NAME}.{os.getpid()}")
        with draft.open("w", encoding="utf-8") as file:
            file.write(f"{uuid.uuid4()}\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            pass  # another operator of the same log has just named it
        finally:
            draft.unlink()
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise LedgerError(str(path), f"cannot be used ({error.strerror})", "Give another --data") from error


def namespace_here() -> str:
    """Where the lease is: the pod's own namespace, or else the one of the manifests."""
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip() or NAMESPACE
    except OSError:
        return NAMESPACE


class Leadership:
    """To be used in a `with`, at whose end the lease is given back.   log_name: of the log by which this process would
    decide."""

    def __init__(
        self, connection: Connection, namespace: str, log_name: str, clock: Callable[[], float] = elapsed
    ) -> None:
        self._connection, self._namespace, self._clock = connection, namespace, clock
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._election = Election(f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}", log_name)
        self._end = threading.Event()
        self._said = ""
        self._thread = threading.Thread(target=lambda: asyncio.run(self._keep()), name="lease", daemon=True)

    def __enter__(self) -> Leadership:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(ANSWER_SECONDS + RELEASE_SECONDS + RETRY_SECONDS)

    @property
    def identity(self) -> str:
        return self._election.identity

    @property
    def waits(self) -> str:
        """Why it does not act."""
        return self._election.waits

    def left(self) -> float:
        """Seconds for which this process may act.   Errors: LeaseTakenError if another does."""
        if self._election.successor:
            raise LeaseTakenError(f"lease {self._namespace}/{NAME}: {self._election.successor} has taken it over")
        return self._election.left(self._clock())

    def acquired(self, seconds: float | None = None) -> bool:
        """Waits until it may act, for so many seconds at most."""
        until = None if seconds is None else self._clock() + seconds
        while self._election.left(self._clock()) <= 0:
            if until is not None and self._clock() >= until:
                return False
            self._end.wait(0.2)
        return True

    async def _keep(self) -> None:
        api = Api(self._connection)
        try:
            while not self._end.is_set():
                await self._round(api)
                await asyncio.to_thread(self._end.wait, RETRY_SECONDS)
            await self._release(api)
        finally:
            await api.close()

    async def _round(self, api: Api) -> None:
        asked_at = self._clock()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                lease = await self._read(api)
                body = self._election.next(lease, asked_at, datetime.now(UTC))
                if body is None:
                    self._say(logging.WARNING, f"waiting: {self._election.waits}")
                    return
                await self._write(api, lease, body)
        except Conflict:
            return  # somebody was faster
        except (TimeoutError, Interrupted, Absent, KubernetesError) as error:
            what = str(error) or f"the server had not answered after {ANSWER_SECONDS:.0f} s"
            self._say(logging.ERROR, f"cannot be read or renewed: {what}")
            return
        self._election.granted(asked_at)
        self._say(logging.INFO, f"held by {self.identity}")

    async def _read(self, api: Api) -> Object | None:
        try:
            return await api.send("GET", f"{self._path}/{NAME}", {})
        except Absent as error:
            if error.forbidden:
                raise
            return None

    async def _write(self, api: Api, before: Object | None, body: Object) -> None:
        if before is None:
            await api.send("POST", self._path, body)
        else:
            await api.send("PUT", f"{self._path}/{NAME}", body)

    async def _release(self, api: Api) -> None:
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                lease = await self._read(api)
                body = None if lease is None else self._election.release(lease, datetime.now(UTC))
                if body is not None:
                    await self._write(api, lease, body)
        except (TimeoutError, Interrupted, Absent, Conflict, KubernetesError) as error:
            log.warning("lease %s/%s could not be given back (%s); others wait it out", self._namespace, NAME, error)

    def _say(self, level: int, what: str) -> None:
        """Once, until it is something else."""
        if what != self._said:
            self._said = what
            log.log(level, "lease %s/%s: %s", self._namespace, NAME, what)
