"""HTTP GETs of exporters and a Prometheus: bounded in time and size, with a token and a CA from files."""

from __future__ import annotations

import base64
import queue
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import httpx

from collectors.errors import CollectorError
from ingest.answer_time import ended_in_time
from warehouse.connection_errors import reason

REFUSED = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
TOO_MUCH = (httpx.codes.UNPROCESSABLE_ENTITY, httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.GATEWAY_TIMEOUT)
"""Responses of a Prometheus, or a proxy before it, to a query with too many samples or too long a run time."""
NO_METRICS = "Check the path: most exporters have /metrics, and a Prometheus is named without one"
ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
AT_ONCE = 32
"""Pages that are asked for at the same time: each may hold as much memory as an answer may have bytes."""


@dataclass(frozen=True)
class Access:
    """How to reach a source: token, CA, timeouts."""

    timeout_seconds: float = 10.0
    max_bytes: int = 32 << 20
    token_file: Path | None = None
    login_file: Path | None = None
    ca_file: Path | None = None


class SourceError(CollectorError):
    """The source gave no usable answer this time."""


class TooMuchError(SourceError):
    """The query was too large, or too slow, for the source to answer at once; a smaller one may succeed."""


@dataclass(frozen=True)
class Answer:
    body: bytes
    content_type: str


class Fetcher:
    """Asks one URL at a time, and keeps its connection open from one time to the next. Proxies of the environment are
    not asked: exporters are near.

    tls: whether any URL is https, or what `trusted` gives.
    Errors: CollectorError if ca_file cannot be used.
    """

    def __init__(self, access: Access, *, tls: bool | ssl.SSLContext = True) -> None:
        self._access = access
        context = tls if isinstance(tls, ssl.SSLContext) else trusted(access, tls)
        self._transport = httpx.HTTPTransport(verify=context, trust_env=False)
        self._client = httpx.Client(transport=self._transport, timeout=access.timeout_seconds, trust_env=False)

    def get(self, url: str, params: Mapping[str, str] | None = None) -> Answer:
        """The answer's body, as it is: no compression is asked for, and none accepted, so that its size is its size.

        Errors: SourceError that says what went wrong.
        """
        access = self._access
        headers = {"Accept": ACCEPT, "Accept-Encoding": "identity", "User-Agent": "gpuledger"}
        if access.token_file is not None:
            headers["Authorization"] = f"Bearer {_token(access.token_file)}"
        elif access.login_file is not None:
            login = _secret(access.login_file, "login_file", "is not one line, USER:PASSWORD")
            headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        late = f"had not answered in full after {access.timeout_seconds:g} s"
        deadline = time.monotonic() + access.timeout_seconds
        body = bytearray()
        try:
            with (
                ended_in_time(access.timeout_seconds, self._transport.close),
                self._client.stream("GET", url, params=params, headers=headers) as response,
            ):
                encoding = response.headers.get("content-encoding", "identity")
                for chunk in response.iter_raw():
                    body += chunk
                    if len(body) > access.max_bytes:
                        raise TooMuchError(url, f"answers with more than {access.max_bytes} bytes")
                    if time.monotonic() > deadline:
                        raise TooMuchError(url, late)
        except (httpx.HTTPError, httpx.InvalidURL) as mistake:
            if time.monotonic() > deadline:
                raise TooMuchError(url, late) from mistake
            raise SourceError(url, reason(mistake), _next_step(mistake)) from mistake
        if response.status_code != httpx.codes.OK:
            excerpt = " ".join(bytes(body[:200]).decode("utf-8", "replace").split())
            kind = TooMuchError if response.status_code in TOO_MUCH else SourceError
            raise kind(url, f"HTTP {response.status_code} {excerpt}".rstrip(), _next_step(response))
        if encoding != "identity":
            raise SourceError(url, f"answers in {encoding}, which was not asked for")
        return Answer(bytes(body), response.headers.get("content-type", ""))

    def close(self) -> None:
        self._client.close()


class Pages:
    """Fetches several URLs at the same time: one that hangs delays no other, and all answers are of the same moment."""

    def __init__(self, urls: Sequence[str], access: Access) -> None:
        context = trusted(access, any(url.startswith("https:") for url in urls))
        self._pages = [(url, Fetcher(access, tls=context)) for url in urls]

    def get(self) -> list[Answer | SourceError]:
        """The answer of each, or why there is none."""
        asked: list[Future[Answer | SourceError]] = [Future() for _ in self._pages]
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(asked)):
            waiting.put(number)

        def ask() -> None:
            while not waiting.empty():
                try:
                    number = waiting.get_nowait()
                except queue.Empty:
                    return
                url, fetcher = self._pages[number]
                try:
                    asked[number].set_result(fetcher.get(url))
                except SourceError as trouble:
                    asked[number].set_result(trouble)
                except Exception as error:  # noqa: BLE001 - raised again below
                    asked[number].set_exception(error)

        for _ in range(min(AT_ONCE, len(asked)) - 1):
            threading.Thread(target=ask, name="exporter-page", daemon=True).start()
        ask()
        return [one.result() for one in asked]

    def close(self) -> None:
        for _, fetcher in self._pages:
            fetcher.close()


def _next_step(found: Exception | httpx.Response) -> str:
    if isinstance(found, httpx.Response):
        if found.status_code in REFUSED:
            return "Give a token or login that it accepts"
        if found.status_code == httpx.codes.NOT_FOUND:
            return NO_METRICS
        return "Give the URL that it redirects to" if found.is_redirect else ""
    if "CERTIFICATE_VERIFY" in str(found):
        return "Give the CA that signed its certificate"
    if isinstance(found, (httpx.ConnectError, httpx.ConnectTimeout)):
        return "Check that it runs, and its host, port and http or https"
    return ""


def trusted(access: Access, tls: bool) -> ssl.SSLContext:
    """The TLS context; with `tls` false one without certificate authorities, which take memory."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if access.ca_file:
            context.load_verify_locations(cafile=str(access.ca_file))
        elif tls:
            context.load_default_certs()
    except OSError as mistake:
        where = f"ca_file {access.ca_file}"
        raise CollectorError(where, f"not usable: {mistake}", "Expected PEM certificates") from mistake
    return context


def _token(path: Path) -> str:
    token = _secret(path, "token_file", "is no token")
    if not token.isascii():
        raise SourceError(f"token_file {path}", "is no token")
    return token


def _secret(path: Path, option: str, otherwise: str) -> str:
    """The one line of a file. Errors: SourceError, which does not repeat it; `otherwise` if it is more."""
    try:
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as mistake:
        raise SourceError(f"{option} {path}", f"cannot be read: {mistake}", "Check its path and its owner") from mistake
    if not found:
        raise SourceError(f"{option} {path}", "is empty", "Write the secret into it, in one line")
    if not found.isprintable():
        raise SourceError(f"{option} {path}", otherwise)
    return found
