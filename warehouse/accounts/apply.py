"""Creates or updates the accounts on a ClickHouse server, reports what changed, and explains a refusal in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from warehouse.accounts.declaration import TenantUser, accounts
from warehouse.accounts.statements import Password, without_secrets
from warehouse.errors import LedgerError, StoreError
from warehouse.store import Store

DENIED, NOWHERE_TO_KEEP = "ACCESS_DENIED", "ACCESS_STORAGE_FOR_INSERTION_NOT_FOUND"


def read_passwords(folder: Path | None, database: str, tenants: Sequence[TenantUser]) -> Mapping[str, Password]:
    """Passwords by user: the first line of each file in the folder, which is named after its user.

    Errors: LedgerError for a file that is named after no account, or is empty.
    """
    known = {account.name for account in accounts(database)} | {one.user for one in tenants}
    found = {}
    for path in sorted(folder.iterdir()) if folder is not None else ():
        if path.name not in known:
            raise LedgerError(str(path), "is named as no account", f"Accounts are {', '.join(sorted(known))}")
        try:
            password = path.read_text(encoding="utf-8").partition("\n")[0]
        except (OSError, UnicodeDecodeError) as error:
            raise LedgerError(str(path), f"cannot be read ({error})", "It holds a password") from error
        if not password:
            raise LedgerError(str(path), "is empty", "Its first line is the password")
        found[path.name] = Password.of(password)
    return found


def apply_accounts(store: Store, statements: Sequence[str]) -> list[str]:
    """Runs the statements; returns a diff of the server's list of accounts, lines with `+ ` or `- `.

    Errors: StoreError naming the statement that failed; those before it stay in effect, and a second run carries on.
    """
    before = _listed(store)
    for statement in statements:
        try:
            store.command(statement)
        except StoreError as error:
            raise _explained(store, statement, error) from error
    after = _listed(store)
    gone = [f"- {line}" for line in before if line not in set(after)]
    return gone + [f"+ {line}" for line in after if line not in set(before)]


def _listed(store: Store) -> list[str]:
    try:
        rows = store.rows("SHOW ACCESS")
    except StoreError as error:
        raise _explained(store, "SHOW ACCESS", error) from error
    return [without_secrets(str(next(iter(row.values())))) for row in rows]


def _explained(store: Store, statement: str, error: StoreError) -> StoreError:
    what = re.sub(r"'[^']{16,}'", "'***'", error.what.partition("\n")[0])
    if DENIED in error.what:
        step = "Ask as a user with access management, or give it what --dry-run prints"
    elif NOWHERE_TO_KEEP in error.what:
        step = "Its users are files alone: add <local_directory> to user_directories, or see docs/deploy.md for users.d"
    else:
        step = "What ran before stays; a second run carries on"
    return StoreError(store.url, f"at {without_secrets(statement)[:120]!r}: {what[:600]}", step)
