"""What is said of a peer that could not be asked, by each of our clients over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import httpx
import pytest

from alerts.transports import SendError, post
from collectors.errors import CollectorError
from collectors.exporters.fetching import Access, Fetcher, SourceError
from collectors.jobs.wire import Report
from collectors.jobs.worker import over_http
from ingest.http_post import Poster
from scheduler.live import posting
from scheduler.live.client import Client
from warehouse.connection_errors import reason
from warehouse.errors import LedgerError

CLASS = re.compile(r"[A-Z][A-Za-z]*(Error|Exception|Timeout)\b|Disconnected\(|Errno|_ssl\.c|IncompleteRead")
"""What Python's texts have, and no operator's."""


def by_httpx(url: str) -> str:
    with pytest.raises(httpx.HTTPError) as caught:
        httpx.post(url, timeout=0.3)
    return reason(caught.value)


def by_poster(url: str) -> str:
    poster = Poster(url, timeout_seconds=0.3)
    with contextlib.closing(poster), pytest.raises((OSError, http.client.HTTPException)) as caught:
        poster.post("/", b"", {})
    return reason(caught.value)


def by_aiohttp(url: str) -> str:
    async def ask() -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.3)) as session, session.get(url) as one:
            await one.read()

    with pytest.raises((aiohttp.ClientError, TimeoutError)) as caught:
        asyncio.run(ask())
    return reason(caught.value)


CLIENTS = pytest.mark.parametrize("client", [by_httpx, by_poster, by_aiohttp])


@contextlib.contextmanager
def answering(answer: bytes | None) -> Iterator[int]:
    """The port of a server that says this and closes the connection; None: it says nothing, and keeps it."""
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                kept.append(connection)
                if answer is not None:
                    connection.recv(65536)
                    connection.sendall(answer)
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for one in kept:
                one.close()


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@CLIENTS
def test_a_port_where_nobody_listens_refuses_the_connection(client: Callable[[str], str]) -> None:
    assert client(f"http://127.0.0.1:{unused_port()}") == "Connection refused"


@CLIENTS
@pytest.mark.parametrize(
    ("scheme", "answer", "says"),
    [
        ("http", b"", "(?i)disconnected|closed connection|reset"),
        ("http", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", "cut off|without sending complete"),
        ("http", b"220 mail.example.org ESMTP\r\n\r\n", "."),
        ("http", None, "(?i)timed out|in full after"),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "^TLS failed: wrong version number$"),
    ],
)
def test_what_else_goes_wrong_is_said_without_names_of_classes(
    client: Callable[[str], str], scheme: str, answer: bytes | None, says: str
) -> None:
    with answering(answer) as port:
        said = client(f"{scheme}://127.0.0.1:{port}")
    assert re.search(says, said), said
    assert not CLASS.search(said), said


def test_webhooks_say_so() -> None:
    url = f"http://127.0.0.1:{unused_port()}"
    with pytest.raises(SendError, match=r"^Connection refused$"):
        post(url)
    with pytest.raises(posting.PostError, match=r"^Connection refused$"):
        posting.post(url, b"", {})


def test_a_certificate_that_is_not_trusted_is_named_as_that() -> None:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] ... (_ssl.c:1006)")
    error.verify_message = "self-signed certificate"
    assert reason(error) == "certificate verify failed: self-signed certificate"


def test_our_own_errors_and_those_that_say_nothing() -> None:
    assert reason(LedgerError("token", "is missing", "Make one")) == "token: is missing. Make one"
    assert reason(TimeoutError()) == "timed out"
    assert reason(httpx.ConnectTimeout("")) == "timed out"
    assert reason(ValueError()) == "the connection was lost"
    assert reason(socket.gaierror(socket.EAI_NONAME, "Name or service not known")) == "Name or service not known"


def test_agents_and_the_scheduler_s_client_name_whom_they_asked_and_say_so(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{unused_port()}"
    (tmp_path / "token").write_text("a-token-of-the-tests\n")
    with contextlib.closing(Fetcher(Access())) as exporter, pytest.raises(SourceError) as scraped:
        exporter.get(f"{url}/metrics")
    with pytest.raises(CollectorError) as exchanged:
        over_http(url, "n1", tmp_path / "token", None, 1.0)(Report(instance="0" * 32, address="n1"))
    with Client(url, "", "ada") as client, pytest.raises(LedgerError) as listed:
        client.jobs()
    for caught in (scraped, exchanged, listed):
        said = str(caught.value)
        assert said.startswith(url) and "Connection refused" in said
        assert not CLASS.search(said), said
