"""A look at each answer of a ClickHouse server before its client believes it: a page of a proxy, a redirect and an
exception behind `200 OK` are no answers. The client itself looks at statuses, codes in headers and cut-off answers."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from clickhouse_connect.driver.exceptions import OperationalError

LATE = re.compile(rb"Code: (\d+)\. DB::Exception: ")
"""How an exception begins that the server met after it had begun to answer."""


class WholeAnswers:
    """The client's pool of connections; what is not looked at here is the pool's own."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def request(self, method: str, url: str, **how: Any) -> Any:
        """Errors: OperationalError if it is no whole answer of a ClickHouse server. Redirects are not followed: what is
        asked carries rows and a password."""
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


def look_at_answers(client: Any) -> None:
    """From now on."""
    client.http = WholeAnswers(client.http)
