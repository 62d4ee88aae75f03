"""Sessions and other short notes to ourselves, as signed text in cookies: all can read one, nobody can make one.

The key lives in memory, or comes from the settings where several servers share it; a restart with another key ends all
sessions. Signing out is remembered until the session would have ended by itself.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

LONGEST_COOKIE = 3800
"""Browsers keep 4,096 bytes of a cookie, with its name and attributes."""


class Signer:
    """Seals notes and opens them. Each has a purpose, so that none passes for another, and an end."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)

    def seal(self, purpose: str, note: Mapping[str, Any], until: datetime) -> str:
        content = json.dumps({**note, "until": until.timestamp()}, separators=(",", ":"), ensure_ascii=False).encode()
        return f"{_text(content)}.{_text(self._mark(purpose, content))}"

    def open(self, purpose: str, sealed: str, now: datetime) -> dict[str, Any] | None:
        """None for what we did not seal for this purpose, or what is over."""
        content, dot, mark = sealed.partition(".")
        if not dot or len(sealed) > LONGEST_COOKIE:
            return None
        try:
            told, given = _bytes(content), _bytes(mark)
        except ValueError:
            return None
        if not hmac.compare_digest(self._mark(purpose, told), given):
            return None
        note: dict[str, Any] = json.loads(told)
        return note if now.timestamp() < note["until"] else None

    def _mark(self, purpose: str, content: bytes) -> bytes:
        return hmac.digest(self._key, purpose.encode() + b"\0" + content, "sha256")


@dataclass(frozen=True)
class Session:
    """Who signed in, and how: `local` users are looked up again at each request; of `oidc` the roles and tenants stand
    here, as the provider told them at sign-in."""

    id: str
    name: str
    kind: str
    roles: tuple[str, ...]
    tenants: tuple[str, ...]
    since: datetime


class Sessions:
    """Begins sessions, knows them again and ends them."""

    def __init__(self, signer: Signer, lasts: timedelta) -> None:
        self._signer, self._lasts = signer, lasts
        self._lock = threading.Lock()
        self._ended: dict[str, datetime] = {}

    def begin(
        self, name: str, kind: str, now: datetime, roles: tuple[str, ...] = (), tenants: tuple[str, ...] = ()
    ) -> str:
        """A session's cookie. Errors: ValueError if it is too long to be kept."""
        note = {"id": secrets.token_hex(8), "n": name, "k": kind, "r": roles, "t": tenants, "s": now.timestamp()}
        sealed = self._signer.seal("session", note, now + self._lasts)
        if len(sealed) > LONGEST_COOKIE:
            raise ValueError(f"a session of {len(sealed)} bytes; browsers keep {LONGEST_COOKIE}")
        return sealed

    def known(self, cookie: str, now: datetime) -> Session | None:
        note = self._signer.open("session", cookie, now)
        if note is None or note["id"] in self._ended:
            return None
        since = datetime.fromtimestamp(note["s"], UTC)
        return Session(note["id"], note["n"], note["k"], tuple(note["r"]), tuple(note["t"]), since)

    def end(self, session: Session, now: datetime) -> None:
        with self._lock:
            for one in [one for one, until in self._ended.items() if until < now]:
                del self._ended[one]
            self._ended[session.id] = now + self._lasts


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
