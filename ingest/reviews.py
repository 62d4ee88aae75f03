"""Whose a Kubernetes service account's token is: the API server says, and its word counts for a short while.

What asks it is given (`Reviewer`); here are the cache, its bounds, and how many may ask at once. While the API server
cannot be asked, a token that is not remembered is neither good nor bad: whoever sends it is told to come later.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ingest.errors import IngestError

GOOD_SECONDS = 60.0
"""How long a token goes on after its pod or account is gone."""
BAD_SECONDS = 10.0
REMEMBERED = 20_000
AT_ONCE = 4
"""Questions under way; more are told to come later, so that wrong tokens cannot flood the API server."""
TOKEN_BYTES = 16_384


class ReviewError(IngestError):
    """A token that may not send. passes: it may be otherwise later."""

    def __init__(self, where: str, what: str, next_step: str = "", passes: bool = False) -> None:
        super().__init__(where, what, next_step)
        self.passes = passes


@dataclass(frozen=True)
class Account:
    """name: namespace/name of a service account.   node: that its token is bound to; empty: to none, and
    `why_no_node` says more."""

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
    """Asks an API server."""

    def review(self, token: str) -> Account | None:
        """Whose it is; None: nobody's, or not for us. Errors: ReviewError if the server cannot be asked."""
        ...


class Reviews:
    """clock: monotonic seconds."""

    def __init__(self, reviewer: Reviewer, clock: Callable[[], float] = time.monotonic) -> None:
        self._reviewer, self._clock = reviewer, clock
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, tuple[float, Account | None]] = OrderedDict()
        self._asking = threading.BoundedSemaphore(AT_ONCE)

    def of(self, token: str) -> Account | None:
        """Errors: ReviewError as the reviewer's, or if too many ask."""
        key = hashlib.sha256(token.encode("utf-8", errors="surrogateescape")).digest()
        with self._lock:
            until, account = self._known.get(key, (0.0, None))
            if self._clock() < until:
                return account
        if not self._asking.acquire(timeout=2.0):
            raise ReviewError("kubernetes", "too many tokens are being reviewed", "Send it again", passes=True)
        try:
            account = self._reviewer.review(token)
        finally:
            self._asking.release()
        with self._lock:
            self._known[key] = self._clock() + (GOOD_SECONDS if account else BAD_SECONDS), account
            self._known.move_to_end(key)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return account


def is_web_token(token: str) -> bool:
    """Whether it has a JSON web token's form: nothing else is passed on."""
    return len(token) <= TOKEN_BYTES and re.fullmatch(r"[\w-]+\.[\w-]+\.[\w-]+", token, re.ASCII) is not None
