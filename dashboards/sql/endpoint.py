"""The endpoint: `POST /` and `GET /?query=`, also under /sql, as ClickHouse's HTTP interface has them.

Who asks is the gate's business (X-ClickHouse-Key, Basic or Bearer: an API token with the scope sql). What goes wrong
before the first piece of the answer is an error with a code; later the connection breaks off, so that half an answer is
never taken for a whole one.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import uuid
from collections.abc import Mapping
from email import message_from_bytes
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from dashboards.access.principal import ForbiddenError, Principal
from dashboards.access.roles import Action
from dashboards.sql import formats
from dashboards.sql.compress import compressed, decompressed, negotiated
from dashboards.sql.engine import Engine, Question
from dashboards.sql.errors import ACCESS_DENIED, BAD_ARGUMENTS, TOO_MANY, SqlError
from warehouse.errors import LedgerError

log = logging.getLogger(__name__)
PATHS = ("/", "/sql", "/sql/")
PIECES_AHEAD = 4
"""Of an answer that wait for a slow reader."""
POLL_SECONDS = 0.25


class SqlDoor:
    """ASGI middleware: takes statements, and leaves the rest to the application."""

    def __init__(self, app: ASGIApp, engine: Engine) -> None:
        self._app, self._endpoint = app, Endpoint(engine)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/ping":
            await PlainTextResponse("Ok.\n")(scope, receive, send)
        elif scope["type"] == "http" and asks_sql(scope):
            await self._endpoint(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def asks_sql(scope: Scope) -> bool:
    """Whether a request is a statement, and not one for a page."""
    if scope["path"] not in PATHS:
        return False
    return scope["method"] == "POST" or (
        scope["method"] == "GET" and (scope["path"] != "/" or b"query=" in scope["query_string"])
    )


class Endpoint:
    """Answers statements, so many at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._slots = threading.BoundedSemaphore(engine.limits.at_once)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            principal: Principal = request.state.principal
            principal.require(Action.sql)
            question = await self._question(request)
        except ForbiddenError as refused:
            error = SqlError(ACCESS_DENIED, f"{refused.where}: {refused.what}", refused.next_step)
            await _error(error)(scope, receive, send)
            return
        except SqlError as error:
            await _error(error)(scope, receive, send)
            return
        except ClientDisconnect:
            return
        encoding = negotiated(request.headers.get("accept-encoding", ""))
        running = _Running(self._engine, self._slots, principal, question, encoding)
        running.start()
        try:
            await self._answer(request, running, question, encoding, send)
        finally:
            running.leave()

    async def _question(self, request: Request) -> Question:
        asked = dict(request.query_params)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > self._engine.limits.text_bytes:
                raise SqlError(BAD_ARGUMENTS, "the body is longer than a statement may be")
        kind = request.headers.get("content-type", "")
        if kind.lower().startswith("multipart/form-data"):
            asked, body = {**asked, **_form(kind, body)}, b""
        if asked.get("compress") == "1" or asked.get("decompress") == "1":
            what = "compress= and decompress= (ClickHouse's own blocks) are not spoken here"
            raise SqlError(BAD_ARGUMENTS, what, "Use Accept-Encoding: zstd, lz4, gzip or br")
        named = asked.get("database") or request.headers.get("x-clickhouse-database", "")
        if named not in ("", "default", "__default__", self._engine.database):
            raise SqlError(ACCESS_DENIED, f"the database {named[:100]!r} is not served", f"Use {self._engine.database}")
        text = decompressed(body, request.headers.get("content-encoding", ""), self._engine.limits.text_bytes)
        statement = "\n".join(part for part in (asked.get("query", ""), text) if part)
        return Question(
            text=statement,
            format=asked.get("default_format") or request.headers.get("x-clickhouse-format", "") or "TabSeparated",
            settings=asked,
            params={name.removeprefix("param_"): value for name, value in asked.items() if name.startswith("param_")},
            mark=f"asked_{uuid.uuid4().hex}",
        )

    async def _answer(self, request: Request, running: _Running, question: Question, encoding: str, send: Send) -> None:
        watching = asyncio.ensure_future(_gone(request))
        try:
            wait = (question.settings or {}).get("wait_end_of_query") == "1"
            begun = await _beginning(running, watching, self._engine.limits.whole_bytes if wait else 1)
            if isinstance(begun, SqlError):
                await _error(begun)(request.scope, request.receive, send)
            elif begun is not None:
                await _send(send, _headers(begun[0], question, encoding), begun[1], running, watching)
        finally:
            watching.cancel()


def _form(kind: str, body: bytes) -> dict[str, str]:
    """The fields of a form, which clients send in place of an address that would be too long (clickhouse-connect does,
    where its parameters are). kind: its content type.   Errors: SqlError for files and for what is no such form."""
    form = message_from_bytes(b"Content-Type: " + kind.encode("latin-1") + b"\r\n\r\n" + body)
    fields: dict[str, str] = {}
    for part in form.walk():
        if part is form and part.is_multipart():
            continue
        name, content = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(content, bytes) or part.get_filename():
            raise SqlError(BAD_ARGUMENTS, "such a form is not taken", "Its fields are query and param_...")
        try:
            fields[name] = content.decode()
        except UnicodeDecodeError as error:
            raise SqlError(BAD_ARGUMENTS, f"the field {name[:100]} is no UTF-8") from error
    return fields


async def _beginning(
    running: _Running, watching: asyncio.Future[None], enough: int
) -> tuple[str, list[Any]] | SqlError | None:
    """The format, and what of the answer there is when there are so many bytes; an error, as long as nothing is sent;
    None: nobody reads any more."""
    name: str | None = None
    made: list[Any] = []
    size = 0
    while size < enough and not (made and made[-1] is _END):
        if watching.done():
            return None
        following = await asyncio.to_thread(running.following)
        if isinstance(following, SqlError):
            return following
        if name is None:
            name = following
        elif following is not None:
            made.append(following)
            size += len(following) if following is not _END else 0
    return (name or "", made)


async def _send(
    send: Send, headers: list[tuple[bytes, bytes]], made: list[Any], running: _Running, watching: asyncio.Future[None]
) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while not watching.done():
        following = made.pop(0) if made else await asyncio.to_thread(running.following)
        if following is _END:
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            return
        if isinstance(following, SqlError):
            # No last chunk: whoever reads notices that the answer is not whole.
            log.warning("sql: an answer broke off: %s", following.text()[:500])
            return
        if following:
            await send({"type": "http.response.body", "body": following, "more_body": True})


def _headers(name: str, question: Question, encoding: str) -> list[tuple[bytes, bytes]]:
    headers = {
        "content-type": formats.media_type(name),
        "x-clickhouse-format": name,
        "x-clickhouse-query-id": (question.settings or {}).get("query_id", "")[:100] or question.mark,
        "x-clickhouse-timezone": "UTC",
        "x-clickhouse-summary": "{}",
        "vary": "accept-encoding",
        **({"content-encoding": encoding} if encoding else {}),
    }
    return [
        (key.encode("latin-1"), "".join(c for c in value if c.isprintable()).encode("latin-1", "replace"))
        for key, value in headers.items()
    ]


class _Running(threading.Thread):
    """A statement and its answer, in a thread that opens, reads and closes its connection by itself."""

    def __init__(
        self, engine: Engine, slots: threading.BoundedSemaphore, principal: Principal, question: Question, encoding: str
    ) -> None:
        super().__init__(name="sql", daemon=True)
        self._engine, self._slots, self._principal = engine, slots, principal
        self._question, self._encoding = question, encoding
        self._made: queue.Queue[Any] = queue.Queue(PIECES_AHEAD)
        self._left = threading.Event()
        self._ended = threading.Event()

    def run(self) -> None:
        try:
            self._put(self._run() or _END)
        except SqlError as error:
            self._put(error)
        except LedgerError as error:
            log.error("sql: %s", error)
            self._put(SqlError(1002, "the store does not answer; the log says why"))
        except Exception:  # whoever asks gets a code, the log has the details
            log.exception("sql: a statement failed")
            self._put(SqlError(1002, "an error of gpuledger's own; its log has the details"))
        finally:
            self._ended.set()

    def _run(self) -> SqlError | None:
        if not self._slots.acquire(timeout=self._engine.limits.waiting_seconds):
            return SqlError(TOO_MANY, "more statements than are run at once", "Try again in a while")
        try:
            if self._left.is_set():
                return None
            with self._engine.asked(self._principal, self._question) as (name, pieces):
                self._put(name)
                for piece in compressed(pieces, self._encoding):
                    if not self._put(piece):
                        return None
        finally:
            self._slots.release()
        return None

    def _put(self, made: Any) -> bool:
        """False: nobody reads any more."""
        while not self._left.is_set():
            try:
                self._made.put(made, timeout=POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def following(self) -> Any:
        """What comes next: first the format, then pieces, _END or an SqlError; None: nothing yet."""
        try:
            return self._made.get(timeout=POLL_SECONDS)
        except queue.Empty:
            return None

    def leave(self) -> None:
        """Nobody reads any more: what still runs is ended."""
        self._left.set()
        if not self._ended.is_set():
            threading.Thread(target=self._end, name="sql-end", daemon=True).start()

    def _end(self) -> None:
        try:
            if not self._ended.wait(POLL_SECONDS * 2):
                self._engine.end(self._question.mark)
        except LedgerError as error:
            log.warning("sql: a statement that nobody waits for goes on: %s", error)


_END = object()


async def _gone(request: Request) -> None:
    """Returns when whoever asked has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _error(error: SqlError) -> PlainTextResponse:
    headers: Mapping[str, str] = {"X-ClickHouse-Exception-Code": str(error.code)}
    return PlainTextResponse(error.text() + "\n", error.status, dict(headers))
