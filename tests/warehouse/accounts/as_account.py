"""The real engine, asked with an account's own rights.

The embedded engine takes no CREATE USER, and whoever connects to it is the user `default`. But it reads users from a
file, as a server does: here `default` is given what an account has (the same role, grants, profile, quota and policies,
by the same code that renders users.d), in a process of its own, on a store that lies there.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

from tests.conftest import REPO
from warehouse.accounts.declaration import Account, accounts
from warehouse.accounts.users_d import add_limits, add_membership, add_role


class Asked:
    """A process that answers statements as the account."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, sql: str, database: str = "gpuledger", format: str = "TabSeparated") -> str:
        """The answer. Errors: RuntimeError with the engine's own."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([database, sql, format]), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return str(answer["text"])

    def code(self, sql: str, database: str = "gpuledger") -> int:
        """The engine's code of the error; 0: it answered."""
        try:
            self.ask(sql, database)
        except RuntimeError as error:
            return int(str(error).split("Code: ")[1].split(".")[0])
        return 0


def copied(store: Path, folder: Path) -> Path:
    """A copy of the store: a process holds one at a time."""
    shutil.copytree(store, folder / "store", symlinks=True)
    return folder / "store"


def account(name: str) -> Account:
    (found,) = (one for one in accounts("gpuledger") if one.name == name)
    return found


@contextlib.contextmanager
def asked_as(
    account: Account | None, store: Path, folder: Path, policies: Mapping[str, str] | None = None
) -> Iterator[Asked]:
    """account: None: who may do everything.   store: an embedded store that no process holds.   policies: of views of
    the tenants' database."""
    with answering(store, config_for(account, folder, policies or {})) as asked:
        yield asked


@contextlib.contextmanager
def answering(store: Path, config: Path) -> Iterator[Asked]:
    """The engine with a configuration file of its own."""
    program = [sys.executable, "-c", ANSWERS, str(store), str(config)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPO) as process:
        assert process.stdin is not None
        try:
            yield Asked(process)
        finally:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def config_for(account: Account | None, folder: Path, policies: Mapping[str, str]) -> Path:
    """The engine's configuration file, with users in which `default` has what the account has."""
    root = Element("clickhouse")
    users, roles, profiles, quotas = (SubElement(root, name) for name in ("users", "roles", "profiles", "quotas"))
    SubElement(profiles, "default")
    SubElement(quotas, "default")
    user = _user(users, "default")
    name = account.name if account is not None else "everything"
    if account is not None:
        add_role(roles, account)
        add_limits(profiles, quotas, account)
        add_membership(user, account)
    if name != "gpuledger_writer":
        # The definer of tenants' views.
        (writer,) = (one for one in accounts("gpuledger") if one.name == "gpuledger_writer")
        add_role(roles, writer)
        add_membership(_user(users, "gpuledger_writer"), writer)
    tables = SubElement(SubElement(user, "databases"), "gpuledger_tenants")
    for table, condition in policies.items():
        SubElement(SubElement(tables, table), "filter").text = condition
    path, config = folder / f"{name}.xml", folder / f"{name}-config.xml"
    path.write_text(tostring(root, encoding="unicode"), encoding="utf-8")
    config.write_text(f"<clickhouse><users_config>{path}</users_config></clickhouse>", encoding="utf-8")
    return config


def _user(users: Element, name: str) -> Element:
    user = SubElement(users, name)
    SubElement(user, "password")
    SubElement(SubElement(user, "networks"), "ip").text = "::/0"
    return user


ANSWERS = """
import json, sys
import chdb
connection = chdb.connect(f"{sys.argv[1]}/engine?config-file={sys.argv[2]}")
used = ""
for line in sys.stdin:
    database, sql, form = json.loads(line)
    try:
        if database != used:
            connection.query("USE " + database)
            used = database
        answer = {"text": bytes(connection.query(sql, form).bytes() or b"").decode()}
    except RuntimeError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
connection.close()
"""


def answers(asked: Asked, sql: str) -> Any:
    """The rows, as JSON has them."""
    return json.loads(asked.ask(sql, format="JSONCompact"))["data"]
