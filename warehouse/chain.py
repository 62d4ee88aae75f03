"""Hash chains: append-only tables in which each row holds the digest of the row before, so that tampering shows.

A row's `position` counts from 1, `previous` is the digest of the row before, and `digest` is the sha256 of

    PREVIOUS\\n
    NAME LENGTH VALUE\\n    for each other column that is not empty, by name; LENGTH in bytes

so anyone with the rows can check it (docs/billing.md). Rows written before the chain existed have position 0 and no
`previous`; the chain begins with a digest of all of them. `chain_heads` records the beginning and the last row of each
chain, so that a missing last row is found too.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from warehouse.errors import LedgerError
from warehouse.sql import identifier, read_sql, text_literal

if TYPE_CHECKING:
    import pyarrow as pa

    from warehouse.store import Store

CHAINED: Mapping[str, str] = {
    "invoices": "number",
    "voided_invoices": "number",
    "credits": "id",
    "grants": "id",
    "rate_cards": "version",
    "tenant_mappings": "version",
    "energy_settings": "version",
    "budgets": "version",
    "parties": "version",
    "close_runs": "run",
    "audit": "action",
}
"""The chained tables, and the column that names a row to people."""
LINK = ("position", "previous", "digest")
"""The columns that make the chain; all others are the content."""
NOTHING = hashlib.sha256(b"").hexdigest()
"""How a chain begins where there was nothing before it."""
TRIES = 5
_turn = threading.Lock()
"""Threads of this process need not race each other."""


class TakenError(LedgerError):
    """Another process wrote to the table at the same time; nothing of ours was written."""


class Head(NamedTuple):
    """The last row of a chain; position 0: there is none yet."""

    position: int
    digest: str


def head(store: Store, table: str) -> Head:
    """The current end of the table's chain. Read it before the data from which the next rows are computed."""
    store.catch_up(table, "chain_heads")
    (last,) = store.rows(read_sql(__file__, "chained/last_link", table=identifier(table)), {"chain": table})
    return Head(**last)


def append(store: Store, table: str, batch: pa.Table, after: Head) -> None:
    """Adds rows at the end of the table's chain, all of them or none.

    Two concurrent appends cannot fork the chain: the insert's deduplication token is the digest of the row before, and
    the engine accepts a token once.
    Errors: TakenError if the chain already continues after `after`: what the rows were computed from may have changed.
    """
    import pyarrow as pa

    if not len(batch):
        return
    first, previous = after.position + 1, after.digest
    before, digests = [], []
    for content in _contents(store, batch, _columns(store, [table])[table]):
        before.append(previous)
        previous = digest(previous, content)
        digests.append(previous)
    links = {
        "position": pa.array(range(first, first + len(batch)), pa.uint64()),
        "previous": pa.array(before, pa.string()),
        "digest": pa.array(digests, pa.string()),
    }
    for name, values in links.items():
        batch = batch.append_column(name, values)
    _insert(store, table, batch, first, digests[0], after.digest)
    _add_heads(store, [(table, False, first + len(digests) - 1, previous)])


def append_anyway(store: Store, table: str, batch: pa.Table) -> None:
    """The same for rows that do not depend on what others wrote before them."""
    with _turn:
        for _ in range(TRIES - 1):
            with contextlib.suppress(TakenError):
                append(store, table, batch, head(store, table))
                return
        append(store, table, batch, head(store, table))


def digest(previous: str, content: str) -> str:
    """The digest of a row with this content."""
    return hashlib.sha256(f"{previous}\n{content}".encode()).hexdigest()


def content_sql(store: Store, tables: Sequence[str]) -> dict[str, str]:
    """By table, an expression: a row's content as the text that its digest is of."""
    return {table: _content(columns) for table, columns in _columns(store, tables).items()}


def adopt(store: Store) -> None:
    """Begins the chains of tables that have none yet: existing rows get digests, and the chain begins with a digest of
    those."""
    heads = []
    for row in store.rows(read_sql(__file__, "chained/not_begun"), {"tables": list(CHAINED)}):
        beginning = _seal_old_rows(store, row["name"]) if row["filled"] else NOTHING
        heads += [(row["name"], True, 0, beginning), (row["name"], False, 0, beginning)]
    if heads:
        _add_heads(store, heads)


def _seal_old_rows(store: Store, table: str) -> str:
    """Gives the existing rows digests. Returns the digest of all of them."""
    texts = {"table": identifier(table), "content": content_sql(store, [table])[table]}
    store.command(read_sql(__file__, "chained/seal_old_rows", **texts))
    return str(store.value(read_sql(__file__, "chained/beginning", **texts)))


def _insert(store: Store, table: str, batch: pa.Table, first: int, digest: str, previous: str) -> None:
    """Errors: TakenError."""
    for attempt in range(TRIES):
        # A kill can leave a token noted without its rows (ingest/write.py): nothing stands there, the next is free.
        store.insert(table, batch, f"{table} after {previous} {attempt}")
        # On a cluster, what took the place may be on another node as yet.
        store.catch_up(table)
        found = store.rows(read_sql(__file__, "chained/link_at", table=identifier(table)), {"position": first})
        if found:
            if [row["digest"] for row in found] == [digest]:
                return
            break
    raise TakenError(f"table {table}", "another process wrote at the same time", "Run the same command again")


def _columns(store: Store, tables: Sequence[str]) -> dict[str, dict[str, str]]:
    """By table the content's columns by name, with their types."""
    rows = store.rows(read_sql(__file__, "chained/content_columns"), {"tables": list(tables), "link": list(LINK)})
    return {row["table"]: dict(row["columns"]) for row in rows}


def _contents(store: Store, batch: pa.Table, columns: Mapping[str, str]) -> list[str]:
    import pyarrow as pa

    given = {name: kind for name, kind in columns.items() if name in batch.column_names}
    typed = ", ".join(
        f"CAST({identifier(name)}, {text_literal(kind)}) AS {identifier(name)}" for name, kind in given.items()
    )
    numbered = batch.append_column("chain_place", pa.array(range(len(batch)), pa.uint64()))
    with store.staged(numbered) as staged:
        rows = store.rows(read_sql(__file__, "chained/contents", typed=typed, content=_content(given), staged=staged))
    return [row["content"] for row in rows]


def _content(columns: Mapping[str, str]) -> str:
    parts = []
    for name, kind in columns.items():
        column = identifier(name)
        is_empty = (
            f"isNull({column})" if kind.startswith("Nullable") else f"{column} = defaultValueOfArgumentType({column})"
        )
        value = f"ifNull(toString({column}), '')"
        parts.append(f"if({is_empty}, '', concat('{column} ', toString(length({value})), ' ', {value}, '\\n'))")
    return f"concat('', {', '.join(parts)})"


def _add_heads(store: Store, heads: Sequence[tuple[str, bool, int, str]]) -> None:
    chains, beginnings, positions, digests = (list(column) for column in zip(*heads, strict=True))
    params = {"chains": chains, "beginnings": [int(one) for one in beginnings], "positions": positions}
    store.command(read_sql(__file__, "chained/add_heads"), {**params, "digests": digests})
