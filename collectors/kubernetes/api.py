"""List and watch with the API server's semantics, over one HTTP client.

A list comes in pages; a watch is a line of JSON for each change since a resourceVersion. Both can fail in many ways,
which become a few errors: `Gone` if the version is too old, `Interrupted` for anything that passes by itself.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from collectors.kubernetes.connection import Connection, KubernetesError
from collectors.kubernetes.objects import Object, child, text
from ingest.http_post import retry_after

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
        self._client = httpx.AsyncClient(
            base_url=connection.server,
            # Reading the system's certificates takes longer than all else here.
            verify=connection.verify if connection.server.startswith("https:") else False,
            headers={"User-Agent": "gpuledger", "Accept": "application/json"},
            timeout=httpx.Timeout(ANSWER_SECONDS),
            follow_redirects=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

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
        asked = self._client.request(method, path, content=json.dumps(body, ensure_ascii=False), headers=headers)
        try:
            response = await _in_time(path, asked, ANSWER_SECONDS)
        except httpx.TransportError as error:
            raise Interrupted(f"{path}: {type(error).__name__} {error}".rstrip()) from error
        if not response.is_success:
            raise _refusal(path, response, response.content)
        try:
            found = response.json()
        except (ValueError, RecursionError):
            raise Interrupted(f"{path}: the answer is not JSON") from None
        return found if isinstance(found, dict) else {}

    def _authorization(self) -> dict[str, str]:
        token = self._connection.bearer()
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def _page(self, path: str, asked: Mapping[str, str]) -> tuple[Page, str]:
        """A page and the token of the next one, empty for the last."""
        async with self._get(path, asked, ANSWER_SECONDS) as response:
            try:
                document = json.loads(await _in_time(path, response.aread(), LIST_SECONDS))
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
    async def _get(self, path: str, query: Mapping[str, str], silence: float) -> AsyncIterator[httpx.Response]:
        """The open answer; anything but 200 raised. silence: seconds without a byte after which it is given up."""
        headers, timeout = self._authorization(), httpx.Timeout(ANSWER_SECONDS, read=silence)
        try:
            async with AsyncExitStack() as stack:
                asked = self._client.stream("GET", path, params=query, headers=headers, timeout=timeout)
                response = await _in_time(path, stack.enter_async_context(asked), LIST_SECONDS)
                if response.status_code != httpx.codes.OK:
                    raise _refusal(path, response, await _in_time(path, response.aread(), LIST_SECONDS))
                yield response
        except (httpx.TransportError, httpx.StreamError) as error:
            silent = isinstance(error, httpx.ReadTimeout)
            raise Interrupted(f"{path}: {type(error).__name__} {error}".rstrip(), silent=silent) from error


async def _in_time(path: str, what: Awaitable[Answer], seconds: float) -> Answer:
    """Also of a peer that sends a letter at a time. Errors: Interrupted."""
    try:
        async with asyncio.timeout(seconds):
            return await what
    except TimeoutError:
        raise Interrupted(f"{path}: had not answered in full after {seconds:.0f} s", silent=True) from None


async def _lines(response: httpx.Response) -> AsyncIterator[bytes]:
    """The whole lines of a body. Split at line feeds alone: a label may well hold what Unicode calls a line's end."""
    rest = bytearray()
    async for part in response.aiter_bytes():
        rest += part
        if b"\n" not in part:
            if len(rest) > LINE_BYTES:
                raise Interrupted("a line of the watch has no end")
            continue
        *lines, rest = rest.split(b"\n")
        for line in lines:
            if line.strip():
                yield bytes(line)


def _change(path: str, line: bytes) -> Change:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise Interrupted(f"{path}: a line of the watch is not JSON") from None
    kind, found = text(document, "type"), child(document, "object")
    if kind == "ERROR":
        raise Gone(text(found, "message")) if _is_gone(found) else Interrupted(f"{path}: {text(found, 'message')}")
    if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
        raise Interrupted(f"{path}: the watch says {kind!r}")
    return Change(kind, found, text(child(found, "metadata"), "resourceVersion"))


def _is_gone(status: Object) -> bool:
    return status.get("code") == httpx.codes.GONE or status.get("reason") in ("Expired", "Gone")


def _refusal(path: str, response: httpx.Response, body: bytes) -> Exception:
    """The error for a response other than 200."""
    try:
        status: Any = json.loads(body)
    except (ValueError, RecursionError):
        status = {}
    message = text(status, "message") or f"HTTP {response.status_code}"
    code = response.status_code
    if code == httpx.codes.GONE or _is_gone(child({"status": status}, "status")):
        return Gone(message)
    if code == httpx.codes.CONFLICT:
        return Conflict(message)
    if code in (httpx.codes.NOT_FOUND, httpx.codes.FORBIDDEN):
        return Absent(message, forbidden=code == httpx.codes.FORBIDDEN)
    if code == httpx.codes.UNAUTHORIZED or code == httpx.codes.TOO_MANY_REQUESTS or code >= 500:
        return Interrupted(f"{path}: {message}", retry_after(response.headers, LONGEST_ASKED_SECONDS) or 0.0)
    final = code in (httpx.codes.BAD_REQUEST, httpx.codes.REQUEST_ENTITY_TOO_LARGE, httpx.codes.UNPROCESSABLE_ENTITY)
    return (Refused if final else KubernetesError)(f"{response.url.host}{path}", message)
