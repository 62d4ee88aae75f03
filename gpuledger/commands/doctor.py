"""`gpuledger doctor`: a store's rows, senders, held pushes, quarantine, refused claims, last close, retention."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import __version__, options
from gpuledger.output import Lines, print_json, print_lines, print_rows
from warehouse.cluster import nodes
from warehouse.errors import LedgerError
from warehouse.printable import counted, grouped
from warehouse.records import RECORD_TYPES
from warehouse.store import EmbeddedStore, ServedStore, Store, identifier, migrations, open_store, read_sql

if TYPE_CHECKING:
    from billing.retention import Retention
    from gpuledger import documents

OUTCOMES = ("stored", "held", "out_of_place", "quarantined", "refused", "not_taken", "denied")
SENDERS = ("sender", "last_push", *OUTCOMES, "reasons")
CLOCK_SECONDS, LAG_SECONDS, MANY_PARTS = 2, 300, 1000
"""Beyond these a node needs help. The holder of a turn is believed gone after a minute, by the clocks of two nodes; the
engine itself avoids replicas that are 300 s behind, and slows inserts down at 1000 parts in a partition."""
HELD = ("sender", "record_type", "reason", "rows", "since")


def register(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(
    store: options.Store = "",
    fmt: options.OutputFormat = options.Format.table,
    cluster: Annotated[
        bool,
        typer.Option("--cluster", help="Only the nodes of the store's ClickHouse cluster; exit 1 if one needs help."),
    ] = False,
    sign_in: options.AccessSignIn = None,
) -> None:
    """Show the store, which server leads, its rows, senders, what waits for a person, the quarantine with examples,
    refused claims, the last close and retention; changes nothing."""
    if cluster:
        raise typer.Exit(_examine_cluster(store, fmt))
    with open_store(store) as opened:
        findings = examine(opened, sign_in)
    if fmt is options.Format.json:
        print_json(findings)
    elif fmt is options.Format.csv:
        print_rows(_flat(findings), ("section", "name", "reason", "count", "detail"), fmt)
    else:
        _print(findings)


def _examine_cluster(url: str, fmt: options.Format) -> int:
    """Prints how the nodes fare. Answers the exit status."""
    with open_store(url) as store:
        if not store.cluster:
            raise LedgerError(
                store.url, "is not on a ClickHouse cluster", "Name its nodes in --store, or leave out --cluster"
            )
        found = [{**row, "needs": ", ".join(node_problem(row))} for row in nodes(store, store.cluster)]
        title = f"Cluster {store.cluster}"
    print_rows(found, (*found[0],) if found else ("node",), fmt, title)
    return 1 if any(row["needs"] for row in found) else 0


def node_problem(node: Mapping[str, Any]) -> list[str]:
    """What is wrong with a node of a cluster, in words."""
    if node["version"] is None:
        return ["does not answer"]
    found = {
        f"clock {node['clock_seconds']:+d} s": abs(node["clock_seconds"]) > CLOCK_SECONDS,
        f"{node['read_only']} tables read-only (Keeper)": node["read_only"],
        f"{node['lag_seconds']} s behind": node["lag_seconds"] > LAG_SECONDS,
        f"{node['most_parts']} parts in a partition": node["most_parts"] > MANY_PARTS,
    }
    return [what for what, is_so in found.items() if is_so]


def examine(store: Store, sign_in: Path | None = None) -> dict[str, Any]:
    """All findings of `doctor`, as a document."""
    exists = {row["name"] for row in store.rows("SELECT name FROM system.tables WHERE database = currentDatabase()")}
    newest = max(number for number, _, _ in migrations())

    def found(table: str, name: str) -> list[dict[str, Any]]:
        return store.rows(read_sql(__file__, name)) if table in exists else []

    from api.sql.sandbox import isolation
    from billing.refused import refused_claims
    from ingest.quarantine import quarantined

    version = found("schema_migrations", "schema_version")
    last_close = found("close_runs", "last_close")
    return {
        "store": store.url,
        "gpuledger": __version__,
        "leader": _leader(store, sign_in),
        # A property of this machine, so only for a store that this machine holds.
        "sql_isolation": isolation().text() if isinstance(store, EmbeddedStore) else None,
        "schema": {"version": version[0]["version"] if version else 0, "newest": newest},
        "rows": {name: _count(store, name) if name in exists else 0 for name in RECORD_TYPES},
        "quarantine": [_with_examples(row) for row in quarantined(store)] if "quarantine" in exists else [],
        "refused_claims": refused_claims(store) if "refused_claims" in exists else [],
        "senders": found("sender_days", "pushes_by_sender"),
        "held": found("held_rows", "waiting_by_reason"),
        "last_close": last_close[0] if last_close else None,
        "retention": _retention(store) if version and version[0]["version"] == newest else None,
    }


def _retention(store: Store) -> dict[str, Any]:
    """How many days rows are kept, by kind, None being for good; and what a removal would take now."""
    from billing.retention import retention
    from gpuledger.books import client

    try:
        if isinstance(store, ServedStore):
            with client(store.url) as server:
                found: Retention | documents.Retention = server.retention()
        else:
            found = retention(store, datetime.now(UTC))
    except LedgerError as error:
        return {"unknown": str(error)}
    return {
        "days": {one.name: one.days for one in found.tables},
        "due": {one.name: one.goes_rows for one in found.tables if one.goes_rows},
        "due_days": len(found.days),
        "held_back_days": found.held_back,
    }


def _leader(store: Store, sign_in: Path | None) -> str:
    """Of several servers the one that does the background work."""
    if isinstance(store, EmbeddedStore):
        return "none is needed: an embedded store has one server"
    if isinstance(store, ServedStore):
        return "see GET /readyz of the server"
    from access.leader import holder_of
    from access.roles import AccessError
    from access.settings import load_access

    try:
        holder = holder_of(store, load_access(sign_in) if sign_in else None)
    except AccessError as error:
        return f"unknown: {error}"
    return "nobody" if holder is None else f"{holder.who}, renewed at {holder.renewed_at:%F %T}Z"


def _with_examples(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"record_type": row["record_type"], "reason": row["reason"], "rows": row["rows"], "examples": row["newest"]}


def _count(store: Store, table: str) -> int:
    """Distinct rows: duplicates that are not merged yet count once."""
    return int(store.value(f"SELECT count() AS n FROM {identifier(table)} FINAL"))


def _print(findings: Mapping[str, Any]) -> None:
    schema = findings["schema"]
    state = "up to date" if schema["version"] == schema["newest"] else "next: gpuledger init"
    if schema["version"] > schema["newest"]:
        state = "newer than this gpuledger, which has to be upgraded"
    last = findings["last_close"]
    summary = [
        {"": "store", "is": findings["store"]},
        {"": "leader", "is": findings["leader"]},
        *([{"": "sql isolation", "is": findings["sql_isolation"]}] if findings["sql_isolation"] else []),
        {"": "schema", "is": f"{schema['version']} of {schema['newest']} ({state})"},
        *({"": name, "is": grouped(count, "row")} for name, count in findings["rows"].items()),
        {"": "last close", "is": _last_close(last)},
        *([{"": "retention", "is": _kept(findings["retention"])}] if findings["retention"] else []),
    ]
    print_rows([], ("", "is"), options.Format.table, totals=summary)
    print_lines()
    if findings["quarantine"]:
        rows = [
            {**group, "newest": Lines(line for example in group["examples"] for line in _example(example))}
            for group in findings["quarantine"]
        ]
        print_rows(rows, ("record_type", "reason", "rows", "newest"), options.Format.table, "Quarantine")
    else:
        print_lines("Quarantine: empty")
    if findings["refused_claims"]:
        print_lines()
        columns = ("reason", "claims", "example")
        print_rows(findings["refused_claims"], columns, options.Format.table, "Claims that the books refuse")
    else:
        print_lines("Claims that the books refuse: none")
    if findings["senders"]:
        print_lines()
        print_rows(findings["senders"], SENDERS, options.Format.table, "Senders, last 7 days")
    if findings["held"]:
        print_lines()
        print_rows(findings["held"], HELD, options.Format.table, "Held for a person (gpuledger held list)")


def _last_close(run: Mapping[str, Any] | None) -> str:
    if run is None:
        return "never (next: gpuledger close)"
    return f"{run['finished_at']:%F %T}Z (the last with anything to do), closed until {run['closed_until']:%F %R}Z"


def _kept(found: Mapping[str, Any]) -> str:
    if "unknown" in found:
        return f"unknown: {found['unknown']}"
    days = ", ".join(f"{name} {'always' if kept is None else kept}" for name, kept in found["days"].items())
    due = ", ".join(f"{grouped(rows, 'row')} of {name}" for name, rows in found["due"].items())
    held = (
        f"; {counted(found['held_back_days'], 'old day')} kept for issued invoices" if found["held_back_days"] else ""
    )
    return f"days: {days}; due: {due or 'nothing'}{held}{' (next: gpuledger retention --apply)' if due else ''}"


def _example(example: Mapping[str, Any]) -> tuple[str, str]:
    return f"{example['source']} row {example['row']}: {example['detail']}", f"  {example['raw'][:200]}"


def _flat(findings: Mapping[str, Any]) -> list[dict[str, Any]]:
    last = findings["last_close"]
    return [
        {"section": "store", "name": findings["store"]},
        {"section": "store", "name": "leader", "detail": findings["leader"]},
        *(
            [{"section": "sql", "name": "isolation", "detail": isolation}]
            if (isolation := findings["sql_isolation"])
            else []
        ),
        {"section": "schema", "name": "version", "count": findings["schema"]["version"]},
        *({"section": "rows", "name": name, "count": count} for name, count in findings["rows"].items()),
        *(
            {
                "section": "quarantine",
                "name": group["record_type"],
                "reason": group["reason"],
                "count": group["rows"],
                "detail": "\n".join(_example(group["examples"][0])),
            }
            for group in findings["quarantine"]
        ),
        *(
            {"section": "refused_claims", "reason": row["reason"], "count": row["claims"], "detail": row["example"]}
            for row in findings["refused_claims"]
        ),
        *(
            {"section": "senders", "name": row["sender"], "reason": outcome, "count": row[outcome]}
            for row in findings["senders"]
            for outcome in OUTCOMES
        ),
        *(
            {"section": "held", "name": row["sender"], "reason": row["reason"], "count": row["rows"]}
            for row in findings["held"]
        ),
        *([{"section": "last_close", "name": "closed_until", "detail": last["closed_until"]}] if last else []),
        *([{"section": "retention", "detail": _kept(kept)}] if (kept := findings["retention"]) else []),
    ]
