"""Whose a request is, by its token or its session."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Mapping
from datetime import datetime

from dashboards.access.attempts import Attempts
from dashboards.access.oidc import Provider
from dashboards.access.principal import ANYBODY, Principal
from dashboards.access.roles import AccessError, roles_of
from dashboards.access.secrets import PREFIX
from dashboards.access.sessions import Session, Sessions, Signer
from dashboards.access.settings import AccessSettings
from dashboards.access.tokens import Tokens
from dashboards.access.users import User, user_named
from warehouse.store import Store

FRESH_SECONDS = 5.0
"""How old a local user's roles may be; one that is disabled gets no further than that."""
USERS_KEPT = 1000
CALLBACK = "/sign-in/oidc/callback"


class Doorkeeper:
    """Knows tokens, sessions and users of a store. Asks the store, so it is asked on worker threads.

    settings.sign_in False: whoever brings no token is ANYBODY; one that is brought must be right all the same.
    """

    def __init__(self, store: Store, settings: AccessSettings) -> None:
        self.settings = settings
        self.store = store
        self.signer = Signer(settings.key)
        self.sessions = Sessions(self.signer, settings.session)
        self.tokens = Tokens(store)
        self.attempts = Attempts()
        self.provider = (
            Provider(settings.oidc, settings.client_secret, settings.url + CALLBACK) if settings.oidc else None
        )
        self._users: dict[str, tuple[float, User | None]] = {}

    def by_token(self, headers: Mapping[str, str], now: datetime) -> Principal | None:
        """By `Authorization: Bearer`, by Basic with the token as password, or as ClickHouse's clients send it.

        None: no token was brought.   Errors: AccessError for a wrong one.
        """
        token = brought(headers)
        if not token:
            return None
        found = self.tokens.of(token, now) if token.startswith(f"{PREFIX}_") else None
        if found is None:
            raise AccessError("token", "unknown, expired or revoked", "Make one with: gpuledger tokens create")
        return found

    def by_session(self, cookie: str, now: datetime) -> Principal | None:
        session = self.sessions.known(cookie, now) if cookie else None
        return None if session is None else self._whose(session)

    def nobody_in_particular(self) -> Principal | None:
        return None if self.settings.sign_in else ANYBODY

    def _whose(self, session: Session) -> Principal | None:
        if session.kind == "oidc":
            return Principal(session.name, roles_of(session.roles), frozenset(session.tenants))
        read_at, user = self._users.get(session.name, (-FRESH_SECONDS, None))
        if time.monotonic() - read_at >= FRESH_SECONDS:
            user = user_named(self.store, session.name)
            if len(self._users) >= USERS_KEPT:
                self._users.clear()
            self._users[session.name] = (time.monotonic(), user)
        # A new password or other roles end the sessions of before.
        return user.principal() if user is not None and user.changed_at <= session.since else None


def brought(headers: Mapping[str, str]) -> str:
    """The token that a request brings; empty: none."""
    scheme, _, text = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return text.strip()
    if scheme.lower() == "basic":
        try:
            user, _, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return "?"
        return password or ("" if user == "default" else user)
    return headers.get("x-clickhouse-key", "")
