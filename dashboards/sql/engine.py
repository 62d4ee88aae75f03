"""Runs one statement on the embedded engine: on a connection of its own, read-only from its first moment."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dashboards.access.principal import Principal
from dashboards.sql import formats
from dashboards.sql.allowed import Allowed, Catalogue
from dashboards.sql.check import check_text, check_tree
from dashboards.sql.errors import BAD_ARGUMENTS, SYNTAX_ERROR, UNKNOWN_FORMAT, SqlError, of_engine
from dashboards.sql.limits import Limits, set_clause, settings_of
from dashboards.sql.native import for_protocol
from dashboards.sql.server_engine import ServerEngine, asked_sync, checked_by
from warehouse.store import ServerStore, Store, identifier

if TYPE_CHECKING:
    from chdb.state.sqlitelike import Connection


@dataclass(frozen=True)
class Question:
    """text: as it came.   format: where the statement names none.   settings: of the URL.   params: values by name.
    mark: a word that stands in the text as it runs, by which `Engine.end` finds it.
    """

    text: str
    format: str = "TabSeparated"
    settings: Mapping[str, str] | None = None
    params: Mapping[str, str] | None = None
    mark: str = ""


class Engine:
    """Asks the store's engine what a principal may ask; a ClickHouse server as an account of people's SQL."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store, self.limits, self.database = store, limits, store.database
        self._catalogue = Catalogue(store)
        self._server = ServerEngine(store, limits) if type(store) is ServerStore else None

    @contextlib.contextmanager
    def asked(self, principal: Principal, question: Question) -> Iterator[tuple[str, Iterator[bytes]]]:
        """The format and the pieces of the answer, for as long as it lasts. Leaving early ends the statement."""
        if len(question.text.encode()) > self.limits.text_bytes:
            raise SqlError(SYNTAX_ERROR, f"a statement of more than {self.limits.text_bytes} bytes")
        allowed = self._catalogue.allowed(principal)
        asked = question.settings or {}
        if self._server is not None:
            server = self._server
            statement = _statement(lambda *how: checked_by(server, principal, *how), question, allowed)
            params = statement.params
            with asked_sync(
                server, principal, statement.text, statement.format, asked, params, question.mark
            ) as pieces:
                yield statement.format, pieces
            return
        with _connection(self._store, settings_of(asked, self.limits, True), allowed) as connection:
            statement = _statement(lambda *how: _run(connection, *how), question, allowed)
        settings = settings_of(asked, self.limits, not statement.streams)
        with _connection(self._store, settings, allowed) as connection:
            version = _protocol(asked) if statement.format.lower() == "native" else 0
            if not statement.streams:
                whole = _run(connection, statement.text, statement.format, statement.params)
                yield statement.format, for_protocol(iter([whole]), version)
                return
            heading = _heading(connection, statement)
            with _streaming(connection, statement) as pieces:
                document = formats.one_document(statement.format, pieces, heading)
                yield statement.format, for_protocol(document, version)

    def end(self, mark: str) -> None:
        """Ends the statements whose text has the mark in it, or which a server knows by it."""
        if self._server is not None:
            self._server.end(mark)
            return
        with self._store.another() as own:
            own.command(
                "KILL QUERY WHERE position(query, {mark:String}) > 0 AND query NOT LIKE 'KILL%' ASYNC", {"mark": mark}
            )


def _protocol(asked: Mapping[str, str]) -> int:
    """The version of ClickHouse's protocol that whoever asks speaks; 0: none."""
    version = asked.get("client_protocol_version", "") or "0"
    if not re.fullmatch(r"\d{1,9}", version):
        raise SqlError(BAD_ARGUMENTS, f"client_protocol_version wants a number, found {version[:40]!r}")
    return int(version)


@dataclass(frozen=True)
class _Statement:
    text: str
    format: str
    params: Mapping[str, str]
    streams: bool


Run = Callable[[str, str, Mapping[str, str]], bytes]


def _statement(run: Run, question: Question, allowed: Allowed) -> _Statement:
    """The one statement of a text, in the engine's own words, if it may be run: what was checked is what is run."""
    source = f"unhex('{question.text.encode().hex()}')"
    text = run(f"SELECT formatQuerySingleLine({source})", "RawBLOB", {}).decode()
    check_text(text)
    params = dict(question.params or {})
    tree = run(f"EXPLAIN AST {text}", "TabSeparatedRaw", params).decode()
    lines = tree.split("\n")
    root = check_tree(lines, allowed)
    body, named = _without_format(text, lines)
    wanted = named or question.format
    if not formats.known(wanted):
        raise SqlError(UNKNOWN_FORMAT, f"the format {wanted[:60]!r} is not known here", "Try JSON, CSV or Parquet")
    selects = root in ("SelectWithUnionQuery", "SelectIntersectExceptQuery")
    streams = selects and formats.streams(wanted) and " WITH TOTALS" not in body.upper()
    marked = f"{body} /* {identifier(question.mark)} */" if question.mark else body
    return _Statement(marked, wanted, params, streams)


def _without_format(text: str, lines: list[str]) -> tuple[str, str]:
    """A statement without its FORMAT, and that. In the tree it is an identifier right below the root."""
    named = [line.strip().removeprefix("Identifier ") for line in lines[1:] if line.startswith(" Identifier ")]
    ending = f" FORMAT {named[-1]}" if named else ""
    if named and text.endswith(ending):
        return text.removesuffix(ending), named[-1]
    if named and lines[0].split(" ")[0] in ("SelectWithUnionQuery", "SelectIntersectExceptQuery"):
        raise SqlError(SYNTAX_ERROR, "FORMAT is not the statement's last word", "Put it there")
    return text, ""


def _heading(connection: Connection, statement: _Statement) -> bytes:
    """The answer without rows, where the format needs it first."""
    wanted = formats.heading_format(statement.format)
    if not wanted:
        return b""
    return _run(connection, f"SELECT * FROM ({statement.text}) LIMIT 0", wanted, statement.params)


@contextlib.contextmanager
def _streaming(connection: Connection, statement: _Statement) -> Iterator[Iterator[bytes]]:
    from chdb import ChdbError

    try:
        result = connection.send_query(
            statement.text, formats.engine_format(statement.format), params=dict(statement.params)
        )
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


@contextlib.contextmanager
def _connection(store: Store, settings: Mapping[str, int | str], allowed: Allowed) -> Iterator[Connection]:
    """A raw one, read-only before anything from outside gets there. (A client that was once read-only would stay so for
    whoever gets it next.) Of tables that are closed it sees no row, whatever the check lets through."""
    import chdb

    path = urlsplit(store.url).path
    connection = chdb.connect(f"{path}/engine" if path not in ("", "/") else ":memory:")
    try:
        _run(connection, f"USE {identifier(store.database)}")
        filters = ", ".join(f"'{identifier(table)}': '0'" for table in sorted(allowed.closed))
        _run(connection, f"SET {set_clause(settings)}, additional_table_filters = {{{filters}}}, readonly = 1")
        yield connection
    finally:
        connection.close()


def _run(
    connection: Connection, sql: str, format: str = "TabSeparated", params: Mapping[str, Any] | None = None
) -> bytes:
    from chdb import ChdbError

    try:
        return bytes(connection.query(sql, format, params=dict(params or {})).bytes() or b"")
    except (ChdbError, RuntimeError) as error:
        raise of_engine(str(error)) from error
