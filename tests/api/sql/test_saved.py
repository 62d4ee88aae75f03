"""Saved queries: whose they are, who sees and changes them, and that nothing but their owners' words is kept."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from access.opening import open_access
from access.principal import ForbiddenError, Principal
from access.roles import Role
from access.store import AccessStore
from api.sql.saved import (
    SavedQueryError,
    UnknownQueryError,
    delete_query,
    save_query,
    saved_queries,
    saved_query,
)
from billing.audit import history
from warehouse.store import Store

NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
ANN, BOB = (Principal(name, frozenset({Role.analyst})) for name in ("ann", "bob"))
ROOT = Principal("root", frozenset({Role.admin}))
TEXT = "SELECT 'it''s \\'q\\'',\n\t`a` -- 中文 {x:String}\n"


@pytest.fixture
def access(store: Store) -> Iterator[AccessStore]:
    with open_access(store) as opened:
        yield opened


def later(minutes: int) -> datetime:
    return NOW + timedelta(minutes=minutes)


def test_a_text_comes_back_as_it_was_written_and_the_last_one_saved_counts(access: AccessStore) -> None:
    first = save_query(access, ANN, NOW, "costs", TEXT)
    assert saved_query(access, ANN, "costs").text == TEXT
    again = save_query(access, ANN, later(1), "costs", "SELECT 2", "two", shared=True)
    assert saved_queries(access, ANN) == [again]
    assert (again.created_at, again.changed_at) == (first.created_at, later(1))
    assert save_query(access, ANN, later(2), "costs", "SELECT 2", "two", shared=True) == again
    assert [row["action"] for row in history(access.warehouse, "query")] == ["query.save"] * 2


def test_others_see_what_is_shared_and_an_admin_sees_all(access: AccessStore) -> None:
    save_query(access, ANN, NOW, "mine", "SELECT 1")
    save_query(access, ANN, NOW, "ours", "SELECT 1", shared=True)
    assert [one.name for one in saved_queries(access, BOB)] == ["ours"]
    assert [one.name for one in saved_queries(access, ROOT)] == ["mine", "ours"]
    with pytest.raises(UnknownQueryError, match="does not exist, or you don't have access to it"):
        saved_query(access, BOB, "mine", "ann")
    assert saved_query(access, ROOT, "mine").owner == "ann"


def test_a_name_is_its_owner_s_and_one_s_own_comes_first(access: AccessStore) -> None:
    for who in (ANN, ROOT):
        save_query(access, who, NOW, "costs", f"SELECT '{who.name}'", shared=True)
    with pytest.raises(SavedQueryError, match="ann, root each have one"):
        saved_query(access, BOB, "costs")
    assert saved_query(access, BOB, "costs", "root").text == "SELECT 'root'"
    save_query(access, BOB, NOW, "costs", "SELECT 'bob'")
    assert saved_query(access, BOB, "costs").owner == "bob"


def test_only_its_owner_or_an_admin_changes_or_deletes_one(access: AccessStore) -> None:
    save_query(access, ANN, NOW, "costs", "SELECT 1", shared=True)
    with pytest.raises(ForbiddenError, match="not yours to change"):
        save_query(access, BOB, later(1), "costs", "SELECT 2", owner="ann")
    with pytest.raises(ForbiddenError, match="not yours to change"):
        delete_query(access, BOB, later(1), "costs", "ann")
    with pytest.raises(UnknownQueryError, match="is not there"):
        delete_query(access, BOB, later(1), "costs")
    changed = save_query(access, ROOT, later(2), "costs", "SELECT 3", owner="ann")
    assert (changed.owner, changed.changed_by, changed.shared) == ("ann", "root", False)
    delete_query(access, ROOT, later(3), "costs", "ann")
    assert saved_queries(access, ROOT) == []
    anew = save_query(access, ANN, later(4), "costs", "SELECT 1")
    assert anew.created_at == later(4)
    assert [(row["actor"], row["action"]) for row in history(access.warehouse, "query")] == [
        ("ann", "query.save"), ("root", "query.save"), ("root", "query.delete"), ("ann", "query.save"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["", " a", "a ", "a/b", "a\\b", "..", "a\nb", "x" * 101])
def test_a_name_of_no_use_is_refused(access: AccessStore, name: str) -> None:
    with pytest.raises(SavedQueryError, match="is not a valid name"):
        save_query(access, ANN, NOW, name, "SELECT 1")


@pytest.mark.parametrize("text", ["", " \n", "x" * 300_000])
def test_a_text_of_no_use_is_refused(access: AccessStore, text: str) -> None:
    with pytest.raises(SavedQueryError, match="is empty or too long"):
        save_query(access, ANN, NOW, "costs", text)
