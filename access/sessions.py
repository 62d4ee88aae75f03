"""Sessions, each a row of the access store that a cookie names; and signed notes in cookies, which anybody can read but
only we can write.

A session only says who signed in: their rights are read again with each request.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, bindparam, select

from access import store as access_store
from access.people import (
    Person,
    checked_password,
    end_sessions,
    has_password,
    person_at,
    person_of,
    record_sign_in,
    update_from_provider,
)
from access.roles import AccessError, Role
from access.secrets import digest
from access.store import AccessStore

LONGEST_NOTE = 3800
"""Browsers keep 4,096 bytes of a cookie, with its name and attributes."""
_sessions, _people = access_store.sessions, access_store.people
_KNOWN = (
    select(_people)
    .join(_sessions, (_people.c.issuer == _sessions.c.issuer) & (_people.c.subject == _sessions.c.subject))
    .where(
        _sessions.c.digest == bindparam("cookie"),
        _sessions.c.expires_at > bindparam("now"),
        ~_people.c.disabled,
    )
)


class Signer:
    """Signs and verifies notes. Each has an expiry and a purpose, and is not valid for any other purpose."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def seal(self, purpose: str, note: Mapping[str, Any], until: datetime) -> str:
        content = json.dumps({**note, "until": until.timestamp()}, separators=(",", ":"), ensure_ascii=False).encode()
        return f"{_encoded(content)}.{_encoded(self._mark(purpose, content))}"

    def open(self, purpose: str, sealed: str, now: datetime) -> dict[str, Any] | None:
        """The note; None if we did not seal it for this purpose, or it has expired."""
        content, _, mark = sealed.partition(".")
        if len(sealed) > LONGEST_NOTE:
            return None
        try:
            sealed_text, given = _decoded(content), _decoded(mark)
        except ValueError:
            return None
        if not hmac.compare_digest(self._mark(purpose, sealed_text), given):
            return None
        note: dict[str, Any] = json.loads(sealed_text)
        return note if now.timestamp() < note["until"] else None

    def _mark(self, purpose: str, content: bytes) -> bytes:
        return hmac.digest(self._key, purpose.encode() + b"\0" + content, "sha256")


class Sessions:
    """Begins, finds and ends sessions. A session's cookie has 256 random bits."""

    def __init__(self, access: AccessStore, lasts: timedelta) -> None:
        self._access, self._lasts = access, lasts

    def by_password(self, name: str, password: str, now: datetime, address: str) -> tuple[Person, str] | None:
        """A local user and the cookie of their new session; None if the password is not theirs.   address: of their
        browser, for the audit."""
        found = checked_password(self._access, name, password)
        if found is None:
            return None
        person, hashed = found
        with self._access.writing() as connection:
            # Hashing takes a while: meanwhile the password may have changed, or the user been disabled.
            if not has_password(connection, person, hashed):
                return None
            record_sign_in(connection, person, now)
            self._note(connection, person, now, "access.sign_in", {"address": address, "how": "password"})
            return person, self._begin(connection, person, now)

    def by_provider(
        self,
        issuer: str,
        subject: str,
        name: str,
        roles: frozenset[Role],
        tenants: frozenset[str],
        now: datetime,
        address: str,
    ) -> tuple[Person, str]:
        """Somebody of single sign-on, as the provider described them, and the cookie of their new session.

        Errors: AccessError if they are disabled or have no rights here. Their rights are updated in any case, for the
        tokens and sessions that they have already.
        """
        may = {"roles": sorted(roles), "tenants": sorted(tenants)}
        enough = roles - {Role.tenant} or (roles and tenants)
        lacks = "" if enough else "the role tenant and no tenant" if roles else "no role"
        with self._access.writing() as connection:
            if lacks and person_at(connection, (issuer, subject)) is None:
                raise AccessError(name, f"has {lacks} here", "Ask an admin: the sign-in settings map groups")
            person = update_from_provider(connection, issuer, subject, name, roles, tenants, now)
            if lacks:
                end_sessions(connection, person.id)
                self._note(connection, person, now, "access.lost", may)
            cookie = "" if person.disabled or lacks else self._begin(connection, person, now)
            if cookie:
                self._note(connection, person, now, "access.sign_in", {"address": address, "how": "oidc", **may})
        if lacks:
            raise AccessError(person.label, f"has {lacks} here", "Ask an admin: the sign-in settings map groups")
        if not cookie:
            raise AccessError(person.label, "is disabled here", "Ask an admin")
        return person, cookie

    def known(self, cookie: str, now: datetime) -> Person | None:
        """The session's person with their current rights; None if it expired or was ended, or they are disabled."""
        with self._access.reading() as connection:
            row = connection.execute(_KNOWN, {"cookie": digest(cookie), "now": now}).mappings().first()
        return None if row is None else person_of(row)

    def end(self, cookie: str, now: datetime) -> None:
        """Ends a session; if there is none, does nothing."""
        with self._access.writing() as connection:
            row = connection.execute(_KNOWN, {"cookie": digest(cookie), "now": now}).mappings().first()
            connection.execute(_sessions.delete().where(_sessions.c.digest == digest(cookie)))
            if row is not None:
                self._note(connection, person_of(row), now, "access.sign_out", {})

    def _note(
        self, connection: Connection, person: Person, now: datetime, action: str, inputs: Mapping[str, Any]
    ) -> None:
        self._access.note(connection, now, person.label, action, person.label, "", inputs)

    def _begin(self, connection: Connection, person: Person, now: datetime) -> str:
        connection.execute(_sessions.delete().where(_sessions.c.expires_at <= now))
        cookie = secrets.token_urlsafe(32)
        row = {"digest": digest(cookie), "issuer": person.issuer, "subject": person.subject}
        connection.execute(_sessions.insert().values(**row, began_at=now, expires_at=now + self._lasts))
        return cookie


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
