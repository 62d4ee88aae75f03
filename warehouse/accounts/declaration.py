"""What each account may: one declaration, from which SQL and users.d are rendered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warehouse.cluster import LOCAL, SHARDED
from warehouse.errors import LedgerError
from warehouse.store import identifier

FLEET_VIEWS = ("v_capacity_hourly", "v_devices")
TENANT_VIEWS = ("v_usage_hourly", "v_charges", "v_allocations", "v_queue_wait", "v_events", "v_invoices",
                "v_invoice_lines", "v_energy")  # fmt: skip
"""Views whose column `tenant` says whose a row is."""
VIEWS = FLEET_VIEWS + TENANT_VIEWS
"""Those of docs/sql.md. They run with the rights of whoever reads them: pages cut tables to a tenant's rows by a
setting that does not reach through a view with a definer."""
BENEATH = ("allocations", "closed_hours", "devices", "energy", "energy_entries", "events", "invoices", "ledger",
           "ledger_entries", "schema_migrations", "sees_all", "visible_events", "voided_invoices")  # fmt: skip
"""Tables and views that those views read."""
OTHERS = (
    "alert_deliveries", "alert_silences", "budgets", "chain_heads", "close_batches",
    "close_carried", "close_named", "close_runs", "colocation_speeds", "credits",
    "device_hours", "devices_at", "energy_settings", "findings", "grants", "held_rows", "held_streams",
    "holders", "ingest_batches", "interference", "interference_baselines", "interference_episodes",
    "interference_hours", "interference_runs", "interference_samples", "interference_versions", "ledger_days",
    "metrics", "quarantine", "rate_cards", "recent_batches", "refused_claims", "samples", "sender_days",
    "service_levels", "slo_definitions", "slo_files", "slo_hours", "slo_measured", "slo_objectives", "slo_points",
    "slo_series", "slo_status", "stream_hours", "summed_days", "tenant_mappings", "touched_hours", "waiters",
)  # fmt: skip
"""What else analysts read; it may change (docs/sql.md)."""
ALERTS = ("alerts", "alert_evidence", "alert_history", "alert_transitions", "alert_runs")
"""What Grafana's panels ask beside those views."""
READABLE = VIEWS + BENEATH + ALERTS + OTHERS
AUDIT = ("audit", "parties")
"""What only auditors read: who did what, and addresses, tax ids and banks of the parties."""
PUSHED = ("pushed_instants", "pushed_memory", "pushed_points")
SECRET = ("access_users", "access_tokens", "saved_queries", "turns", *PUSHED)
"""Nobody's but the writer's, together with whatever stands in no list."""
AGENT_RECORDS = ("samples", "metrics", "findings", "devices", "service_levels", "quarantine")
"""What an agent may insert. Not events: agents measure, schedulers tell."""
AGENT_NOTES = ("ingest_batches",)
"""Where it acknowledges what it inserted, without which no close reads it."""
FOLLOWS = ("touched_hours_of_samples", "stream_hours_of_samples", "recent_batches_of_ingest")
"""Materialized views: they write what follows from an agent's rows with the writer's rights, so that it needs none
there. Without, its insert would leave the samples and fail at what follows."""
SCRATCH = "scratch_*"
"""Databases in which the writer derives a close anew (warehouse.store.Store.scratch)."""
HOUR = 3600


@dataclass(frozen=True)
class Setting:
    """A setting's value, and how far users may change it: not at all, or between two bounds.

    To ClickHouse a limit of 0 means no limit, so bounds begin at 1.
    """

    name: str
    value: int | str
    least: int | None = None
    most: int | None = None

    @property
    def fixed(self) -> bool:
        return self.most is None


@dataclass(frozen=True)
class Quota:
    """Limits per hour: of one ClickHouse user, or with `by_person` of each person on whose behalf that user asks."""

    queries: int
    execution_seconds: int
    read_rows: int
    by_person: bool = False


@dataclass(frozen=True)
class Account:
    """name: of the user.   what: who it is for.   grants: (privileges, table) pairs.   settings: its profile."""

    name: str
    what: str
    grants: tuple[tuple[str, str], ...]
    settings: tuple[Setting, ...] = ()
    quota: Quota | None = None

    @property
    def role(self) -> str:
        return f"{self.name}_role"

    @property
    def profile(self) -> str:
        return f"{self.name}_profile"

    @property
    def quota_name(self) -> str:
        return f"{self.name}_quota"

    def rights(self) -> str:
        """The grants as SQL, to put between GRANT and TO."""
        return ", ".join(f"{privileges} ON {on}" for privileges, on in self.grants)


def _up_to(name: str, most: int) -> Setting:
    return Setting(name, most, 1, most)


LIMITS = (
    _up_to("max_execution_time", 60),
    _up_to("max_memory_usage", 2_000_000_000),
    _up_to("max_threads", 4),
    _up_to("max_result_rows", 5_000_000),
    _up_to("max_result_bytes", 2_000_000_000),
    _up_to("max_temporary_data_on_disk_size_for_query", 10_000_000_000),
    _up_to("max_query_size", 16 * 262_144),  # what is printed of a text has every odd byte escaped
    _up_to("max_ast_depth", 500),
    _up_to("max_ast_elements", 20_000),
    _up_to("max_expanded_ast_elements", 100_000),
    _up_to("max_parser_depth", 500),
    _up_to("max_recursive_cte_evaluation_depth", 1000),
    Setting("max_concurrent_queries_for_user", 24),
    Setting("max_memory_usage_for_user", 8_000_000_000),
    Setting("timeout_overflow_mode", "throw"),
    Setting("result_overflow_mode", "throw"),
    Setting("allow_ddl", 0),
    Setting("allow_introspection_functions", 0),
    Setting("log_queries", 1),
    Setting("use_query_cache", 0),
    Setting("output_format_schema", ""),
)
"""Of whoever reads. output_format_schema names a file that the server would write."""
READS = (Setting("readonly", 2), *LIMITS)
"""readonly = 2: reads alone, and settings may be chosen within the bounds. Grafana's data source and ClickHouse's own
clients set some with every statement, which readonly = 1 refuses."""
TENANT_READS = (
    Setting("readonly", 1),
    *LIMITS,
    Setting("short_circuit_function_evaluation", "enable"),
    Setting("query_plan_merge_filters", 0),
)
"""A row policy of a view is one condition among those of the statement: with another value of these two, a function
of the statement's own sees a row before the policy has left it out, and can put it into an error. None may be set."""
BY_PERSON = Quota(queries=10_000, execution_seconds=36_000, read_rows=10**12, by_person=True)
BY_USER = Quota(queries=10_000, execution_seconds=36_000, read_rows=10**12)


ACKNOWLEDGED = (Setting("insert_quorum", "auto"), Setting("insert_quorum_timeout", 60_000))
"""On a cluster: what an agent has inserted outlives the node that it asked, as in warehouse.cluster.SETTINGS."""
ON_ALL_SHARDS = (Setting("distributed_foreground_insert", 1),)
"""In shards: it is on all of them, too."""


def accounts(database: str, on_cluster: bool = False, in_shards: bool = False) -> tuple[Account, ...]:
    """All of them, for the tables of a database. Errors: LedgerError if its name is no plain identifier.

    on_cluster: the database is on all nodes of a ClickHouse cluster.   in_shards: that has several, which are asked
    under the name of whoever asks if the cluster has a <secret>.
    """
    _checked("database", database)

    def with_shards(*tables: str) -> tuple[str, ...]:
        return (*tables, *(f"{table}{LOCAL}" for table in tables if in_shards and table in SHARDED))

    def reads(*tables: str) -> tuple[tuple[str, str], ...]:
        return tuple(("SELECT", f"{database}.{table}") for table in with_shards(*tables))

    return (
        Account(
            "gpuledger_writer",
            "the server's process, which owns the database",
            _writers(database, on_cluster, in_shards),
        ),
        Account("gpuledger_reader", "people's SQL, asked by the server for them", reads(*READABLE), READS, BY_PERSON),
        Account("gpuledger_auditor", "the same with the audit", reads(*READABLE, *AUDIT), READS, BY_PERSON),
        Account("gpuledger_grafana", "Grafana's panels", reads(*VIEWS, *BENEATH, *ALERTS), READS, BY_USER),
        Account(
            "gpuledger_agent",
            "agents that insert by themselves",
            tuple(("INSERT", f"{database}.{table}") for table in with_shards(*AGENT_RECORDS, *AGENT_NOTES)),
            (*(ACKNOWLEDGED if on_cluster else ()), *(ON_ALL_SHARDS if in_shards else ())),
        ),
        Account("gpuledger_tenant", "a tenant's analysts", (("SELECT", f"{tenants_database(database)}.*"),),
                TENANT_READS, BY_USER),
    )  # fmt: skip


_ON_NODES = (("CLUSTER", "*.*"), ("SELECT", "system.replicas"))
"""A close makes and swaps tables on all nodes, and waits for what others have written."""

_ON_SHARDS = (("CREATE TEMPORARY TABLE, REMOTE", "*.*"), ("SELECT", "system.mutations"), ("SELECT", "system.one"))
"""What all shards say of their tables is asked by clusterAllReplicas and cluster."""


def _writers(database: str, on_cluster: bool, in_shards: bool) -> tuple[tuple[str, str], ...]:
    owns = "SELECT, INSERT, ALTER, CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP"
    return (
        (owns, f"{database}.*"),
        (owns, f"{SCRATCH}.*"),
        ("SELECT", "system.parts"),
        *(_ON_NODES if on_cluster else ()),
        *([("SYSTEM SYNC REPLICA", f"{database}.*")] if on_cluster else ()),
        *(_ON_SHARDS if in_shards else ()),
    )


def tenants_database(database: str) -> str:
    """Holds the views that tenants' own users read."""
    return f"{database}_tenants"


def tenant_views(database: str) -> Mapping[str, str]:
    """The statement that each view of tenants stands for, by its name.

    They run with the writer's rights, so that nobody who reads them needs a table beneath; who preempted a job is
    somebody else's business, as is what else another's job may have caused (visible_events says the same of pages).
    """
    _checked("database", database)
    of_others = "(event IN ('started', 'resized', 'suspended', 'resumed') AND actor != '')"
    hidden = f"event = 'preempted' OR lower(reason) = 'requeued' OR {of_others}"
    decision = r"""replaceRegexpOne(message, '^\\{"sequence":[0-9]+,?', '{')"""
    unnamed = f"* REPLACE (if({hidden}, '', actor) AS actor, if({hidden}, '', {decision}) AS message)"
    return {view: f"SELECT {unnamed if view == 'v_events' else '*'} FROM {database}.{view}" for view in TENANT_VIEWS}


@dataclass(frozen=True)
class TenantUser:
    """A ClickHouse user that sees the rows of tenants alone."""

    user: str
    tenants: tuple[str, ...]

    @property
    def policy(self) -> str:
        return f"gpuledger_tenant_{self.user}"

    def condition(self) -> str:
        """Over the rows of a view of tenants. Names are hexadecimal: nothing can be quoted."""
        return "tenant IN (" + ", ".join(f"unhex('{tenant.encode().hex()}')" for tenant in self.tenants) + ")"


def tenant_users(texts: Sequence[str]) -> tuple[TenantUser, ...]:
    """From USER=TENANT, as often as wanted. Errors: LedgerError naming the one that is no such text."""
    found: dict[str, list[str]] = {}
    for text in texts:
        user, sign, tenant = text.partition("=")
        if not sign or not tenant:
            raise LedgerError("--tenant", f"{text!r} is not USER=TENANT", "Such as vera=vision")
        found.setdefault(_checked("--tenant", user), []).append(tenant)
    ours = {account.name for account in accounts("gpuledger")}
    for user in found:
        if user in ours:
            raise LedgerError("--tenant", f"{user} is an account of gpuledger's own", "Give tenants users of their own")
    return tuple(TenantUser(user, tuple(dict.fromkeys(tenants))) for user, tenants in found.items())


def _checked(where: str, name: str) -> str:
    try:
        return identifier(name)
    except ValueError as error:
        raise LedgerError(where, f"{name[:60]!r} is not a plain name", "Letters, digits and underscores") from error
