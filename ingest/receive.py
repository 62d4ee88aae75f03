"""The server's side of a push: `POST /api/v1/records/{record type}`, for agents and for anything that can post JSON.

A body is JSON lines (application/x-ndjson), or one JSON object or an array of them (application/json), plain or gzip.
The response comes when the rows are in the store: 200 and a report. Invalid rows, and rows that the sender may not
write, go to quarantine under its name; rows that need approval are held (`judge`). The report counts both.

    401  no token, or an unknown one          403  this sender may not send that record type
    404  no such record type                  409  the content does not match the batch's hash
    413  too large                            415  the Content-Type is not JSON
    422  cannot be parsed                     429, 503  try later (Retry-After)

Resending changes nothing: recent batches are recognized by their hash, all others by the natural keys of their rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ingest.admission import BODY_BYTES, RETRY, Admission
from ingest.body import BODY_REJECTS, EXAMPLES, TooLargeError, body_lines, decompressed, joined_lines, portions
from ingest.coalesce import Coalescer, PendingBatch
from ingest.errors import IngestError
from ingest.json_files import lines_piece
from ingest.judge import Judge, Judged
from ingest.micro_batches import MicroBatches
from ingest.normalise import Clean, normalise
from ingest.notes import Note, Notes
from ingest.permissions import ALL, OUT_OF_PLACE, other_clusters
from ingest.pieces import Piece, Reject
from ingest.plain_json import looks_plain, plain_rows
from ingest.senders import Sender, Senders
from ingest.tally import Tally
from ingest.wire import BATCH_HEADER, CLUSTER_HEADER, NODE_HEADER, PATH, batch_id, lines_of
from warehouse.errors import LedgerError
from warehouse.records import RECORD_TYPES, RecordType
from warehouse.store import Store

log = logging.getLogger(__name__)

TEXT_BYTES = 128 << 20
"""Of a body when decompressed."""
AT_ONCE = 2
"""Bodies that are read at the same time; the others wait outside."""
WAITING_BYTES = 64 << 20
"""The most bytes, as sent, of bodies that were admitted and are not in the store yet."""
SMALL_BYTES, SMALL_TEXT_BYTES, SMALL_BODIES = 64 << 10, 256 << 10, 256
"""Bodies up to these sizes, as sent and decompressed, are judged together, up to so many at a time."""
PORTION_ROWS = 100_000
"""Rows that are judged at a time."""
KNOWN = 100_000
"""Batches that are remembered by their hash."""
CONTENT_TYPES = frozenset(
    {
        *("application/x-ndjson", "application/json", "application/jsonl", "application/jsonlines"),
        *("application/json-lines", "application/x-jsonlines", "text/plain", "application/octet-stream"),
        *("", "application/x-www-form-urlencoded"),  # curl --data-binary without a Content-Type
    }
)
"""Content-Types of JSON. A body of any other, read as JSON, would only fill the quarantine."""


@dataclass(frozen=True)
class Report:
    """What happened to a batch. quarantined, held: number of rows by reason.   refused: rows that a person refused
    before. known: the batch was in the store already."""

    batch: str
    read: int
    quarantined: dict[str, int]
    held: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    known: bool = False

    @property
    def stored(self) -> int:
        return self.read - sum(self.quarantined.values()) - sum(self.held.values()) - self.refused

    def document(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "read": self.read,
            "stored": self.stored,
            "quarantined": self.quarantined,
            "held": self.held,
            "refused": self.refused,
            "known": self.known,
        }


@dataclass
class _Body:
    """An admitted body. document: one JSON document, not lines.   most_text: limit of its decompressed bytes."""

    sender: Sender
    record: RecordType
    source: str
    body: bytes
    encoding: str
    document: bool
    most_text: int = TEXT_BYTES

    @functools.cached_property
    def text(self) -> bytes:
        """Errors: TooLargeError, IngestError."""
        return decompressed(self.body, self.encoding, self.most_text)

    @functools.cached_property
    def lines(self) -> Sequence[bytes]:
        """Errors: TooLargeError, IngestError."""
        return body_lines(self.text, self.document)

    @functools.cached_property
    def joined(self) -> tuple[bytes, int]:
        """The lines with a newline between two of them, and how many; blank ones may be among them.
        Errors: TooLargeError, IngestError."""
        return (b"\n".join(self.lines), len(self.lines)) if self.document else joined_lines(self.text)

    @functools.cached_property
    def refused(self) -> IngestError | None:
        """Why its text, or the document that this is, cannot be read."""
        try:
            _ = self.lines if self.document else self.text
        except IngestError as error:
            return error
        return None

    def forget(self) -> None:
        """Frees what was made of the body, which waits for the store yet."""
        for name in ("text", "lines", "joined", "refused"):
            self.__dict__.pop(name, None)


class _TooManyRejectsError(IngestError):
    """few: done when the first of the rejects are in quarantine."""

    def __init__(self, rejects: Sequence[Reject], rows: int, few: Future[None]) -> None:
        super().__init__("body", _many(rejects, rows), "The first of them are in quarantine; mend and resend")
        self.few = few


Batch = tuple[str, str]
"""The sender's name and the batch's hash: senders have different permissions."""


@dataclass
class _Part:
    """A part of a body. rows: in it, good and bad.   judged, notes (for the audit): of the last time it was judged; it
    may be judged again when it is written.   done: set once it is in the store."""

    rows: int
    judge: Callable[[bool], tuple[Judged, Sequence[Note]]]
    judged: Judged
    notes: Sequence[Note]
    done: Future[None] = field(default_factory=Future)

    def rejudge(self) -> Clean:
        self.judged, self.notes = self.judge(True)
        return self.judged.clean


class Receiver:
    """Accepts bodies, and responds when their rows are in the store.

    store: to judge rows by; another connection than the coalescer's.   now: the clock by which timestamps are judged.
    """

    def __init__(
        self,
        coalescer: Coalescer,
        senders: Senders,
        store: Store,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._coalescer, self._now = coalescer, now
        self._judge = Judge(store)
        self._notes = Notes(store, self._judge.inventory)
        self.tally = Tally(store)
        self._known: OrderedDict[Batch, Report] = OrderedDict()
        self._under_way: dict[Batch, asyncio.Task[Report]] = {}
        self._bytes = 0
        self._reading = asyncio.Semaphore(AT_ONCE)
        self._small = MicroBatches(self._judge_and_submit, SMALL_BODIES, self._reading)
        self.senders = senders
        self.admission = Admission(senders, self.tally, now)

    def route(self) -> Route:
        return Route(PATH + "/{record}", self.endpoint, methods=["POST"])

    async def endpoint(self, request: Request) -> Response:
        record = request.path_params["record"].replace("-", "_")

        async def work() -> Response:
            return JSONResponse((await self._received(request)).document())

        return await self.admission.answered(request, record if record in RECORD_TYPES else "", work)

    async def _received(self, request: Request) -> Report:
        sender, record, kind = await self._admitted(request)
        body = await self.admission.body(request, BODY_BYTES)
        name = batch_id(record.name, body)
        claimed = request.headers.get(BATCH_HEADER)
        if claimed is not None and claimed != name:
            raise HTTPException(409, f"batch {claimed[:64]}: the body's hash is {name}; send it again")
        batch = sender.name, name
        if batch in self._known:
            return replace(self._known[batch], known=True)
        task = self._under_way.get(batch)
        if task is None:
            encoding = request.headers.get("content-encoding", "").strip().lower()
            asked = _Body(sender, record, _source(sender, request), body, encoding, kind == "application/json")
            task = asyncio.create_task(self._stored(name, asked))
            self._under_way[batch] = task
            task.add_done_callback(lambda task: self._ended(batch, task))
        # If the sender hangs up, its batch is written anyway; sent again, it waits for the same task.
        return await asyncio.shield(task)

    async def _admitted(self, request: Request) -> tuple[Sender, RecordType, str]:
        """The sender, the record type and the Content-Type, before the body is read."""
        sender = await self.admission.sender(request)
        record = RECORD_TYPES.get(request.path_params["record"].replace("-", "_"))
        if record is None:
            raise HTTPException(404, f"no such record type; there are {', '.join(RECORD_TYPES)}")
        self.admission.check_may_send(request, sender, record.name)
        kind = _content_type(request)
        if kind not in CONTENT_TYPES:
            raise HTTPException(415, f"Content-Type {kind[:80]!r}: send application/x-ndjson or application/json")
        if self._coalescer.full or self._bytes >= WAITING_BYTES:
            raise HTTPException(429, "too many rows are waiting", RETRY)
        return sender, record, kind

    async def _stored(self, name: str, body: _Body) -> Report:
        size = len(body.body)
        self._bytes += size
        try:
            with self._coalescer.coming():
                found = await self._submitted(body)
            await _all_done(found)
            notes = [note for one in found for note in one.notes]
            if notes or self.tally.due:
                await asyncio.to_thread(self._noted, body.sender, body.source, notes)
        except _TooManyRejectsError as error:
            await asyncio.wrap_future(error.few)
            raise HTTPException(422, str(error)) from error
        except TooLargeError as error:
            raise HTTPException(413, str(error)) from error
        except IngestError as error:
            raise HTTPException(422, str(error)) from error
        except LedgerError as error:
            raise HTTPException(503, str(error)[:500], RETRY) from error
        finally:
            self._bytes -= size
        rows = sum(one.rows for one in found)
        report = _report(name, rows, [one.judged for one in found])
        self.admission.counts.bodies += 1
        self.admission.counts.rows += rows
        self._count(body.sender, body.record, report)
        if not report.held and not report.refused:
            self._remember((body.sender.name, name), report)
        return report

    async def _submitted(self, body: _Body) -> list[_Part]:
        if len(body.body) <= SMALL_BYTES:
            body.most_text = SMALL_TEXT_BYTES
            with contextlib.suppress(TooLargeError):  # too large to be judged with others; alone, the limit is higher
                return await self._small.done(body)
            body.most_text = TEXT_BYTES
        async with self._reading:
            (found,) = await asyncio.to_thread(self._judge_and_submit, [body])
        if isinstance(found, BaseException):
            raise found
        return found

    def _judge_and_submit(self, bodies: Sequence[_Body]) -> list[list[_Part] | BaseException]:
        """Judges bodies and submits their rows for writing; returns a result or an error for each. Rows of one type are
        judged together, but a body with bad rows again by itself, so that its row numbers are right."""
        cleans = self._good(bodies)
        found: list[list[_Part] | BaseException] = []
        for body in bodies:
            try:
                found.append(self._put(body, cleans.get(id(body))))
            except Exception as error:  # noqa: BLE001 - raised again for whoever waits
                found.append(error)
            body.forget()
        return found

    def _good(self, bodies: Sequence[_Body]) -> dict[int, Clean]:
        """The bodies that can be parsed and have no bad row, by identity: their rows in the contract's types."""
        groups: dict[tuple[str, bool], list[_Body]] = {}
        for body in bodies:
            with contextlib.suppress(IngestError):  # `_put` says so
                if body.refused is None and body.joined[0]:
                    plain = looks_plain(body.record, body.joined[0])
                    groups.setdefault((body.record.name, plain), []).append(body)
        found: dict[int, Clean] = {}
        for (_, plain), several in groups.items():
            if len(several) == 1:
                continue
            whole, counts = _together(several, plain, self._now())
            bad = np.array([reject.row for reject in whole.rejects], np.int64)
            edges = np.cumsum([0, *counts])
            before = np.searchsorted(bad, edges, side="right")
            for body, (first, last), (earlier, later) in zip(several, pairwise(edges), pairwise(before), strict=True):
                if earlier == later and first < last:
                    found[id(body)] = whole.part(int(first - earlier), int(last - first))
        return found

    def _put(self, body: _Body, clean: Clean | None) -> list[_Part]:
        """Judges all of the rows, then submits them: a batch is taken as a whole or not at all."""
        if body.refused is not None:
            raise body.refused
        sender, record, source = body.sender, body.record, body.source
        cleans = (
            [(1, clean)]
            if clean is not None
            else [
                (first, _clean(record, portion, first, self._now()))
                for first, portion in portions(body.lines, PORTION_ROWS)
                if portion
            ]
        )
        if sender.permissions.clusters != ALL:
            for _, one in cleans:
                _refuse_other_clusters(sender, one)
        rejects = [reject for _, one in cleans for reject in one.rejects]
        if len(rejects) > BODY_REJECTS:
            few = Clean(EXAMPLES, cleans[0][1].table.slice(0, 0), rejects[:EXAMPLES], {})
            examples = PendingBatch(record, source, few, time.monotonic(), sender.name)
            raise _TooManyRejectsError(rejects, len(body.lines), self._coalescer.put(examples))
        return [self._judged(sender, record, source, *one) for one in cleans]

    def take(self, sender: Sender, source: str, records: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Stores rows, by record type, that the server made from what a sender pushed in another format (remote write,
        OTLP); with the sender's permissions, as if it had pushed them. Blocks until they are stored, so not for the
        event loop.

        Errors: LedgerError if the store does not take them; then pass them again.
        """
        given: list[tuple[RecordType, list[_Part]]] = []
        for name, rows in records.items():
            record, parts = RECORD_TYPES[name], []
            for first, portion in portions(lines_of(rows), PORTION_ROWS):
                clean = _clean(record, portion, first, self._now())
                if not sender.permissions.may_send(name) or other_clusters(sender.permissions, clean.table):
                    reason = "not its record type or cluster"
                    self.tally.add(self._now(), sender.name, name, "denied", reason, len(portion))
                else:
                    parts.append(self._judged(sender, record, source, first, clean))
            given.append((record, parts))
        for record, parts in given:
            for part in parts:
                part.done.result()
            self._noted(sender, source, [note for part in parts for note in part.notes])
            if parts:
                read = sum(part.rows for part in parts)
                self._count(sender, record, _report("", read, [part.judged for part in parts]))

    def _judged(self, sender: Sender, record: RecordType, source: str, first: int, clean: Clean) -> _Part:
        """Judges rows and submits them."""
        now = self._now()

        def judge(fresh: bool) -> tuple[Judged, Sequence[Note]]:
            judged = self._judge.judge(sender, record, source, clean, now, first, fresh)
            noted = judged.held or record.name in ("devices", "events")
            return judged, self._notes.on(sender.name, record, judged, now) if noted else []

        part = _Part(clean.rows, judge, *judge(False))
        about = sender.name, part.judged.version, part.rejudge
        part.done = self._coalescer.put(PendingBatch(record, source, part.judged.clean, time.monotonic(), *about))
        return part

    def _noted(self, sender: Sender, source: str, notes: Sequence[Note]) -> None:
        if notes:
            self._notes.write(sender.name, source, notes, self._now())
        if self.tally.due:
            self.tally.write()

    def _count(self, sender: Sender, record: RecordType, report: Report) -> None:
        """Counts a push in the summary of the sender's day."""
        now = self._now()
        self.tally.add(now, sender.name, record.name, "stored", "", report.stored)
        for reason, rows in report.held.items():
            self.tally.add(now, sender.name, record.name, "held", reason, rows)
        for reason, rows in report.quarantined.items():
            outcome = OUT_OF_PLACE if reason == OUT_OF_PLACE else "quarantined"
            self.tally.add(now, sender.name, record.name, outcome, reason, rows)
        if report.refused:
            self.tally.add(now, sender.name, record.name, "refused", "", report.refused)

    def _ended(self, batch: Batch, task: asyncio.Task[Report]) -> None:
        self._under_way.pop(batch, None)
        # Retrieves the exception, or asyncio would complain where the sender has hung up.
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, HTTPException):
            log.error("receive: an internal error", exc_info=error)

    def _remember(self, batch: Batch, report: Report) -> None:
        self._known[batch] = report
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)


async def _all_done(parts: Sequence[_Part]) -> None:
    """Waits for all of them.   Errors: the first part's that has one."""
    waits = [asyncio.wrap_future(one.done) for one in parts]
    if len(waits) == 1:  # as nearly always
        await waits[0]
        return
    for trouble in await asyncio.gather(*waits, return_exceptions=True):
        if trouble is not None:
            raise trouble


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _clean(record: RecordType, lines: Sequence[bytes], first: int, now: datetime) -> Clean:
    return normalise(record, lines_piece(record, lines, first)[0], now)


def _together(bodies: Sequence[_Body], plain: bool, now: datetime) -> tuple[Clean, Sequence[int]]:
    """The rows of bodies of one type, and how many each has; 0 of one that has to be read alone.

    plain: whether they look it.
    """
    record = bodies[0].record
    rows = sum(body.joined[1] for body in bodies)
    if plain and rows <= PORTION_ROWS:
        table = plain_rows(record, b"\n".join(body.joined[0] for body in bodies), rows)
        if table is not None:
            piece = Piece(table, np.arange(1, rows + 1), (), lambda _: "")  # a body with bad rows is read again, alone
            return normalise(record, piece, now), [body.joined[1] for body in bodies]
    lines: list[bytes] = []
    counts: list[int] = []
    for body in bodies:
        own: Sequence[bytes] = ()
        with contextlib.suppress(IngestError):
            own = body.lines if len(lines) + len(body.lines) <= PORTION_ROWS else ()
        lines += own
        counts.append(len(own))
    return _clean(record, lines, 1, now), counts


def _many(rejects: Sequence[Reject], rows: int) -> str:
    reasons = Counter(reject.reason for reject in rejects).most_common(5)
    named = ", ".join(f"{reason}: {count:,}" for reason, count in reasons)
    return f"{len(rejects):,} of {rows:,} rows are invalid ({named}), more than {BODY_REJECTS:,}: nothing was stored"


def _report(name: str, read: int, parts: Sequence[Judged]) -> Report:
    quarantined = Counter(reject.reason for judged in parts for reject in judged.clean.rejects)
    held: Counter[str] = Counter()
    for judged in parts:
        held.update(judged.held)
    return Report(name, read, dict(quarantined), dict(held), sum(judged.refused for judged in parts))


def _refuse_other_clusters(sender: Sender, clean: Clean) -> None:
    others = other_clusters(sender.permissions, clean.table)
    if others:
        raise HTTPException(
            403, f"{sender.name} may not send rows of cluster {others[0]!r}; the whole batch was refused"
        )


def _source(sender: Sender, request: Request) -> str:
    """As `push:agents-c1 c1/gpu-1`."""
    cluster, node = request.headers.get(CLUSTER_HEADER, ""), request.headers.get(NODE_HEADER, "")
    origin = f"{cluster[:100]}/{node[:100]}" if cluster or node else ""
    return f"push:{sender.name} {origin}".strip()
