"""Runs people's statements: checks them here, runs them in a worker process (`workers`), passes the bytes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from access.principal import Principal
from access.roles import Action
from api.sql import formats
from api.sql.allowed import Catalogue
from api.sql.errors import BAD_ARGUMENTS, ENDED, UNKNOWN_FORMAT, SqlError, disagreement
from api.sql.frames import Kind
from api.sql.limits import Limits, settings_of
from api.sql.server_engine import ServerEngine
from api.sql.turns import Turns
from api.sql.workers import Workers
from warehouse.store import EmbeddedStore, ServerStore, Store

if TYPE_CHECKING:  # its grammar takes 30 MiB, which a server that nobody asks need not have
    from api.sql.statement import Statement


@dataclass(frozen=True)
class Question:
    """text: as received.   format: if the statement names none.   settings: from the URL.   params: values by name.
    encoding: how the answer is compressed; empty: not at all.
    """

    text: str
    format: str = "TabSeparated"
    settings: Mapping[str, str] | None = None
    params: Mapping[str, str] | None = None
    encoding: str = ""


@dataclass(frozen=True)
class Answer:
    """format: its name.   pieces: in that format.   seconds: the time limit for producing and reading them.
    encoding: how the pieces are compressed; empty: not at all.
    """

    format: str
    pieces: AsyncIterator[bytes]
    seconds: float
    encoding: str


class Engine:
    """Runs a principal's statements, on the embedded engine's copy or, as the SQL account, on a ClickHouse server."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store, self.limits, self.database = store, limits, store.database
        self._catalogue = Catalogue(store)
        self._server = ServerEngine(store, limits) if type(store) is ServerStore else None
        self._server_turns = Turns(limits.at_once, limits.waiting_seconds)

    @contextlib.asynccontextmanager
    async def ask(self, principal: Principal, question: Question) -> AsyncIterator[Answer]:
        """The answer, once its first piece has arrived. Leaving the block early ends the statement."""
        if self._server is not None:
            async with (
                self._server_turns.turn(principal.id),
                self._of_server(self._server, principal, question) as answer,
            ):
                yield answer
            return
        workers = await asyncio.to_thread(self._workers)
        # Checking needs a turn too, so only as many texts are checked at once as statements run.
        async with workers.turns.turn(principal.id):
            statement = await asyncio.to_thread(self._checked, principal, question)
            request = self._request(question, statement)
            async with (
                workers.leased(
                    principal.may(Action.see_audit), None if statement.of_schema else statement.tables
                ) as worker,
                contextlib.aclosing(worker.ask(request)) as frames,
            ):
                name = await _format(frames)
                yield Answer(name, (piece async for _, piece in frames), worker.seconds_left(), question.encoding)

    @contextlib.contextmanager
    def ask_blocking(self, principal: Principal, question: Question) -> Iterator[tuple[str, Iterator[bytes]]]:
        """`ask` for a thread without an event loop: the format and the pieces."""
        with asyncio.Runner() as runner:
            asking = self.ask(principal, question)
            answer = runner.run(asking.__aenter__())
            try:
                yield answer.format, _each(runner, answer.pieces)
            finally:
                runner.run(asking.__aexit__(None, None, None))

    @contextlib.asynccontextmanager
    async def _of_server(self, server: ServerEngine, principal: Principal, question: Question) -> AsyncIterator[Answer]:
        statement = await asyncio.to_thread(self._checked, principal, question)
        name, settings = _format_of(statement, question), question.settings or {}
        agreement = _agreement(question, statement)
        if (await server.answer(principal, agreement, "TabSeparated", {})).strip() != b"1":
            raise disagreement()
        async with server.ask(principal, statement.text, name, settings, question.params or {}) as pieces:
            yield Answer(name, pieces, self.limits.seconds, "")

    def _workers(self) -> Workers:
        store = self._store
        if not isinstance(store, EmbeddedStore):
            raise SqlError(BAD_ARGUMENTS, "another server holds this store", "Ask it at its own address (docs/sql.md)")
        return store.beside(Workers, lambda: Workers(store, self.limits.at_once, self.limits.waiting_seconds))

    def _checked(self, principal: Principal, question: Question) -> Statement:
        from api.sql.statement import checked

        return checked(question.text, self._catalogue.allowed(principal))

    def _request(self, question: Question, statement: Statement) -> dict[str, Any]:
        """The request that a worker gets."""
        asked = question.settings or {}
        name = _format_of(statement, question)
        streams = statement.rows and not statement.totals and formats.streams(name)
        return {
            "text": statement.text,
            "agreement": _agreement(question, statement),
            "format": name,
            "streams": streams,
            "protocol": _protocol(asked) if name.lower() == "native" else 0,
            "encoding": question.encoding,
            "enough": self.limits.whole_bytes if asked.get("wait_end_of_query") == "1" else 1,
            "params": dict(question.params or {}),
            "settings": settings_of(asked, self.limits, not streams),
        }


def _agreement(question: Question, statement: Statement) -> str:
    from api.sql.statement import agreement_sql

    return agreement_sql(question.text, statement)


def _format_of(statement: Statement, question: Question) -> str:
    name = statement.format or question.format
    if not formats.known(name):
        raise SqlError(UNKNOWN_FORMAT, f"the format {name[:60]!r} is not known here", "Try JSON, CSV or Parquet")
    return name


async def _format(frames: AsyncIterator[tuple[Kind, bytes]]) -> str:
    async for kind, body in frames:
        if kind == Kind.format:
            return str(json.loads(body))
    raise SqlError(ENDED, "a worker answered nothing")


def _each(runner: asyncio.Runner, pieces: AsyncIterator[bytes]) -> Iterator[bytes]:
    async def following() -> bytes | None:
        return await anext(pieces, None)

    while (piece := runner.run(following())) is not None:
        yield piece


def _protocol(asked: Mapping[str, str]) -> int:
    """The version of ClickHouse's protocol that the client speaks; 0: none."""
    version = asked.get("client_protocol_version", "") or "0"
    if not re.fullmatch(r"\d{1,9}", version):
        raise SqlError(BAD_ARGUMENTS, f"client_protocol_version must be a number, found {version[:40]!r}")
    return int(version)
