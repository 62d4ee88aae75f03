"""Checks each response of a ClickHouse server before the client library parses it: a proxy's error page, a redirect,
or an exception after `200 OK` is an error. The library itself checks statuses, error headers and truncated bodies."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from clickhouse_connect.driver.exceptions import OperationalError

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
