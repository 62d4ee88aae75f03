"""The accounts as SQL statements, which can be pasted into a client and run again without harm.

Everything is CREATE ... IF NOT EXISTS followed by ALTER, or GRANT ... WITH REPLACE OPTION. So an entity keeps its
identity, by which others refer to it, and privileges that are no longer declared are revoked in the same statement.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from warehouse.accounts.declaration import (
    FOLLOWS,
    HOUR,
    Account,
    Setting,
    TenantUser,
    accounts,
    tenant_views,
    tenants_database,
)
from warehouse.cluster import cluster_name
from warehouse.sql import text_literal


@dataclass(frozen=True)
class Password:
    """A password as a server stores it: the SHA-256 of the password followed by the salt."""

    digest: str
    salt: str

    @staticmethod
    def of(text: str) -> Password:
        salt = secrets.token_hex(16)
        return Password(hashlib.sha256((text + salt).encode()).hexdigest(), salt)


def placeholder(user: str) -> Password:
    """Stands for an unknown password in printed statements. A server refuses it, because it is no SHA-256."""
    return Password(f"SHA-256 of the password of {user} and the salt", "salt")


def statements(
    database: str,
    passwords: Mapping[str, Password] | None = None,
    tenants: Sequence[TenantUser] = (),
    cluster: str = "",
    in_shards: bool = False,
) -> Iterator[str]:
    """All statements, in order. The database has the schema; gpuledger_writer exists on the server or is created here.

    passwords: by user; None: placeholders for every account.   cluster: run on all of its servers.   in_shards: it
    has several shards.
    """
    known = accounts(database, bool(cluster), in_shards)
    on = f" ON CLUSTER {cluster_name(cluster)}" if cluster else ""
    users = [account.name for account in known if account.name != "gpuledger_tenant"]
    if passwords is None:
        passwords = {user: placeholder(user) for user in (*users, *(one.user for one in tenants))}
    yield f"CREATE DATABASE IF NOT EXISTS {database}{on}"
    for account in known:
        yield from _role(account, on)
        if account.name in users and account.name in passwords:
            yield from _user(account.name, passwords[account.name], on)
            yield _member(account.role, account.name, on)
    for view in FOLLOWS:
        yield f"ALTER TABLE {database}.{view}{on} MODIFY DEFINER = gpuledger_writer SQL SECURITY DEFINER"
    if tenants:
        yield from _tenants(database, tenants, passwords, on)


def _role(account: Account, on: str) -> Iterator[str]:
    yield f"CREATE ROLE IF NOT EXISTS {account.role}{on}"
    yield f"GRANT{on} {account.rights()} TO {account.role} WITH REPLACE OPTION"
    if account.settings:
        yield f"CREATE SETTINGS PROFILE IF NOT EXISTS {account.profile}{on}"
        settings = ", ".join(_setting(one) for one in account.settings)
        yield f"ALTER SETTINGS PROFILE {account.profile}{on} SETTINGS {settings} TO {account.role}"
    if account.quota is not None:
        quota = account.quota
        keyed = "client_key, user_name" if quota.by_person else "user_name"
        most = f"queries = {quota.queries}, execution_time = {quota.execution_seconds}, read_rows = {quota.read_rows}"
        yield f"CREATE QUOTA IF NOT EXISTS {account.quota_name}{on}"
        yield (
            f"ALTER QUOTA {account.quota_name}{on} KEYED BY {keyed} "
            f"FOR INTERVAL {HOUR} second MAX {most} TO {account.role}"
        )


def _setting(one: Setting) -> str:
    value = str(one.value) if isinstance(one.value, int) else text_literal(one.value)
    return f"{one.name} = {value}" + (" CONST" if one.fixed else f" MIN {one.least} MAX {one.most}")


def _user(user: str, password: Password, on: str) -> Iterator[str]:
    identified = f"IDENTIFIED WITH sha256_hash BY {text_literal(password.digest)} SALT {text_literal(password.salt)}"
    yield f"CREATE USER IF NOT EXISTS {user}{on} {identified}"
    yield f"ALTER USER {user}{on} {identified}"


def _member(role: str, user: str, on: str) -> str:
    return f"GRANT{on} {role} TO {user} WITH REPLACE OPTION"


def _tenants(database: str, tenants: Sequence[TenantUser], passwords: Mapping[str, Password], on: str) -> Iterator[str]:
    """A policy that shows nothing to whoever has the role, and one a user that shows its own rows beside it."""
    theirs = tenants_database(database)
    (account,) = (one for one in accounts(database) if one.name == "gpuledger_tenant")
    yield f"CREATE DATABASE IF NOT EXISTS {theirs}{on}"
    # Policies first: a view is never there without.
    for view in tenant_views(database):
        yield f"CREATE ROW POLICY IF NOT EXISTS {account.name}{on} ON {theirs}.{view}"
        yield f"ALTER ROW POLICY {account.name}{on} ON {theirs}.{view} AS PERMISSIVE USING 0 TO {account.role}"
    for view, select in tenant_views(database).items():
        yield (
            f"CREATE OR REPLACE VIEW {theirs}.{view}{on} DEFINER = gpuledger_writer SQL SECURITY DEFINER AS {select}"
        )
    for one in tenants:
        if one.user in passwords:
            yield from _user(one.user, passwords[one.user], on)
        yield _member(account.role, one.user, on)
        for view in tenant_views(database):
            yield f"CREATE ROW POLICY IF NOT EXISTS {one.policy}{on} ON {theirs}.{view}"
            yield (
                f"ALTER ROW POLICY {one.policy}{on} ON {theirs}.{view} AS PERMISSIVE FOR SELECT "
                f"USING {one.condition()} TO {one.user}"
            )


def without_secrets(statement: str) -> str:
    """As it may be shown: not even the digest of a password."""
    return re.sub(r"(BY|SALT) '(?:[^'\\]|\\.)*'", r"\1 '***'", statement)
