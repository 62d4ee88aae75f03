"""A store of each release becomes one of this version, with all that is in it, whenever it is interrupted."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from access.opening import open_access
from access.people import list_people
from access.tokens import list_tokens
from api.sql.saved import saved_queries
from tests.conftest import REPO
from tests.draws import drawn, seldom
from tests.releases.make import ROOT, run, written
from tests.stores import engine_that_stays, fresh_store
from tests.warehouse.accounts.as_account import account, config_for
from warehouse.errors import LedgerError
from warehouse.store import Store, identifier, migrate, migrations, open_store

RELEASES = sorted(Path(__file__).parent.glob("*.tar.xz"))
RENAMED = {"0.1.0-schema30": {"told_tenant": "reported_tenant", "told_project": "reported_project"}}
"""By release, keys of what commands printed that have other names now: all of them are in the CHANGELOG."""
NEW_TABLES = ("close_carried", "close_named", "device_hours", "recent_batches")
"""Since the earliest release; an upgrade leaves them empty."""
NEW_COLUMNS = {"ingest_batches": ("[]",), "stream_hours": ("0",) * 7}
"""Since then, the last of their tables; of rows of before."""
NEW_KEYS = {"rates list": {"cluster", "currency", "timezone"}}
"""Since then, of what a command prints."""
REWORDED = {"sample told the power": "sample reported the power"}
"""Texts that say the same in other words now."""
NEW_OF_PERIODS = {"checked_until"}
EXPLAINED = "invoice explain 1 --number GL-2026-00001"
"""The release listed what came after the invoice beside what it was computed from: the allocation `late`."""
REDRAWN: Mapping[str, Mapping[str, str]] = json.loads(
    Path(__file__).with_name("redrawn.json").read_text(encoding="utf-8")
)
"""By release, pages that are laid out otherwise since (quotas before what they cover, a row's kind first), with their
digests now. What is no page is as it was written."""
STATEMENTS = 183
"""Of an upgrade, at most."""
Rows = dict[str, list[tuple[Any, ...]]]


class Killed(BaseException):
    """The process is gone: nothing that follows does anything."""


def opened(folder: Path) -> Store:
    return open_store(f"chdb://{folder / 'store'}")


def copied(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to, symlinks=True)
    return to


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        # Debian 12's own Python 3.11.2 has no filters yet, and later ones warn without one.
        tar.extractall(folder, **({"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}))
    return folder


@pytest.fixture(scope="module", params=RELEASES, ids=[path.name.removesuffix(".tar.xz") for path in RELEASES])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(request.param, tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def upgraded(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = copied(release, tmp_path_factory.mktemp("upgraded") / "release")
    with opened(folder) as store:
        assert migrate(store) == [name for _, name, _ in migrations()]
        assert migrate(store) == []
    with engine_that_stays():
        yield folder


def schema(store: Store) -> dict[str, str]:
    """How each table and view is made. In what order a table's settings are written says when they were set."""
    found = {}
    for row in store.rows("SELECT name FROM system.tables WHERE database = currentDatabase()"):
        head, _, settings = store.value(f"SHOW CREATE TABLE {identifier(row['name'])}").partition("\nSETTINGS ")
        listed, _, comment = settings.partition("\n")
        found[row["name"]] = "\n".join((head, *sorted(listed.split(", ")), comment))
    return found


def content(store: Store) -> Rows:
    """All rows of all tables, as the columns lie, whatever they are called."""
    found: Rows = {}
    sql = "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'"
    for row in store.rows(sql):
        if (name := identifier(row["name"])) != "schema_migrations":
            rows = store.rows(f"SELECT * FROM {name} ORDER BY ALL")
            found[name] = [tuple(map(repr, row.values())) for row in rows]
    return found


def test_an_upgraded_store_is_made_as_a_fresh_one_is(upgraded: Path, tmp_path: Path) -> None:
    with opened(upgraded) as store:
        found = schema(store)
    with fresh_store(tmp_path / "fresh") as store:
        expected = schema(store)
    assert set(found) == set(expected)
    for name, create in expected.items():
        assert found[name] == create, name


def test_an_upgrade_leaves_every_cell_as_it_was(release: Path, upgraded: Path) -> None:
    with opened(release) as store:
        before = content(store)
    with opened(upgraded) as store:
        after = content(store)
    assert {name: after[name] for name in after.keys() - before.keys()} == {name: [] for name in NEW_TABLES}
    for name, rows in before.items():
        assert rows, f"{name}: the release's store shows nothing of it"
        width = len(rows[0])
        assert [row[:width] for row in after[name]] == rows, name
        assert {row[width:] for row in after[name]} <= {NEW_COLUMNS.get(name, ())}, name


def known_then(answer: Any, released: Any) -> Any:
    """The answer without what of periods is said since the release."""
    if isinstance(answer, list) and isinstance(released, list):
        return [known_then(*pair) for pair in zip(answer, released, strict=False)] + answer[len(released) :]
    if isinstance(answer, dict) and isinstance(released, dict):
        new = NEW_OF_PERIODS - released.keys() if "closed_until" in released else set[str]()
        return {name: known_then(one, released.get(name)) for name, one in answer.items() if name not in new}
    return answer


def renamed(answer: Any, names: Mapping[str, str]) -> Any:
    if isinstance(answer, list):
        return [renamed(one, names) for one in answer]
    if isinstance(answer, dict):
        return {names.get(name, name): renamed(one, names) for name, one in answer.items()}
    for before, after in REWORDED.items() if isinstance(answer, str) else ():
        answer = answer.replace(before, after)
    return answer


@seldom(5, "every command of an upgraded store")
def test_every_command_prints_of_an_upgraded_store_what_the_release_printed(
    upgraded: Path, request: pytest.FixtureRequest
) -> None:
    printed = json.loads((upgraded / "printed.json").read_text(encoding="utf-8"))
    names = RENAMED.get(request.node.callspec.id, {})
    url = f"chdb://{upgraded / 'store'}"
    for command, (status, answer) in printed["commands"].items():
        found, text = run(f"{command} --format json", url)
        if command == EXPLAINED:
            answer["rows"] = [row for row in answer["rows"] if row["allocation"] != "late"]
        if command == "budget list":
            answer = [row | {"thresholds": row["thresholds"].replace(" %", "%")} for row in answer]
        answers, new = json.loads(text), NEW_KEYS.get(command, set())
        if (
            command == "audit"
        ):  # what it says of one moment stands in the order in which it was done, by name in releases
            answer, answers = (sorted(rows, key=lambda row: (row["at"], json.dumps(row))) for rows in (answer, answers))
        for one in answers if new else ():
            assert new <= one.keys()
            for name in new - answer[0].keys():
                del one[name]
        assert (found, known_then(answers, answer)) == (status, renamed(answer, names)), command


def test_every_document_is_byte_for_byte_what_the_release_wrote(upgraded: Path, request: pytest.FixtureRequest) -> None:
    printed = json.loads((upgraded / "printed.json").read_text(encoding="utf-8"))
    found = written(f"chdb://{upgraded / 'store'}", printed["writes"])
    redrawn = REDRAWN.get(request.node.callspec.id, {})
    assert redrawn.keys() <= printed["written"].keys() and all(name.endswith((".html", ".pdf")) for name in redrawn)
    expected = {**printed["written"], **redrawn}
    if printed["typst"] != importlib.metadata.version("typst"):  # which sets a page in other bytes
        found, expected = ({n: d for n, d in some.items() if not n.endswith(".pdf")} for some in (found, expected))
    assert found == expected


def test_people_tokens_and_saved_queries_are_there_and_the_queries_answer(
    upgraded: Path, request: pytest.FixtureRequest
) -> None:
    """Under the names that columns have now: those of a saved statement are renamed with the columns."""
    printed = json.loads((upgraded / "printed.json").read_text(encoding="utf-8"))
    with opened(upgraded) as store, open_access(store) as access:
        assert sorted(one.label for one in list_people(access)) == printed["people"]
        assert sorted(one.name for one in list_tokens(access)) == printed["tokens"]
        answers = {one.name: store.rows(one.text) for one in saved_queries(access, ROOT)}
    assert json.loads(json.dumps(answers, default=str)) == renamed(
        printed["queries"], RENAMED.get(request.node.callspec.id, {})
    )


CHANGES = (
    "ALTER TABLE invoices UPDATE document = replaceOne(document, 'chem', 'chim') WHERE sequence = 1",
    "ALTER TABLE credits UPDATE amount = 9 WHERE position = 2",
    "ALTER TABLE allocations UPDATE priority = 6 WHERE workload_id = 'a02'",
    "ALTER TABLE ledger_entries UPDATE units = 7 WHERE workload_id = 'a02'",
    "ALTER TABLE closed_hours DELETE WHERE hour = '2026-02-10 08:00:00'",
)
"""Each is one that verify must find."""


@pytest.mark.parametrize("change", drawn(CHANGES, 0.2))
@pytest.mark.parametrize("when", ["before", "after"])
def test_verify_finds_what_somebody_changed_before_the_upgrade_or_after_it(
    release: Path, tmp_path: Path, when: str, change: str
) -> None:
    folder = copied(release, tmp_path / "release")
    with opened(folder) as store:
        for step in ("before", "after"):
            if step == when:
                store.command(f"{change} SETTINGS mutations_sync = 2")
            if step == "before":
                migrate(store)
    assert run("verify", f"chdb://{folder / 'store'}")[0] == 1


@contextlib.contextmanager
def dying_after(statements: int, patch: pytest.MonkeyPatch) -> Iterator[None]:
    command, left = Store.command, [statements]

    def dies(store: Store, *arguments: Any, **more: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        command(store, *arguments, **more)

    with patch.context() as patched:
        patched.setattr(Store, "command", dies)
        yield


@pytest.mark.parametrize("statements", drawn(range(STATEMENTS), 0.02))
def test_an_upgrade_that_is_killed_after_any_statement_is_done_by_the_next_start(
    release: Path, upgraded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statements: int
) -> None:
    folder = copied(release, tmp_path / "release")
    with opened(folder) as store, dying_after(statements, monkeypatch), contextlib.suppress(Killed):
        migrate(store)
    with opened(folder) as store:
        migrate(store)
        found, rows = schema(store), content(store)
    with opened(upgraded) as store:
        assert found == schema(store)
        assert rows == content(store)


def test_an_upgrade_has_no_more_statements_than_are_killed(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied(release, tmp_path / "release")
    with opened(folder) as store, dying_after(STATEMENTS, monkeypatch):
        migrate(store)


def test_a_store_of_an_earlier_version_than_a_release_is_refused(release: Path, tmp_path: Path) -> None:
    folder = copied(release, tmp_path / "release")
    with opened(folder) as store:
        before = schema(store)
        store.command("ALTER TABLE schema_migrations DELETE WHERE number > 20 SETTINGS mutations_sync = 2")
        with pytest.raises(LedgerError, match=re.escape("(migration 0020) is older than any that can be upgraded")):
            migrate(store)
        assert schema(store) == before


@seldom(6, "the rights of an upgrade")
def test_the_account_of_a_server_may_do_all_that_an_upgrade_does(release: Path, tmp_path: Path) -> None:
    folder = copied(release, tmp_path / "release")
    (tmp_path / "config").mkdir()
    config = config_for(account("gpuledger_writer"), tmp_path / "config", {})
    command = [sys.executable, str(Path(__file__).parent / "upgrade_as.py"), str(folder / "store"), str(config)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=240, cwd=REPO, env={"PYTHONPATH": str(REPO)}
    )
    assert (done.returncode, done.stdout) == (0, "6\n"), done.stderr[-3000:]
