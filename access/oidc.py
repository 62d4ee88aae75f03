"""Sign-in with OpenID Connect: the code flow with PKCE, state and nonce.

    browser ─▶ /sign-in/oidc ─▶ provider ─▶ /sign-in/oidc/callback?code ─▶ (code for ID token) ─▶ session

Signatures and claims are checked with joserfc. Only asymmetric algorithms are accepted, so that a public key cannot be
passed off as a shared secret.
Source: https://openid.net/specs/openid-connect-core-1_0.html sections 3.1 and 3.1.3.7; RFC 7636 (PKCE), RFC 9207 (iss).
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

import httpx
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from access.roles import AccessError, Role
from access.settings import Oidc
from ingest.prompt_client import ask
from warehouse.connection_errors import reason

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519")
LEEWAY_SECONDS = 60
CACHED_SECONDS = 3600.0
"""How long the provider's document and keys are cached."""
NEW_KEYS_SECONDS = 60.0
"""A token with an unknown key makes us read the keys again, but not more often than this."""
TIMEOUT_SECONDS = 10.0
LONGEST_SUBJECT = 255


class OidcError(AccessError):
    """The provider cannot be reached, or its answer cannot be accepted."""


@dataclass(frozen=True)
class Identity:
    """Who signed in, as the provider says. subject: the provider's permanent id.   name: for display.   roles: none if
    no group of theirs is mapped to one."""

    issuer: str
    subject: str
    name: str
    roles: frozenset[Role]
    tenants: frozenset[str]


class Provider:
    """Talks to an OpenID provider; blocking, for worker threads."""

    def __init__(self, settings: Oidc, client_secret: str, redirect_url: str) -> None:
        self._settings, self._secret, self._redirect = settings, client_secret, redirect_url
        self._lock = threading.Lock()
        self._document: Mapping[str, Any] = {}
        self._keys = KeySet([])
        self._read_at = self._keys_at = -CACHED_SECONDS

    def begin(self) -> tuple[str, dict[str, str]]:
        """The provider's address to send the browser to, and the note that must come back with it."""
        note = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(note["verifier"].encode()).digest()).decode().rstrip("=")
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect,
            "scope": " ".join(self._settings.scopes),
            "state": note["state"],
            "nonce": note["nonce"],
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = self._endpoint("authorization_endpoint")
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", note

    def finish(self, query: Mapping[str, str], note: Mapping[str, str], now: datetime) -> Identity:
        """Who signed in. Errors: OidcError, in one line, if anything is wrong with the provider's answer."""
        if "error" in query:
            raise self._error(f"says {query['error'][:100]} {query.get('error_description', '')[:300]}".strip())
        if not secrets.compare_digest(query.get("state", "").encode(), note.get("state", "").encode()):
            raise self._error("sent back another state than it was given")
        if query.get("iss", self._settings.issuer).rstrip("/") != self._settings.issuer:
            raise self._error("is not who answers (iss)")
        if not query.get("code"):
            raise self._error("sent back no code")
        claims = self._claims(self._id_token(query["code"], note["verifier"]), note["nonce"], now)
        return self._identity(claims)

    def _id_token(self, code: str, verifier: str) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect,
            "client_id": self._settings.client_id,
            "code_verifier": verifier,
        }
        auth = httpx.BasicAuth(self._settings.client_id, self._secret) if self._secret else None
        answer = self._asked("POST", self._endpoint("token_endpoint"), data=form, auth=auth)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise self._error("gave no ID token; is openid among the scopes?")
        return token

    def _claims(self, token: str, nonce: str, now: datetime) -> Mapping[str, Any]:
        decode = partial(jwt.decode, token, algorithms=list(ALGORITHMS))
        try:
            try:
                found = decode(self._key_set())
            except (JoseError, ValueError):
                # The provider may have changed its keys since we read them.
                found = decode(self._key_set(newer=True))
            registry = jwt.JWTClaimsRegistry(
                now=int(now.timestamp()),
                leeway=LEEWAY_SECONDS,
                iss={"essential": True},
                aud={"essential": True, "value": self._settings.client_id},
                sub={"essential": True},
                exp={"essential": True},
                iat={"essential": True},
                nonce={"essential": True, "value": nonce},
            )
            registry.validate(found.claims)
        except (JoseError, ValueError) as error:
            raise self._error(f"gave an unusable ID token ({type(error).__name__}: {error})"[:300]) from error
        claims: dict[str, Any] = found.claims
        audience = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
        if str(claims["iss"]).rstrip("/") != self._settings.issuer:
            raise self._error(f"gave an ID token of {str(claims['iss'])[:200]}")
        if claims.get("azp", self._settings.client_id) != self._settings.client_id or (
            len(audience) > 1 and "azp" not in claims
        ):
            raise self._error("gave an ID token that is for another client")
        return claims

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable():
            raise self._error("tells no sub that names anybody")
        name = claims.get(self._settings.name_claim)
        if not isinstance(name, str) or not name.isprintable() or not name.strip():
            raise self._error(f"tells no {self._settings.name_claim} (name_claim)")
        if self._settings.name_claim == "email" and claims.get("email_verified") is False:
            raise self._error(f"has not verified {name[:200]}")
        named = claims.get(self._settings.groups_claim, [])
        groups = [group for group in (named if isinstance(named, list) else [named]) if isinstance(group, str)]
        roles, tenants = self._settings.roles_of(groups), self._settings.tenants_of(groups)
        return Identity(self._settings.issuer, subject, name[:200], roles, tenants)

    def _endpoint(self, name: str) -> str:
        document = self._discovered()
        endpoint = document.get(name)
        if not isinstance(endpoint, str):
            raise self._error(f"names no {name}")
        return endpoint

    def _discovered(self) -> Mapping[str, Any]:
        with self._lock:
            if time.monotonic() - self._read_at >= CACHED_SECONDS:
                document = self._asked("GET", f"{self._settings.issuer}/.well-known/openid-configuration")
                if str(document.get("issuer", "")).rstrip("/") != self._settings.issuer:
                    raise self._error(f"calls itself {str(document.get('issuer'))[:200]}")
                self._document, self._read_at = document, time.monotonic()
            return self._document

    def _key_set(self, newer: bool = False) -> KeySet:
        endpoint = self._endpoint("jwks_uri")
        with self._lock:
            age = time.monotonic() - self._keys_at
            if age >= CACHED_SECONDS or (newer and age >= NEW_KEYS_SECONDS):
                document = self._asked("GET", endpoint)
                usable = [key for key in document.get("keys", ()) if key.get("kty") != "oct"]
                self._keys, self._keys_at = KeySet.import_key_set({"keys": usable}), time.monotonic()
            return self._keys

    def _asked(self, method: str, url: str, **more: Any) -> dict[str, Any]:
        try:
            answer = ask(method, url, TIMEOUT_SECONDS, **more)
            document = answer.json()
        except (httpx.HTTPError, ValueError, RecursionError) as error:
            raise self._error(f"cannot be asked at {url} ({reason(error)})"[:400]) from error
        if answer.status_code != 200 or not isinstance(document, dict):
            why = document.get("error_description") or document.get("error") if isinstance(document, dict) else ""
            raise self._error(f"answers {answer.status_code} {why or ''} at {url}"[:400])
        return document

    def _error(self, what: str) -> OidcError:
        return OidcError(f"provider {self._settings.issuer}", what, "Sign in again; if it stays, ask an admin")
