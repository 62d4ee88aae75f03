"""Random histories of people, sessions and tokens, on two servers over one access store: after each step, for each
credential that there ever was, what may it do? Reckoned here from the words of docs/access.md, in a few lines."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from access.authenticator import Authenticator
from access.people import Kind, add_person, change_person
from access.principal import Principal
from access.roles import MAY, SCOPE_OF, AccessError, Action, Role, Scope, common_roles, covers
from access.settings import AccessSettings, Oidc
from access.store import _METADATA, AccessStore, connect
from access.tokens import create_token, revoke_token
from tests.access.postgres import Cluster
from warehouse.store import Store

ISSUER, GONE = "https://login.example.org", "https://was.example.org"
START = datetime(2026, 11, 5, 12, tzinfo=UTC)
OIDC = Oidc(issuer=ISSUER, client_id="x", roles={})
SETTINGS = AccessSettings(sign_in=True, url="https://x.org", session=timedelta(hours=30), oidc=OIDC, key=b"k" * 32)
TENANTS = ("vision", "speech")
NAMES = st.sampled_from(["ada", "eve"])
ROLES = st.sets(st.sampled_from(list(Role)), min_size=1, max_size=2).map(frozenset)
SEEN = st.sets(st.sampled_from(TENANTS), min_size=1).map(frozenset)
SCOPES = st.sets(st.sampled_from(list(Scope)), min_size=1).map(frozenset)
ROOT = Principal("root", frozenset({Role.admin}))


@dataclass
class Somebody:
    roles: frozenset[Role]
    tenants: frozenset[str]
    disabled: bool = False
    seen_at: datetime | None = None
    password: str = ""


@dataclass
class Credential:
    """A session has all roles of its owner; a token its own and no more rights than its owner's."""

    text: str
    owner: tuple[str, str]
    until: datetime
    is_token: bool
    roles: frozenset[Role] = frozenset(Role)
    tenants: frozenset[str] = frozenset(TENANTS)
    scopes: frozenset[Scope] = frozenset(Scope)
    is_over: bool = False
    public: str = field(default="")


def may(roles: frozenset[Role], tenants: frozenset[str], action: Action, tenant: str) -> bool:
    return any(action in MAY[role] for role in roles) and (roles != {Role.tenant} or tenant in tenants)


def reckoned(one: Credential, owner: Somebody, now: datetime, action: Action, tenant: str) -> bool:
    """Whether a credential may do that to that tenant's things."""
    lives = not one.is_over and now < one.until and not owner.disabled and one.owner[0] != GONE
    if one.is_token and one.owner[0].startswith("https"):
        lives = lives and owner.seen_at is not None and now - owner.seen_at <= timedelta(days=90)
    by_itself = may(one.roles, one.tenants, action, tenant) and SCOPE_OF[action] in one.scopes
    return lives and by_itself and may(owner.roles, owner.tenants, action, tenant)


def histories(opened: Callable[[], AccessStore]) -> type[RuleBasedStateMachine]:
    class Histories(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.now = START
            self.servers = [Authenticator(opened(), SETTINGS) for _ in range(2)]
            with self.servers[0].access.writing() as connection:
                for table in ("sessions", "tokens", "people"):
                    connection.execute(_METADATA.tables[table].delete())
            self.people: dict[tuple[str, str], Somebody] = {}
            self.credentials: list[Credential] = []

        def teardown(self) -> None:
            for server in self.servers:
                server.access.close()

        def chosen(self, data: Any, of: Callable[[tuple[str, str]], bool] = lambda _: True) -> tuple[str, str]:
            found: tuple[str, str] = data.draw(st.sampled_from(sorted(filter(of, self.people)) or [("", "")]))
            return found

        @initialize(roles=ROLES, tenants=SEEN)
        def there_are_people_who_have_signed_in(self, roles: frozenset[Role], tenants: frozenset[str]) -> None:
            """One of each kind, of one name; without them most histories would be over before anything happens."""
            for service in (False, True):
                self.somebody_is_added("ada", roles, tenants, service, 0)
            self.somebody_comes_from_the_provider("ada", roles, tenants, "ada", 1, ISSUER)
            signed_in = self.servers[0].sessions.by_password(
                "ada", self.people["local", "ada"].password, self.now, "192.0.2.1"
            )
            assert signed_in is not None
            self.people["local", "ada"].seen_at = self.now
            self.credentials.append(Credential(signed_in[1], ("local", "ada"), self.now + SETTINGS.session, False))

        @rule(name=NAMES, roles=ROLES, tenants=SEEN, service=st.booleans(), at=st.integers(0, 1))
        def somebody_is_added(
            self, name: str, roles: frozenset[Role], tenants: frozenset[str], service: bool, at: int
        ) -> None:
            kind = Kind.service if service else Kind.local
            access, password = self.servers[at].access, "" if service else "correct horse battery"
            if (str(kind), name) in self.people:
                with pytest.raises(AccessError, match="already exists"):
                    add_person(access, "test", self.now, name, password, roles, tenants, kind)
            else:
                add_person(access, "test", self.now, name, password, roles, tenants, kind)
                self.people[str(kind), name] = Somebody(roles, tenants, password=password)

        def is_last_admin(self, who: tuple[str, str]) -> bool:
            """Of those who sign in."""
            admins = {
                one
                for one, person in self.people.items()
                if Role.admin in person.roles and not person.disabled and one[0] != "service"
            }
            return admins == {who}

        @precondition(lambda self: self.people)
        @rule(data=st.data(), roles=ROLES, tenants=SEEN, at=st.integers(0, 1))
        def somebody_may_other_things(
            self, data: Any, roles: frozenset[Role], tenants: frozenset[str], at: int
        ) -> None:
            who = self.chosen(data)
            change = (self.servers[at].access, "test", self.now, who[1], None, roles, tenants, None, who[0])
            if who[0].startswith("https"):
                with pytest.raises(AccessError, match="their provider tells"):
                    change_person(*change)
            elif self.is_last_admin(who) and Role.admin not in roles:
                with pytest.raises(AccessError, match="the last admin"):
                    change_person(*change)
            else:
                change_person(*change)
                self.people[who].roles, self.people[who].tenants = roles, tenants

        @precondition(lambda self: self.people)
        @rule(data=st.data(), disabled=st.booleans(), at=st.integers(0, 1))
        def somebody_is_disabled_or_enabled(self, data: Any, disabled: bool, at: int) -> None:
            who = self.chosen(data)
            change = (self.servers[at].access, "test", self.now, who[1], None, None, None, disabled, who[0])
            if disabled and self.is_last_admin(who):
                with pytest.raises(AccessError, match="the last admin"):
                    change_person(*change)
                return
            change_person(*change)
            self.people[who].disabled = disabled
            if disabled:
                self.sessions_end(who)

        @precondition(lambda self: any(issuer == "local" for issuer, _ in self.people))
        @rule(data=st.data(), number=st.integers(0, 9), at=st.integers(0, 1))
        def a_local_user_gets_a_new_password(self, data: Any, number: int, at: int) -> None:
            who, password = self.chosen(data, lambda one: one[0] == "local"), f"another horse {number}"
            change_person(self.servers[at].access, "test", self.now, who[1], password, issuer="local")
            self.people[who].password = password
            self.sessions_end(who)

        @precondition(lambda self: any(issuer == "local" for issuer, _ in self.people))
        @rule(data=st.data(), right=st.integers(0, 3), at=st.integers(0, 1))
        def a_local_user_signs_in(self, data: Any, right: int, at: int) -> None:
            who = self.chosen(data, lambda one: one[0] == "local")
            one = self.people[who]
            password = one.password if right else "wrong horse battery"
            found = self.servers[at].sessions.by_password(who[1], password, self.now, "192.0.2.1")
            assert (found is not None) == (bool(right) and not one.disabled)
            if found is not None:
                one.seen_at = self.now
                self.credentials.append(Credential(found[1], who, self.now + SETTINGS.session, False))

        @rule(
            name=NAMES, roles=ROLES, tenants=SEEN, subject=st.sampled_from(["1", "ada"]), at=st.integers(0, 1),
            issuer=st.sampled_from([ISSUER, ISSUER, ISSUER, GONE]),
        )  # fmt: skip
        def somebody_comes_from_the_provider(
            self, name: str, roles: frozenset[Role], tenants: frozenset[str], subject: str, at: int, issuer: str
        ) -> None:
            who = issuer, subject
            one = self.people.setdefault(who, Somebody(roles, tenants))
            one.roles, one.tenants, one.seen_at = roles, tenants, self.now
            try:
                _, cookie = self.servers[at].sessions.by_provider(*who, name, roles, tenants, self.now, "192.0.2.1")
            except AccessError:
                assert one.disabled
            else:
                assert not one.disabled
                self.credentials.append(Credential(cookie, who, self.now + SETTINGS.session, False))

        @precondition(lambda self: any(not one.is_token for one in self.credentials))
        @rule(data=st.data(), at=st.integers(0, 1))
        def somebody_signs_out(self, data: Any, at: int) -> None:
            one = data.draw(st.sampled_from([one for one in self.credentials if not one.is_token]))
            self.servers[at].sessions.end(one.text, self.now)
            one.is_over = True

        @precondition(lambda self: self.people)
        @rule(data=st.data(), roles=ROLES, tenants=SEEN, scopes=SCOPES, days=st.integers(1, 366), at=st.integers(0, 1))
        def an_admin_makes_a_token(
            self, data: Any, roles: frozenset[Role], tenants: frozenset[str], scopes: frozenset[Scope], days: int,
            at: int,
        ) -> None:  # fmt: skip
            who = self.chosen(data)
            one, lasts = self.people[who], timedelta(days=days)
            fits = all(
                may(one.roles, one.tenants, action, tenant)
                for action, tenant in itertools.product(Action, TENANTS)
                if may(roles, tenants, action, tenant)
            ) and all(may(one.roles, one.tenants, Action.see, tenant) for tenant in tenants)
            ask = (self.servers[at].access, ROOT, self.now, "t", lasts, who[1], roles, tenants, scopes, who[0])
            if not fits or one.disabled:
                with pytest.raises(AccessError, match=r"more rights than its owner|owner is disabled"):
                    create_token(*ask)
            else:
                token, text = create_token(*ask)
                self.credentials.append(
                    Credential(text, who, self.now + lasts, True, roles, tenants, scopes, public=token.id)
                )

        @precondition(lambda self: any(one.is_token for one in self.credentials))
        @rule(data=st.data(), at=st.integers(0, 1))
        def a_token_is_revoked(self, data: Any, at: int) -> None:
            one = data.draw(st.sampled_from([one for one in self.credentials if one.is_token]))
            assert revoke_token(self.servers[at].access, ROOT, self.now, one.public).revoked
            one.is_over = True

        @rule(hours=st.sampled_from([1, 29, 24 * 40]))
        def time_goes_on(self, hours: int) -> None:
            self.now += timedelta(hours=hours)

        @rule(at=st.integers(0, 1))
        def a_server_is_started_again(self, at: int) -> None:
            self.servers[at].access.close()
            self.servers[at] = Authenticator(opened(), SETTINGS)

        @invariant()
        def each_credential_may_what_is_reckoned_on_each_server(self) -> None:
            for one, server in itertools.product(self.credentials, self.servers):
                owner = self.people[one.owner]
                try:
                    found = (
                        server.by_token({"authorization": f"Bearer {one.text}"}, self.now)
                        if one.is_token
                        else server.by_session(one.text, self.now)
                    )
                except AccessError:
                    found = None
                assert found is None or found.id == one.owner
                for action, tenant in itertools.product(Action, TENANTS):
                    can = found is not None and found.may(action) and found.sees(tenant)
                    assert can == reckoned(one, owner, self.now, action, tenant), (one, owner, action, tenant, found)

        def sessions_end(self, who: tuple[str, str]) -> None:
            for one in self.credentials:
                one.is_over = one.is_over or (one.owner == who and not one.is_token)

    return Histories


NO_WAREHOUSE = cast("Store", None)
"""It holds the audit alone, which is another test's: writing it would be most of the time."""


EXAMPLES = int(os.environ.get("GPULEDGER_ACCESS_HISTORIES", "8"))
"""Histories of 30 steps in SQLite, and a third as many in PostgreSQL; new ones each time, ad hoc many more."""


@pytest.mark.parametrize(("database", "examples"), [("sqlite", EXAMPLES), ("postgresql", -(-EXAMPLES // 3))])
def test_what_a_credential_may_is_what_it_and_its_owner_may_now(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str,
    examples: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(AccessStore, "note", lambda *_: None)
    if database == "sqlite":
        address, password_file = f"sqlite:///{tmp_path / 'access.sqlite'}", None
    else:
        cluster: Cluster = request.getfixturevalue("postgres")
        address, password_file = cluster.database(), cluster.password_file
    run_state_machine_as_test(
        histories(lambda: connect(address, password_file, NO_WAREHOUSE)),
        settings=settings(
            max_examples=examples, stateful_step_count=30, deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip


SETS = [frozenset(roles) for size in range(len(Role) + 1) for roles in itertools.combinations(Role, size)]


@pytest.mark.parametrize("one", SETS, ids=lambda roles: "+".join(sorted(roles)) or "none")
def test_roles_that_meet_may_what_both_may_and_nothing_else(one: frozenset[Role]) -> None:
    for other in SETS:
        both = common_roles(one, other)
        for action in Action:
            allowed = [any(action in MAY[role] for role in roles) for roles in (one, other, both)]
            assert allowed[2] == (allowed[0] and allowed[1]), (one, other, action)
        assert covers(one, other) == all(
            any(action in MAY[role] for role in one) for role in other for action in MAY[role]
        )
        assert bool(both - {Role.tenant}) == bool(one - {Role.tenant} and other - {Role.tenant})
