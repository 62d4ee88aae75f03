"""Runs one statement on the embedded engine: on a connection of its own, read-only from its first moment."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dashboards.access.principal import Principal
from dashboards.sql import formats
from dashboards.sql.allowed import Allowed, Catalogue
from dashboards.sql.errors import BAD_ARGUMENTS, UNKNOWN_FORMAT, SqlError, of_engine
from dashboards.sql.limits import Limits, set_clause, settings_of
from dashboards.sql.native import for_protocol
from dashboards.sql.statement import agreement_sql, checked, disagreement
from warehouse.store import EmbeddedStore, Store, identifier

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
    """Asks the store's engine what a principal may ask.

    Errors: SqlError if the store is a server: that is asked directly, with its own roles and row policies.
    """

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store, self.limits, self.database = store, limits, store.database
        self._catalogue = Catalogue(store)

    @contextlib.contextmanager
    def asked(self, principal: Principal, question: Question) -> Iterator[tuple[str, Iterator[bytes]]]:
        """The format and the pieces of the answer, for as long as it lasts. Leaving early ends the statement."""
        if not isinstance(self._store, EmbeddedStore):
            what = "the store is a ClickHouse server, which answers SQL itself"
            raise SqlError(BAD_ARGUMENTS, what, "Ask it at its own address (docs/sql.md)")
        allowed = self._catalogue.allowed(principal)
        asked = question.settings or {}
        with _connection(self._store, settings_of(asked, self.limits, True), allowed) as connection:
            statement = _statement(connection, question, allowed)
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
        """Ends the statements whose text has the mark in it."""
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


def _statement(connection: Connection, question: Question, allowed: Allowed) -> _Statement:
    """The one statement of a text, if it may be run: what is run is printed anew from what was checked."""
    statement = checked(question.text, allowed)
    if _run(connection, agreement_sql(question.text, statement), "TabSeparatedRaw").strip() != b"1":
        raise disagreement()
    wanted = statement.format or question.format
    if not formats.known(wanted):
        raise SqlError(UNKNOWN_FORMAT, f"the format {wanted[:60]!r} is not known here", "Try JSON, CSV or Parquet")
    streams = statement.rows and formats.streams(wanted) and not statement.totals
    text = f"{statement.text} /* {identifier(question.mark)} */" if question.mark else statement.text
    return _Statement(text, wanted, dict(question.params or {}), streams)


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
