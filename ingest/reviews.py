"""Which Kubernetes service account a token belongs to: asks the API server (TokenReview), and caches the answer
briefly.

The API is called by a `Reviewer` that is passed in; this module caches answers and bounds concurrent reviews:

    cached        ─▶ the answer, at once         in progress    ─▶ waits for that answer
    valid before  ─▶ reviewed in a lane of its own    new  ─▶ reviewed in the lane of new tokens, few per address

Made-up tokens are always new, so they delay neither cached tokens nor those that were valid before. While the API
server is away, an unknown token is neither accepted nor rejected: its sender is told to retry.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Protocol

from ingest.errors import IngestError
from warehouse.lanes import Lane, LaneFullError

GOOD_SECONDS = 60.0
"""How long a token goes on after its pod or account is gone."""
BAD_SECONDS = 10.0
GOOD_REMEMBERED = 20_000
BAD_REMEMBERED = 2_000
"""Apart from the good ones, which no number of made-up tokens pushes out."""
NEW_AT_ONCE = 8
NEW_PER_ADDRESS = 2
"""Of those: a stranger leaves room for the others."""
AGAIN_AT_ONCE = 8
"""Tokens that were good and are asked about again."""
TOKEN_BYTES = 16_384


class ReviewError(IngestError):
    """The token may not send. passes: it may be accepted later."""

    def __init__(self, where: str, what: str, next_step: str = "", passes: bool = False) -> None:
        super().__init__(where, what, next_step)
        self.passes = passes


@dataclass(frozen=True)
class Account:
    """name: namespace/name of a service account.   node: that its token is bound to; empty: none, and `why_no_node`
    explains."""

    name: str
    node: str = ""
    why_no_node: str = ""

    @property
    def known_node(self) -> str:
        """Errors: ReviewError if there is none."""
        if not self.node:
            raise ReviewError(
                self.name, f"its token names no node{self.why_no_node and f' ({self.why_no_node})'}",
                "Send a projected token of a pod (docs/kubernetes.md)",
            )  # fmt: skip
        return self.node


class Reviewer(Protocol):
    """Asks an API server about a token."""

    def review(self, token: str) -> Account | None:
        """Whose it is; None: nobody's, or not for us. Errors: ReviewError if the server cannot be asked."""
        ...


class Reviews:
    """For one event loop, which alone uses the cache; the API server is called on threads of our own.

    accounts: the service accounts that are senders; all others are unknown.   clock: monotonic seconds.
    """

    def __init__(
        self, reviewer: Reviewer, accounts: Container[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reviewer, self._accounts, self._clock = reviewer, accounts, clock
        self._good: OrderedDict[bytes, tuple[float, Account]] = OrderedDict()
        self._bad: OrderedDict[bytes, float] = OrderedDict()
        self._under_way: dict[bytes, asyncio.Task[Account | None]] = {}
        self._new = Lane("review", NEW_AT_ONCE, per_address=NEW_PER_ADDRESS)
        self._again = Lane("review-again", AGAIN_AT_ONCE)

    async def of(self, token: str, address: str) -> Account | None:
        """address: of who sends it.   Errors: ReviewError as the reviewer's, or, at once, if too many are asked
        about."""
        key = hashlib.sha256(token.encode("utf-8", errors="surrogateescape")).digest()
        until, account = self._good.get(key, (0.0, None))
        if account is not None and self._clock() < until:
            self._good.move_to_end(key)
            return account
        if self._clock() < self._bad.get(key, 0.0):
            return None
        task = self._under_way.get(key)
        if task is None:
            try:
                asked = (self._new if account is None else self._again).run(address, self._reviewer.review, token)
            except LaneFullError as error:
                raise ReviewError(
                    "kubernetes", "too many tokens are being reviewed", "Send it again", passes=True
                ) from error
            task = self._under_way[key] = asyncio.create_task(self._answered(key, asked))
            task.add_done_callback(lambda task: self._ended(key, task))
        # A sender that hangs up does not take back the question.
        return await asyncio.shield(task)

    async def _answered(self, key: bytes, asked: asyncio.Future[Account | None]) -> Account | None:
        account = await asked
        if account is None or account.name not in self._accounts:
            self._good.pop(key, None)
            self._bad[key] = self._clock() + BAD_SECONDS
            self._bad.move_to_end(key)
            if len(self._bad) > BAD_REMEMBERED:
                self._bad.popitem(last=False)
            return None
        self._good[key] = self._clock() + GOOD_SECONDS, account
        self._good.move_to_end(key)
        if len(self._good) > GOOD_REMEMBERED:
            self._good.popitem(last=False)
        return account

    def _ended(self, key: bytes, task: asyncio.Task[Account | None]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # looked at, or asyncio complains where the sender hung up meanwhile


def is_web_token(token: str) -> bool:
    """Whether it looks like a JSON web token: nothing else is sent to the API server."""
    return len(token) <= TOKEN_BYTES and re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", token, re.ASCII) is not None
