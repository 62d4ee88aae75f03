"""`gpuledger init`: create or upgrade the schema, and the accounts of a ClickHouse server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from gpuledger import options
from gpuledger.output import print_lines, say
from warehouse.accounts.apply import apply_accounts, read_passwords
from warehouse.accounts.declaration import TenantUser, tenant_users
from warehouse.accounts.statements import statements
from warehouse.cluster import Nodes, on_cluster
from warehouse.errors import LedgerError
from warehouse.printable import grouped
from warehouse.store import (
    DATABASE,
    ServedStore,
    ServerStore,
    database_of,
    migrate,
    migrations,
    open_store,
    split_statements,
)


def register(app: typer.Typer) -> None:
    app.command("init")(init)


def init(
    store: options.Store = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the SQL and change nothing.")] = False,
    accounts: Annotated[
        bool, typer.Option("--accounts", help="Also the roles, limits and users of a ClickHouse server.")
    ] = False,
    passwords: Annotated[
        Path | None,
        typer.Option(
            help="A folder with a file for each user that is to have a password, named as the user.",
            exists=True, file_okay=False,
        ),
    ] = None,
    tenant: Annotated[
        list[str] | None,
        typer.Option(metavar="USER=TENANT", help="A user who sees only a tenant's rows; may be repeated."),
    ] = None,
    cluster: Annotated[
        str, typer.Option(help="Create the store, and the accounts, on all nodes of this ClickHouse cluster.")
    ] = "",
    shards: Annotated[
        bool, typer.Option("--shards", help="With --dry-run: as on a cluster of several shards.")
    ] = False,
) -> None:  # fmt: skip
    """Create the store, or upgrade its schema; a second run changes nothing."""
    if shards and not (dry_run and cluster):
        step = "Leave it out: init sees how many shards the cluster has"
        raise LedgerError("init", "--shards is about --dry-run with --cluster", step)
    if (passwords or tenant) and not accounts:
        raise LedgerError("init", "--passwords and --tenant are about accounts", "Give --accounts, too")
    users = tenant_users(tenant or ())
    if dry_run:
        database = database_of(store) if urlsplit(store).scheme.startswith("clickhouse") else DATABASE
        _print_migrations(database, Nodes(cluster, shards) if cluster else None)
        if accounts:
            _print_accounts(database, users, cluster, shards)
        return
    with open_store(store) as opened:
        applied = migrate(opened, cluster)
        if isinstance(opened, ServerStore) and opened.cluster:
            cluster = opened.cluster
            opened.complete_cluster()
        said = f"applied {', '.join(applied)}" if applied else "schema is up to date"
        say(f"{opened.url}: {said}" + (f", on all nodes of cluster {cluster}" if cluster else ""))
        if not accounts:
            return
        if not isinstance(opened, ServerStore) or isinstance(opened, ServedStore):
            raise LedgerError(opened.url, "is no ClickHouse server, and has no accounts", "Leave out --accounts")
        known = read_passwords(passwords, opened.database, users)
        changes = apply_accounts(opened, list(statements(opened.database, known, users, cluster, opened.in_shards)))
        for line in changes:
            print_lines(line)
        given = f"; passwords set: {', '.join(known)}" if known else ""
        say(
            f"{opened.url}: "
            + (f"{grouped(len(changes), 'change')} of accounts" if changes else "accounts are up to date")
            + given
        )


def _print_migrations(database: str, nodes: Nodes | None) -> None:
    for _, name, text in migrations():
        print_lines(f"-- {name}")
        if nodes:
            for statement in split_statements(text):
                for made in on_cluster(statement, nodes, database):
                    print_lines(*f"{made};".split("\n"), "")
        else:
            print_lines(*text.split("\n"))


def _print_accounts(database: str, users: tuple[TenantUser, ...], cluster: str, in_shards: bool) -> None:
    """Prints SQL for someone who may manage accounts; each password is a placeholder that ClickHouse refuses."""
    print_lines("-- accounts")
    for statement in statements(database, None, users, cluster, in_shards):
        print_lines(*f"{statement};".split("\n"))
