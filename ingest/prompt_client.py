"""An httpx client with a deadline for the whole response, not only for each read (answer_time.py says why)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx

from ingest.answer_time import ended_in_time


class PromptClient:
    """Safe to use from several threads, but a deadline that passes in one may cut off the responses of the others.

    timeout: seconds for each read; the whole response gets twice as long.   options: passed to httpx.Client.
    """

    def __init__(self, timeout: float, **options: Any) -> None:
        self._timeout = timeout
        self._make = partial(httpx.Client, **options)
        self._client = self._make()
        self._lock = threading.Lock()

    def request(self, method: str, url: str, *, timeout: float | None = None, **more: Any) -> httpx.Response:
        """The whole answer.   timeout: instead of the client's.   Errors: httpx.HTTPError."""
        seconds = self._timeout if timeout is None else timeout
        client = self._client
        try:
            with ended_in_time(2 * seconds, client.close) as late:
                return client.request(method, url, timeout=seconds, **more)
        except (httpx.HTTPError, RuntimeError) as error:
            if not late.is_set() and not client.is_closed:
                raise
            raise httpx.ReadTimeout(f"had not answered in full after {2 * seconds:g} s") from error
        finally:
            with self._lock:
                if self._client is client and client.is_closed:
                    self._client = self._make()

    @contextmanager
    def stream(self, method: str, url: str, *, timeout: float | None = None, **more: Any) -> Iterator[httpx.Response]:
        """Streams the response, like httpx.Client.stream; after a missed deadline the client is unusable."""
        seconds = self._timeout if timeout is None else timeout
        with (
            ended_in_time(2 * seconds, self._client.close),
            self._client.stream(method, url, timeout=seconds, **more) as answer,
        ):
            yield answer

    def close(self) -> None:
        self._client.close()


def ask(method: str, url: str, seconds: float, *, verify: Any = True, **more: Any) -> httpx.Response:
    """One request to a peer that is rarely asked, over a new connection. Errors: httpx.HTTPError."""
    client = PromptClient(seconds, verify=verify)
    try:
        return client.request(method, url, **more)
    finally:
        client.close()
