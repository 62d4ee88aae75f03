"""A ClickHouse server that answers oddly, and what may stand before it: an answer that is not whole is never taken for
one, a statement is never said to be done that was not, and a batch that is sent again is in the store once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.draws import drawn
from tests.warehouse.engine_over_http import Handler, Server, serving
from warehouse.errors import StoreError
from warehouse.store import Store, open_store

LATE = b"Code: 241. DB::Exception: Memory limit (total) exceeded. (MEMORY_LIMIT_EXCEEDED) (version 25.8.1)\n"
UNKNOWN = b"Code: 1002. DB::Exception: Unknown exception. (UNKNOWN_EXCEPTION) (version 25.8.1)\n"
PAGE = b"<html><head><title>503</title></head>\n<body><h1>Service\nUnavailable</h1></body></html>\n"
CLICKHOUSE = {"X-ClickHouse-Summary": "{}", "X-ClickHouse-Query-Id": "q"}
NEITHER: dict[str, str] = {"Server": "nginx"}


def whole(handler: Any, status: int, headers: dict[str, str], body: bytes, length: int | None = None) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)
    if length is not None:
        handler.close_connection = True


def chunks(handler: Any, headers: dict[str, str], body: bytes, ends: bool) -> None:
    handler.protocol_version = "HTTP/1.1"
    handler.send_response(200)
    for name, value in {**headers, "Transfer-Encoding": "chunked", "Connection": "close"}.items():
        handler.send_header(name, value)
    handler.end_headers()
    if body:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(body), body))
    if ends:
        handler.wfile.write(b"0\r\n\r\n")
    handler.close_connection = True


Fault = Callable[[Any, bytes], None]
FAULTS: dict[str, Fault] = {
    "1002": lambda h, _: whole(h, 500, {**CLICKHOUSE, "X-ClickHouse-Exception-Code": "1002"}, UNKNOWN),
    "1002 and nothing else": lambda h, _: whole(h, 400, {"X-ClickHouse-Exception-Code": "1002"}, b""),
    "200 with a code": lambda h, _: whole(h, 200, {**CLICKHOUSE, "X-ClickHouse-Exception-Code": "1002"}, b""),
    "503 with a page": lambda h, _: whole(h, 503, NEITHER, PAGE),
    "502 with a page": lambda h, _: whole(h, 502, NEITHER, PAGE),
    "200 with a page": lambda h, _: whole(h, 200, NEITHER, PAGE),
    "200 with nothing": lambda h, _: whole(h, 200, NEITHER, b""),
    "an exception after the rows": lambda h, body: whole(h, 200, CLICKHOUSE, body + LATE),
    "an exception amid the rows": lambda h, body: whole(h, 200, CLICKHOUSE, body[: len(body) // 2] + LATE),
    "an exception in place of rows": lambda h, _: whole(h, 200, CLICKHOUSE, LATE),
    "cut off, by its length": lambda h, body: whole(h, 200, CLICKHOUSE, body[: len(body) // 2], len(body) + 1),
    "cut off before its end": lambda h, body: whole(h, 200, CLICKHOUSE, body, len(body) + 1),
    "chunks cut off": lambda h, body: chunks(h, CLICKHOUSE, body[: len(body) // 2], False),
    "no last chunk": lambda h, body: chunks(h, CLICKHOUSE, body, False),
    "hung up": lambda h, _: setattr(h, "close_connection", True),
    "sent elsewhere": lambda h, _: whole(h, 302, {"Location": "/sign-in"}, b""),
    "no HTTP": lambda h, _: h.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n"),
}


class _OddHandler(Handler):
    server: OddServer

    def _answer(self, status: int, body: bytes) -> None:
        fault = self.server.drawn()
        if fault is None:
            whole(self, status, CLICKHOUSE, body)
        else:
            fault(self, body)

    def do_GET(self) -> None:
        whole(self, 200, NEITHER, PAGE)

    def log_message(self, *_: object) -> None:
        """Quiet."""


class OddServer(Server):
    """Answers oddly where it is told to: `fault` at the request that `countdown` counts down to, done or not before."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.RequestHandlerClass = _OddHandler
        self.fault: Fault | None = None
        self.countdown, self.done, self.asked = 0, True, 0

    def strike(self, fault: Fault, at: int, done: bool) -> None:
        self.fault, self.countdown, self.done = fault, at, done

    def drawn(self) -> Fault | None:
        self.asked += 1
        self.countdown -= 1
        return self.fault if self.countdown == -1 else None

    def run(self, database: str, sql: str, data: bytes, params: dict[str, str]) -> bytes:
        if self.countdown == 0 and not self.done:
            return b""
        return super().run(database, sql, data, params)

    def finish_request(self, request: Any, client_address: Any) -> None:
        with contextlib.suppress(ConnectionError):
            super().finish_request(request, client_address)


Odd = tuple[Store, OddServer]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Odd]:
    with serving(tmp_path_factory.mktemp("odd"), OddServer) as (url, server), open_store(url) as store:
        assert isinstance(server, OddServer)
        store.command(
            "CREATE TABLE t (n Int64) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100"
        )
        yield store, server


ASKED: dict[str, tuple[Callable[[Store], object], object]] = {
    "rows": (lambda store: len(store.rows("SELECT number AS n FROM numbers(1000)")), 1000),
    "no rows": (lambda store: store.rows("SELECT number AS n FROM numbers(1000) WHERE n > 5000"), []),
    "arrow": (lambda store: store.arrow("SELECT number AS n FROM numbers(1000)").num_rows, 1000),
}


@pytest.mark.parametrize("name", FAULTS)
def test_an_answer_is_whole_or_an_error_of_one_line(odd: Odd, name: str) -> None:
    store, server = odd
    for ask, answer in ASKED.values():
        server.strike(FAULTS[name], 0, True)
        try:
            assert ask(store) == answer
        except StoreError as error:
            line = str(error)
            assert "\n" not in line
            assert "<" not in line
            assert ("proxy" in line) == ("page" in name or name in ("200 with nothing", "sent elsewhere"))
            assert ("its log does" in line) == ("1002" in name or name == "200 with a code")


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("done", [True, False])
def test_a_statement_that_was_answered_oddly_is_not_said_to_be_done_nor_sent_again(
    odd: Odd, name: str, done: bool
) -> None:
    """One without a token: whoever is told of an error does not know, and must look."""
    store, server = odd
    store.command("TRUNCATE TABLE t")
    server.strike(FAULTS[name], 0, done)
    with pytest.raises(StoreError):
        store.command("INSERT INTO t SELECT 1")
    assert store.value("SELECT count() AS n FROM t") == int(done), "the client sends none again by itself"


@pytest.mark.parametrize(("name", "at", "done"), drawn([*product(FAULTS, range(5), (True, False))], 0.15))
def test_a_batch_is_said_to_be_stored_if_it_is_and_sent_again_it_is_there_once(
    odd: Odd, name: str, at: int, done: bool
) -> None:
    """`at`: the staging table made, its rows sent, counted, inserted, the table dropped."""
    store, server = odd
    batch = pa.table({"n": pa.array(range(1000), pa.int64())})
    token = f"{name} {at} {done}"
    store.command("TRUNCATE TABLE t")
    server.strike(FAULTS[name], at, done)
    try:
        store.insert("t", batch, token)
        said = True
    except StoreError:
        said = False
    server.fault = None
    assert store.value("SELECT count() AS n FROM t") in ((1000,) if said else (0, 1000))
    store.insert("t", batch, token)
    assert store.value("SELECT count() AS n FROM t") == 1000


@pytest.mark.parametrize("name", drawn(list(FAULTS), 0.3))
def test_a_store_that_answers_oddly_is_opened_or_refused_in_one_line(odd: Odd, name: str) -> None:
    _, server = odd
    for at in range(6):
        server.strike(FAULTS[name], at, True)
        try:
            with open_store(f"clickhouse://default@127.0.0.1:{server.server_port}/gpuledger") as store:
                assert store.value("SELECT 1 AS n") == 1
        except StoreError as error:
            assert "\n" not in str(error)
    server.fault = None
