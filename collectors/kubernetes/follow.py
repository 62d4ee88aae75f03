"""Follows one resource without gaps: list, watch, resume the watch; list again if its position has expired.

The output is ordered and complete: after a list, which objects exist (and that there are no others); then each change.
Nothing is dropped, and what the server repeats after a reconnection is reported once.

A starting API server answers 403 until it has read its roles, and 404 until it has read its extensions. So a refusal of
a resource that was served before is retried soon, from the same position, like any other failure. Only 410 gives up the
position.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from collectors.kubernetes.api import Absent, Api, Gone, Interrupted
from collectors.kubernetes.connection import KubernetesError
from collectors.kubernetes.objects import Object

ONCE_FAILURES = 5
"""Failures in a row after which a run that is to list once gives up."""
ONCE_REFUSALS = 3
REFUSALS = 12
"""In a row, after which a right that is needed is missing: about a quarter of a minute."""
SOON = 60
"""Failures in a row during which a server may be starting: about a minute."""
RARELY = 300.0
"""Seconds between two requests for what the server has not served for long."""
BLINK = timedelta(seconds=2)
"""So short an interruption makes no difference to when something happened."""


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Seconds to wait after the n-th failure in a row: a random part of first * 2^n, at most `most`, and while a server
    may be starting at most `soon`: what ends between its return and ours may have left no trace."""

    first: float = 0.4
    most: float = 10.0
    soon: float = 1.5
    draw: Callable[[float, float], float] = random.uniform

    def after(self, failures: int) -> float:
        most = self.most if failures > SOON else min(self.soon, self.most)
        longest = min(most, self.first * 2.0 ** min(failures - 1, 20))
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
    """An object was added, changed or deleted (`deleted`).   late: before the watch was connected again."""

    object: Object
    version: str
    deleted: bool
    late: bool = False


@dataclass(frozen=True, slots=True)
class Current:
    """The watch is alive, and nothing older than `version` is missing."""

    version: str


@dataclass(frozen=True, slots=True)
class Unserved:
    """The server does not serve this (optional) resource."""

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
    now: Callable[[], datetime] = utc_now
    _served: str = ""
    _failures: int = 0
    _refusals: int = 0
    _gone: int = 0
    _idle: int = 0
    _watched_until: datetime | None = None

    async def items(self) -> AsyncIterator[Item]:
        """What happens, for ever; with `once`, until the list is complete."""
        tried = 0
        while True:
            path = self._served or self.paths[tried]
            try:
                if not self.version:
                    async for listed in self._list(path):
                        yield listed
                if self.once:
                    return
                async for item in self._watch(path):
                    yield item
            except Gone:
                self.version = ""
                self._gone += 1
                if self._gone > 1:  # a server that forgets what it has just listed is given time
                    await asyncio.sleep(self.backoff.after(self._gone))
            except Absent as absent:
                if not self._served and not absent.forbidden and tried + 1 < len(self.paths):
                    tried += 1
                    continue
                tried = 0
                self._refusals += 1
                yield self._refused(path, absent)
                if self.once and not self.required:
                    return
                await asyncio.sleep(self._patience())
            except Interrupted as broken:
                self._failures += 1
                yield Trouble(str(broken), self._failures)
                if self.once and self._failures >= ONCE_FAILURES:
                    raise KubernetesError(
                        self.api.server, str(broken), "Next: check the server's address and that it answers"
                    ) from None
                await asyncio.sleep(max(broken.retry_after, self.backoff.after(self._failures)))

    def _refused(self, path: str, absent: Absent) -> Item:
        """Errors: KubernetesError if a needed right was refused too often, and there is no position to go on from."""
        often = self._refusals >= (ONCE_REFUSALS if self.once else REFUSALS)
        if often and self.required and (self.once or not (self._served or self.version)):
            raise KubernetesError(f"{self.api.server}{path}", str(absent), _grant(path)) from None
        passing = self.required or bool(self._served) or (absent.forbidden and not self.once)
        if passing and not often:
            return Trouble(str(absent), self._refusals)
        if not absent.forbidden:
            self._served = ""  # perhaps in another version by now
        return Unserved(str(absent), absent.forbidden)

    def _patience(self) -> float:
        """Seconds until what was refused is asked for again."""
        if self.required or self._refusals < REFUSALS:
            return self.backoff.after(self._refusals)
        return min(RARELY, self.backoff.most * 2.0 ** min(self._refusals - REFUSALS, 20))

    def _answered(self, path: str) -> None:
        self._served, self._failures, self._refusals = path, 0, 0

    async def _list(self, path: str) -> AsyncIterator[Item]:
        first = True
        async for page in self.api.pages(path, self.query):
            self._answered(path)
            yield Listed(page.objects, page.version if page.last else "", first, page.last)
            first = False
            if page.last:
                self.version = page.version
                self._watched_until = self.now()

    async def _watch(self, path: str) -> AsyncIterator[Item]:
        began, connected, changes, behind = time.monotonic(), False, 0, ""
        try:
            async for change in self.api.watch(path, self.version, self.query):
                self._answered(path)
                if change.kind == "OPEN":
                    behind, connected = await self._newest(path), True
                    continue
                self._gone = 0
                changes += 1
                if change.kind != "BOOKMARK" and _reaches(self.version, change.version):
                    continue  # it repeats itself
                self.version = change.version or self.version
                if change.kind == "BOOKMARK" or not _reaches(behind, self.version):
                    behind = ""  # caught up
                if change.kind == "BOOKMARK":
                    yield Current(self.version)
                else:
                    yield Changed(change.object, self.version, change.kind == "DELETED", late=bool(behind))
                if not behind:
                    self._watched_until = self.now()
        except Interrupted as broken:
            if connected and not behind and not broken.silent:
                yield self._heard_until_now()
            raise
        yield self._heard_until_now()
        if not changes and time.monotonic() - began < 1.0:
            # Ended at once with nothing said: no error, but not to be repeated in a tight loop either.
            self._idle += 1
            await asyncio.sleep(self.backoff.after(self._idle))
        else:
            self._idle = 0

    async def _newest(self, path: str) -> str:
        """The server's newest version, if nobody listened for a while: what a watch says up to it is of the past.

        Errors: Gone if our position is later than that, as after etcd was restored: until it is passed nothing would
        come.
        """
        until = self._watched_until
        if until is not None and self.now() - until < BLINK:
            return ""
        newest = await self.api.newest(path, self.query)
        if newest != self.version and _reaches(self.version, newest):
            raise Gone(f"the server is at version {newest}, before our {self.version}")
        return newest

    def _heard_until_now(self) -> Current:
        self._watched_until = self.now()
        return Current(self.version)


def _reaches(position: str, version: str) -> bool:
    """Whether the position is at or past the version; False if they are not numbers, as etcd's are."""
    numbers = [int(each) for each in (position, version) if each.isascii() and each.isdigit()]
    return len(numbers) == 2 and numbers[1] <= numbers[0]


def _grant(path: str) -> str:
    return f"Next: a ClusterRole with get, list and watch on {path.rsplit('/', 1)[-1]} (docs/kubernetes.md)"
