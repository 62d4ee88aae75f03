"""The names that a statement may use. These are lists of what is allowed, not of what is forbidden, because a future
engine has more of both.
"""

from __future__ import annotations

# ruff: noqa: SIM905
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from access.principal import Principal
from access.roles import Action
from api.sql.functions import AGGREGATES, COMBINATORS, ORDINARY, REFUSED
from warehouse.accounts import declaration
from warehouse.store import Store, read_sql

FRESH_SECONDS = 60.0
LONGEST_FUNCTION = 100
TABLE_FUNCTIONS = frozenset(
    {"numbers", "numbers_mt", "generateseries", "generate_series", "values", "sqlstandardvalues", "primes"}
)
"""In lower case. The others read files, other machines, this process's memory, or tables behind the filters' back; and
`zeros` is refused by the engine itself to who may only read."""
SYSTEM = frozenset(
    {"system.one", "system.numbers", "system.numbers_mt", "system.zeros", "system.tables", "system.columns",
     "system.databases", "system.functions", "system.aggregate_function_combinators", "system.formats",
     "system.data_type_families", "system.time_zones", "system.settings", "system.keywords",
     "information_schema.tables", "information_schema.columns", "information_schema.schemata"}
)  # fmt: skip
DATABASES = frozenset({"system", "information_schema", "default", "_temporary_and_external_tables"})
"""What the engine has beside the store's own: a name in front of a dot that is one of these may name a table."""
TYPES = frozenset(
    """
    aggregatefunction array bfloat16 bigint binary bit blob bool boolean byte bytea char character clob date date32
    datetime datetime32 datetime64 dec decimal decimal128 decimal256 decimal32 decimal64 double dynamic enum enum16
    enum8 fixed fixedstring float float32 float64 inet4 inet6 int int1 int128 int16 int256 int32 int64 int8 integer
    intervalday intervalhour intervalmicrosecond intervalmillisecond intervalminute intervalmonth
    intervalnanosecond intervalquarter intervalsecond intervalweek intervalyear ipv4 ipv6 json linestring longblob
    longtext lowcardinality map mediumblob mediumint mediumtext multilinestring multipoint multipolygon nchar
    nested nothing nullable numeric nvarchar point polygon real ring signed simpleaggregatefunction single smallint
    string text time time64 timestamp tinyblob tinyint tinytext tuple uint128 uint16 uint256 uint32 uint64 uint8
    unsigned uuid varbinary varchar varchar2 variant year
    """.split()
)
"""In lower case. Not `Identifier`, the type of a parameter that names anything."""
SECRET = frozenset(declaration.SECRET)
"""Tables that nobody reads by SQL, whoever they are."""
AUDIT = frozenset(declaration.AUDIT)


@dataclass(frozen=True)
class Allowed:
    """What one principal's statements may name. It needs no engine: functions and types are lists in this package."""

    database: str
    tables: frozenset[str]
    closed: frozenset[str]
    parameterised: frozenset[str]

    def table(self, name: str, database: str = "") -> bool:
        """database: as the statement names it; empty: not."""
        if database in ("", self.database):
            return name in self.tables and name not in self.closed
        return f"{database}.{name}".lower() in SYSTEM

    def names_database(self, name: str) -> bool:
        """Whether a name in front of a dot may be a database."""
        return name.lower() in DATABASES or name.lower() == self.database.lower()


def allowed_function(name: str) -> bool:
    """Also an aggregate with combinators, such as sumIf or quantileArrayOrNull. Letter case does not matter."""
    lowered = name.lower()
    return lowered in ORDINARY or (lowered not in REFUSED and allowed_aggregate(lowered))


def allowed_aggregate(name: str) -> bool:
    lowered = name.lower()
    if lowered in AGGREGATES:
        return True
    return len(lowered) <= LONGEST_FUNCTION and any(
        lowered.endswith(suffix) and allowed_aggregate(lowered.removesuffix(suffix)) for suffix in COMBINATORS
    )


class Catalogue:
    """The tables of a store, re-read once a minute, and which of them a principal may name."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read_at = -FRESH_SECONDS
        self._tables: Mapping[str, bool] = {}

    def allowed(self, principal: Principal) -> Allowed:
        with self._lock:
            if time.monotonic() - self._read_at >= FRESH_SECONDS:
                rows = self._store.rows(read_sql(__file__, "tables"))
                self._tables = {row["name"]: bool(row["is_parameterised"]) for row in rows}
                self._read_at = time.monotonic()
        closed = SECRET if principal.may(Action.see_audit) else SECRET | AUDIT
        return Allowed(
            database=self._store.database,
            tables=frozenset(self._tables) - closed,
            closed=closed,
            parameterised=frozenset(name for name, parameterised in self._tables.items() if parameterised) - closed,
        )
