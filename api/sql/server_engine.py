"""Runs people's statements on a ClickHouse server: as an account of their own, which reads what analysts may, no
more (warehouse/accounts). Never as the store's owner: without such an account nothing is asked.

Should our check let something through, the account's grants, its profile's limits and its quota for each person still
hold. A client that hangs up ends its statement: the server ends it when the connection closes, and it is also killed by
its id, as the same user.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx

from access.principal import Principal
from access.roles import Action
from api.sql.errors import ACCESS_DENIED, BAD_ARGUMENTS, SqlError, of_engine
from api.sql.limits import Limits, settings_of
from warehouse.accounts.declaration import AUDIT, LIMITS, SECRET
from warehouse.connection_errors import reason
from warehouse.store import ServerStore, read_sql

log = logging.getLogger(__name__)
T = TypeVar("T")
AUTHENTICATION_FAILED, TIMED_OUT, ENDED = 516, 159, 1002
SLACK_SECONDS = 10
"""Time after the deadline for the server to report it itself."""
SOCKET_SECONDS = 30
"""Longest time beyond the deadline without a byte."""
KILL_SECONDS = 5
OWN_SECONDS = 60.0
"""Time limit for our own small queries."""
TAIL_BYTES = 16_384
"""The end of an answer is held back until it is complete: a server appends a late error to the rows."""
PROFILES_OWN = frozenset({"log_queries"})
"""Settings that only the account's profile decides."""
ACCOUNT = ("GPULEDGER_SQL_USER", "GPULEDGER_SQL_PASSWORD_FILE")
AUDIT_ACCOUNT = ("GPULEDGER_SQL_AUDIT_USER", "GPULEDGER_SQL_AUDIT_PASSWORD_FILE")
"""For roles that see the audit; without it, they use the account of all others."""
NEXT_STEP = "Set GPULEDGER_SQL_USER and GPULEDGER_SQL_PASSWORD_FILE, or ask it at its own address (docs/sql.md)"


@dataclass(frozen=True)
class SqlAccount:
    user: str
    password_file: Path

    def auth(self) -> httpx.BasicAuth:
        """Read anew each time, so that it can be renewed. (A header of its own takes no letter beyond ASCII.)"""
        try:
            password = self.password_file.read_text(encoding="utf-8").partition("\n")[0]
        except (OSError, UnicodeDecodeError) as error:
            log.error("sql: the password of %s cannot be read: %s", self.user, error)
            raise SqlError(ENDED, "the account for SQL cannot be used; the log says why") from error
        return httpx.BasicAuth(self.user.encode(), password.encode())


def account_of(environment: Mapping[str, str], names: tuple[str, str]) -> SqlAccount | None:
    """The account that the environment names. Errors: SqlError if it names half of one."""
    user, file = (environment.get(name, "") for name in names)
    if bool(user) != bool(file):
        raise SqlError(BAD_ARGUMENTS, f"{names[0]} and {names[1]} go together", NEXT_STEP)
    return SqlAccount(user, Path(file)) if user else None


class ServerEngine:
    """Runs checked statements on a ClickHouse server."""

    def __init__(self, store: ServerStore, limits: Limits, environment: Mapping[str, str] = os.environ) -> None:
        self._limits, self._environment = limits, environment
        self._store, self._owner, self._database = store, store.user, store.database
        self._bounds: dict[str, Mapping[str, int]] = {}
        # The system's authorities, or those of SSL_CERT_FILE; read once.
        self._tls = ssl.create_default_context()

    @contextlib.asynccontextmanager
    async def ask(
        self,
        principal: Principal,
        text: str,
        format: str,
        settings: Mapping[str, str],
        params: Mapping[str, str],
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The answer's pieces, from when the first is there. text: a statement that was checked, without its FORMAT.
        Errors: SqlError, also while the pieces are read; the answer is not whole then."""
        account = self._account(principal)
        async with self._client(account) as client:
            asked = await self._asked(client, account, principal, settings)
            if format.lower() == "native" and (version := settings.get("client_protocol_version", "")):
                asked["client_protocol_version"] = version
            asked |= {f"param_{name}": value for name, value in params.items()}
            asked |= {"default_format": format, "query_id": f"asked_{uuid.uuid4().hex}"}
            reading = _Reading(time.monotonic() + float(asked["max_execution_time"]) + SLACK_SECONDS)
            try:
                async with contextlib.AsyncExitStack() as stack:
                    answer = await reading.in_time(
                        stack.enter_async_context(_posted(client, self._store.http_url, text, asked))
                    )
                    yield reading.pieces(answer)
            except SqlError as error:
                reading.over = reading.over or error.code not in (ENDED, TIMED_OUT)
                raise
            finally:
                if not reading.over:
                    await asyncio.shield(self._kill(account, asked["query_id"]))

    async def answer(self, principal: Principal, sql: str, format: str, params: Mapping[str, str]) -> bytes:
        """The small answer to a question of our own, asked as the same account."""
        account = self._account(principal)
        given = {"database": self._database, "default_format": format}
        given |= {f"param_{name}": value for name, value in params.items()}
        async with self._client(account) as client:
            await self._checked(client, account)
            return await _answer(client, self._store.http_url, sql, given)

    def _account(self, principal: Principal) -> SqlAccount:
        account = account_of(self._environment, ACCOUNT)
        if principal.may(Action.see_audit):
            account = account_of(self._environment, AUDIT_ACCOUNT) or account
        if account is None:
            raise SqlError(BAD_ARGUMENTS, "the store is a ClickHouse server, and people's SQL has no account there",
                           NEXT_STEP)  # fmt: skip
        if account.user == self._owner:
            raise SqlError(BAD_ARGUMENTS, f"the account for SQL, {account.user}, is the store's owner", NEXT_STEP)
        return account

    def _client(self, account: SqlAccount) -> httpx.AsyncClient:
        # No proxy of the environment gets the password, and no redirect.
        return httpx.AsyncClient(
            auth=account.auth(),
            headers={"Accept-Encoding": "identity"},
            verify=self._tls,
            timeout=self._limits.seconds + SOCKET_SECONDS,
            trust_env=False,
        )

    async def _asked(
        self, client: httpx.AsyncClient, account: SqlAccount, principal: Principal, settings: Mapping[str, str]
    ) -> dict[str, str]:
        """Settings of the statement, none beyond what the account's profile allows."""
        bounds = await self._checked(client, account)
        chosen = settings_of(settings, self._limits, False)
        asked = {
            name: str(min(value, bounds.get(name, value)) if isinstance(value, int) else value)
            for name, value in chosen.items()
            if name not in PROFILES_OWN
        }
        # Of the quota each person has a part of their own.
        return {**asked, "database": self._database, "quota_key": principal.actor,
                "cancel_http_readonly_queries_on_client_close": "1"}  # fmt: skip

    async def _checked(self, client: httpx.AsyncClient, account: SqlAccount) -> Mapping[str, int]:
        """The upper bounds of the account's profile. Errors: SqlError if it may write, or see what analysts may not."""
        if account.user not in self._bounds:
            closed = SECRET if account == account_of(self._environment, AUDIT_ACCOUNT) else (*SECRET, *AUDIT)
            sql = read_sql(__file__, "account_checks")
            names = {"closed": closed, "limits": [one.name for one in LIMITS]}
            params = {
                f"param_{name}": "[" + ", ".join(f"'{one}'" for one in some) + "]" for name, some in names.items()
            }
            asked = {**params, "param_database": self._database, "default_format": "JSONCompactEachRow"}
            readonly, seen, bounds = json.loads(await _answer(client, self._store.http_url, sql, asked))
            if not int(readonly) or seen:
                why = f"sees {', '.join(seen)}" if seen else "may write"
                log.error("sql: the account %s %s: nothing is asked as it", account.user, why)
                what = f"the account for SQL, {account.user}, may do more than analysts"
                raise SqlError(ACCESS_DENIED, what, "Create it with: gpuledger init --accounts (docs/sql.md)")
            self._bounds[account.user] = {name: int(most) for name, most in bounds}
        return self._bounds[account.user]

    async def _kill(self, account: SqlAccount, query_id: str) -> None:
        """A statement that has ended already is no error."""
        sql = "KILL QUERY WHERE query_id = {id:String} ASYNC"
        try:
            async with (
                asyncio.timeout(KILL_SECONDS),
                self._client(account) as client,
                _posted(client, self._store.http_url, sql, {"param_id": query_id}) as answer,
            ):
                await answer.aread()
        except (SqlError, TimeoutError, httpx.HTTPError) as error:
            log.warning("sql: a statement that nobody waits for may go on until its deadline: %s", error)


async def _answer(client: httpx.AsyncClient, url: str, sql: str, asked: Mapping[str, str]) -> bytes:
    try:
        async with asyncio.timeout(OWN_SECONDS), _posted(client, url, sql, asked) as answer:
            return await answer.aread()
    except TimeoutError as error:
        log.error("sql: the ClickHouse server had not answered in full after %g s", OWN_SECONDS)
        raise SqlError(ENDED, "the ClickHouse server does not answer, or broke off; the log says why") from error


@contextlib.asynccontextmanager
async def _posted(
    client: httpx.AsyncClient, url: str, sql: str, asked: Mapping[str, str]
) -> AsyncIterator[httpx.Response]:
    try:
        async with client.stream("POST", url, params=dict(asked), content=sql.encode()) as answer:
            if answer.status_code != 200 or "x-clickhouse-exception-code" in answer.headers:
                raise _refused(answer, await answer.aread())
            yield answer
    except httpx.HTTPError as error:
        log.error("sql: the ClickHouse server does not answer: %s", reason(error))
        raise SqlError(ENDED, "the ClickHouse server does not answer, or broke off; the log says why") from error


def _refused(answer: httpx.Response, body: bytes) -> SqlError:
    text = body.decode("utf-8", "replace").strip()
    code = answer.headers.get("x-clickhouse-exception-code", "")
    if code == str(AUTHENTICATION_FAILED) or answer.status_code == 401:
        log.error("sql: the ClickHouse server refuses the account for SQL: %s", text[:500])
        return SqlError(ENDED, "the ClickHouse server refuses the account for SQL; the log says why")
    error = of_engine(text or f"status {answer.status_code}")
    if code.isdigit():
        error.code = int(code)
    return error


class _Reading:
    """An answer on its way. over: the server does nothing for it any more."""

    def __init__(self, deadline: float) -> None:
        self._deadline, self.over = deadline, False

    async def in_time(self, what: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._deadline - time.monotonic()):
                return await what
        except TimeoutError as error:
            raise SqlError(TIMED_OUT, "the statement took longer than it may") from error

    async def pieces(self, answer: httpx.Response) -> AsyncIterator[bytes]:
        """As they come, but for the last, which are looked at first. Errors: SqlError if the answer is not whole."""
        came, held = answer.aiter_bytes(), b""
        try:
            while piece := await self.in_time(anext(came, b"")):
                held += piece
                if len(held) > TAIL_BYTES:
                    yield held[:-TAIL_BYTES]
                    held = held[-TAIL_BYTES:]
        except httpx.HTTPError as error:
            log.warning("sql: an answer of the ClickHouse server broke off: %s", error)
            self.over = True
            late = late_error(held, answer.headers.get("x-clickhouse-exception-tag", ""))
            raise late or SqlError(ENDED, "the ClickHouse server's answer broke off") from error
        self.over = True
        if late := late_error(held, answer.headers.get("x-clickhouse-exception-tag", "")):
            raise late
        if held:
            yield held


def late_error(tail: bytes, tag: str) -> SqlError | None:
    """What went wrong after the first row. tag: by which a newer server marks it; older ones write it as it is."""
    if tag:
        marked = re.search(rb"__exception__\r?\n" + re.escape(tag.encode()) + rb"\r?\n(.*)", tail, re.S)
    else:
        marked = re.search(rb"(Code: \d+\. DB::Exception: .*\(version [^()\n]*(?:\([^()\n]*\))?\)\s*)\Z", tail, re.S)
    return of_engine(marked[1].decode("utf-8", "replace")) if marked else None
