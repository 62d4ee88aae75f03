"""People, their sessions and their tokens in a store in memory: each change, what it leaves as it was, and what the
audit says of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from sqlalchemy import select

from access.authenticator import Authenticator
from access.people import (
    Kind,
    UnknownPersonError,
    add_person,
    change_person,
    checked_password,
    find_person,
    has_password,
    list_people,
    new_person,
    person_at,
    update_from_provider,
)
from access.principal import ANYBODY, LOCAL, OPEN, SERVICE, Principal, label_of
from access.roles import AccessError, Action, Role, Scope
from access.sessions import LONGEST_NOTE, Sessions, Signer, _decoded, _encoded
from access.settings import AccessSettings, Oidc
from access.store import AccessStore, connect, keys, people, sessions, tokens
from access.tokens import create_token, list_tokens, revoke_token, token_of
from warehouse.store import Store

NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
PASSWORD, ISSUER, HERE = "correct horse battery", "https://login.example.org", "192.0.2.1"
ANALYST, VIEWER, ADMIN = (frozenset({role}) for role in (Role.analyst, Role.tenant, Role.admin))
NONE: frozenset[Any] = frozenset()
ROOT = Principal("root", ADMIN)


@dataclass
class House:
    """An access store, and what was noted for the audit, the last first."""

    access: AccessStore
    notes: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def note(self) -> tuple[Any, ...]:
        return self.notes[-1]


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    with connect("sqlite://", None, cast("Store", None)) as access:
        found = House(access)

        def note(
            _: Any, __: Any, at: datetime, actor: str, action: str, what: str, reason: str = "", inputs: Any = None
        ) -> None:
            found.notes.append((at, actor, action, what, reason, dict(inputs or {})))

        monkeypatch.setattr(AccessStore, "note", note)
        yield found


def test_whoever_is_added_stands_there_and_in_the_audit(house: House) -> None:
    ada = add_person(house.access, "root", NOW, "ada", PASSWORD, ["tenant", "finance"], ["vision", "lab"])
    bot = add_person(house.access, "root", NOW, "bot", "", ["analyst"], kind=Kind.service)
    assert list_people(house.access) == [ada, bot]
    assert (ada.id, ada.label, ada.kind, ada.disabled, ada.seen_at) == ((LOCAL, "ada"), "ada", Kind.local, False, None)
    assert (ada.created_at, ada.changed_at, ada.changed_by) == (NOW, NOW, "root")
    assert (bot.id, bot.label, bot.tenants) == ((SERVICE, "bot"), "bot (service)", NONE)
    said = {"kind": "local", "roles": ["finance", "tenant"], "tenants": ["lab", "vision"], "disabled": False}
    assert house.notes == [
        (NOW, "root", "user.add", "ada", "", said),
        (NOW, "root", "user.add", "bot (service)", "",
         {"kind": "service", "roles": ["analyst"], "tenants": [], "disabled": False}),
    ]  # fmt: skip
    with house.access.writing() as connection:
        eve = update_from_provider(connection, ISSUER, "1", "eve", ANALYST, NONE, NOW)
    for one in (ada, bot, eve):
        who = one.principal()
        assert (who.name, who.roles, who.tenants, who.id) == (one.name, one.roles, one.tenants, one.id)
        assert who.actor == one.label


CHANGES: dict[str, Any] = {
    "roles": ["finance"], "tenants": ["speech"], "disabled": True, "password": "another horse battery",
}  # fmt: skip


@pytest.mark.parametrize("given", [(), *((one,) for one in CHANGES), ("roles", "disabled"), tuple(CHANGES)])
def test_what_is_given_is_changed_and_the_rest_stays(house: House, given: tuple[str, ...]) -> None:
    before = add_person(house.access, "root", NOW, "ada", PASSWORD, ["analyst"], ["vision"])
    other = add_person(house.access, "root", NOW, "bob", PASSWORD, ["admin"])
    both = {name: Sessions(house.access, DAY).by_password(name, PASSWORD, NOW, HERE) for name in ("ada", "bob")}
    cookies = {name: found[1] for name, found in both.items() if found}
    later = NOW + SECOND
    change_person(house.access, "bob", later, "ada", **{name: CHANGES[name] for name in given})
    expected = replace(
        before, changed_at=later, changed_by="bob", seen_at=NOW, disabled="disabled" in given,
        roles=frozenset({Role.finance}) if "roles" in given else before.roles,
        tenants=frozenset({"speech"}) if "tenants" in given else before.tenants,
    )  # fmt: skip
    assert list_people(house.access) == [expected, replace(other, seen_at=NOW)]
    changed = {
        "kind": "local", "roles": sorted(expected.roles), "tenants": sorted(expected.tenants),
        "disabled": expected.disabled, "password": "changed" if "password" in given else "unchanged",
    }  # fmt: skip
    assert house.note == (later, "bob", "user.change", "ada", "", changed)
    known = {name: Sessions(house.access, DAY).known(cookie, later) is not None for name, cookie in cookies.items()}
    assert known == {"ada": not {"password", "disabled"} & set(given), "bob": True}
    with house.access.reading() as connection:
        rows = connection.scalars(select(sessions.c.subject).order_by(sessions.c.subject)).all()
    assert rows == (["ada", "bob"] if known["ada"] else ["bob"]), "its row is gone, not only shut"
    password = CHANGES["password"] if "password" in given else PASSWORD
    right = checked_password(house.access, "ada", password)
    assert (right is not None) == (not expected.disabled)
    assert checked_password(house.access, "ada", "x" * 12) is None
    assert checked_password(house.access, "bob", PASSWORD) is not None


@pytest.mark.parametrize(("length", "fits"), [(11, False), (12, True), (1024, True), (1025, False)])
def test_a_password_has_twelve_to_1024_characters(house: House, length: int, fits: bool) -> None:
    password = "p" * length
    if not fits:
        with pytest.raises(AccessError, match=f"has {length} characters: Use 12 to 1024|has {length} characters"):
            add_person(house.access, "root", NOW, "ada", password, ["analyst"])
        assert list_people(house.access) == []
        return
    add_person(house.access, "root", NOW, "ada", password, ["analyst"])
    assert checked_password(house.access, "ada", password) is not None
    assert checked_password(house.access, "ada", password + "p") is None
    assert checked_password(house.access, "ada", password[:-1]) is None


@pytest.mark.parametrize(
    ("name", "fits"),
    [("a" * 200, True), ("a" * 201, False), ("", False), (" ", False), ("a\tb", False), ("a)", False), ("a)b", True)],
)
def test_a_name_has_up_to_200_characters_that_can_be_printed(name: str, fits: bool) -> None:
    if fits:
        assert new_person("root", NOW, name, ANALYST, NONE, Kind.local).name == name
        return
    with pytest.raises(AccessError, match="is not a valid name") as error:
        new_person("root", NOW, name, ANALYST, NONE, Kind.local)
    assert error.value.where == f"user {name[:50]!r}"


@pytest.mark.parametrize("kind", [Kind.local, Kind.service])
def test_a_name_is_one_persons(house: House, kind: Kind) -> None:
    add_person(house.access, "root", NOW, "ada", PASSWORD, ["analyst"], kind=kind)
    with pytest.raises(AccessError, match=("user" if kind is Kind.local else "service account") + " 'ada': already"):
        add_person(house.access, "root", NOW, "ada", PASSWORD, ["analyst"], kind=kind)


@pytest.mark.parametrize(
    ("roles", "tenants", "says"),
    [
        ([], [], "has no role"),
        (["tenant"], [], "no tenant"),
        (["tenant", "admin"], [], "no tenant"),
        (["tenant"], [""], "a tenant without a name"),
        (["tenant"], ["vision", " "], "a tenant without a name"),
        (["king"], [], "king"),
    ],
)
def test_somebody_has_a_role_and_a_tenant_where_that_is_it(
    house: House, roles: list[str], tenants: list[str], says: str
) -> None:
    with pytest.raises(AccessError, match=says):
        add_person(house.access, "root", NOW, "ada", PASSWORD, roles, tenants)
    assert (list_people(house.access), house.notes) == ([], [])


def test_a_service_account_has_no_password(house: House) -> None:
    add_person(house.access, "root", NOW, "bot", PASSWORD, ["analyst"], kind=Kind.service)
    add_person(house.access, "root", NOW, "root", PASSWORD, ["admin"])
    with house.access.reading() as connection:
        assert connection.scalar(select(people.c.password).where(people.c.subject == "bot")) == ""
    assert Sessions(house.access, DAY).by_password("bot", PASSWORD, NOW, HERE) is None
    with pytest.raises(AccessError, match="of kind service, which has no password"):
        change_person(house.access, "root", NOW, "bot", password=PASSWORD)


def test_people_are_listed_by_name_then_by_whose_they_are(house: House) -> None:
    who = [(ISSUER, "2", "ada"), (ISSUER, "1", "ada"), ("https://a.org", "9", "ada"), (ISSUER, "0", "bob")]
    with house.access.writing() as connection:
        for issuer, subject, name in who:
            update_from_provider(connection, issuer, subject, name, ANALYST, NONE, NOW)
    add_person(house.access, "root", NOW, "ada", PASSWORD, ["admin"])
    listed = [one.id for one in list_people(house.access)]
    assert listed == [("https://a.org", "9"), (ISSUER, "1"), (ISSUER, "2"), (LOCAL, "ada"), (ISSUER, "0")]


def test_a_name_or_a_subject_means_one_person_or_it_is_asked_which(house: House) -> None:
    add_person(house.access, "root", NOW, "ada", PASSWORD, ["admin"])
    with house.access.writing() as connection:
        for issuer, subject, name in ((ISSUER, "1", "ada"), (ISSUER, "ada", "eve"), ("https://b.org", "7", "bob")):
            update_from_provider(connection, issuer, subject, name, ANALYST, NONE, NOW)
    meant: dict[tuple[str, str], Any] = {
        ("ada", LOCAL): (LOCAL, "ada"), ("ada", ISSUER): (ISSUER, "ada"), ("1", ""): (ISSUER, "1"),
        ("eve", ""): (ISSUER, "ada"), ("bob", ""): ("https://b.org", "7"),
        ("bob", "https://b.org"): ("https://b.org", "7"),
        ("eve", ISSUER): (ISSUER, "ada"), ("bob", ISSUER): None, ("ada", SERVICE): None, ("zoe", ""): None,
    }  # fmt: skip
    with house.access.reading() as connection:
        for (name, issuer), who in meant.items():
            if who:
                assert find_person(connection, name, issuer).id == who, (name, issuer)
                assert person_at(connection, who) is not None
            else:
                with pytest.raises(UnknownPersonError, match="is not known"):
                    find_person(connection, name, issuer)
        with pytest.raises(AccessError, match=f"may be 1 of {ISSUER}, ada of {ISSUER}, ada of local"):
            find_person(connection, "ada")
        assert person_at(connection, (LOCAL, "1")) is None


def test_who_comes_back_from_the_provider_is_as_it_says_and_as_disabled_as_before(house: House) -> None:
    later = NOW + DAY
    with house.access.writing() as connection:
        first = update_from_provider(connection, ISSUER, "1", "eve", VIEWER, frozenset({"vision"}), NOW)
        assert (first.created_at, first.changed_at, first.changed_by, first.seen_at) == (NOW, NOW, "sign-in", NOW)
        assert (first.kind, first.disabled, first.tenants) == (Kind.sso, False, {"vision"})
        connection.execute(people.update().values(disabled=True))
        again = update_from_provider(connection, ISSUER, "1", "Eve", ANALYST, NONE, later)
    assert again == replace(first, name="Eve", roles=ANALYST, tenants=NONE, seen_at=later, disabled=True)
    assert list_people(house.access) == [again]
    with house.access.reading() as connection:
        assert connection.scalars(select(people.c.password)).all() == [""]
    assert again.label == f"Eve ({ISSUER}#1)"


def test_a_password_that_was_right_still_is_if_nothing_changed(house: House) -> None:
    add_person(house.access, "root", NOW, "ada", PASSWORD, ["analyst"])
    right = checked_password(house.access, "ada", PASSWORD)
    assert right is not None
    person, hashed = right
    with house.access.writing() as connection:
        assert has_password(connection, person, hashed)
        assert not has_password(connection, person, hashed + "x")
        assert not has_password(connection, replace(person, subject="bob"), hashed)
        connection.execute(people.update().values(disabled=True))
        assert not has_password(connection, person, hashed)


def test_a_name_that_nobody_has_takes_as_long_as_one_that_is_there(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_person(house.access, "root", NOW, "ada", PASSWORD, ["admin"])
    add_person(house.access, "root", NOW, "off", PASSWORD, ["analyst"])
    change_person(house.access, "root", NOW, "off", disabled=True)
    costs: list[tuple[int, ...]] = []
    from access import secrets as hashing

    scrypt = hashing._scrypt
    monkeypatch.setattr(hashing, "_scrypt", lambda *asked: (costs.append(asked[2:]), scrypt(*asked))[1])
    for name, password in (("ada", "x"), ("off", PASSWORD), ("nobody", "x"), ("ada", PASSWORD), ("ada", "x" * 2000)):
        checked_password(house.access, name, password)
    assert costs == [(hashing.SCRYPT_N, hashing.SCRYPT_R, hashing.SCRYPT_P)] * 5


@pytest.mark.parametrize("stored", ["", "md5$1$2$3$4$5", "scrypt$16$8$1$AAAA", "scrypt$16$8$1$AAAA$AAAA$AAAA"])
def test_nothing_fits_what_is_no_hash(stored: str) -> None:
    from access.secrets import matches

    assert not matches("", stored)


NOTES: list[dict[str, Any]] = [{}, {"id": "x"}, {"state": "ü", "n": 7, "deep": {"a": [1, 2]}}]


@pytest.mark.parametrize("note", NOTES)
def test_a_note_opens_for_its_purpose_until_its_end_and_for_nobody_who_changed_it(note: dict[str, Any]) -> None:
    signer, until = Signer(b"k" * 32), NOW + timedelta(minutes=10)
    sealed = signer.seal("oidc", note, until)
    assert signer.open("oidc", sealed, until - timedelta(microseconds=1)) == {**note, "until": until.timestamp()}
    assert signer.open("oidc", sealed, until) is None
    assert signer.open("device", sealed, NOW) is None
    assert Signer(b"l" * 32).open("oidc", sealed, NOW) is None
    assert "=" not in sealed and sealed.isascii() and sealed.count(".") == 1
    content, _, mark = sealed.partition(".")
    for place in range(len(sealed)):
        other = "A" if sealed[place] != "A" else "B"
        touched = sealed[:place] + other + sealed[place + 1 :]
        last = place in (len(content) - 1, len(sealed) - 1)
        assert signer.open("oidc", touched, NOW) is None or (last and _same(touched, sealed)), place
    assert b" " not in _decoded(content).replace(b" \xc3", b""), "as short as it can be: browsers keep 4,096 bytes"
    for wrong in ("", ".", content, f"{content}.", f".{mark}", f"{content}.{mark}A", f"{content}.{mark}.x", "ü.ü",
                  "a.b", f"{content[:-1]}.{mark}", f"{content}!.{mark}"):  # fmt: skip
        assert signer.open("oidc", wrong, NOW) is None, wrong


def _same(one: str, other: str) -> bool:
    """A last letter has bits that count for nothing."""
    return [_decoded(part) for part in one.split(".")] == [_decoded(part) for part in other.split(".")]


def test_a_note_that_no_browser_would_keep_is_not_read() -> None:
    signer = Signer(b"k" * 32)
    room = LONGEST_NOTE
    lengths = {len(signer.seal("p", {"x": "x" * n}, NOW + DAY)): n for n in range(2700, 2900)}
    for length, n in lengths.items():
        opened = signer.open("p", signer.seal("p", {"x": "x" * n}, NOW + DAY), NOW)
        assert (opened is not None) == (length <= 3800), (length, room)
    assert min(lengths) < 3800 < max(lengths)


def test_any_bytes_are_text_of_a_cookie_and_back() -> None:
    dice = random.Random(seed := random.randrange(2**32))
    print("seed", seed)
    for size in range(60):
        content = dice.randbytes(size)
        assert _decoded(_encoded(content)) == content
        assert not set(_encoded(content)) & set("+/=")


def test_a_session_lives_until_its_end_and_is_deleted_by_the_next_one(house: House) -> None:
    add_person(house.access, "root", NOW, "ada", PASSWORD, ["analyst"])
    session_store = Sessions(house.access, timedelta(hours=8))

    def begins(at: datetime) -> str:
        found = session_store.by_password("ada", PASSWORD, at, HERE)
        assert found is not None
        return found[1]

    end = NOW + timedelta(hours=8)
    first, second = begins(NOW), begins(NOW + SECOND)
    assert first != second and len(first) == 43
    assert session_store.known(first, end - timedelta(microseconds=1)) is not None
    assert session_store.known(first, end) is None
    assert (session_store.known("x", NOW), session_store.known("", NOW)) == (None, None)
    begins(end - SECOND)
    with house.access.reading() as connection:
        assert len(connection.execute(select(sessions)).all()) == 3
    third = begins(end)
    with house.access.reading() as connection:
        rows = connection.execute(select(sessions)).all()
    assert len(rows) == 3, "the first is over and gone"
    assert {(row.began_at, row.expires_at) for row in rows} >= {(end, end + timedelta(hours=8))}
    assert first not in str(rows) and third not in str(rows), "a cookie is nowhere"
    (ada,) = list_people(house.access)
    assert ada.seen_at == end
    assert session_store.known(second, end) == ada


def test_each_sign_in_and_sign_out_is_noted_with_where_it_came_from(house: House) -> None:
    add_person(house.access, "root", NOW, "ada", PASSWORD, ["analyst"])
    session_store = Sessions(house.access, DAY)
    assert session_store.by_password("ada", "x" * 12, NOW, HERE) is None
    house.notes.clear()
    found = session_store.by_password("ada", PASSWORD, NOW, HERE)
    assert found is not None
    assert house.note == (NOW, "ada", "access.sign_in", "ada", "", {"address": HERE, "how": "password"})
    session_store.end("of nobody", NOW)
    assert len(house.notes) == 1
    session_store.end(found[1], NOW + SECOND)
    assert house.note == (NOW + SECOND, "ada", "access.sign_out", "ada", "", {})
    assert session_store.known(found[1], NOW + SECOND) is None
    session_store.end(found[1], NOW + SECOND)
    assert len(house.notes) == 2
    over = session_store.by_password("ada", PASSWORD, NOW, HERE)
    assert over is not None
    session_store.end(over[1], NOW + 2 * DAY)
    assert [action for _, _, action, *_ in house.notes].count("access.sign_out") == 1, "it was over"
    with house.access.reading() as connection:
        assert connection.execute(select(sessions)).all() == []


@pytest.mark.parametrize(
    ("roles", "tenants", "lacks"),
    [
        (ANALYST, NONE, ""),
        (VIEWER, frozenset({"vision"}), ""),
        (VIEWER | ANALYST, NONE, ""),
        (NONE, NONE, "no role"),
        (NONE, frozenset({"vision"}), "no role"),
        (VIEWER, NONE, "the role tenant and no tenant"),
    ],
)
@pytest.mark.parametrize("was_there", [True, False])
@pytest.mark.parametrize("disabled", [True, False])
def test_who_comes_from_the_provider_gets_in_with_what_they_may_now(
    house: House, roles: frozenset[Role], tenants: frozenset[str], lacks: str, was_there: bool, disabled: bool
) -> None:
    kept, later, label = Sessions(house.access, DAY), NOW + SECOND, f"eve ({ISSUER}#1)"
    before = ""
    if was_there:
        before = kept.by_provider(ISSUER, "1", "eve", ADMIN, NONE, NOW, HERE)[1]
        with house.access.writing() as connection:
            connection.execute(people.update().values(disabled=disabled))
    house.notes.clear()
    may = {"roles": sorted(roles), "tenants": sorted(tenants)}
    is_disabled = was_there and disabled
    come = (ISSUER, "1", "eve", roles, tenants, later, HERE)
    if lacks or is_disabled:
        says = f"has {lacks} here" if lacks else "is disabled here"
        with pytest.raises(AccessError, match=says) as error:
            kept.by_provider(*come)
        assert error.value.where == (label if was_there else "eve")
        lost = [(later, label, "access.lost", label, "", may)]
        assert house.notes == (lost if lacks and was_there else [])
    else:
        person, cookie = kept.by_provider(*come)
        assert house.notes == [(later, label, "access.sign_in", label, "", {"address": HERE, "how": "oidc", **may})]
        assert kept.known(cookie, later) == person
        assert (person.seen_at, person.roles) == (later, roles)
    there = list_people(house.access)
    assert [(one.roles, one.tenants, one.seen_at) for one in there] == (
        [(roles, tenants, later)] if was_there or not lacks else []
    )
    with house.access.reading() as connection:
        left = len(connection.execute(select(sessions)).all())
    assert left == (0 if lacks else int(was_there) + int(not is_disabled))
    assert (kept.known(before, later) is not None) == (was_there and not lacks and not is_disabled)


@pytest.mark.parametrize(
    ("issuer", "subject", "name", "label"),
    [(LOCAL, "ada", "ada", "ada"), (OPEN, "", "anybody", "anybody"), (SERVICE, "bot", "bot", "bot (service)"),
     (ISSUER, "1", "eve", f"eve ({ISSUER}#1)")],
)  # fmt: skip
def test_the_audit_says_whose_a_name_is(issuer: str, subject: str, name: str, label: str) -> None:
    assert label_of(issuer, subject, name) == label
    who = Principal(name, ANALYST, issuer=issuer, subject=subject)
    assert (who.actor, who.id) == (label, (issuer, subject or name))


def test_anybody_may_everything_and_is_nobody_whom_we_know() -> None:
    assert (ANYBODY.roles, ANYBODY.how, ANYBODY.issuer, ANYBODY.scopes) == (ADMIN, "open", OPEN, frozenset(Scope))
    assert ANYBODY.actor == ANYBODY.name == "anybody on this machine"


MAY_ = {
    Role.admin: set(Action),
    Role.finance: {"issue", "set_prices", "set_budgets", "see_audit", "decide_held"},
    Role.operator: {"close", "back_up", "silence", "reclaim"},
    Role.analyst: set(),
    Role.tenant: set(),
}
"""docs/access.md, under roles; beside what all may, and what all but tenants may."""


@pytest.mark.parametrize("role", Role)
def test_each_role_may_what_the_documents_say(role: Role) -> None:
    own = {"see", "own_tokens"}
    platform = set() if role is Role.tenant else {"see_fleet", "see_held", "sql", "save_queries", "propose"}
    who = Principal("x", frozenset({role}), frozenset({"a"}))
    assert {action for action in Action if who.may(action)} == own | platform | MAY_[role]


@pytest.mark.parametrize("roles", [NONE, VIEWER, ANALYST, VIEWER | ANALYST])
def test_who_is_more_than_a_tenant_sees_all_and_a_tenant_its_own(roles: frozenset[Role]) -> None:
    who = Principal("x", roles, frozenset({"b", "a", ""}))
    sees_all = Role.analyst in roles
    assert (who.sees_all, who.sees("a"), who.sees("c"), who.sees("")) == (sees_all, True, sees_all, sees_all)
    assert who.params() == {"all_tenants": int(sees_all), "tenants": ["a", "b"]}


def test_a_token_stands_in_the_audit_from_its_making_to_its_end(house: House) -> None:
    add_person(house.access, "root", NOW, "vera", PASSWORD, ["tenant"], ["vision"])
    house.notes.clear()
    token, text = create_token(house.access, ROOT, NOW, "ci", DAY, "vera", ["tenant"], ["vision"], ["read", "write"])
    assert text.split("_", 2)[:2] == ["gpl", token.id] and len(token.id) == 12 and len(text.split("_", 2)[2]) == 43
    said = {"owner": "vera", "expires_at": (NOW + DAY).isoformat(), "roles": ["tenant"], "tenants": ["vision"],
            "scopes": ["read", "write"]}  # fmt: skip
    assert house.notes == [(NOW, "root", "token.create", token.id, "ci", said)]
    assert (token.created_at, token.created_by, token.expires_at, token.revoked) == (NOW, "root", NOW + DAY, False)
    assert token_of(house.access, text, NOW) == token
    assert token_of(house.access, text, NOW + DAY) is None
    ended = revoke_token(house.access, ROOT, NOW + SECOND, token.id, "left")
    assert ended == replace(token, revoked=True)
    assert house.note == (NOW + SECOND, "root", "token.revoke", token.id, "left", {})
    assert (revoke_token(house.access, ROOT, NOW, token.id), len(house.notes)) == (ended, 2), "doing it again"
    assert token_of(house.access, text, NOW) is None
    with house.access.reading() as connection:
        assert text not in str(connection.execute(select(tokens)).all())


def test_only_whose_it_is_or_an_admin_ends_a_token(house: House) -> None:
    for name in ("ada", "bob"):
        add_person(house.access, "root", NOW, name, PASSWORD, ["analyst"])
    mine, _ = create_token(house.access, ROOT, NOW, "t", DAY, "ada", ["analyst"])
    for who, public in ((Principal("bob", ANALYST), mine.id), (Principal("ada", ANALYST), "none"), (ROOT, "")):
        with pytest.raises(AccessError, match=f"^token '{public}': is not one of yours. See: gpuledger tokens list"):
            revoke_token(house.access, who, NOW, public)
    assert revoke_token(house.access, Principal("ada", ANALYST), NOW, mine.id).revoked


def test_tokens_are_listed_the_newest_first_and_to_each_their_own(house: House) -> None:
    for name in ("ada", "bob"):
        add_person(house.access, "root", NOW, name, PASSWORD, ["analyst"])
    made_ = [
        create_token(house.access, ROOT, NOW + DAY * n, f"{owner} {n}", DAY, owner, ["analyst"])[0]
        for owner in ("ada", "bob")
        for n in (2, 0, 1, 1)
    ]
    ordered = sorted(made_, key=lambda one: one.id)
    ordered.sort(key=lambda one: one.created_at, reverse=True)
    assert list_tokens(house.access) == list_tokens(house.access, ROOT) == ordered
    assert list_tokens(house.access, Principal("ada", ANALYST)) == [one for one in ordered if one.owner.name == "ada"]


def test_a_token_lasts_up_to_366_days(house: House) -> None:
    add_person(house.access, "root", NOW, "ada", PASSWORD, ["analyst"])
    for lasts in (timedelta(days=366) + SECOND, timedelta(0), -SECOND):
        with pytest.raises(AccessError, match=f"^token: would last {lasts}. At most 366 days are allowed"):
            create_token(house.access, ROOT, NOW, "t", lasts, "ada", ["analyst"])


@pytest.mark.parametrize(("name", "fits"), [("x", True), ("x" * 200, True), ("x" * 201, False), ("", False)])
def test_a_token_says_what_it_is_for(house: House, name: str, fits: bool) -> None:
    add_person(house.access, "root", NOW, "ada", PASSWORD, ["analyst"])
    if fits:
        assert create_token(house.access, ROOT, NOW, name, timedelta(days=366), "ada", ["analyst"])[0].name == name
    else:
        with pytest.raises(AccessError, match="has no name, or a very long one"):
            create_token(house.access, ROOT, NOW, name, DAY, "ada", ["analyst"])


def test_who_nobody_knows_owns_no_token_and_its_name_becomes_a_service_account(house: House) -> None:
    for maker, name in ((ANYBODY, "nightly"), (ROOT, "weekly")):
        token, _ = create_token(house.access, maker, NOW, name, DAY, roles=["tenant"], tenants=["lab"])
        assert (token.owner.id, token.owner.roles, token.owner.tenants) == ((SERVICE, name), VIEWER, {"lab"})
        assert token.created_by == maker.actor
        added, created = house.notes[-2:]
        said = {"kind": "service", "roles": ["tenant"], "tenants": ["lab"], "disabled": False}
        assert added == (NOW, maker.actor, "user.add", f"{name} (service)", f"owns the token {name}", said)
        assert created[2:5] == ("token.create", token.id, name)
        again, _ = create_token(house.access, maker, NOW, name, DAY, roles=["tenant"], tenants=["lab"])
        assert (again.owner, len(house.notes)) == (token.owner, 3 if maker is ANYBODY else 6)


def test_a_token_is_by_default_its_makers_and_may_what_they_may(house: House) -> None:
    add_person(house.access, "root", NOW, "vera", PASSWORD, ["tenant"], ["vision", "lab"])
    vera = Principal("vera", VIEWER, frozenset({"vision", "lab"}))
    token, _ = create_token(house.access, vera, NOW, "t", DAY)
    assert (token.owner.name, token.roles, token.tenants, token.scopes) == (
        "vera", VIEWER, {"vision", "lab"}, {Scope.read},
    )  # fmt: skip
    less, _ = create_token(house.access, vera, NOW, "t", DAY, tenants=["lab"])
    assert (less.roles, less.tenants) == (VIEWER, {"lab"})
    own, _ = create_token(house.access, vera, NOW, "t", DAY, "vera", issuer=LOCAL)
    assert own.owner.name == "vera", "who names themselves is no admin for that"
    with pytest.raises(AccessError, match="no tenant"):
        create_token(house.access, vera, NOW, "t", DAY, roles=["tenant"])


@pytest.mark.parametrize(
    ("owner", "issuer", "says"),
    [
        ("eve", ISSUER, "is not known"),
        ("off", "", "its owner is disabled"),
        ("both", "", "may be both of local, both of service"),
    ],
)
def test_an_owner_is_somebody_who_can_have_a_token(house: House, owner: str, issuer: str, says: str) -> None:
    for name, kind in (("off", Kind.local), ("both", Kind.local), ("both", Kind.service)):
        add_person(house.access, "root", NOW, name, PASSWORD, ["analyst"], kind=kind)
    change_person(house.access, "root", NOW, "off", disabled=True)
    count = len(house.notes)
    with pytest.raises(AccessError, match=says):
        create_token(house.access, ROOT, NOW, "t", DAY, owner, ["analyst"], issuer=issuer)
    assert (len(house.notes), list_tokens(house.access)) == (count, [])


def test_a_token_that_would_have_more_rights_than_its_owner_says_what_they_may(house: House) -> None:
    add_person(house.access, "root", NOW, "vera", PASSWORD, ["tenant"], ["vision", "lab"])
    with pytest.raises(AccessError, match=r"^token for vera: would have .* owner, who may tenant lab vision"):
        create_token(house.access, ROOT, NOW, "t", DAY, "vera", ["tenant"], ["speech"])
    with pytest.raises(AccessError, match="who may tenant lab vision"):
        create_token(house.access, ROOT, NOW, "t", DAY, "vera", ["analyst"])


def test_what_is_brought_and_is_of_no_use_is_told_why(house: House) -> None:
    settings = AccessSettings(sign_in=True, oidc=Oidc(issuer=ISSUER, client_id="x", roles={}), url="https://x.org")
    authenticator = Authenticator(house.access, settings)
    add_person(house.access, "root", NOW, "vera", PASSWORD, ["tenant"], ["vision"])
    token, text = create_token(house.access, ROOT, NOW, "t", DAY, "vera", ["tenant"], ["vision"], ["read"])

    def by(text: str) -> Principal | None:
        return authenticator.by_token({"authorization": f"Bearer {text}"}, NOW)

    found = by(text)
    assert found == Principal(
        "vera", VIEWER, frozenset({"vision"}), frozenset({Scope.read}), "token", LOCAL, "vera", token.expires_at
    )
    assert authenticator.by_token({}, NOW) is None
    for wrong in ("x", "gpl", text[3:], text[:-1], text + "x", "gplx_1_2", "gpl_1_\udcff", f"gpl_{token.id}_\udcff"):
        with pytest.raises(AccessError, match="unknown, expired or revoked"):
            by(wrong)
    change_person(house.access, "root", NOW, "vera", tenants=["speech"])
    with pytest.raises(AccessError, match="its owner may no longer do what it is for"):
        by(text)
    assert token.owner.name == "vera"
    without = Authenticator(house.access, AccessSettings(sign_in=True, local_users=False, oidc=settings.oidc))
    with pytest.raises(AccessError, match="its owner may no longer do"):
        without.by_token({"authorization": f"Bearer {text}"}, NOW)
    assert authenticator.by_session("", NOW) is None


def test_where_local_users_are_not_let_in_their_sessions_are_none(house: House) -> None:
    add_person(house.access, "root", NOW, "ada", PASSWORD, ["analyst"])
    authenticator = Authenticator(house.access, AccessSettings(sign_in=True, session=DAY))
    found = authenticator.sessions.by_password("ada", PASSWORD, NOW, HERE)
    assert found is not None
    assert authenticator.by_session(found[1], NOW) == Principal("ada", ANALYST, subject="ada")
    assert authenticator.by_session(found[1], NOW + DAY) is None
    without = Authenticator(house.access, AccessSettings(sign_in=True, local_users=False))
    assert without.by_session(found[1], NOW) is None


def test_a_key_is_made_once_and_is_32_bytes(house: House) -> None:
    key = house.access.key("notes", NOW)
    assert (len(key), house.access.key("notes", NOW + DAY)) == (32, key)
    with house.access.reading() as connection:
        assert [tuple(row) for row in connection.execute(select(keys))] == [("notes", key.hex(), NOW)]
    signer = Authenticator(house.access, AccessSettings()).signer
    assert signer.open("p", Signer(key).seal("p", {"a": 1}, NOW + DAY), NOW)
    own = Authenticator(house.access, AccessSettings(key=b"o" * 32)).signer
    assert own.open("p", Signer(b"o" * 32).seal("p", {"a": 1}, NOW + DAY), NOW)
