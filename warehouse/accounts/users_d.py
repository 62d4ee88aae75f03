"""The declaration as a file of a ClickHouse server's users.d, for servers whose users are files (Compose)."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from warehouse.accounts.declaration import HOUR, Account, accounts

HEAD = "<!-- Made by: python deploy/compose/build.py. Accounts of the ClickHouse server (docs/deploy.md). -->\n"


def users_d(database: str, names: tuple[str, ...]) -> str:
    """The named accounts. Their password hashes are in another file of the folder; nobody else can sign in."""
    chosen = [account for account in accounts(database) if account.name in names]
    root = Element("clickhouse")
    users = SubElement(root, "users")
    SubElement(users, "default", remove="remove")
    roles, profiles, quotas = (SubElement(root, name) for name in ("roles", "profiles", "quotas"))
    for account in chosen:
        add_role(roles, account)
        add_limits(profiles, quotas, account)
        user = SubElement(users, account.name)
        add_membership(user, account)
        SubElement(SubElement(user, "networks"), "ip").text = "::/0"
    indent(root)
    return HEAD + tostring(root, encoding="unicode") + "\n"


def add_role(roles: Element, account: Account) -> None:
    queries = SubElement(SubElement(roles, account.role), "grants")
    SubElement(queries, "query").text = f"GRANT {account.rights()}"


def add_limits(profiles: Element, quotas: Element, account: Account) -> None:
    if account.settings:
        profile = SubElement(profiles, account.profile)
        for one in account.settings:
            SubElement(profile, one.name).text = str(one.value)
        constraints = SubElement(profile, "constraints")
        for one in account.settings:
            constraint = SubElement(constraints, one.name)
            if one.fixed:
                SubElement(constraint, "readonly")
            else:
                SubElement(constraint, "min").text = str(one.least)
                SubElement(constraint, "max").text = str(one.most)
    if account.quota is not None:
        quota = SubElement(quotas, account.quota_name)
        if account.quota.by_person:
            SubElement(quota, "keyed")
        interval = SubElement(quota, "interval")
        SubElement(interval, "duration").text = str(HOUR)
        SubElement(interval, "queries").text = str(account.quota.queries)
        SubElement(interval, "execution_time").text = str(account.quota.execution_seconds)
        SubElement(interval, "read_rows").text = str(account.quota.read_rows)


def add_membership(user: Element, account: Account) -> None:
    """A user's part of an account: its role, its limits."""
    SubElement(user, "profile").text = account.profile if account.settings else "default"
    SubElement(user, "quota").text = account.quota_name if account.quota is not None else "default"
    SubElement(SubElement(user, "grants"), "query").text = f"GRANT {account.role}"
