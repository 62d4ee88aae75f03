"""List and watch with the API server's semantics, over one HTTP client.

A list comes in pages; a watch is a line of JSON for each change since a resourceVersion. Both can fail in many ways,
which become a few errors: `Gone` if the version is too old, `Interrupted` for anything that passes by itself.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]

import aiohttp

from collectors.kubernetes.connection import Connection, KubernetesError
from collectors.kubernetes.objects import Object, child, text
from ingest.http_post import retry_after
from warehouse.connection_errors import reason

Answer = TypeVar("Answer")

PAGE = 500
"""Objects asked for at a time, as kubectl does."""
WATCH_SECONDS = 240
"""After which the server is asked to end a watch, so that a connection that died unnoticed is noticed."""
ANSWER_SECONDS = 30.0
"""Of connecting, and of each read of a list."""
LIST_SECONDS = 90.0
"""Of a whole page of a list, and of the head of any answer."""
LATE_SECONDS = 15.0
"""How much later than it was asked to a server may end a watch."""
LINE_BYTES = 64 << 20
"""Longest line of a watch: an object has at most about 3 MiB in etcd."""

DEEPEST = 200
"""Levels of an answer that are read where it has too many. Pods have some fifteen."""
_NESTING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]')
LONGEST_ASKED_SECONDS = 300.0
"""That are waited because the server asks for it."""


class Gone(Exception):  # noqa: N818 - the API's word
    """The resourceVersion or the continue token is too old (410): list again."""


class Interrupted(Exception):  # noqa: N818
    """Something that passes: try again, not before `retry_after` seconds.   silent: nobody knows since when."""

    def __init__(self, what: str, retry_after: float = 0.0, silent: bool = False) -> None:
        self.retry_after, self.silent = retry_after, silent
        super().__init__(what)


class Refused(KubernetesError):  # noqa: N818
    """The server will not take such an object, however often it is sent (400, 413, 422)."""


class Conflict(Exception):  # noqa: N818
    """The object exists already, or is another one than was meant (409)."""


class Absent(Exception):  # noqa: N818
    """The server does not serve the resource, or not to us.   forbidden: the latter."""

    def __init__(self, what: str, forbidden: bool) -> None:
        self.forbidden = forbidden
        super().__init__(what)


@dataclass(frozen=True, slots=True)
class Page:
    """Some objects of a list.   version: of the list, to watch from.   last: no page follows."""

    objects: Sequence[Object]
    version: str
    last: bool


@dataclass(frozen=True, slots=True)
class Change:
    """kind: ADDED, MODIFIED, DELETED or BOOKMARK; OPEN, once, when the watch is connected.   version: the
    resourceVersion to go on from."""

    kind: str
    object: Object
    version: str


class Api:
    """The API of one cluster. Paths are as in `/api/v1/pods`."""

    def __init__(self, connection: Connection, watch_seconds: float = WATCH_SECONDS) -> None:
        self.server = connection.server
        self._connection = connection
        self._watch_seconds = watch_seconds
        self._opened: aiohttp.ClientSession | None = None

    @property
    def _session(self) -> aiohttp.ClientSession:
        """It belongs to the loop that runs when it is first asked for."""
        if self._opened is None:
            proxy = _proxy(self.server)
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._connection.verify),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "gpuledger", "Accept": "application/json"},
                timeout=_timeout(ANSWER_SECONDS),
                proxy=proxy,
            )
        return self._opened

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def pages(self, path: str, query: Mapping[str, str] | None = None) -> AsyncIterator[Page]:
        """The whole list, page by page. Errors: Gone if it took longer than the server remembers."""
        token = ""
        while True:
            asked = {**(query or {}), "limit": str(PAGE)}
            if token:
                asked["continue"] = token
            page, token = await self._page(path, asked)
            yield page
            if not token:
                return

    async def newest(self, path: str, query: Mapping[str, str] | None = None) -> str:
        """The resourceVersion that the server is at."""
        page, _ = await self._page(path, {**(query or {}), "limit": "1"})
        return page.version

    async def send(self, method: str, path: str, body: Object, content: str = "application/json") -> Object:
        """Changes something, and answers what the server says of it.

        Errors: Refused; Conflict; Absent; KubernetesError for what is no answer of an API server; Interrupted: nobody
        knows whether it was done.
        """
        try:
            headers = {**self._authorization(), "Content-Type": content}
        except KubernetesError as error:  # its token is being renewed, perhaps
            raise Interrupted(str(error)) from error

        async def answered() -> tuple[aiohttp.ClientResponse, bytes]:
            data = json.dumps(body, ensure_ascii=False).encode()
            url = self.server + path
            async with self._session.request(method, url, data=data, headers=headers, allow_redirects=False) as answer:
                return answer, await answer.read()

        try:
            response, said = await _in_time(path, answered(), ANSWER_SECONDS)
        except aiohttp.ClientError as error:
            raise Interrupted(f"{self.server}{path}: {reason(error)}") from error
        if not 200 <= response.status < 300:
            raise _refusal(path, response, said)
        try:
            found = decoded(said)
        except (ValueError, RecursionError):
            raise Interrupted(f"{path}: the answer is not JSON") from None
        return found if isinstance(found, dict) else {}

    def _authorization(self) -> dict[str, str]:
        token = self._connection.bearer()
        if not token.isprintable():
            where = str(self._connection.token_file or self.server)
            raise KubernetesError(where, "the token has characters that no token has", "Next: a file with nothing else")
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def _page(self, path: str, asked: Mapping[str, str]) -> tuple[Page, str]:
        """A page and the token of the next one, empty for the last."""
        async with self._get(path, asked, ANSWER_SECONDS) as response:
            try:
                document = decoded(await _in_time(path, response.read(), LIST_SECONDS))
            except (ValueError, RecursionError):
                raise Interrupted(f"{path}: the list is not JSON") from None
        found = document.get("items") if isinstance(document, dict) else None
        metadata = child(document, "metadata")
        token = text(metadata, "continue")
        if not isinstance(found, list):
            raise Interrupted(f"{path}: the answer is not a list")
        objects = [each for each in found if isinstance(each, dict)]
        return Page(objects, text(metadata, "resourceVersion"), last=not token), token

    async def watch(self, path: str, version: str, query: Mapping[str, str] | None = None) -> AsyncIterator[Change]:
        """Changes after `version` until the server ends the watch. A line that was cut off is not a change."""
        asked = {
            **(query or {}),
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(max(1, round(self._watch_seconds))),
        }
        longest = self._watch_seconds + LATE_SECONDS
        async with self._get(path, asked, longest) as response:
            yield Change("OPEN", {}, version)
            until = asyncio.get_running_loop().time() + longest
            lines = _lines(response)
            while line := await _in_time(path, anext(lines, b""), until - asyncio.get_running_loop().time()):
                yield _change(path, line)

    @asynccontextmanager
    async def _get(self, path: str, query: Mapping[str, str], silence: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """The open answer; anything but 200 raised. silence: seconds without a byte after which it is given up."""
        headers, timeout, url = self._authorization(), _timeout(silence), self.server + path
        try:
            async with AsyncExitStack() as stack:
                asked = self._session.get(url, params=query, headers=headers, timeout=timeout, allow_redirects=False)
                response = await _in_time(path, stack.enter_async_context(asked), LIST_SECONDS)
                if response.status != HTTPStatus.OK:
                    raise _refusal(path, response, await _in_time(path, response.read(), LIST_SECONDS))
                yield response
        except aiohttp.ClientError as error:
            silent = isinstance(error, aiohttp.SocketTimeoutError)
            raise Interrupted(f"{self.server}{path}: {reason(error)}", silent=silent) from error


async def _in_time(path: str, what: Awaitable[Answer], seconds: float) -> Answer:
    """Also of a peer that sends a letter at a time. Errors: Interrupted."""
    try:
        async with asyncio.timeout(seconds):
            return await what
    except aiohttp.ServerTimeoutError:  # a TimeoutError as well: of the connection, or between two bytes
        raise
    except TimeoutError:
        raise Interrupted(f"{path}: had not answered in full after {seconds:.0f} s", silent=True) from None


def _timeout(silence: float) -> aiohttp.ClientTimeout:
    """silence: seconds without a byte of the answer."""
    return aiohttp.ClientTimeout(total=None, connect=ANSWER_SECONDS, sock_read=silence)


def _proxy(server: str) -> str | None:
    """That HTTPS_PROXY, HTTP_PROXY or ALL_PROXY says, unless NO_PROXY names the server."""
    found, proxies = urlsplit(server), getproxies_environment()
    if not found.hostname or proxy_bypass_environment(found.netloc, proxies):
        return None
    return proxies.get(found.scheme) or proxies.get("all")


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The whole lines of a body. Split at line feeds alone: a label may well hold what Unicode calls a line's end."""
    rest = bytearray()
    async for part in response.content.iter_any():
        rest += part
        if b"\n" not in part:
            if len(rest) > LINE_BYTES:
                raise Interrupted("a line of the watch has no end")
            continue
        *lines, rest = rest.split(b"\n")
        for line in lines:
            if line.strip():
                yield bytes(line)


def decoded(text: bytes) -> Any:
    """JSON, in which null stands for what is nested deeper than Python reads: anybody may write that into a field that
    the API server does not know, and nobody could read the objects beside it."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(_shallow(text.decode()))


def _shallow(document: str) -> str:
    parts, depth, since = [], 0, 0
    for token in _NESTING.finditer(document):
        if token[0] in ("[", "{"):
            depth += 1
            if depth == DEEPEST + 1:
                parts += [document[since : token.start()], "null"]
        elif token[0] in ("]", "}"):
            if depth == DEEPEST + 1:
                since = token.end()
            depth -= 1
    return "".join([*parts, document[since:]])


def _change(path: str, line: bytes) -> Change:
    try:
        document = decoded(line)
    except (ValueError, RecursionError):
        raise Interrupted(f"{path}: a line of the watch is not JSON") from None
    kind, found = text(document, "type"), child(document, "object")
    if kind == "ERROR":
        raise Gone(text(found, "message")) if _is_gone(found) else Interrupted(f"{path}: {text(found, 'message')}")
    if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
        raise Interrupted(f"{path}: the watch says {kind!r}")
    return Change(kind, found, text(child(found, "metadata"), "resourceVersion"))


def _is_gone(status: Object) -> bool:
    return status.get("code") == HTTPStatus.GONE or status.get("reason") in ("Expired", "Gone")


def _refusal(path: str, response: aiohttp.ClientResponse, body: bytes) -> Exception:
    """The error for a response other than 200."""
    try:
        status: Any = json.loads(body)
    except (ValueError, RecursionError):
        status = {}
    message = text(status, "message") or f"HTTP {response.status}"
    code = response.status
    if code == HTTPStatus.GONE or _is_gone(child({"status": status}, "status")):
        return Gone(message)
    if code == HTTPStatus.CONFLICT:
        return Conflict(message)
    if code in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
        return Absent(message, forbidden=code == HTTPStatus.FORBIDDEN)
    if code == HTTPStatus.UNAUTHORIZED or code == HTTPStatus.TOO_MANY_REQUESTS or code >= 500:
        return Interrupted(f"{path}: {message}", retry_after(response.headers, LONGEST_ASKED_SECONDS) or 0.0)
    final = code in (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)
    return (Refused if final else KubernetesError)(f"{response.url.host}{path}", message)
