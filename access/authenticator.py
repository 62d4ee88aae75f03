"""Authenticates a request by its token or session."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime

from access.attempts import Attempts
from access.oidc import Provider
from access.people import Kind, Person
from access.principal import ANYBODY, Principal
from access.roles import AccessError
from access.sessions import Sessions, Signer
from access.settings import AccessSettings
from access.store import AccessStore
from access.tokens import token_of
from warehouse.lanes import Lane

CALLBACK = "/sign-in/oidc/callback"
PASSWORDS_AT_ONCE = 2
"""Each takes 32 MiB and some 150 ms of a processor."""
PASSWORDS_WAITING = 30
PASSWORDS_PER_ADDRESS = 8
PROVIDER_AT_ONCE = 8
"""Questions to the provider, which may take ten seconds each."""
PROVIDER_WAITING = 24
PROVIDER_PER_ADDRESS = 4


class Authenticator:
    """Looks up tokens, sessions and people in the access store for each request, on worker threads, so that revoked
    rights take effect at once."""

    def __init__(self, access: AccessStore, settings: AccessSettings) -> None:
        self.settings, self.access = settings, access
        self.signer = Signer(settings.key or access.key("notes", datetime.now(UTC)))
        self.sessions = Sessions(access, settings.session)
        self.attempts = Attempts()
        self.passwords = Lane("password", PASSWORDS_AT_ONCE, PASSWORDS_WAITING, PASSWORDS_PER_ADDRESS)
        self.asking = Lane("provider", PROVIDER_AT_ONCE, PROVIDER_WAITING, PROVIDER_PER_ADDRESS)
        self.provider = (
            Provider(settings.oidc, settings.client_secret, settings.url + CALLBACK) if settings.oidc else None
        )

    def by_token(self, headers: Mapping[str, str], now: datetime) -> Principal | None:
        """By `Authorization: Bearer`, by Basic with the token as password, or as ClickHouse's clients send it.

        None: the request has no token.   Errors: AccessError for an invalid one.
        """
        text = token_in(headers)
        if not text:
            return None
        token = token_of(self.access, text, now)
        if token is None:
            what = "unknown, expired or revoked, or its owner is disabled"
            raise AccessError("token", what, "Make one with: gpuledger tokens create")
        if token.owner.kind is Kind.sso and not self._was_seen(token.owner, now):
            what = f"its owner has not signed in for {self.settings.owner_seen.days} days"
            raise AccessError("token", what, "It works again when they have")
        found = token.principal() if self._admits(token.owner) else None
        if found is None:
            raise AccessError("token", "its owner may no longer do what it is for", "Ask an admin")
        return found

    def by_session(self, cookie: str, now: datetime) -> Principal | None:
        person = self.sessions.known(cookie, now) if cookie else None
        return None if person is None or not self._admits(person) else person.principal()

    def without_sign_in(self) -> Principal | None:
        """The principal of a request without token and session; None where sign-in is required."""
        return None if self.settings.sign_in else ANYBODY

    def _admits(self, person: Person) -> bool:
        """Whether the server's settings let people of that kind in."""
        if person.kind is Kind.sso:
            return self.settings.oidc is not None and person.issuer == self.settings.oidc.issuer
        return person.kind is Kind.service or self.settings.local_users

    def _was_seen(self, person: Person, now: datetime) -> bool:
        return person.seen_at is not None and now - person.seen_at <= self.settings.owner_seen


def token_in(headers: Mapping[str, str]) -> str:
    """The token in a request; empty: none."""
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


def is_basic(headers: Mapping[str, str]) -> bool:
    """Whether it is authorized by Basic, which a browser remembers, and sends with requests of other sites' pages."""
    return headers.get("authorization", "").partition(" ")[0].lower() == "basic"
