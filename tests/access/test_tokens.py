"""What a token may, for every token and every owner that there can be; and each thing alone that ends one."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from access.authenticator import Authenticator
from access.people import (
    Kind,
    Person,
    add_person,
    change_person,
    checked_password,
    new_person,
    update_from_provider,
    write_new,
)
from access.principal import LOCAL, ForbiddenError, Principal
from access.roles import MAY, SCOPE_OF, AccessError, Action, Role, Scope
from access.settings import AccessSettings, Oidc
from access.store import AccessStore, connect, people
from access.tokens import LONGEST, Token, _check, create_token, token_of
from warehouse.store import Store

NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
TENANTS = ("vision", "speech")
ALL = frozenset(Scope)
SETS = [frozenset(roles) for size in range(1, 4) for roles in itertools.combinations(Role, size)]
SEEN = [frozenset(tenants) for size in range(3) for tenants in itertools.combinations(TENANTS, size)]
OWNERS = [(roles, tenants) for roles in SETS for tenants in SEEN if Role.tenant in roles or not tenants]
ISSUER = "https://login.example.org"
OIDC = Oidc(issuer=ISSUER, client_id="x", roles={})


def person(
    roles: frozenset[Role] = frozenset({Role.admin}), tenants: frozenset[str] = frozenset(), **more: Any
) -> Person:
    return replace(Person(LOCAL, "ada", "ada", Kind.local, roles, tenants, False, NOW, NOW, "test", None), **more)


def token(roles: frozenset[Role], tenants: frozenset[str], owner: Person, scopes: frozenset[Scope] = ALL) -> Token:
    return Token("t", "t", owner, roles, tenants, scopes, NOW, "test", NOW + timedelta(days=1), False)


def may(roles: frozenset[Role], tenants: frozenset[str], action: Action, tenant: str) -> bool:
    return any(action in MAY[role] for role in roles) and (roles != {Role.tenant} or tenant in tenants)


@pytest.mark.parametrize(("roles", "tenants"), OWNERS)
def test_a_token_may_what_both_it_and_its_owner_may(roles: frozenset[Role], tenants: frozenset[str]) -> None:
    for owner_roles, owner_tenants in OWNERS:
        found = token(roles, tenants, person(owner_roles, owner_tenants)).principal()
        for action, tenant in itertools.product(Action, TENANTS):
            can = found is not None and found.may(action) and found.sees(tenant)
            both = may(roles, tenants, action, tenant) and may(owner_roles, owner_tenants, action, tenant)
            assert can == both, (owner_roles, owner_tenants, action, tenant, found)


@pytest.mark.parametrize("scope", Scope)
def test_a_token_may_nothing_outside_of_its_scopes(scope: Scope) -> None:
    found = token(frozenset({Role.admin}), frozenset(), person(), frozenset({scope})).principal()
    assert found is not None
    assert {action for action in Action if found.may(action)} == {one for one in Action if SCOPE_OF[one] is scope}


def test_each_of_these_alone_ends_a_token() -> None:
    alive = token(frozenset({Role.admin}), frozenset(), person())
    assert alive.usable(NOW)
    assert not replace(alive, revoked=True).usable(NOW)
    assert not alive.usable(NOW + timedelta(days=1))
    assert not replace(alive, owner=person(disabled=True)).usable(NOW)


def test_a_token_reaches_those_of_its_owner_that_may_no_more_than_itself() -> None:
    """And a person all of their own, an admin everybody's, nobody those of somebody who is called the same."""
    finance, analyst = frozenset({Role.finance}), frozenset({Role.analyst})
    viewer, vision, both = frozenset({Role.tenant}), frozenset({"vision"}), frozenset(TENANTS)
    one = token(finance, frozenset(), person(finance))
    asks = Principal("ada", finance, how="token")
    assert one.may_be_managed_by(asks)
    assert not one.may_be_managed_by(replace(asks, roles=analyst))
    assert one.may_be_managed_by(replace(asks, roles=analyst, how="session"))
    assert not one.may_be_managed_by(replace(asks, subject="another"))
    assert not one.may_be_managed_by(replace(asks, issuer=ISSUER))
    assert one.may_be_managed_by(Principal("root", frozenset({Role.admin})))
    of_two = token(viewer, both, person(viewer, both))
    assert of_two.may_be_managed_by(Principal("ada", viewer, both, how="token"))
    assert not of_two.may_be_managed_by(Principal("ada", viewer, vision, how="token"))
    assert of_two.may_be_managed_by(Principal("ada", analyst, how="token"))


@pytest.mark.parametrize(
    ("whose", "admitted"),
    [
        ({"kind": Kind.local}, {"both", "local", "neither"}),
        ({"kind": Kind.service}, {"both", "local", "oidc", "neither"}),
        ({"kind": Kind.sso, "issuer": ISSUER}, {"both", "oidc"}),
        ({"kind": Kind.sso, "issuer": "https://was.example.org"}, set()),
    ],
)
def test_people_of_a_kind_are_let_in_where_the_server_has_that_way_in(
    whose: dict[str, Any], admitted: set[str]
) -> None:
    ways = {
        "both": AccessSettings(sign_in=True, oidc=OIDC),
        "local": AccessSettings(sign_in=True),
        "oidc": AccessSettings(sign_in=True, local_users=False, oidc=OIDC),
        "neither": AccessSettings(),
    }
    for way, settings in ways.items():
        authenticator: Any = SimpleNamespace(settings=settings)
        assert Authenticator._admits(authenticator, person(**whose)) == (way in admitted), way


@pytest.mark.parametrize(("seen_at", "counts"), [(None, False), (NOW, True), (NOW - timedelta(days=90), True),
                                                 (NOW - timedelta(days=90, seconds=1), False)])  # fmt: skip
def test_a_sign_in_counts_for_as_long_as_the_settings_say(seen_at: datetime | None, counts: bool) -> None:
    authenticator: Any = SimpleNamespace(settings=AccessSettings())
    assert Authenticator._was_seen(authenticator, person(seen_at=seen_at), NOW) == counts


VIEWER = Principal(
    "vera", frozenset({Role.tenant}), frozenset({"vision"}), frozenset({Scope.read, Scope.write}), "token"
)
FITS: dict[str, Any] = {
    "roles": frozenset({Role.tenant}), "tenants": frozenset({"vision"}), "scopes": frozenset({Scope.read}), "name": "t",
    "lasts": LONGEST,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"roles": frozenset({Role.analyst})}, "more rights than you"),
        ({"roles": frozenset({Role.tenant, Role.admin})}, "more rights than you"),
        ({"tenants": frozenset({"speech"})}, "more rights than you"),
        ({"tenants": frozenset({"vision", "speech"})}, "more rights than you"),
        ({"scopes": frozenset({Scope.sql})}, "you don't have the scope sql"),
        ({"scopes": ALL}, "you don't have the scope sql"),
        ({"tenants": frozenset()}, "no tenant"),
        ({"tenants": frozenset({"vision", ""})}, "a tenant without a name"),
        ({"roles": frozenset()}, "may do nothing"),
        ({"scopes": frozenset()}, "may do nothing"),
        ({"name": " "}, "has no name"),
        ({"name": "x" * 201}, "has no name"),
        ({"name": "a\u202eb"}, "is not a valid name"),  # as found: it turned the rest of its row around
        ({"name": "a\0b"}, "is not a valid name"),
        ({"lasts": timedelta(0)}, "would last"),
        ({"lasts": LONGEST + timedelta(seconds=1)}, "would last"),
    ],
)
def test_each_of_these_alone_is_too_much_for_a_token(changed: dict[str, Any], says: str) -> None:
    _check(VIEWER, **FITS)
    with pytest.raises(AccessError, match=says):
        _check(VIEWER, **{**FITS, **changed})


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch) -> Iterator[AccessStore]:
    monkeypatch.setattr(AccessStore, "note", lambda *_: None)
    with connect("sqlite://", None, cast("Store", None)) as opened:
        with opened.writing() as connection:
            for name, roles in (("vera", {Role.tenant}), ("ann", {Role.analyst}), ("root", {Role.admin})):
                tenants = frozenset({"vision"}) if name == "vera" else frozenset[str]()
                write_new(connection, new_person("test", NOW, name, frozenset(roles), tenants, Kind.local))
        yield opened


DAY = timedelta(days=1)
SESSION, ADMIN = replace(VIEWER, scopes=ALL, how="session"), Principal("root", frozenset({Role.admin}))


@pytest.mark.parametrize("owner", ["ann", "nobody yet"])
def test_nobody_but_an_admin_makes_a_token_for_somebody_else(access: AccessStore, owner: str) -> None:
    with pytest.raises(ForbiddenError, match="requires the role admin"):
        create_token(access, SESSION, NOW, "t", DAY, owner)
    with pytest.raises(ForbiddenError, match="no scope write"):
        create_token(access, replace(ADMIN, scopes=frozenset({Scope.read})), NOW, "t", DAY, owner, ["analyst"])
    assert create_token(access, ADMIN, NOW, "t", DAY, owner, ["analyst"])[0].owner.name == owner
    assert create_token(access, SESSION, NOW, "t", DAY)[0].owner.id == (LOCAL, "vera")


def test_a_token_may_no_more_than_its_owner_when_it_is_made(access: AccessStore) -> None:
    for roles, tenants in ((["finance"], []), (["tenant"], ["speech"])):
        with pytest.raises(AccessError, match="more rights than its owner"):
            create_token(access, ADMIN, NOW, "t", DAY, "vera", roles, tenants)
    with pytest.raises(AccessError, match="more rights than its owner"):
        create_token(access, ADMIN, NOW, "t", DAY, "ann", ["operator"])
    assert create_token(access, ADMIN, NOW, "t", DAY, "ann", ["tenant"], ["speech"])[0].tenants == {"speech"}


def test_a_token_made_with_a_token_ends_with_it_unless_its_owner_manages_access(access: AccessStore) -> None:
    """Before, whoever found a token of a day could make one of a year with it."""
    first, _ = create_token(access, SESSION, NOW, "first", DAY, scopes=["read", "write"])
    with_it = first.principal()
    assert with_it is not None
    found = [create_token(access, with_it, NOW, "next", lasts)[0].expires_at for lasts in (DAY / 2, DAY * 300)]
    assert found == [NOW + DAY / 2, NOW + DAY]
    admins, _ = create_token(access, ADMIN, NOW, "admin's", DAY, "root", ["admin"], scopes=["read", "write"])
    renewing = admins.principal()
    assert renewing is not None
    assert create_token(access, renewing, NOW, "renewed", DAY * 90, scopes=["read"])[0].expires_at == NOW + DAY * 90


@pytest.mark.parametrize("drawn", ["a-" * 21, "_a-" * 14])
def test_the_text_of_a_token_counts_and_not_its_public_beginning(
    access: AccessStore, monkeypatch: pytest.MonkeyPatch, drawn: str
) -> None:
    monkeypatch.setattr("access.secrets.secrets.token_urlsafe", lambda _: drawn)
    made_, text = create_token(access, ADMIN, NOW, "t", DAY)
    assert token_of(access, text, NOW) == made_
    for wrong in (text[:-1], text + "x", f"gpl_{made_.id}_", f"gpl_{made_.id}", "gpl__", f"gpl_x_{text[17:]}"):
        assert token_of(access, wrong, NOW) is None, wrong


def authenticator_of(access: AccessStore, **more: Any) -> Authenticator:
    return Authenticator(access, AccessSettings(sign_in=True, key=b"k" * 32, **more))


def test_a_token_of_somebody_of_single_sign_on_stops_when_they_have_not_signed_in_for_long(access: AccessStore) -> None:
    authenticator = authenticator_of(access, oidc=OIDC, url="https://x.org")
    authenticator.sessions.by_provider(ISSUER, "1", "eve", frozenset({Role.analyst}), frozenset(), NOW, "192.0.2.1")
    _, text = create_token(access, ADMIN, NOW, "t", LONGEST, "1", ["analyst"], issuer=ISSUER)
    brings, later = {"authorization": f"Bearer {text}"}, NOW + timedelta(days=90, seconds=1)
    assert authenticator.by_token(brings, NOW + timedelta(days=90)) is not None
    with pytest.raises(AccessError, match="has not signed in for 90 days"):
        authenticator.by_token(brings, later)
    authenticator.sessions.by_provider(ISSUER, "1", "eve", frozenset({Role.analyst}), frozenset(), later, "192.0.2.1")
    assert authenticator.by_token(brings, later) is not None
    for gone in (
        authenticator_of(access),
        authenticator_of(access, oidc=OIDC.model_copy(update={"issuer": "https://new.org"})),
    ):
        with pytest.raises(AccessError, match="may no longer"):
            gone.by_token(brings, later)


class TestSessions:
    """Each of what ends a session, without the other fence."""

    def signed_in(self, access: AccessStore) -> tuple[Authenticator, str]:
        add_person(access, "test", NOW, "ada", "correct horse battery", ["analyst"])
        authenticator = authenticator_of(access)
        found = authenticator.sessions.by_password("ada", "correct horse battery", NOW, "192.0.2.1")
        assert found is not None and authenticator.by_session(found[1], NOW) is not None
        return authenticator, found[1]

    def test_one_of_somebody_disabled_is_none_although_its_row_is_there(self, access: AccessStore) -> None:
        authenticator, cookie = self.signed_in(access)
        with access.writing() as connection:
            connection.execute(people.update().values(disabled=True))
        assert authenticator.by_session(cookie, NOW) is None
        assert authenticator.sessions.by_password("ada", "correct horse battery", NOW, "192.0.2.1") is None

    def test_disabling_deletes_its_row(self, access: AccessStore) -> None:
        authenticator, cookie = self.signed_in(access)
        for disabled in (True, False):
            change_person(access, "test", NOW, "ada", disabled=disabled)
        assert authenticator.by_session(cookie, NOW) is None

    def test_a_new_password_deletes_its_row(self, access: AccessStore) -> None:
        authenticator, cookie = self.signed_in(access)
        change_person(access, "test", NOW, "ada", "another horse battery")
        assert authenticator.by_session(cookie, NOW) is None

    @pytest.mark.parametrize("change", [{"password": "another horse battery"}, {"disabled": True}])
    def test_what_changes_while_a_password_is_looked_at_counts(
        self, access: AccessStore, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
    ) -> None:
        authenticator, _ = self.signed_in(access)

        def slowly(*asked: Any) -> Any:
            found = checked_password(*asked)
            change_person(access, "test", NOW, "ada", **change)
            return found

        monkeypatch.setattr("access.sessions.checked_password", slowly)
        assert authenticator.sessions.by_password("ada", "correct horse battery", NOW, "192.0.2.1") is None

    def test_one_that_is_over_is_none(self, access: AccessStore) -> None:
        authenticator, cookie = self.signed_in(access)
        assert authenticator.by_session(cookie, NOW + timedelta(hours=8)) is None


def test_one_admin_who_can_sign_in_is_always_left(access: AccessStore) -> None:
    add_person(access, "test", NOW, "bot", "", ["admin"], kind=Kind.service)
    add_person(access, "test", NOW, "off", "correct horse battery", ["admin"])
    change_person(access, "test", NOW, "off", disabled=True)
    for change in ({"roles": ["finance"]}, {"disabled": True}):
        with pytest.raises(AccessError, match="is the last admin who can sign in"):
            change_person(access, "root", NOW, "root", **change)
    change_person(access, "root", NOW, "root", password="another horse battery")
    change_person(access, "root", NOW, "bot", disabled=True)
    change_person(access, "root", NOW, "off", disabled=False)
    change_person(access, "root", NOW, "root", roles=["finance"])
    with pytest.raises(AccessError, match="is the last admin"):
        change_person(access, "off", NOW, "off", disabled=True)


@pytest.mark.parametrize("change", [{"roles": ["finance"]}, {"tenants": ["speech"]}], ids=str)
def test_what_somebody_of_single_sign_on_may_is_the_providers_to_say(
    access: AccessStore, change: dict[str, list[str]]
) -> None:
    with access.writing() as connection:
        update_from_provider(connection, ISSUER, "7", "sso", frozenset({Role.analyst}), frozenset(), NOW)
    with pytest.raises(AccessError, match="that their provider tells"):
        change_person(access, "root", NOW, "7", issuer=ISSUER, **change)


@pytest.mark.parametrize("name", ["ada (service)", "ada (https://login.example.org#1)"])
def test_no_local_name_looks_like_somebody_elses_in_the_audit(access: AccessStore, name: str) -> None:
    with pytest.raises(AccessError, match="is not a valid name"):
        add_person(access, "root", NOW, name, "correct horse battery", ["analyst"])


@given(st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1, max_size=8), st.booleans())
@example("ada ", False)
@example(" ada", True)
@example("e\u0301va", False)
@example("\u212aim", False)  # the Kelvin sign
@example("\uff41da", True)
def test_names_that_can_be_taken_for_another_are_refused_and_their_plain_form_is_not(name: str, service: bool) -> None:
    kind = Kind.service if service else Kind.local
    plain = unicodedata.normalize("NFKC", name).strip()
    for one in {name, plain}:
        if one == plain and (not one or one.endswith(")") or not one.isprintable()):
            continue
        try:
            new_person("root", NOW, one, frozenset({Role.analyst}), frozenset(), kind)
            assert one == plain
        except AccessError as error:
            assert one != plain
            assert len(str(error).splitlines()) == 1


def test_people_of_single_sign_on_are_named_as_their_provider_does(access: AccessStore) -> None:
    with access.writing() as connection:
        for subject, name in (("7", " ada"), ("8", "\u212aim")):
            person = update_from_provider(
                connection, ISSUER, subject, name, frozenset({Role.analyst}), frozenset(), NOW
            )
            assert person.name == name
