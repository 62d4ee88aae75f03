"""The endpoint: `POST /` and `GET /?query=`, also under /sql, as ClickHouse's HTTP interface has them.

The gate has authenticated the caller (X-ClickHouse-Key, Basic or Bearer: an API token with the scope sql). An error
before the first piece of the answer has a status and a code; after it, the connection is cut, so that half an answer is
never taken for a whole one.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping
from email import message_from_bytes

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from access.principal import ForbiddenError, Principal
from access.roles import Action
from api.sql import formats
from api.sql.compress import decompressed, negotiated
from api.sql.engine import Answer, Engine, Question
from api.sql.errors import ACCESS_DENIED, BAD_ARGUMENTS, ENDED, TIMEOUT, SqlError
from warehouse.errors import LedgerError

log = logging.getLogger(__name__)
PATHS = ("/", "/sql", "/sql/")


class SqlMiddleware:
    """ASGI middleware: answers SQL statements, and passes everything else to the application."""

    def __init__(self, app: ASGIApp, engine: Engine) -> None:
        self._app, self._endpoint = app, Endpoint(engine)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == "/ping":
            await PlainTextResponse("Ok.\n")(scope, receive, send)
        elif scope["type"] == "http" and is_sql_request(scope):
            await self._endpoint(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def is_sql_request(scope: Scope) -> bool:
    """Whether a request carries a statement, rather than asking for a page."""
    if scope["path"] not in PATHS:
        return False
    return scope["method"] == "POST" or (
        scope["method"] == "GET" and (scope["path"] != "/" or b"query=" in scope["query_string"])
    )


class Endpoint:
    """Answers statements. Each runs as a task of the event loop and in a worker process; it needs no thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

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
        answering = asyncio.ensure_future(self._answer(request, principal, question, send))
        gone = asyncio.ensure_future(_client_disconnected(request))
        try:
            await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            answering.cancel()  # if the client has hung up, this ends the statement
            await asyncio.wait((answering, gone))

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
            what = "compress= and decompress= (ClickHouse's own blocks) are not supported"
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
            encoding=negotiated(request.headers.get("accept-encoding", "")),
        )

    async def _answer(self, request: Request, principal: Principal, question: Question, send: Send) -> None:
        started = False
        try:
            async with self._engine.ask(principal, question) as answer, asyncio.timeout(answer.seconds):
                await send({"type": "http.response.start", "status": 200, "headers": _headers(answer, question)})
                started = True
                async for piece in answer.pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
        except SqlError as refused:
            error = refused
        except TimeoutError:
            error = SqlError(TIMEOUT, "the answer was not read in time")
        except LedgerError as failed:
            log.error("sql: %s", failed)
            error = SqlError(ENDED, "the store does not answer; the log says why")
        except Exception:  # the client gets a code, the log has the details
            log.exception("sql: a statement failed")
            error = SqlError(ENDED, "an internal error; its log has the details")
        if started:
            # Without a last chunk, the client notices that the answer is incomplete.
            log.warning("sql: an answer broke off: %s", error.text()[:500])
        else:
            await _error(error)(request.scope, request.receive, send)


def _form(kind: str, body: bytes) -> dict[str, str]:
    """The fields of a form, which clients send where the URL would be too long (clickhouse-connect does, with large
    parameters). kind: its Content-Type.   Errors: SqlError for files and malformed forms."""
    form = message_from_bytes(b"Content-Type: " + kind.encode("latin-1") + b"\r\n\r\n" + body)
    fields: dict[str, str] = {}
    for part in form.walk():
        if part is form and part.is_multipart():
            continue
        name, content = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(content, bytes) or part.get_filename():
            raise SqlError(BAD_ARGUMENTS, "this form is not accepted", "Its fields are query and param_...")
        try:
            fields[name] = content.decode()
        except UnicodeDecodeError as error:
            raise SqlError(BAD_ARGUMENTS, f"the field {name[:100]} is not UTF-8") from error
    return fields


def _headers(answer: Answer, question: Question) -> list[tuple[bytes, bytes]]:
    headers = {
        "content-type": formats.media_type(answer.format),
        "x-clickhouse-format": answer.format,
        "x-clickhouse-query-id": (question.settings or {}).get("query_id", "")[:100] or uuid.uuid4().hex,
        "x-clickhouse-timezone": "UTC",
        "x-clickhouse-summary": "{}",
        "vary": "accept-encoding",
        **({"content-encoding": answer.encoding} if answer.encoding else {}),
    }
    return [
        (key.encode("latin-1"), "".join(c for c in value if c.isprintable()).encode("latin-1", "replace"))
        for key, value in headers.items()
    ]


async def _client_disconnected(request: Request) -> None:
    """Returns when the client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _error(error: SqlError) -> PlainTextResponse:
    headers: Mapping[str, str] = {"X-ClickHouse-Exception-Code": str(error.code)}
    return PlainTextResponse(error.text() + "\n", error.status, dict(headers))
