"""The receiving half of a push: `POST /api/v1/records/{record type}`, for agents and for anything that can post JSON.

A body is JSON lines (application/x-ndjson), or one JSON object or an array of them (application/json), plain or gzip.
The answer comes when the rows are in the store: 200 and a report. Rows that do not fit go to quarantine, under the
sender's name, and are counted in the report.

    401 no or a wrong token   403 this sender may not send that   404 no such record type   409 not what the batch's
    hash says   413 too large   422 not readable   429 and 503, with Retry-After: later

What is sent again changes nothing: batches of the last while are known by their hash, all others by their rows' keys.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from ingest.body import BODY_REJECTS, EXAMPLES, TooLargeError, body_lines, decompressed, portions
from ingest.coalesce import Arrived, Coalescer
from ingest.errors import IngestError
from ingest.json_files import lines_piece
from ingest.normalise import Clean, normalise
from ingest.pieces import Reject
from ingest.senders import Sender, Senders
from ingest.wire import BATCH_HEADER, CLUSTER_HEADER, NODE_HEADER, PATH, batch_id
from warehouse.errors import LedgerError
from warehouse.records import RECORD_TYPES, RecordType

log = logging.getLogger(__name__)

BODY_BYTES = 16 << 20
"""Of a body as it travels."""
TEXT_BYTES = 128 << 20
"""Of a body when decompressed."""
AT_ONCE = 2
"""Bodies that are read at the same time; the others wait outside."""
WAITING_BYTES = 64 << 20
"""Of bodies that were let in and are not in the store yet, as they travel."""
RETRY_SECONDS = 5
PORTION_ROWS = 100_000
"""So many are looked at at once."""
KNOWN = 100_000
"""Batches that are remembered by their hash."""


@dataclass(frozen=True)
class Report:
    """What became of a batch. quarantined: rows by reason.   known: it was in the store already."""

    batch: str
    read: int
    quarantined: dict[str, int]
    known: bool = False

    def document(self) -> dict[str, Any]:
        bad = sum(self.quarantined.values())
        return {
            "batch": self.batch,
            "read": self.read,
            "stored": self.read - bad,
            "quarantined": self.quarantined,
            "known": self.known,
        }


@dataclass
class _Counts:
    bodies: int = 0
    rows: int = 0
    refused: int = 0


class Receiver:
    """Takes bodies in, and answers when they are in the store.

    now: the clock that stamps are judged by.
    """

    def __init__(
        self, coalescer: Coalescer, senders: Senders, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._coalescer, self._senders, self._now = coalescer, senders, now
        self._known: OrderedDict[str, Report] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[Report]] = {}
        self._bytes = 0
        self._reading = asyncio.Semaphore(AT_ONCE)
        self.counts = _Counts()

    def route(self) -> Route:
        return Route(PATH + "/{record}", self.endpoint, methods=["POST"])

    async def endpoint(self, request: Request) -> JSONResponse:
        try:
            report = await self._received(request)
        except HTTPException as refusal:
            self.counts.refused += 1
            headers = {**(refusal.headers or {}), "Connection": "close"}
            return JSONResponse({"error": refusal.detail}, refusal.status_code, headers)
        except ClientDisconnect:
            return JSONResponse({"error": "the sender hung up"}, 400)
        return JSONResponse(report.document())

    async def _received(self, request: Request) -> Report:
        sender, record = self._admitted(request)
        body = await self._body(request)
        name = batch_id(record.name, body)
        said = request.headers.get(BATCH_HEADER)
        if said is not None and said != name:
            raise HTTPException(409, f"batch {said[:64]}: the body's hash is {name}; send it again")
        if name in self._known:
            return self._known[name]
        task = self._under_way.get(name)
        if task is None:
            source = _source(sender, request)
            task = asyncio.create_task(self._stored(sender, record, source, name, body, request))
            self._under_way[name] = task
            task.add_done_callback(lambda task: self._ended(name, task))
        # A sender that hangs up does not take back what it sent; sent again, it waits for the same task.
        return await asyncio.shield(task)

    def _admitted(self, request: Request) -> tuple[Sender, RecordType]:
        """Who it is and what it sends, before the body is read."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        sender = self._senders.of(token.strip()) if scheme.lower() == "bearer" else None
        if sender is None:
            raise HTTPException(
                401, "no token of ours: send Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
            )
        record = RECORD_TYPES.get(request.path_params["record"].replace("-", "_"))
        if record is None:
            raise HTTPException(404, f"no such record type; there are {', '.join(RECORD_TYPES)}")
        if sender.records is not None and record.name not in sender.records:
            raise HTTPException(403, f"{sender.name} may not send {record.name}, only {', '.join(sender.records)}")
        if self._coalescer.full or self._bytes >= WAITING_BYTES:
            raise HTTPException(429, "more waits than is taken in at once", {"Retry-After": str(RETRY_SECONDS)})
        return sender, record

    async def _body(self, request: Request) -> bytes:
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > BODY_BYTES:
            raise HTTPException(413, f"a body of {declared} bytes: at most {BODY_BYTES}")
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > BODY_BYTES:
                raise HTTPException(413, f"a body of more than {BODY_BYTES} bytes")
            parts.append(part)
        return b"".join(parts)

    async def _stored(
        self, sender: Sender, record: RecordType, source: str, name: str, body: bytes, request: Request
    ) -> Report:
        encoding = request.headers.get("content-encoding", "").strip().lower()
        document = request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
        self._bytes += len(body)
        try:
            async with self._reading:
                lines = await asyncio.to_thread(_lines, body, encoding, document)
                found = await self._put(sender, record, source, lines)
            waited = await asyncio.gather(*(asyncio.wrap_future(done) for _, done in found), return_exceptions=True)
            for trouble in waited:
                if trouble is not None:
                    raise trouble
        except TooLargeError as error:
            raise HTTPException(413, str(error)) from error
        except IngestError as error:
            raise HTTPException(422, str(error)) from error
        except LedgerError as error:
            raise HTTPException(503, str(error)[:500], {"Retry-After": str(RETRY_SECONDS)}) from error
        finally:
            self._bytes -= len(body)
        reasons = Counter(reject.reason for clean, _ in found for reject in clean.rejects)
        report = Report(name, len(lines), dict(reasons))
        self.counts.bodies += 1
        self.counts.rows += len(lines)
        self._remember(report)
        return report

    async def _put(
        self, sender: Sender, record: RecordType, source: str, lines: Sequence[bytes]
    ) -> list[tuple[Clean, Future[None]]]:
        """Looks at all of the rows, then has them written: a batch is taken as a whole or not at all."""
        cleans = [
            await asyncio.to_thread(_clean, record, portion, first, self._now())
            for first, portion in portions(lines, PORTION_ROWS)
            if portion
        ]
        if sender.clusters is not None:
            _refuse_other_clusters(sender, cleans)
        rejects = [reject for clean in cleans for reject in clean.rejects]
        if len(rejects) > BODY_REJECTS:
            few = Clean(EXAMPLES, cleans[0].table.slice(0, 0), rejects[:EXAMPLES], {})
            await asyncio.wrap_future(self._write(record, source, few)[1])
            raise IngestError(
                "body", _many(rejects, len(lines)), "The first of them are in quarantine; mend and resend"
            )
        return [self._write(record, source, clean) for clean in cleans]

    def _write(self, record: RecordType, source: str, clean: Clean) -> tuple[Clean, Future[None]]:
        return clean, self._coalescer.put(Arrived(record, source, clean, time.monotonic()))

    def _ended(self, name: str, task: asyncio.Task[Report]) -> None:
        self._under_way.pop(name, None)
        # Looked at here, or asyncio complains where the sender hung up meanwhile.
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, HTTPException):
            log.error("receive: an error of gpuledger's own", exc_info=error)

    def _remember(self, report: Report) -> None:
        self._known[report.batch] = Report(report.batch, report.read, report.quarantined, known=True)
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)


def _lines(body: bytes, encoding: str, document: bool) -> list[bytes]:
    return body_lines(decompressed(body, encoding, TEXT_BYTES), document)


def _clean(record: RecordType, lines: Sequence[bytes], first: int, now: datetime) -> Clean:
    return normalise(record, lines_piece(record, lines, first)[0], now)


def _many(rejects: Sequence[Reject], rows: int) -> str:
    reasons = Counter(reject.reason for reject in rejects).most_common(5)
    named = ", ".join(f"{reason}: {count:,}" for reason, count in reasons)
    return f"{len(rejects):,} of {rows:,} rows do not fit ({named}), more than {BODY_REJECTS:,}: none was taken"


def _refuse_other_clusters(sender: Sender, cleans: Sequence[Clean]) -> None:
    named = {name for clean in cleans for name in clean.table["cluster"].unique().to_pylist()}
    others = sorted(named - set(sender.clusters or ()))
    if others:
        raise HTTPException(403, f"{sender.name} may not send of cluster {others[0]!r}; nothing of the batch was taken")


def _source(sender: Sender, request: Request) -> str:
    """As `push:agents-c1 c1/gpu-1`."""
    cluster, node = request.headers.get(CLUSTER_HEADER, ""), request.headers.get(NODE_HEADER, "")
    origin = f"{cluster[:100]}/{node[:100]}" if cluster or node else ""
    return f"push:{sender.name} {origin}".strip()
