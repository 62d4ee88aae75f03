"""A program: enough of a ClickHouse server's HTTP interface, over the real engine with one account's rights.
Arguments: the store, the engine's configuration, users and passwords as JSON. It prints its port; GET /requests tells
what was asked. The user `gpuledger_writer` is a store's owner, who finds the database already there."""

from __future__ import annotations

import base64
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import chdb

STORE, CONFIG = sys.argv[1:3]
PASSWORDS: dict[str, str] = json.loads(sys.argv[3])
INTERFACE = {"query", "query_id", "database", "default_format", "quota_key", "session_id", "client_protocol_version",
             "cancel_http_readonly_queries_on_client_close", "wait_end_of_query", "compress", "enable_http_compression",
             "send_progress_in_http_headers", "http_headers_progress_interval_ms"}  # fmt: skip
REQUESTS: list[dict[str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(200, json.dumps(REQUESTS).encode())

    def do_POST(self) -> None:
        url = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self.body().decode()
        user, key = self.headers.get("X-ClickHouse-User", ""), self.headers.get("X-ClickHouse-Key", "")
        if not user and (basic := self.headers.get("Authorization", "")).startswith("Basic "):
            user, _, key = base64.b64decode(basic.removeprefix("Basic ")).decode().partition(":")
        REQUESTS.append({"user": user, "url": url, "body": body, "path": self.path})
        if PASSWORDS.get(user) != key:
            self.answer(403, b"Code: 516. DB::Exception: Authentication failed", code="516")
            return
        sql = "\n".join(part for part in (url.get("query", ""), body) if part)
        if user == "gpuledger_writer" and sql.startswith("CREATE DATABASE"):
            self.answer(200, b"")
            return
        connection = chdb.connect(f"{STORE}/engine?config-file={CONFIG}")
        try:
            self.run(connection, sql, url)
        except RuntimeError as error:
            self.answer(500, str(error).encode(), code=re.findall(r"Code: (\d+)", str(error))[0])
        except OSError:
            REQUESTS.append({"hung_up": url.get("query_id", "")})
        finally:
            connection.close()

    def run(self, connection: Any, sql: str, url: dict[str, str]) -> None:
        connection.query(f"USE {url.get('database') or 'gpuledger'}")
        params = {name.removeprefix("param_"): value for name, value in url.items() if name.startswith("param_")}
        chosen = [
            f"{name} = '{value}'" for name, value in url.items() if name not in INTERFACE and "param_" not in name
        ]
        if chosen:
            connection.query(f"SET {', '.join(chosen)}")
        form = url.get("default_format", "TabSeparated")
        if sql.startswith("KILL QUERY"):
            # The embedded engine takes no ids from outside: a comment stands for one.
            connection.query(f"KILL QUERY WHERE position(query, '/* {params['id']} */') > 0 ASYNC")
            self.answer(200, b"")
            return
        if url.get("query_id") and not re.search(r"\sFORMAT\s+\w+\s*$", sql) and "--late" in sql:
            self.stream(connection, sql, url, form, params)
            return
        marked = f"/* {url.get('query_id', '')} */ {sql}"
        self.answer(200, bytes(connection.query(marked, form, params=params).bytes() or b""))

    def stream(self, connection: Any, sql: str, url: dict[str, str], form: str, params: dict[str, str]) -> None:
        """As it is made; what goes wrong then stands behind the rows, as servers write it."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for piece in connection.send_query(f"/* {url['query_id']} */ {sql}", form, params=params):
                self.chunk(bytes(piece.bytes() or b""))
        except RuntimeError as error:
            self.chunk(str(error).encode() + b" (version 26.9.2.1)\n")
        self.wfile.write(b"0\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def answer(self, status: int, body: bytes, code: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-ClickHouse-Summary", "{}")
        if code:
            self.send_header("X-ClickHouse-Exception-Code", code)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


# The engine goes down with its last connection: without this one, each request would start it.
stays = chdb.connect(f"{STORE}/engine?config-file={CONFIG}")
with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
    server.daemon_threads = True
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    server.shutdown()
stays.close()
