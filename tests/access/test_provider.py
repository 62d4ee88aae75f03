"""The provider without a network: what it is asked and how often, and what is taken of its words."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey

from access import oidc
from access.oidc import Identity, OidcError, Provider
from access.roles import Role
from access.settings import Oidc

ISSUER, HOME, CLIENT = "https://login.example.org/realm", "https://ledger.test/back", "gpuledger"
NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
AT = int(NOW.timestamp())
OLD, NEW = (ECKey.generate_key("P-256", {"kid": kid}) for kid in ("old", "new"))
DISCOVERY, KEYS, TOKEN = f"{ISSUER}/.well-known/openid-configuration", f"{ISSUER}/keys", f"{ISSUER}/token"
CLAIMS: dict[str, Any] = {
    "iss": ISSUER, "aud": CLIENT, "sub": "1", "iat": AT, "exp": AT + 60, "nonce": "n", "email": "eve@site.org",
    "groups": ["ops"],
}  # fmt: skip


@dataclass
class Fake:
    """answers: by address, what comes back: a document, a status with one, or an error.
    asked: method, address, rest."""

    answers: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    clock: float = 5.0
    seconds: set[float] = field(default_factory=set)

    def ask(self, method: str, url: str, seconds: float, **more: Any) -> httpx.Response:
        self.asked.append((method, url, more))
        self.seconds.add(seconds)
        found = self.answers[url]
        if isinstance(found, Exception):
            raise found
        status, document = found if isinstance(found, tuple) else (200, found)
        return httpx.Response(
            status, content=document if isinstance(document, bytes) else json.dumps(document).encode()
        )

    def count(self, url: str) -> int:
        return [one for _, one, _ in self.asked].count(url)

    def signs(self, key: ECKey = OLD, **claims: Any) -> None:
        payload = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
        header = {"alg": "ES256", "kid": key.kid}
        self.answers[TOKEN] = {"id_token": jwt.encode(header, payload, key, algorithms=["ES256"])}


@pytest.fixture
def idp(monkeypatch: pytest.MonkeyPatch) -> Fake:
    found = Fake()
    found.answers = {
        DISCOVERY: {"issuer": f"{ISSUER}/", "authorization_endpoint": f"{ISSUER}/go", "token_endpoint": TOKEN,
                    "jwks_uri": KEYS},
        KEYS: {"keys": [OLD.as_dict(private=False)]},
    }  # fmt: skip
    found.signs()
    monkeypatch.setattr(oidc, "ask", found.ask)
    monkeypatch.setattr("access.oidc.time.monotonic", lambda: found.clock)
    return found


def provider(secret: str = "s", **more: Any) -> Provider:
    options = {"issuer": ISSUER, "client_id": CLIENT, "roles": {"ops": Role.operator, "ten": Role.tenant},
            "tenant_prefix": "t-", **more}  # fmt: skip
    return Provider(Oidc(**options), secret, HOME)


def comes_back(of: Provider, note: dict[str, str] | None = None, **query: str) -> Identity:
    note = {"state": "s", "nonce": "n", "verifier": "v"} if note is None else note
    return of.finish({"state": "s", "code": "c", **query}, note, NOW)


def test_a_browser_goes_with_what_only_we_can_answer_for(idp: Fake) -> None:
    of = provider(scopes=("openid", "groups"))
    (address, note), (_, other) = of.begin(), of.begin()
    assert not set(note.values()) & set(other.values()), "each sign-in has its own"
    assert all(len(value) == 43 for value in note.values())
    challenge = base64.urlsafe_b64encode(hashlib.sha256(note["verifier"].encode()).digest()).decode().rstrip("=")
    assert address.startswith(f"{ISSUER}/go?response_type=code&")
    assert {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()} == {
        "response_type": "code", "client_id": CLIENT, "redirect_uri": HOME, "scope": "openid groups",
        "state": note["state"], "nonce": note["nonce"], "code_challenge": challenge, "code_challenge_method": "S256",
    }  # fmt: skip
    idp.answers[DISCOVERY]["authorization_endpoint"] = f"{ISSUER}/go?a=1"
    assert provider().begin()[0].startswith(f"{ISSUER}/go?a=1&response_type=code&")


def test_who_comes_back_is_who_the_token_says(idp: Fake) -> None:
    idp.signs(groups=["ops", "ten", "t-vision", "t-", "other", 7])
    found = comes_back(provider())
    assert found == Identity(
        ISSUER, "1", "eve@site.org", frozenset({Role.operator, Role.tenant}), frozenset({"vision"})
    )
    form = {
        "grant_type": "authorization_code",
        "code": "c",
        "redirect_uri": HOME,
        "client_id": CLIENT,
        "code_verifier": "v",
    }
    method, _, more = next(one for one in idp.asked if one[1] == TOKEN)
    assert (method, more["data"]) == ("POST", form)
    assert isinstance(more["auth"], httpx.BasicAuth)
    assert idp.seconds == {10.0}
    comes_back(provider(secret=""))
    assert [one[2]["auth"] for one in idp.asked if one[1] == TOKEN][1] is None, "a public client"


@pytest.mark.parametrize(
    ("groups", "roles", "tenants"),
    [("ops", {Role.operator}, set()), ("t-a", set(), {"a"}), (None, set(), set()), ([], set(), set()),
     (["ten", "t-a", "t-b", "both"], {Role.tenant}, {"a", "b", "c", "d"}), ({"ops": 1}, set(), set()),
     (7, set(), set())],
)  # fmt: skip
def test_groups_mean_roles_and_tenants(idp: Fake, groups: Any, roles: set[Role], tenants: set[str]) -> None:
    idp.signs(groups=groups)
    found = comes_back(provider(tenants={"both": ("c", "d", "")}))
    assert (found.roles, found.tenants) == (roles, tenants)


def test_without_a_prefix_no_group_is_a_tenant(idp: Fake) -> None:
    idp.signs(groups=["t-a", "a", ""])
    assert comes_back(provider(tenant_prefix="")).tenants == frozenset()
    idp.signs(teams=["ops"], groups=["ten"], login="e v e")
    found = comes_back(provider(groups_claim="teams", name_claim="login"))
    assert (found.roles, found.name) == ({Role.operator}, "e v e")


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "almost a minute over": ({"exp": AT - 59}, ""),
    "a minute over": ({"exp": AT - 60}, "unusable ID token .*expired"),
    "a minute early": ({"iat": AT + 60}, ""),
    "more than a minute early": ({"iat": AT + 61}, "unusable ID token"),
    "not before a minute later": ({"nbf": AT + 60}, ""),
    "not before more than that": ({"nbf": AT + 61}, "unusable ID token"),
    "another issuer": ({"iss": "https://evil.example"}, "gave an ID token of https://evil.example"),
    "an issuer with a slash": ({"iss": f"{ISSUER}/"}, ""),
    "a list of one": ({"aud": [CLIENT]}, ""),
    "two and the party": ({"aud": [CLIENT, "other"], "azp": CLIENT}, ""),
    "two and no party": ({"aud": [CLIENT, "other"]}, "for another client"),
    "one and another party": ({"azp": "other"}, "for another client"),
    "two and another party": ({"aud": [CLIENT, "other"], "azp": "other"}, "for another client"),
    "another client": ({"aud": "other"}, "unusable ID token .*aud"),
    "another nonce": ({"nonce": "m"}, "unusable ID token .*nonce"),
    "a subject of 255": ({"sub": "x" * 255}, ""),
    "a subject of 256": ({"sub": "x" * 256}, "tells no sub that names anybody"),
    "a subject with a line end": ({"sub": "a\nb"}, "tells no sub"),
    "no name": ({"email": None}, r"tells no email \(name_claim\)"),
    "a name of spaces": ({"email": " "}, "tells no email"),
    "a name with a line end": ({"email": "a\nb"}, "tells no email"),
    "a name that is no text": ({"email": ["a"]}, "tells no email"),
    "an address that is verified": ({"email_verified": True}, ""),
    "an address that is not": ({"email_verified": False}, "has not verified eve@site.org"),
    **{
        f"no {name}": ({name: None}, f"unusable ID token .*'{name}'")
        for name in ("iss", "aud", "sub", "exp", "iat", "nonce")
    },
}  # fmt: skip


@pytest.mark.parametrize("what", CASES)
def test_a_token_is_taken_if_each_of_its_claims_fits(idp: Fake, what: str) -> None:
    claims, says = CASES[what]
    idp.signs(**claims)
    if says:
        with pytest.raises(OidcError, match=says) as error:
            comes_back(provider())
        assert error.value.where == f"provider {ISSUER}"
    else:
        assert comes_back(provider()).issuer == ISSUER


def test_an_address_need_not_be_verified_where_it_is_not_the_name(idp: Fake) -> None:
    idp.signs(email_verified=False, login="eve")
    assert comes_back(provider(name_claim="login")).name == "eve"


@pytest.mark.parametrize(
    ("query", "note", "says"),
    [
        ({"state": "x"}, None, "sent back another state"),
        ({"state": ""}, None, "sent back another state"),
        ({}, {"nonce": "n", "verifier": "v"}, "sent back another state"),
        ({"state": "ü"}, None, "sent back another state"),
        ({"iss": "https://evil.example"}, None, r"is not who answers \(iss\)"),
        ({"code": ""}, None, "sent back no code"),
        ({"error": "access_denied"}, None, "says access_denied"),
        ({"error": "no", "error_description": "because", "state": "x"}, None, "says no because"),
    ],
)
def test_what_comes_back_in_the_address_has_to_fit(
    idp: Fake, query: dict[str, str], note: dict[str, str] | None, says: str
) -> None:
    with pytest.raises(OidcError, match=says) as error:
        comes_back(provider(), note, **query)
    assert idp.asked == []
    assert "\n" not in str(error.value) and "  " not in str(error.value)
    assert comes_back(provider(), iss=ISSUER) == comes_back(provider(), iss=f"{ISSUER}/")


def test_the_document_and_the_keys_are_kept_for_an_hour(idp: Fake) -> None:
    of = provider()
    for at, times in ((5.0, 1), (5.0 + 3599.9, 1), (5.0 + 3600, 2), (5.0 + 7199.9, 2), (5.0 + 7200, 3)):
        idp.clock = at
        comes_back(of)
        assert (idp.count(DISCOVERY), idp.count(KEYS)) == (times, times), at


def test_an_unknown_key_is_asked_for_at_once_and_at_most_each_minute(idp: Fake) -> None:
    of = provider()
    comes_back(of)
    idp.signs(NEW)
    for at, times in ((64.9, 1), (65.0, 2), (124.9, 2), (125.0, 3)):
        idp.clock = at
        with pytest.raises(OidcError, match="unusable ID token"):
            comes_back(of)
        assert idp.count(KEYS) == times, at
    idp.answers[KEYS] = {"keys": [OLD.as_dict(private=False), NEW.as_dict(private=False)]}
    idp.clock = 185.0
    assert comes_back(of).subject == "1"
    idp.signs(OLD)
    assert comes_back(of).subject == "1"
    assert (idp.count(KEYS), idp.count(DISCOVERY)) == (4, 1)


def test_no_shared_secret_is_a_key_of_the_providers(idp: Fake) -> None:
    """Else whoever knows a public document could sign."""
    secret = OctKey.generate_key(256, {"kid": "old"})
    idp.answers[KEYS] = {"keys": [secret.as_dict(private=True), OLD.as_dict(private=False)]}
    assert comes_back(provider()).subject == "1"
    idp.answers[TOKEN] = {"id_token": jwt.encode({"alg": "HS256", "kid": "old"}, CLAIMS, secret, algorithms=["HS256"])}
    with pytest.raises(OidcError, match="unusable ID token"):
        comes_back(provider())


@pytest.mark.parametrize(
    ("algorithms", "key"),
    [
        (("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), lambda: RSAKey.generate_key(2048, {"kid": "k"})),
        (("ES256",), lambda: ECKey.generate_key("P-256", {"kid": "k"})),
        (("ES384",), lambda: ECKey.generate_key("P-384", {"kid": "k"})),
        (("ES512",), lambda: ECKey.generate_key("P-521", {"kid": "k"})),
        (("Ed25519",), lambda: OKPKey.generate_key("Ed25519", {"kid": "k"})),
    ],
)
def test_a_token_may_be_signed_with_any_of_these(idp: Fake, algorithms: tuple[str, ...], key: Any) -> None:
    made = key()
    idp.answers[KEYS] = {"keys": [made.as_dict(private=False)]}
    for name in algorithms:
        token = jwt.encode({"alg": name, "kid": "k"}, CLAIMS, made, algorithms=[name])
        idp.answers[TOKEN] = {"id_token": token}
        assert comes_back(provider()).subject == "1", name


LONG = "x" * 900


@pytest.mark.parametrize(
    ("url", "answer", "says"),
    [
        (DISCOVERY, {"issuer": "https://evil.example"}, "calls itself https://evil.example"),
        (DISCOVERY, {}, "calls itself None"),
        (DISCOVERY, {"issuer": LONG}, "calls itself x{200}[.]"),
        (DISCOVERY, {"issuer": ISSUER}, "names no token_endpoint"),
        (DISCOVERY, {"issuer": ISSUER, "token_endpoint": 7}, "names no token_endpoint"),
        (DISCOVERY, {"issuer": ISSUER, "token_endpoint": TOKEN}, "names no jwks_uri"),
        (DISCOVERY, b"<html>", f"cannot be asked at {DISCOVERY}"),
        (DISCOVERY, b"[" * 100_000, f"cannot be asked at {DISCOVERY}"),
        (DISCOVERY, [1], f"answers 200 at {DISCOVERY}|answers 200  at {DISCOVERY}"),
        (DISCOVERY, (500, {"error": "down"}), f"answers 500 down at {DISCOVERY}"),
        (DISCOVERY, (500, [1]), f"answers 500 +at {DISCOVERY}"),
        (DISCOVERY, httpx.ConnectError("no route"), rf"cannot be asked at {DISCOVERY} \(no route\)"),
        (TOKEN, (400, {"error": "bad", "error_description": "worse"}), f"answers 400 worse at {TOKEN}"),
        (TOKEN, (201, {"id_token": "x"}), f"answers 201 +at {TOKEN}"),
        (TOKEN, {}, "gave no ID token; is openid among the scopes"),
        (TOKEN, {"id_token": 7}, "gave no ID token"),
        (TOKEN, {"id_token": "x.y.z"}, "unusable ID token"),
        (KEYS, {}, "unusable ID token"),
        (KEYS, (404, {}), f"answers 404 +at {KEYS}"),
    ],
)
def test_what_a_provider_answers_amiss_is_one_line(idp: Fake, url: str, answer: Any, says: str) -> None:
    idp.answers[url] = answer
    with pytest.raises(OidcError, match=says) as error:
        comes_back(provider())
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("answer", "says", "length"),
    [((500, {"error": LONG}), "answers 500 x", 400), (httpx.ConnectError(LONG), "cannot be asked at", 400)],
)
def test_what_a_provider_says_at_length_is_cut(idp: Fake, answer: Any, says: str, length: int) -> None:
    idp.answers[DISCOVERY] = answer
    with pytest.raises(OidcError) as error:
        comes_back(provider())
    assert error.value.what.startswith(says)
    assert len(error.value.what) == length


def test_other_texts_of_a_provider_are_cut_too(idp: Fake) -> None:
    for claims, says, length in (
        ({"iss": f"https://{LONG}"}, "gave an ID token of ", 200),
        ({"email": f"e{LONG}", "email_verified": False}, "has not verified ", 200),
    ):
        idp.signs(**claims)
        with pytest.raises(OidcError) as error:
            comes_back(provider())
        assert error.value.what.startswith(says) and len(error.value.what) == len(says) + length
    rest = idp.answers[TOKEN]["id_token"].partition(".")[2]
    odd = base64.urlsafe_b64encode(json.dumps({"alg": "x" * 350}).encode()).decode().rstrip("=")
    idp.answers[TOKEN] = {"id_token": f"{odd}.{rest}"}
    with pytest.raises(OidcError) as error:
        comes_back(provider())
    assert error.value.what.startswith("gave an unusable ID token (") and len(error.value.what) == 300
    idp.signs(email="e" * 300)
    assert comes_back(provider()).name == "e" * 200
