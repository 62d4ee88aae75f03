"""`gpuledger sql`: a read-only statement over the views (docs/sql.md)."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Generator, Iterable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import Books, TokenFile, open_books, token
from gpuledger.output import print_rows, row_limit
from warehouse.errors import LedgerError
from warehouse.private_files import whole_file
from warehouse.store import EmbeddedStore

if TYPE_CHECKING:
    import httpx

    from warehouse.store import Store

SECONDS = 3600
ROWS = 1_000_000_000_000
FORMATS = {options.Format.table: "JSONCompactEachRowWithNamesAndTypes", options.Format.json: "JSON",
           options.Format.csv: "CSVWithNames"}  # fmt: skip


def register(app: typer.Typer) -> None:
    app.command("sql")(sql)


def sql(
    statement: Annotated[
        str | None, typer.Argument(help="The statement; - reads it from standard input.", show_default=False)
    ] = None,
    saved: Annotated[str, typer.Option("--saved", metavar="NAME", help="A saved query instead.")] = "",
    owner: Annotated[str, typer.Option(help="Whose query of that name.", show_default="yours, else a shared one")] = "",
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    fmt: options.OutputFormat = options.Format.table,
    as_format: Annotated[str, typer.Option("--as", help="Any of ClickHouse's formats, such as Parquet.")] = "",
    out: Annotated[Path | None, typer.Option("--out", help="A file for the answer.", dir_okay=False)] = None,
    token_file: TokenFile = None,
) -> None:
    """Query the views and tables in SQL, read-only."""
    if (statement is None) != bool(saved):
        raise LedgerError("sql", "wants a statement, or --saved NAME instead", "See: gpuledger queries list")
    text = sys.stdin.read().removeprefix("\ufeff") if statement == "-" else statement or ""
    wanted = as_format or FORMATS[fmt]
    write = _draw if fmt is options.Format.table and not as_format and out is None else partial(_write, out=out)
    with open_books(store, "", token_file, sign_in) as books:
        if saved:
            text = _saved(books, saved, owner)
        if books.server:
            write(_from_server(books.server.url, token_file, text, wanted))
        elif isinstance(books.store, EmbeddedStore):
            write(_embedded(books.store, text, wanted))
        else:
            write(_from_clickhouse(books.store, text, wanted))


def _saved(books: Books, name: str, owner: str) -> str:
    if books.server:
        return books.server.saved_query(name, owner).text
    from api.sql.saved import saved_query

    return saved_query(books.access, books.admin, name, owner).text


def _embedded(store: Store, text: str, wanted: str) -> Generator[bytes, None, None]:
    """Runs a statement in the store. Whoever can open it may read all of it; limits only guard against mistakes."""
    from access.principal import ANYBODY
    from api.sql.engine import Engine, Question
    from api.sql.limits import Limits

    engine = Engine(store, Limits(seconds=SECONDS, rows=ROWS, bytes=ROWS, whole_bytes=2_000_000_000, threads=16))
    with engine.ask_blocking(ANYBODY, Question(text, wanted)) as (_, pieces):
        yield from pieces


def _from_clickhouse(store: Store, text: str, wanted: str) -> Generator[bytes, None, None]:
    """As the user in the store's address, who may read what its grants allow."""
    settings = {"readonly": 1, "max_execution_time": SECONDS}
    yield store.formatted(text.strip().removesuffix(";"), wanted, settings)


def _from_server(url: str, token_file: Path | None, text: str, wanted: str) -> Generator[bytes, None, None]:
    import httpx

    from gpuledger.client import trouble
    from ingest.prompt_client import PromptClient

    bearer = token(token_file)
    headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
    asked, answered = {"default_format": wanted}, False
    try:
        with PromptClient(SECONDS).stream("POST", f"{url}/sql", params=asked, content=text, headers=headers) as answer:
            if answer.status_code != 200:
                answer.read()
                raise _refused(url, answer)
            answered = True
            yield from answer.iter_bytes()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        if answered and isinstance(error, httpx.RemoteProtocolError):
            what = f"the answer broke off ({error}): the statement failed, or its time or the server's was over"
            raise LedgerError("sql", what, "With --as JSON the server answers with the reason") from error
        raise LedgerError(url, *trouble(error)) from error


def _refused(url: str, answer: httpx.Response) -> LedgerError:
    """The error of a response: authentication answers with a problem document, the engine with a line."""
    from gpuledger.client import answer_step, problem_of

    if problem := problem_of(answer):
        return LedgerError(url, str(problem["detail"]), "Give --token-file, or GPULEDGER_TOKEN; see docs/access.md")
    if "x-clickhouse-exception-code" in answer.headers:
        return LedgerError("sql", answer.text.strip()[:2000])
    return LedgerError(url, f"answers {answer.status_code}", answer_step(answer))


def _draw(pieces: Generator[bytes, None, None]) -> None:
    """Prints a table, or the raw response if the statement names a format of its own."""
    with contextlib.closing(pieces):
        lines = _lines(pieces)
        head = [line for _, line in zip(range(2), lines, strict=False)]
        names, types = (_texts(line) for line in (*head, b"", b"")[:2])
        if not names or len(names) != len(types):
            for line in (*head, *lines):
                sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            return
        columns = [f"{name} ({at})" if name in names[:at] else name for at, name in enumerate(names)]
        rows, most, count = [], row_limit(), 0
        for count, line in enumerate(lines, 1):
            if not most or count <= most:
                cells = (_readable(cell) for cell in json.loads(line, parse_float=Decimal))
                rows.append(dict(zip(columns, cells, strict=True)))
        print_rows(rows, columns, options.Format.table, of=count)


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in whole)
    if rest:
        yield rest


def _texts(line: bytes) -> list[str]:
    """The strings of a JSON list; empty if it is something else."""
    try:
        found = json.loads(line)
    except ValueError:
        return []
    return found if isinstance(found, list) and all(isinstance(one, str) for one in found) else []


def _readable(cell: Any) -> Any:
    return json.dumps(cell, ensure_ascii=False, default=str) if isinstance(cell, list | dict) else cell


def _write(pieces: Generator[bytes, None, None], out: Path | None) -> None:
    """Writes the response; the statement is closed even if writing fails."""
    with contextlib.closing(pieces):
        if out is None:
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            return
        with whole_file(out) as file:
            for piece in pieces:
                file.write(piece)
