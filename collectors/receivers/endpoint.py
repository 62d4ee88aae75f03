"""The endpoints for pushed metrics: `POST /api/v1/write` (remote write 1.0 and 2.0) and `POST /v1/metrics` (OTLP over
HTTP).

The response comes when the points are in the log. What can never be accepted is answered 400 (or 401, 403, 413, 415),
and senders of both protocols drop it; what may be retried 503, never 429, which Prometheus drops by default. If only a
part of a request is invalid, the rest is accepted; remote write then answers 400, OTLP partial success.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from collectors.exporters.profile import FILES, Profile
from collectors.receivers import otlp, remote_write, snappy
from collectors.receivers.assemble import Names
from collectors.receivers.log import PointLog
from collectors.receivers.points import Push, Terms
from ingest.admission import RETRY, Admission
from ingest.body import TooLargeError, decompressed
from ingest.check_rows import EARLIEST, FUTURE_TOLERANCE
from ingest.errors import IngestError
from ingest.permissions import ALL, fits
from ingest.senders import Sender
from ingest.tally import Tally
from warehouse.errors import LedgerError
from warehouse.instants import epoch_ms

WRITE_PATH, OTLP_PATH = "/api/v1/write", "/v1/metrics"
PATHS = (WRITE_PATH, OTLP_PATH)
BODY_BYTES = 4 << 20
"""Of a body as it travels."""
TEXT_BYTES = 32 << 20
"""Of a body when decompressed."""
AT_ONCE = 2
"""Bodies that are read at the same time; the others wait outside."""
PROTOBUF, JSON = "application/x-protobuf", "application/json"


class MetricsEndpoint:
    """admission, tally, now: those of the records' receiver.   pushed: where points go.   profiles: of the exporters
    whose metrics are used."""

    def __init__(
        self,
        admission: Admission,
        tally: Tally,
        pushed: PointLog,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        profiles: Sequence[Profile] = FILES.built_in,
    ) -> None:
        self._admission, self._tally, self._pushed, self._now = admission, tally, pushed, now
        self._names = Names(profiles)
        self._reading = asyncio.Semaphore(AT_ONCE)

    def routes(self) -> list[Route]:
        return [
            Route(WRITE_PATH, self.remote_write, methods=["POST"]),
            Route(OTLP_PATH, self.otlp, methods=["POST"]),
        ]

    async def remote_write(self, request: Request) -> Response:
        async def work() -> Response:
            sender = await self._admitted(request)
            message = _message(request)
            push = await self._taken(request, sender, lambda body, terms: _read(body, message, terms))
            headers = _written(push) if message == remote_write.V2 else {}
            if push.refused:
                others = "the others were taken" if push.accepted.total() else "nothing was taken"
                return PlainTextResponse(f"{_refused(push)}; {others}\n", 400, headers)
            return Response(status_code=204, headers=headers)

        return await self._admission.answered(request, "samples", work)

    async def otlp(self, request: Request) -> Response:
        async def work() -> Response:
            sender = await self._admitted(request)
            kind = _content_type(request)[0]
            if kind not in (PROTOBUF, JSON):
                raise HTTPException(415, f"Content-Type {kind[:80]!r}: send {PROTOBUF} or {JSON}")
            encoding = _encoding(request)
            if encoding not in ("", "identity", "gzip"):
                raise HTTPException(415, f"Content-Encoding {encoding[:40]!r}: send it plain or as gzip")

            def read(body: bytes, terms: Terms) -> Push:
                text = decompressed(body, encoding, TEXT_BYTES)
                return otlp.read_json(text, terms) if kind == JSON else otlp.read(text, terms)

            answer = otlp.answer(await self._taken(request, sender, read))
            if kind == JSON:
                return JSONResponse(answer)
            packed = ParseDict(answer, ExportMetricsServiceResponse()).SerializeToString()
            return Response(packed, media_type=PROTOBUF)

        return await self._admission.answered(request, "samples", work)

    async def _admitted(self, request: Request) -> Sender:
        """Who it is, before the body is read."""
        sender = await self._admission.sender(request)
        self._admission.check_may_send(request, sender, "samples")
        if self._pushed.full:
            raise HTTPException(503, "too many rows are waiting", RETRY)
        return sender

    async def _taken(self, request: Request, sender: Sender, read: Callable[[bytes, Terms], Push]) -> Push:
        """Once it is in the log."""
        body = await self._admission.body(request, BODY_BYTES)
        terms = self._terms(sender)
        try:
            async with self._reading:
                push = await asyncio.to_thread(read, body, terms)
                done = self._pushed.put(sender.name, push.points)
            # A sender that hangs up does not take back what it sent.
            await asyncio.shield(asyncio.wrap_future(done))
        except TooLargeError as error:
            raise HTTPException(413, str(error)) from error
        except IngestError as error:
            raise HTTPException(400, str(error)) from error
        except LedgerError as error:
            raise HTTPException(503, str(error)[:500], RETRY) from error
        self._count(sender, push)
        if self._tally.due:
            await asyncio.to_thread(self._tally.write)
        return push

    def _terms(self, sender: Sender) -> Terms:
        permissions = sender.permissions
        only = permissions.clusters[0] if permissions.clusters != ALL and len(permissions.clusters) == 1 else ""
        latest = self._now() + FUTURE_TOLERANCE
        return Terms(
            wanted=self._names.wanted,
            reads=self._names.reads,
            allowed=lambda cluster: fits(cluster, permissions.clusters),
            cluster="" if any(mark in only for mark in "*?[") else only,
            earliest=epoch_ms(EARLIEST),
            latest=epoch_ms(latest),
        )

    def _count(self, sender: Sender, push: Push) -> None:
        """For the summary of the sender's day. What becomes of the others is counted with their rows."""
        now = self._now()
        self._admission.counts.bodies += 1
        for reason, count in (push.ignored + push.refused).items():
            self._tally.add(now, sender.name, "points", "not_taken", reason[:100], count)


def _read(body: bytes, message: str, terms: Terms) -> Push:
    return remote_write.read(snappy.decompressed(body, TEXT_BYTES), message, terms)


def _message(request: Request) -> str:
    """The type of the message.   Errors: HTTPException 415, on which a sender tries the other one."""
    kind, parameters = _content_type(request)
    message = parameters.get("proto", remote_write.V1)
    if kind != PROTOBUF or message not in (remote_write.V1, remote_write.V2):
        raise HTTPException(
            415,
            f"Content-Type {request.headers.get('content-type', '')[:100]!r}: send {PROTOBUF}, with"
            f" proto={remote_write.V1} or proto={remote_write.V2}",
        )
    encoding = _encoding(request)
    if encoding != "snappy":
        raise HTTPException(415, f"Content-Encoding {encoding[:40]!r}: send snappy, its block format")
    return message


def _written(push: Push) -> Mapping[str, str]:
    """The response for accepted points. Metrics that no profile reads are not an error, or Prometheus would report
    one."""
    return {
        f"X-Prometheus-Remote-Write-{kind.title()}-Written": str(push.accepted[kind])
        for kind in ("samples", "histograms", "exemplars")
    }


def _refused(push: Push) -> str:
    return "refused: " + "; ".join(f"{reason} ({count})" for reason, count in push.refused.most_common(5))


def _content_type(request: Request) -> tuple[str, Mapping[str, str]]:
    kind, *rest = request.headers.get("content-type", "").split(";")
    pairs = (one.partition("=") for one in rest)
    return kind.strip().lower(), {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}


def _encoding(request: Request) -> str:
    return request.headers.get("content-encoding", "").strip().lower()
