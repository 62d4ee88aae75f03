"""Checks each response of a ClickHouse server before the client library parses it: a proxy's error page, a redirect,
or an exception after `200 OK` is an error. The library itself checks statuses, error headers and truncated bodies.

Of several nodes, it uses one until that cannot be reached, and then another."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from clickhouse_connect.driver.exceptions import OperationalError
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError

log = logging.getLogger(__name__)

LATE = re.compile(rb"Code: (\d+)\. DB::Exception: ")
"""Start of an exception that the server hit after it had sent `200 OK`."""


class CheckedResponses:
    """Wraps the client's connection pool; only `request` differs."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def request(self, method: str, url: str, **how: Any) -> Any:
        """Errors: OperationalError unless a ClickHouse server answered completely. Redirects are not followed: requests
        carry rows and a password."""
        answer = self._pool.request(method, url, redirect=False, **how)
        if not 200 <= answer.status < 300 or answer.headers.get("x-clickhouse-exception-code"):
            return answer
        if not any(name.lower().startswith("x-clickhouse-") for name in answer.headers):
            answer.close()
            raise OperationalError(f"HTTP status {answer.status}, but not from a ClickHouse server")
        waited = "1" in parse_qs(urlsplit(url).query).get("wait_end_of_query", ())
        if not how["preload_content"] or waited:
            return answer  # rows: the server began to answer when it had them all, and their format has an end
        if late := LATE.search(answer.data):
            raise OperationalError(answer.data[late.start() :].decode(errors="replace"))
        return answer


def check_responses(client: Any) -> None:
    """From now on."""
    client.http = CheckedResponses(client.http)


class AskedNode:
    """Wraps the client's connection pool: which of several nodes is asked. One that cannot be connected to fails the
    request, of which it has seen nothing; the requests after that go to the next node."""

    def __init__(self, pool: Any, nodes: Sequence[str], node: str) -> None:
        """nodes: `host:port` each, in the order of preference."""
        self._pool, self._nodes, self.node = pool, nodes, node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def request(self, method: str, url: str, **how: Any) -> Any:
        asked = self.node
        try:
            return self._pool.request(method, urlsplit(url)._replace(netloc=asked).geturl(), **how)
        except HTTPError as error:
            if isinstance(getattr(error, "reason", None) or error, (NewConnectionError, ConnectTimeoutError)):
                self._leave(asked)
            raise

    def _leave(self, node: str) -> None:
        if self.node == node and len(self._nodes) > 1:
            self.node = self._nodes[(self._nodes.index(node) + 1) % len(self._nodes)]
            log.warning("ClickHouse node %s cannot be reached; what is asked next is asked of %s", node, self.node)


def ask_one_of(client: Any, nodes: Sequence[str], node: str) -> AskedNode:
    """From now on. The answer says which one it is."""
    client.http = asked = AskedNode(client.http, nodes, node)
    return asked
