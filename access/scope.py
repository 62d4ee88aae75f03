"""The store as a principal may see it: connections on which the engine itself leaves out the rows of other tenants.

Pages, API and exports query through `Stores.scoped_to`, with SQL that knows nothing of scopes. A principal who sees all
tenants gets a plain connection; any other gets one whose setting `additional_table_filters` limits each table to their
tenants. A table without a rule here shows them nothing.

This holds for our own SQL, which reads tables by name. It does not contain SQL from outside, because some table
functions bypass the filters: tenants may not run SQL at all (see api.sql).
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING

from access.principal import Principal
from warehouse.cluster import LOCAL, SHARDED
from warehouse.errors import LedgerError, StoreError
from warehouse.store import ServerStore, Store, identifier, read_sql

if TYPE_CHECKING:
    import pyarrow as pa

IDLE_CONNECTIONS = 8
"""Idle connections of one scope that stay open."""
POOLED_SCOPES = 32
UNSCOPED_TABLES = frozenset(
    {"close_runs", "closed_hours", "rate_cards", "tenant_mappings", "energy_settings", "budgets", "devices",
     "voided_invoices", "alert_runs", "summed_days", "slo_files", "slo_hours", "slo_measured", "interference_hours"}
)  # fmt: skip
"""Tables without a tenant whose rows our SQL needs to make sense of a tenant's own; none is handed out as it is. (Not
schema_migrations: the view `sees_all` knows a tenant's connection by its seeing none of them, and others name nobody.)

A file that was applied is one cell, which no filter cuts: who reads `budgets`, `rate_cards`, `tenant_mappings` or
`slo_files` cuts it by `Store.tenants` (`_seen_by`, beside each), and takes no more of it in SQL than its version, its
number of rules and what is the same for all. `energy_settings` name no tenant.
"""
_MINE = "tenant IN ({tenants})"
_HELD = "SELECT cluster, device_id FROM allocations WHERE tenant IN ({tenants})"
_PAID = f"SELECT cluster, allocation_id FROM allocations WHERE {_MINE}"
_ALL = "merge(currentDatabase(), '^allocations$')"
"""All tenants' allocations: filters do not apply through `merge`, but would to `allocations` itself."""
_OTHERS = f"SELECT cluster, allocation_id FROM {_ALL} WHERE NOT ({_MINE})"
_RUN = f"SELECT cluster, workload_id FROM allocations WHERE {_MINE}"
_NOT_OTHERS = f"(workload_id = '' OR (cluster, workload_id) IN ({_RUN}))"
_RUN_BY_OTHERS = f"SELECT cluster, workload_id FROM {_ALL} WHERE NOT ({_MINE})"
_REPORTED_TENANT = "if(reported_tenant = '', tenant, reported_tenant)"
_REPORTED_AS_MINE = f"({_MINE} OR tenant IN (SELECT {_REPORTED_TENANT} FROM allocations WHERE {_MINE}))"
_NAMED = "JSONExtractString(labels, 'tenant') IN ({tenants})"
FILTERS: Mapping[str, str] = {
    "samples": f"(cluster, device_id) IN ({_HELD}) AND {_NOT_OTHERS}",
    "metrics": f"(cluster, device_id) IN ({_HELD}) AND {_NOT_OTHERS}",
    "events": f"(cluster, allocation_id) IN ({_PAID}) OR ({_MINE} AND (cluster, allocation_id) NOT IN ({_OTHERS}))",
    "alert_transitions": _NAMED,
    "alert_evidence": _NAMED,
    "interference_samples":
        f"{_REPORTED_AS_MINE} AND "
        f"((cluster, workload_id) IN ({_RUN}) OR (cluster, workload_id) NOT IN ({_RUN_BY_OTHERS}))",
    "slo_points":
        f"{_REPORTED_AS_MINE} AND tenant NOT IN (SELECT {_REPORTED_TENANT} FROM {_ALL} WHERE NOT ({_MINE}))",
    "slo_definitions":
        "definition IN (SELECT definition FROM slo_points) "
        "OR (NOT match('', tenant) AND arrayExists(mine -> match(mine, tenant), [{tenants}]))",
}  # fmt: skip
"""Rules of tables that have no column `tenant`, or for which it is not enough: in events, windows and series it is as
the source reported it, and the mapping may make somebody else pay. A series under a name for which others pay, too,
is no tenant's to see. An objective is a tenant's if it has a series of it, or names it (and not everybody).
"""
RULES = " ".join(FILTERS.values())
"""All of them, which name the tables on which it depends what a rule shows of another."""


class ScopedStore(Store):
    """A connection that sees only the tenants' rows, as do connections made from it."""

    tenants: frozenset[str]

    def __init__(self, inner: Store, tenants: frozenset[str]) -> None:
        super().__init__(inner.url, inner._client, inner.database)
        self._inner, self.tenants, self.nodes, self.longest_list = inner, tenants, inner.nodes, inner.longest_list
        setting = table_filters(inner, tenants)
        if isinstance(inner, ServerStore):
            # Not SET: a session that the server has forgotten would have forgotten it, too.
            self._client.set_client_setting("additional_table_filters", setting)
        else:
            inner.command(f"SET additional_table_filters = {setting}")

    def another(self, database: str = "") -> Store:
        if database not in ("", self.database):
            raise PermissionError(f"a tenant's connection does not leave its database for {database}")
        return ScopedStore(self._inner.another(), self.tenants)

    @contextlib.contextmanager
    def staged(self, batch: pa.Table) -> Iterator[str]:
        with self._inner.staged(batch) as source:
            yield source

    def _selecting(self, sql: str) -> str:
        return self._inner._selecting(sql)

    def close(self) -> None:
        self._inner.close()


def table_filters(store: Store, tenants: frozenset[str]) -> str:
    """The setting's text: a filter for every table that holds rows. Names are hexadecimal: nothing can be quoted.
    An empty one is nobody's, because rows without a tenant are the platform's.

    Errors: StoreError if a view has a definer, through which filters do not reach.
    """
    if defined := store.rows(read_sql(__file__, "definers")):
        names = ", ".join(str(row["name"]) for row in defined)
        step = "ALTER TABLE ... MODIFY SQL SECURITY INVOKER"
        raise StoreError(store.url, f"views with a definer would show tenants other tenants' rows: {names}", step)
    rows = store.rows(read_sql(__file__, "tables"))
    names = ", ".join(f"unhex('{tenant.encode().hex()}')" for tenant in sorted(tenants - {""})) or "NULL"
    filters = {}
    for row in rows:
        table = identifier(row["name"])
        if table in UNSCOPED_TABLES:
            continue
        rule = _rule_of(store, table) or (_MINE if row["has_tenant"] else "0")
        filters[table] = rule.replace("{tenants}", names)
    texts = (f"'{table}': '{rule.replace(chr(39), chr(92) + chr(39))}'" for table, rule in filters.items())
    return "{" + ", ".join(texts) + "}"


def _rule_of(store: Store, table: str) -> str | None:
    """Of a sharded table the tables that its rule reads have their database: a shard reads them with no other."""
    if not store.in_shards:
        return FILTERS.get(table)
    whole = table.removesuffix(LOCAL)
    rule = FILTERS.get(whole)
    return (
        rule.replace("FROM allocations ", f"FROM {store.database}.allocations ") if rule and whole in SHARDED else rule
    )


class Stores:
    """A pool of connections to one store. A connection is reused within its scope only."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._idle: OrderedDict[frozenset[str] | None, list[Store]] = OrderedDict()
        self._is_pooling = False

    @contextlib.contextmanager
    def scoped_to(self, principal: Principal) -> Iterator[Store]:
        """A connection that sees what the principal may see, for the time of the block."""
        with self._connection(None if principal.sees_all else principal.tenants) as store:
            yield store

    @contextlib.contextmanager
    def unscoped(self) -> Iterator[Store]:
        """A connection that sees everything, for figures computed from all tenants; the caller limits what it shows."""
        with self._connection(None) as store:
            yield store

    @contextlib.contextmanager
    def _connection(self, scope: frozenset[str] | None) -> Iterator[Store]:
        store = self._take(scope)
        sound = False
        try:
            yield store
            sound = True
        except LedgerError as error:
            # A refused question leaves the connection as it was; after any other error its state is unknown.
            sound = not isinstance(error, StoreError)
            raise
        finally:
            if sound:
                self._put_back(scope, store)
            else:
                store.close()

    @contextlib.asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[None]:
        """The server's lifespan (ASGI): until it ends, idle connections stay open between requests."""
        self._is_pooling = True
        try:
            yield
        finally:
            with self._lock:
                self._is_pooling = False
                idle, self._idle = self._idle, OrderedDict()
            for stores in idle.values():
                for store in stores:
                    store.close()

    def _take(self, scope: frozenset[str] | None) -> Store:
        with self._lock:
            idle = self._idle.get(scope)
            if idle:
                self._idle.move_to_end(scope)
                return idle.pop()
        own = self._store.another()
        try:
            own.share_cores()
            return own if scope is None else ScopedStore(own, scope)
        except BaseException:
            own.close()
            raise

    def _put_back(self, scope: frozenset[str] | None, store: Store) -> None:
        surplus: list[Store] = []
        with self._lock:
            idle = self._idle.setdefault(scope, [])
            self._idle.move_to_end(scope)
            if not self._is_pooling or len(idle) >= IDLE_CONNECTIONS:
                surplus.append(store)
            else:
                idle.append(store)
            while len(self._idle) > POOLED_SCOPES:
                surplus += self._idle.popitem(last=False)[1]
        for one in surplus:
            one.close()
