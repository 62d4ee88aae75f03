"""Finds rows that the store already has with equal values in every column: resending them changes nothing, so they are
never held.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.records import RecordType
from warehouse.store import Store, identifier, read_sql


def stored_already(
    store: Store, record: RecordType, table: pa.Table, acknowledged: bool = False, doubted_from: str | None = None
) -> set[int]:
    """Indexes of such rows in the table.   acknowledged: count only rows from complete batches.
    doubted_from: of rows that senders other than this one pushed, count only those that a close has read: a close may
    still turn the others into held rows."""
    if not len(table):
        return set()
    types = {row["name"]: row["type"] for row in store.rows(read_sql(__file__, "column_types"), {"table": record.name})}
    names = [identifier(column.name) for column in record.columns]
    there = [name for name in names if name in table.column_names]
    plain = pa.table([_plain(table[name]) for name in there], names=there)
    span = pc.min_max(table["ts"])
    numbered = plain.append_column("place", pa.array(range(len(table)), pa.uint64()))
    with store.staged(numbered) as staged:
        sql = read_sql(
            __file__,
            "stored_already",
            table=identifier(record.name),
            subject=identifier(record.key[1]),
            stored=", ".join(_text(name) for name in names),
            given=", ".join(_text(_cast(name if name in there else None, types[name])) for name in names),
            staged=staged,
        )
        when = {"first_at": span["min"].as_py(), "last_at": span["max"].as_py()}
        doubts = {"doubts": doubted_from is not None, "sender": doubted_from or ""}
        return set(store.arrow(sql, {**when, "acknowledged": acknowledged, **doubts})["place"].to_pylist())


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def _cast(name: str | None, kind: str) -> str:
    """In the table's own type, which may be narrower; of a column that was left out, what the table takes for it. The
    engine's word for a type, from its own catalogue."""
    quoted = f"'{kind.replace(chr(92), chr(92) * 2).replace(chr(39), chr(92) + chr(39))}'"
    return f"defaultValueOfTypeName({quoted})" if name is None else f"CAST({name}, {quoted})"


def _text(value: str) -> str:
    """A column as text; NULL as a text that nothing else can be."""
    return f"ifNull(concat('=', toString({value})), '')"
