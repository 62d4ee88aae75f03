"""Sign-in at an OpenID provider: a real one over HTTP, which signs what it is told to, and what is not believed."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from access.authenticator import PROVIDER_PER_ADDRESS
from access.oidc import OidcError, Provider
from access.people import change_person, list_people
from access.roles import AccessError
from access.settings import AccessSettings, Oidc, load_access
from billing.audit import history
from gpuledger.documents import PREFIX
from tests.dashboards.site import NOW, Site, serving
from tests.patience import PATIENCE_SECONDS

CLIENT, SECRET, HOME = "gpuledger", "s3cret s3cret", "http://ledger.test"
KEY, OTHER_KEY = (ECKey.generate_key("P-256", {"kid": kid}) for kid in ("one", "two"))


@dataclass
class Idp:
    """The provider. claims, headers, key: of the next ID token.   asked: what the token endpoint was asked.
    go_on: unset while it keeps everybody waiting."""

    url: str = ""
    key: Any = field(default_factory=lambda: KEY)
    header: dict[str, str] = field(default_factory=lambda: {"alg": "ES256", "kid": "one"})
    claims: dict[str, Any] = field(default_factory=dict)
    nonce: str = ""
    challenge: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)
    status: int = 200
    go_on: threading.Event = field(default_factory=threading.Event)

    def id_token(self) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "sub": "1", "iat": now, "exp": now + 60, "nonce": self.nonce,
                  "email": "eve@site.org", "groups": ["gpu-users", "tenant-vision"], **self.claims}  # fmt: skip
        if self.header["alg"] == "none":
            parts = (json.dumps(part).encode() for part in (self.header, claims))
            return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."
        return jwt.encode(self.header, {k: v for k, v in claims.items() if v is not None}, self.key, algorithms=None)


@pytest.fixture
def idp() -> Iterator[Idp]:
    found = Idp()
    found.go_on.set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.go_on.wait(2 * PATIENCE_SECONDS)
            documents = {
                "/.well-known/openid-configuration": {
                    "issuer": found.url, "authorization_endpoint": f"{found.url}/authorize?a=1",
                    "token_endpoint": f"{found.url}/token", "jwks_uri": f"{found.url}/keys",
                },
                "/keys": {"keys": [KEY.as_dict(private=False)]},
            }  # fmt: skip
            self.answer(200, documents[self.path])

        def do_POST(self) -> None:
            form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            found.asked.append({**form, "authorization": self.headers.get("Authorization", "")})
            challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
            fits = challenge.decode().rstrip("=") == found.challenge and form["code"] == "the-code"
            if found.status != 200 or not fits:
                self.answer(400, {"error": "invalid_grant", "error_description": "no such code"})
                return
            self.answer(200, {"id_token": found.id_token(), "access_token": "x", "token_type": "Bearer"})

        def answer(self, status: int, document: Any) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def browser(site: Site, idp: Idp, **more: Any) -> Iterator[httpx.Client]:
    roles = {"gpu-users": "tenant", "gpu-admins": "admin"}
    oidc = Oidc(issuer=idp.url, client_id=CLIENT, roles=roles, tenant_prefix="tenant-", **more)  # type: ignore[arg-type]
    settings = AccessSettings(sign_in=True, url=HOME, local_users=False, oidc=oidc, client_secret=SECRET)
    with serving(site.store, settings) as url, httpx.Client(base_url=url) as client:
        yield client


def to_provider(client: httpx.Client, idp: Idp, then: str = "/costs") -> str:
    """Goes there as a browser does, and answers the state to come back with."""
    gone = client.get("/sign-in/oidc", params={"next": then})
    assert gone.status_code == 303
    asked = {name: values[0] for name, values in parse_qs(urlsplit(gone.headers["location"]).query).items()}
    assert gone.headers["location"].startswith(f"{idp.url}/authorize?a=1&")
    assert (asked["redirect_uri"], asked["client_id"]) == (f"{HOME}/sign-in/oidc/callback", CLIENT)
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    idp.nonce, idp.challenge = asked["nonce"], asked["code_challenge"]
    return asked["state"]


def back(client: httpx.Client, **query: str) -> httpx.Response:
    return client.get("/sign-in/oidc/callback", params={"code": "the-code", **query})


def test_who_comes_back_has_the_roles_and_tenants_of_their_groups(served_site: Site, idp: Idp) -> None:
    with browser(served_site, idp) as client:
        assert "Sign in with your organisation" in client.get("/sign-in").text
        assert 'name="password"' not in client.get("/sign-in").text
        answer = back(client, state=to_provider(client, idp))
        assert (answer.status_code, answer.headers["location"]) == (303, "/costs")
        me = client.get(f"{PREFIX}/me").json()
        assert (me["name"], me["roles"], me["tenants"]) == ("eve@site.org", ["tenant"], ["vision"])
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        assert idp.asked[0]["authorization"] == f"Basic {basic}"
        assert "gpuledger-sign-in" not in client.cookies
        assert client.post("/sign-in", data={"name": "ada", "password": "x"}).status_code == 403


def test_a_name_that_is_too_long_is_cut(served_site: Site, idp: Idp) -> None:
    with browser(served_site, idp) as client:
        idp.claims = {"sub": "long", "groups": ["gpu-admins"], "email": "e" * 201}
        back(client, state=to_provider(client, idp))
        assert client.get(f"{PREFIX}/me").json()["name"] == "e" * 200


def test_a_provider_that_keeps_everybody_waiting_holds_up_sign_in_alone(served_site: Site, idp: Idp) -> None:
    idp.go_on.clear()
    at_once = PROVIDER_PER_ADDRESS + 10
    with browser(served_site, idp) as client, ThreadPoolExecutor(at_once) as pool:
        tries = [pool.submit(client.get, "/sign-in/oidc") for _ in range(at_once)]
        try:
            for one in itertools.islice(as_completed(tries, timeout=PATIENCE_SECONDS), at_once - PROVIDER_PER_ADDRESS):
                assert (one.result().status_code, int(one.result().headers["Retry-After"]) > 0) == (503, True)
            assert client.get("/healthz").status_code == 200
        finally:
            idp.go_on.set()
        assert Counter(one.result().status_code for one in tries)[303] == PROVIDER_PER_ADDRESS
        back(client, state=to_provider(client, idp))
        assert client.get(f"{PREFIX}/me").json()["name"] == "eve@site.org"


SPOILS: dict[str, tuple[str, Callable[[Idp], Any]]] = {
    "another key": ("bad_signature", lambda idp: setattr(idp, "key", OTHER_KEY)),
    "no signature": ("Algorithm of 'none' is not allowed", lambda idp: setattr(idp, "header", {"alg": "none"})),
    "the public key as a secret": (
        "Algorithm of 'HS256' is not allowed",
        lambda idp: (
            setattr(idp, "header", {"alg": "HS256", "kid": "one"}),
            setattr(idp, "key", OctKey.import_key(json.dumps(KEY.as_dict(private=False)))),
        ),
    ),
    "another issuer": ("ID token of https://evil.example", lambda idp: idp.claims.update(iss="https://evil.example")),
    "another client": ("Invalid claim: 'aud'", lambda idp: idp.claims.update(aud="other")),
    "two clients and none authorised": ("for another client", lambda idp: idp.claims.update(aud=[CLIENT, "other"])),
    "another authorised party": ("for another client", lambda idp: idp.claims.update(azp="other")),
    "over": ("expired", lambda idp: idp.claims.update(exp=int(time.time()) - 120)),
    "no end": ("Missing claim: 'exp'", lambda idp: idp.claims.update(exp=None)),
    "another nonce": ("Invalid claim: 'nonce'", lambda idp: idp.claims.update(nonce="replayed")),
    "no nonce": ("Missing claim: 'nonce'", lambda idp: idp.claims.update(nonce=None)),
    "no groups": ("has no role here", lambda idp: idp.claims.update(groups=None)),
    "a tenant without tenants": ("no tenant here", lambda idp: idp.claims.update(groups=["gpu-users"])),
    "no subject": ("Missing claim: 'sub'", lambda idp: idp.claims.update(sub=None)),
    "a subject that is no text": ("StringOrURI", lambda idp: idp.claims.update(sub=["1"])),
    "an empty subject": ("'sub'|tells no sub", lambda idp: idp.claims.update(sub="")),
    "a subject too long": ("tells no sub", lambda idp: idp.claims.update(sub="x" * 256)),
    "a subject with a line end": ("tells no sub", lambda idp: idp.claims.update(sub="1\n2")),
    "a name with a line end": ("tells no email", lambda idp: idp.claims.update(email="eve\nadmin")),
    "a name of spaces": ("tells no email", lambda idp: idp.claims.update(email="  ")),
    "no audience": ("Missing claim: 'aud'", lambda idp: idp.claims.update(aud=None)),
    "no issuer": ("Missing claim: 'iss'", lambda idp: idp.claims.update(iss=None)),
    "no time of issue": ("Missing claim: 'iat'", lambda idp: idp.claims.update(iat=None)),
    "no name": ("tells no email", lambda idp: idp.claims.update(email=None)),
    "an address that nobody verified": (
        "has not verified eve@site.org",
        lambda idp: idp.claims.update(email_verified=False),
    ),
    "the provider refuses the code": ("no such code", lambda idp: setattr(idp, "status", 400)),
}


def test_what_does_not_fit_is_not_believed(served_site: Site, idp: Idp, caplog: pytest.LogCaptureFixture) -> None:
    with browser(served_site, idp) as client:
        for what, (says, spoil) in SPOILS.items():
            client.cookies.clear()
            idp.key, idp.header, idp.claims, idp.status = KEY, {"alg": "ES256", "kid": "one"}, {}, 200
            state = to_provider(client, idp)
            spoil(idp)
            answer = back(client, state=state)
            assert answer.status_code == 403, what
            assert "organisation failed" in answer.text
            assert re.search(says, caplog.records[-1].getMessage()), (what, caplog.records[-1].getMessage())
            assert client.get(f"{PREFIX}/me").status_code == 401, what


def test_who_has_no_role_is_nobody_here(served_site: Site, idp: Idp) -> None:
    with browser(served_site, idp) as client:
        for groups in ([], ["gpu-users"], ["tenant-vision"]):
            idp.claims = {"sub": "stranger", "groups": groups}
            assert back(client, state=to_provider(client, idp)).status_code == 403
    assert (idp.url, "stranger") not in {one.id for one in list_people(served_site.access)}


def test_who_lost_all_groups_loses_sessions_and_tokens_with_the_next_sign_in(
    served_site: Site, idp: Idp, caplog: pytest.LogCaptureFixture
) -> None:
    with browser(served_site, idp) as client:
        for groups in ([], ["gpu-users"], ["tenant-vision"]):
            idp.claims = {"sub": "lost", "groups": ["gpu-admins"], "email": "eve"}
            back(client, state=to_provider(client, idp))
            token = {"name": f"of {groups}", "days": 1, "scopes": ["read", "write", "sql"]}
            made = client.post(f"{PREFIX}/tokens", json=token, headers={"Sec-Fetch-Site": "same-origin"})
            headers = {"Authorization": f"Bearer {made.json()['token']}"}
            assert httpx.get(f"{client.base_url}{PREFIX}/users", headers=headers).status_code == 200
            cookies = dict(client.cookies)
            client.cookies.clear()
            idp.claims |= {"groups": groups}
            assert back(client, state=to_provider(client, idp)).status_code == 403
            assert re.search("has no role here|no tenant here", caplog.records[-1].getMessage()), groups
            assert httpx.get(f"{client.base_url}{PREFIX}/me", cookies=cookies).status_code == 401
            for path in ("/users", "/ledger", "/invoices", "/views/v_charges"):
                answer = httpx.get(f"{client.base_url}{PREFIX}{path}", headers=headers)
                assert answer.status_code in (401, 403) or not answer.json()["rows"], (path, answer.text)


def test_who_did_not_go_there_from_here_does_not_come_back(served_site: Site, idp: Idp) -> None:
    with browser(served_site, idp) as client:
        state = to_provider(client, idp)
        assert back(client, state="another").status_code == 403
        state = to_provider(client, idp)
        assert back(client, state=state, iss="https://evil.example").status_code == 403
        state = to_provider(client, idp)
        assert back(client, state=state, error="access_denied").status_code == 403
        state = to_provider(client, idp)
        client.cookies.clear()  # somebody else's browser
        assert back(client, state=state).status_code == 400
        assert client.get(f"{PREFIX}/me").status_code == 401


def test_who_signs_in_is_who_the_provider_says_and_not_what_they_are_called(served_site: Site, idp: Idp) -> None:
    """Two people of one name, a local user called the same, and one of them disabled: four different ends."""
    with browser(served_site, idp) as client:
        for subject, groups in (("1", ["gpu-admins"]), ("2", ["gpu-users", "tenant-vision"])):
            idp.claims = {"sub": subject, "groups": groups, "email": "ada"}
            back(client, state=to_provider(client, idp))
            me = client.get(f"{PREFIX}/me").json()
            assert (me["issuer"], me["subject"], me["name"]) == (idp.url, subject, "ada")
        own = {"Origin": str(client.base_url).rstrip("/")}
        assert client.post(f"{PREFIX}/tokens", json={"name": "mine"}, headers=own).status_code == 201
        people = {one.id: one for one in list_people(served_site.access) if one.name == "ada"}
        assert {("local", "ada"), (idp.url, "1"), (idp.url, "2")} == people.keys()
        assert people[idp.url, "1"].roles == {"admin"}
        with pytest.raises(AccessError, match=r"may be 1 of .*, 2 of .*, ada of local"):
            change_person(served_site.access, "test", NOW, "ada", disabled=True)
        change_person(served_site.access, "test", NOW, "2", disabled=True, issuer=idp.url)
        assert client.get(f"{PREFIX}/me").status_code == 401
        assert back(client, state=to_provider(client, idp)).status_code == 403
        assert client.get(f"{PREFIX}/me").status_code == 401
        with pytest.raises(AccessError, match="their provider tells at each sign-in"):
            change_person(served_site.access, "test", NOW, "2", roles=["admin"], issuer=idp.url)
        with pytest.raises(AccessError, match="which has no password"):
            change_person(served_site.access, "test", NOW, "2", password="correct horse battery", issuer=idp.url)
        idp.claims["sub"] = "1"
        assert back(client, state=to_provider(client, idp)).status_code == 303
        actors = {row["actor"] for row in history(served_site.store, "access.sign_in")}
        assert {f"ada ({idp.url}#1)", f"ada ({idp.url}#2)"} <= actors


def test_what_a_provider_says_is_named_and_cut() -> None:
    provider = Provider(Oidc(issuer="https://login.example.org", client_id="x", roles={}), SECRET, HOME)
    says = {"error": "e" * 500, "error_description": "d" * 500}
    with pytest.raises(OidcError, match=rf"says {'e' * 100} {'d' * 300}\W"):
        provider.finish(says, {}, NOW)


def test_a_provider_that_is_away_is_a_page_that_says_so(served_site: Site, idp: Idp) -> None:
    away = Idp(url="http://127.0.0.1:9")
    with browser(served_site, away) as client:
        assert client.get("/sign-in/oidc").status_code == 502
    assert idp.url


FILE = """
url: https://ledger.test/
session_hours: 2
session_key_file: session.key
oidc:
  issuer: https://login.example.org/realms/main/
  client_id: gpuledger
  client_secret_file: secret
  roles: {gpu-admins: admin}
"""


def test_the_settings_are_read_with_their_secrets_beside_them(tmp_path: Path) -> None:
    (tmp_path / "session.key").write_bytes(b"k" * 32)
    (tmp_path / "secret").write_text("s3cret\n")
    (tmp_path / "sign-in.yaml").write_text(FILE)
    found = load_access(tmp_path / "sign-in.yaml")
    assert (found.sign_in, found.url, found.client_secret) == (True, "https://ledger.test", "s3cret")
    assert found.oidc is not None
    assert found.oidc.issuer == "https://login.example.org/realms/main"
    assert "s3cret" not in repr(found)
    assert "kkkk" not in repr(found)


@pytest.mark.parametrize("text", ["url: [", "", None])
def test_a_file_that_holds_no_settings_is_one_line_that_says_where_there_are_some(
    tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "sign-in.yaml").write_text(text)
    steps = r"See docs/access\.md for an example|Check indentation and quotes|Check the path from \S+"
    with pytest.raises(AccessError, match=rf"sign-in\.yaml[^\n]*({steps})$"):
        load_access(tmp_path / "sign-in.yaml")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("local", "local"), "has 3 bytes"),
        (("session_hours: 2", "session_hours: 1000"), "session_hours"),
        (("session_hours: 2", "local_users: maybe"), "local_users"),
        (("url: https://ledger.test/", "url: ledger"), "oidc needs url"),
        (("issuer: https", "issuer: http"), "an https:// address"),
        (("admin}", "king}"), "oidc.roles.gpu-admins"),
        (("client_id", "client"), "oidc.client"),
        (("client_secret_file: secret", "client_secret_file: nothing"), "cannot be read"),
    ],
)
def test_settings_of_no_use_are_one_line_that_names_the_key(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    (tmp_path / "session.key").write_bytes(b"k" * (3 if change == ("local", "local") else 32))
    (tmp_path / "secret").write_text("s3cret")
    (tmp_path / "sign-in.yaml").write_text(FILE.replace(*change))
    with pytest.raises(AccessError) as error:
        load_access(tmp_path / "sign-in.yaml")
    assert says in str(error.value)
    assert "\n" not in str(error.value)
