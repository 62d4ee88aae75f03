"""Chained tables: what an auditor computes by hand, two that write at once, and rows of before the chain."""

from __future__ import annotations

import hashlib
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest

from billing.verify import chain_failures
from tests.conftest import REPO
from tests.patience import PATIENCE_SECONDS
from tests.stores import fresh_store
from warehouse.chain import CHAINED, Head, TakenError, adopt, append, append_anyway, head
from warehouse.store import Store

AT = datetime(2026, 10, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def voids(*numbers: str, reason: str = "wrong address") -> pa.Table:
    count = len(numbers)
    columns = {"number": pa.array(numbers, pa.string()), "reason": pa.array([reason] * count, pa.string())}
    return pa.table({**columns, "at": pa.array([AT] * count, pa.timestamp("ms", "UTC"))})


def links(store: Store) -> list[tuple[int, str, str, str]]:
    sql = "SELECT position, number, previous, digest FROM voided_invoices ORDER BY position"
    return [tuple(row.values()) for row in store.rows(sql)]


def add(store: Store, *numbers: str, **more: str) -> None:
    append(store, "voided_invoices", voids(*numbers, **more), head(store, "voided_invoices"))


def test_a_digest_is_what_an_auditor_computes_by_hand(store: Store) -> None:
    add(store, "GL-1", "GL-2", reason="naïve\nline")
    add(store, "GL-3")
    previous = hashlib.sha256(b"").hexdigest()
    for position, number, before, digest in links(store):
        reason = "wrong address" if number == "GL-3" else "naïve\nline"
        text = f"{previous}\nat 23 2026-10-01 12:00:00.250\nnumber 4 {number}\nreason {len(reason.encode())} {reason}\n"
        assert (before, digest) == (previous, hashlib.sha256(text.encode()).hexdigest()), position
        previous = digest
    assert head(store, "voided_invoices") == Head(3, previous)
    assert chain_failures(store, "voided_invoices") == []


def test_the_document_s_command_computes_the_digest_of_a_void(store: Store) -> None:
    """With every column that a void has: `invoice void` fills them all."""
    table = voids("GL-2026-00007").append_column("author", pa.array(["ann"]))
    append(store, "voided_invoices", table, head(store, "voided_invoices"))
    ((_, _, previous, digest),) = links(store)
    (row,) = store.rows("SELECT * EXCEPT (position, previous, digest) FROM voided_invoices")
    assert set(row) == set(table.column_names)
    text = (REPO / "docs" / "billing.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    (printf .*?sha256sum)$", text, re.DOTALL | re.MULTILINE)
    printed = subprocess.run(
        ["bash", "-c", command], env={"PREVIOUS": previous}, capture_output=True, text=True, check=True
    )
    assert printed.stdout.split()[0] == digest


def test_two_that_add_after_the_same_row_do_not_fork_the_chain(store: Store) -> None:
    last = head(store, "voided_invoices")
    add(store, "first")
    with pytest.raises(TakenError, match="another process wrote at the same time"):
        append(store, "voided_invoices", voids("second"), last)
    assert [number for _, number, _, _ in links(store)] == ["first"]


def test_of_many_that_add_at_once_each_adds_or_is_told(store: Store) -> None:
    together = Barrier(4)

    def one(name: str) -> bool:
        with store.another() as own:
            last = head(own, "voided_invoices")
            together.wait(PATIENCE_SECONDS)
            try:
                append(own, "voided_invoices", voids(name), last)
            except TakenError:
                return False
            return True

    with ThreadPoolExecutor(4) as pool:
        added = list(pool.map(one, "abcd"))
    assert added.count(True) == len(links(store)) == 1
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: append_anyway(store, "voided_invoices", voids(name)), "efgh"))
    assert [position for position, *_ in links(store)] == [1, 2, 3, 4, 5]
    assert chain_failures(store, "voided_invoices") == []


def test_an_insert_that_a_kill_lost_is_made_again(store: Store) -> None:
    """The engine notes an insert's token before its rows: killed between the two, only the token is there."""
    last = head(store, "voided_invoices")
    add(store, "lost")
    store.command("ALTER TABLE voided_invoices DELETE WHERE 1 SETTINGS mutations_sync = 2")
    append(store, "voided_invoices", voids("again"), last)
    assert [(position, number) for position, number, _, _ in links(store)] == [(1, "again")]


def of_before_the_chain(store: Store, table: str) -> None:
    """As if a table had its columns, and its chain had not begun."""
    store.command(f"ALTER TABLE chain_heads DELETE WHERE chain = '{table}' SETTINGS mutations_sync = 2")


def test_a_table_that_joins_the_chains_later_brings_its_rows(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "store") as store:
        of_before_the_chain(store, "parties")
        add(store, "void")
        text = ("INSERT INTO parties (version, sequence, applied_at, author, reason, parties) "
                "VALUES ('a', 1, '2026-10-01 12:00:00', 'ada', '', '{}')")  # fmt: skip
        store.command(text)
        adopt(store)
        assert chain_failures(store, *CHAINED) == []
        store.command("ALTER TABLE parties UPDATE parties = '[]' WHERE 1 SETTINGS mutations_sync = 2")
        assert {failure.table for failure in chain_failures(store, *CHAINED)} == {"parties"}


def test_rows_of_before_the_chain_are_taken_into_it(tmp_path: Path) -> None:
    with fresh_store(tmp_path / "store") as store:
        of_before_the_chain(store, "voided_invoices")
        store.insert("voided_invoices", voids("old-1", "old-2"))
        adopt(store)
        texts = [f"\nat 23 2026-10-01 12:00:00.250\nnumber 5 old-{n}\nreason 13 wrong address\n" for n in (1, 2)]
        digests = sorted(hashlib.sha256(text.encode()).hexdigest() for text in texts)
        assert sorted(digest for *_, digest in links(store)) == digests
        add(store, "new")
        assert links(store)[2][2] == hashlib.sha256("\n".join(digests).encode()).hexdigest()
        assert chain_failures(store, "voided_invoices") == []
        store.command("ALTER TABLE voided_invoices DELETE WHERE number = 'old-2' SETTINGS mutations_sync = 2")
        assert {failure.what for failure in chain_failures(store, "voided_invoices")} == {
            "it does not begin as it did", "it does not follow what stands before it",
        }  # fmt: skip
