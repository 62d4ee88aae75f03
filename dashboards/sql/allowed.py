"""What a statement may name. Lists of what is allowed, not of what is not: an engine of tomorrow has more of both."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from dashboards.access.principal import Principal
from dashboards.access.roles import Action
from warehouse.store import Store, read_sql

FRESH_SECONDS = 60.0
CATEGORIES = frozenset(
    {"Aggregate Functions", "Arithmetic", "Arrays", "Bit", "Bitmap", "Comparison", "Conditional", "Dates and Times",
     "Distance", "Encoding", "Financial", "Geo", "Geo Polygon", "Hash", "IP Address", "JSON", "Logical", "Map",
     "Mathematical", "Null", "Nullable", "NumericIndexedVector", "Random Number", "Rounding", "String",
     "String Replacement", "String Search", "String Splitting", "Time Series", "Time Window", "Tuple",
     "Type Conversion", "URL", "UUID", "Window Functions", "QBit"}
)  # fmt: skip
"""The engine's own sorting of functions that compute with what they are given and touch nothing else."""
FUNCTIONS = frozenset(
    {"bar", "blockNumber", "byteSize", "countDigits", "currentDatabase", "currentUser", "defaultValueOfTypeName",
     "displayName", "dumpColumnStructure", "errorCodeToName", "finalizeAggregation", "formatReadableDecimalSize",
     "formatReadableQuantity", "formatReadableSize", "formatReadableTimeDelta", "getSizeOfEnumType", "getSubcolumn",
     "hostName", "identity", "ignore", "indexHint", "initializeAggregation", "isConstant", "isDecimalOverflow",
     "lambda", "lowCardinalityIndices", "lowCardinalityKeys", "materialize", "neighbor", "parseReadableSize",
     "parseReadableSizeOrNull", "parseReadableSizeOrZero", "parseTimeDelta", "queryID", "revision",
     "rowNumberInAllBlocks", "rowNumberInBlock", "runningAccumulate", "runningConcurrency", "runningDifference",
     "runningDifferenceStartingWithFirstValue", "throwIf", "toColumnTypeName", "toTypeName", "transform", "uptime",
     "variantElement", "variantType", "version", "visibleWidth", "exists", "grouping", "untuple", "_CAST"}
)  # fmt: skip
"""Harmless ones of the category `Other`, where file() and joinGet() live, too; and what the tree calls functions."""
TABLE_FUNCTIONS = frozenset(
    {"numbers", "numbers_mt", "zeros", "zeros_mt", "generateseries", "generate_series", "values", "sqlstandardvalues",
     "primes"}
)  # fmt: skip
"""In lower case. The others read files, other machines, this process's memory, or tables behind the filters' back."""
SYSTEM = frozenset(
    {"system.one", "system.numbers", "system.numbers_mt", "system.zeros", "system.tables", "system.columns",
     "system.databases", "system.functions", "system.aggregate_function_combinators", "system.formats",
     "system.data_type_families", "system.time_zones", "system.settings", "system.keywords", "system.parts",
     "information_schema.tables", "information_schema.columns", "information_schema.schemata"}
)  # fmt: skip
SECRET = frozenset({"access_users", "access_tokens", "saved_queries"})
"""Tables that nobody reads by SQL, whoever they are."""
AUDIT = frozenset({"audit"})


@dataclass(frozen=True)
class Allowed:
    """What one principal's statements may name. Functions are in lower case.

    closed:  tables of the database that they may not read.
    """

    database: str
    functions: frozenset[str]
    combinators: tuple[str, ...]
    tables: frozenset[str]
    closed: frozenset[str]
    parameterised: frozenset[str]

    def function(self, name: str) -> bool:
        """Also an aggregate with combinators, such as sumIf or quantileArrayOrNull."""
        lowered = name.lower()
        if lowered in self.functions:
            return True
        return any(
            lowered.endswith(suffix) and len(lowered) > len(suffix) and self.function(lowered.removesuffix(suffix))
            for suffix in self.combinators
        )

    def table(self, name: str) -> bool:
        """Qualified or not. One that is not known may be a name that the statement itself defines."""
        database, dot, table = name.rpartition(".")
        if not dot:
            return table not in self.closed
        if database == self.database:
            return table in self.tables
        return f"{database.lower()}.{table.lower()}" in SYSTEM


class Catalogue:
    """What the engine knows, read anew once a minute."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read_at = -FRESH_SECONDS
        self._functions: frozenset[str] = frozenset()
        self._combinators: tuple[str, ...] = ()
        self._tables: Mapping[str, bool] = {}

    def allowed(self, principal: Principal) -> Allowed:
        with self._lock:
            if time.monotonic() - self._read_at >= FRESH_SECONDS:
                self._read()
        closed = SECRET if principal.may(Action.see_audit) else SECRET | AUDIT
        return Allowed(
            database=self._store.database,
            functions=self._functions,
            combinators=self._combinators,
            tables=frozenset(self._tables) - closed,
            closed=closed,
            parameterised=frozenset(name for name, parameterised in self._tables.items() if parameterised),
        )

    def _read(self) -> None:
        self._functions = _functions(self._store.rows(read_sql(__file__, "functions")))
        rows = self._store.rows("SELECT lower(name) AS name FROM system.aggregate_function_combinators")
        self._combinators = tuple(row["name"] for row in rows)
        self._tables = {row["name"]: row["is_parameterised"] for row in self._store.rows(read_sql(__file__, "tables"))}
        self._read_at = time.monotonic()


def _functions(rows: list[dict[str, object]]) -> frozenset[str]:
    category: Mapping[str, str] = {str(row["name"]): str(row["categories"]) for row in rows}
    found = {name.lower() for name in FUNCTIONS}
    for row in rows:
        name, alias_of = str(row["name"]), str(row["alias_to"])
        fits = any(
            category.get(one, "") in CATEGORIES or one in FUNCTIONS or (row["is_aggregate"] and one == name)
            for one in {name, alias_of} - {""}
        )
        if fits:
            found.add(name.lower())
    return frozenset(found)
