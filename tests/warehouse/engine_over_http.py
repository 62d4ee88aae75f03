"""The real engine behind enough of ClickHouse's HTTP interface for the client: no ClickHouse server can be installed
from the registries that the tests use, so the edge that is faked is the socket, not the engine."""

from __future__ import annotations

import contextlib
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import chdb

_IGNORED = ("query", "query_id", "session_id", "database", "user", "password", "compress", "decompress")


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        url = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self._body()
        if self.headers.get("Content-Type", "").startswith("multipart/form-data"):
            url, body = url | self._form(body), b""
        sql, data = (url["query"].encode(), body) if "query" in url else (body, b"")
        if sql.upper().startswith(b"INSERT") and b" FORMAT " in sql and b"\n" in sql:
            sql, data = sql.split(b"\n", 1)
        params = {key.removeprefix("param_"): value for key, value in url.items() if key.startswith("param_")}
        try:
            answer = self.server.run(url.get("database", ""), sql.decode(), data, params)
        except RuntimeError as error:
            self._answer(500, str(error).encode())
        else:
            self._answer(200, answer)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _form(self, body: bytes) -> dict[str, str]:
        """As the client sends long parameters, such as an array of a month's hours."""
        form = message_from_bytes(f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode() + body)
        return {
            str(part.get_param("name", header="content-disposition")): bytes(part.get_payload(decode=True)).decode()
            for part in form.walk()
            if not part.is_multipart()
        }

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-ClickHouse-Summary", "{}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.engine = self.connect(folder)
        self.turn = threading.Lock()

    def connect(self, folder: Path) -> chdb.Connection:
        return chdb.connect(str(folder / "engine"))

    def run(self, database: str, sql: str, data: bytes, params: dict[str, str]) -> bytes:
        with self.turn, tempfile.NamedTemporaryFile() as file:
            if database and database != "__default__":
                self.engine.query(f"USE `{database}`")
            if data:
                file.write(data)
                file.flush()
                head, form = sql.rsplit(" FORMAT ", 1)
                sql = f"{head} FROM INFILE '{file.name}' FORMAT {form}"
            return bytes(self.engine.query(sql, "TabSeparated", params=params).bytes() or b"")


class AccountsServer(Server):
    """Keeps accounts, which the embedded engine cannot: as the text that its parser makes of a statement, and answers
    SHOW ACCESS with what was created. Everything else runs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.accounts: dict[str, str] = {}
        self.statements: list[str] = []

    def run(self, database: str, sql: str, data: bytes, params: dict[str, str]) -> bytes:
        if sql.startswith("SHOW ACCESS"):
            lines = ", ".join(f"unhex('{one.encode().hex()}')" for one in self.accounts.values())
            sql = f"SELECT arrayJoin([{lines}]::Array(String)) AS ACCESS FORMAT Native"
        elif re.match(
            r"(CREATE|ALTER) (USER|ROLE|QUOTA|ROW POLICY|SETTINGS PROFILE)|GRANT|ALTER TABLE \S+ MODIFY DEF", sql
        ):
            quoted = f"unhex('{sql.encode().hex()}')"
            parsed = super().run("", f"SELECT formatQuerySingleLine({quoted}) FORMAT RawBLOB", b"", {}).decode()
            self.statements.append(parsed)
            words = parsed.replace("IF NOT EXISTS ", "").split(" TO ")[-1 if parsed.startswith("GRANT") else 0].split()
            self.accounts[" ".join(words[:6])] = parsed
            return b""
        elif " SQL SECURITY DEFINER" in sql:
            return b""  # There is no such user here.
        return super().run(database, sql, data, params)


@contextlib.contextmanager
def served(folder: Path, kind: type[Server] = Server) -> Iterator[str]:
    """Serves an engine; yields its store URL."""
    with serving(folder, kind) as (url, _):
        yield url


@contextlib.contextmanager
def serving(folder: Path, kind: Callable[[Path], Server]) -> Iterator[tuple[str, Server]]:
    server = kind(folder)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"clickhouse://default@127.0.0.1:{server.server_port}/gpuledger", server
    finally:
        server.shutdown()
        server.server_close()
        server.engine.close()
