"""Changes a cell or a row of a table for the duration of a `with` statement."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterator

from billing.verify.tables import VOUCHED
from warehouse.store import Store, identifier

HASHED = "sipHash64(toString(tuple(*)))"


def columns_of(store: Store, table: str) -> list[tuple[str, str]]:
    sql = (
        "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = {table:String}"
        " AND default_kind != 'ALIAS'"  # which no row holds
    )
    return [(row["name"], row["type"]) for row in store.rows(sql, {"table": table})]


def some_row(store: Store, table: str, dice: random.Random) -> int:
    """The hash of one of the rows that are vouched for."""
    rows = f"SELECT {HASHED} AS row_hash FROM {identifier(table)} WHERE {VOUCHED[table] or '1'}"
    sql = f"{rows} ORDER BY row_hash"
    return int(dice.choice(store.rows(sql))["row_hash"])


def changed(kind: str, dice: random.Random) -> str:
    """An expression of another value of a column ({}) of this type."""
    inner = kind
    for wrapper in ("LowCardinality", "Nullable"):
        inner = inner.removeprefix(f"{wrapper}(").removesuffix(")") if inner.startswith(wrapper) else inner
    step = dice.choice("+-")
    if inner == "String":
        value = dice.choice(("concat({}, 'x')", "if({} = '', 'x', '')", "if({} = '', 'x', substring({}, 2))"))
    elif inner.startswith("Enum"):
        one, other = re.findall("'([^']+)'", inner)[:2]
        value = f"if({{}} = '{one}', '{other}', '{one}')"
    elif inner == "Bool":
        value = "NOT {}"
    elif inner.startswith("DateTime64"):
        value = f"addMilliseconds({{}}, {step}1)"
    elif inner.startswith("DateTime"):
        value = f"addSeconds({{}}, {step}{dice.choice((1, 3600))})"
    elif inner.startswith("Decimal"):
        digits = int(inner.removesuffix(")").split(", ")[1])
        value = f"{{}} {step} toDecimal64('{1 / 10**digits:.{digits}f}', {digits})"
    elif inner.startswith(("UInt", "Int")):
        value = f"{{}} {step} 1"
    else:
        raise AssertionError(f"how to change a {kind}?")
    value = value.replace("{}", "{0}")
    if kind.startswith("Nullable"):
        other = "NULL" if dice.random() < 0.3 else value
        value = f"if(isNull({{0}}), CAST(0, '{kind.replace(chr(39), chr(92) + chr(39))}'), {other})"
    return f"CAST({value}, '{kind.replace(chr(39), chr(92) + chr(39))}')"


@contextlib.contextmanager
def replaced(store: Store, table: str, columns: str, which: str = "") -> Iterator[None]:
    """The table is another one meanwhile: rows copied as the columns and the clause say, and not merged."""
    copy, name = f"{table}_tampered", identifier(table)
    store.command(f"CREATE TABLE {copy} AS {name}")
    try:
        store.command(f"SYSTEM STOP MERGES {copy}")
        store.command(
            f"INSERT INTO {copy} SELECT {columns} FROM (SELECT *, {HASHED} AS row_hash FROM {name}) {which}",
            settings={"optimize_on_insert": 0, "insert_deduplicate": 0, "max_partitions_per_insert_block": 0},
        )
        store.exchange(copy, table)
        try:
            yield
        finally:
            store.exchange(copy, table)
    finally:
        store.command(f"DROP TABLE {copy} SYNC")
