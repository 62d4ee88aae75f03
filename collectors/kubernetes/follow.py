"""One resource without a gap: list, watch, and watch again from where it broke off; list again if that is forgotten.

What comes out is in order and says all: after a list, which objects there are and that there are no others; then each
change. Nothing is dropped or told twice by this module, but the server may repeat itself after a reconnection.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.kubernetes.api import Absent, Api, Gone, Interrupted
from collectors.kubernetes.connection import KubernetesError
from collectors.kubernetes.objects import Object

ONCE_FAILURES = 5
"""Failures in a row after which a run that is to list once gives up."""
ABSENT_SECONDS = 300.0
"""After which a resource that the server did not serve is asked for again."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds to wait after the n-th failure in a row: a random part of first * 2^n, at most `most`."""

    first: float = 0.8
    most: float = 30.0
    draw: Callable[[float, float], float] = random.uniform

    def after(self, failures: int) -> float:
        longest = min(self.most, self.first * 2.0 ** min(failures - 1, 20))
        return self.draw(longest / 2, longest)


@dataclass(frozen=True, slots=True)
class Listed:
    """A page of the list.   version: of the list, once the last page is here.   last: it is."""

    objects: Sequence[Object]
    version: str
    first: bool
    last: bool


@dataclass(frozen=True, slots=True)
class Changed:
    """An object was added, changed or deleted (`deleted`)."""

    object: Object
    version: str
    deleted: bool


@dataclass(frozen=True, slots=True)
class Current:
    """The watch is alive, and nothing older than `version` is missing."""

    version: str


@dataclass(frozen=True, slots=True)
class Unserved:
    """The server does not serve it (an optional resource)."""

    what: str
    forbidden: bool


@dataclass(frozen=True, slots=True)
class Trouble:
    """The connection broke, for the `failures`-th time in a row."""

    what: str
    failures: int


Item = Listed | Changed | Current | Unserved | Trouble


@dataclass
class Follow:
    """A resource to be followed.

    path: the first that the server serves of `paths`.   version: where a watch left off; empty = list first.
    required: an answer of 403 or 404 to the first request is an error, not `Unserved`.
    """

    api: Api
    paths: tuple[str, ...]
    version: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    required: bool = False
    backoff: Backoff = Backoff()
    once: bool = False
    _served: bool = False
    _failures: int = 0
    _gone: int = 0
    _idle: int = 0

    async def items(self) -> AsyncIterator[Item]:
        """What happens, for ever; with `once`, until the list is complete."""
        path = 0
        while True:
            try:
                if not self.version:
                    async for listed in self._list(self.paths[path]):
                        yield listed
                if self.once:
                    return
                async for item in self._watch(self.paths[path]):
                    yield item
            except Gone:
                self.version = ""
                self._gone += 1
                if self._gone > 1:  # a server that forgets what it has just listed is given time
                    await asyncio.sleep(self.backoff.after(self._gone))
            except Absent as absent:
                if not self._served and path + 1 < len(self.paths) and not absent.forbidden:
                    path += 1
                    continue
                if self.required and not self._served:
                    raise KubernetesError(
                        f"{self.api.server}{self.paths[path]}", str(absent), _grant(self.paths[path])
                    ) from None
                yield Unserved(str(absent), absent.forbidden)
                if self.once:
                    return
                path, self._served, self.version = 0, False, ""
                await asyncio.sleep(ABSENT_SECONDS)
            except Interrupted as broken:
                self._failures += 1
                yield Trouble(str(broken), self._failures)
                if self.once and self._failures >= ONCE_FAILURES:
                    raise KubernetesError(
                        self.api.server, str(broken), "Next: check the server's address and that it answers"
                    ) from None
                await asyncio.sleep(max(broken.retry_after, self.backoff.after(self._failures)))

    async def _list(self, path: str) -> AsyncIterator[Item]:
        first = True
        async for page in self.api.pages(path, self.query):
            self._served, self._failures = True, 0
            yield Listed(page.objects, page.version if page.last else "", first, page.last)
            first = False
            if page.last:
                self.version = page.version

    async def _watch(self, path: str) -> AsyncIterator[Item]:
        began, changes = time.monotonic(), 0
        async for change in self.api.watch(path, self.version, self.query):
            self._served, self._failures, self._gone = True, 0, 0
            changes += 1
            if change.version:
                self.version = change.version
            if change.kind == "BOOKMARK":
                yield Current(self.version)
            else:
                yield Changed(change.object, self.version, change.kind == "DELETED")
        yield Current(self.version)
        if not changes and time.monotonic() - began < 1.0:
            # Ended at once with nothing said: no error, but not to be repeated in a tight loop either.
            self._idle += 1
            await asyncio.sleep(self.backoff.after(self._idle))
        else:
            self._idle = 0


def _grant(path: str) -> str:
    return f"Next: a ClusterRole with get, list and watch on {path.rsplit('/', 1)[-1]} (docs/kubernetes.md)"
