"""Makes the small store that a release leaves to the tests of those after it, with what its commands printed:

    PYTHONPATH=. python -m tests.releases.make tests/releases/1.0.0.tar.xz

Run it once, with the release's own code, when it is released (CONTRIBUTING.md): what a later version makes is no store
of that release. The archive holds `store`, an embedded store's folder and its access store, and `printed.json`: of each
command its exit status and output, of each file that one wrote its digest, and which Typst set the pages.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import re
import shlex
import tarfile
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from typer.testing import CliRunner

from access.opening import open_access
from access.people import Kind, add_person, list_people
from access.principal import Principal
from access.roles import Role
from access.tokens import create_token, list_tokens
from alerts.silences import add_silence
from api.sql.saved import save_query, saved_queries
from gpuledger.cli import build
from ingest import ingest_tables
from tests.billing.facts import job
from tests.billing.hand_ledger import at
from tests.billing.rich_books import fill_books
from tests.billing.test_held_effect import held
from warehouse.records import SAMPLES
from warehouse.store import Store, identifier, migrate, open_store

NOW = datetime(2026, 4, 6, 12, tzinfo=UTC)
ROOT = Principal("root", frozenset({Role.admin}))
PASSWORD = "correct horse battery"
QUERIES = {
    "hours": "SELECT tenant, sum(allocated_gpu_hours) AS hours FROM v_usage_hourly GROUP BY tenant ORDER BY tenant",
    "reported": "SELECT DISTINCT reported_tenant AS who, reported_project FROM ledger ORDER BY who, reported_project",
}
COMMANDS = (
    "ledger --period 2026-02 --by tenant,project,queue",
    "ledger --period 2026-03 --by device,hour",
    "ledger --by day",
    "efficiency --period 2026-02 --by tenant",
    "energy --period 2026-02 --by tenant",
    "energy --period 2026-03 --by pool,cluster",
    "allocation --window 2026-02 --aggregate namespace --share-idle",
    "audit",
    "budget list",
    "credits list",
    "credits list --grants",
    "energy intensity list",
    "invoice list",
    "invoice draft --period 2026-04",
    "invoice platform --period 2026-02",
    "invoice statement --period 2026-02",
    "invoice parties list",
    "invoice explain 1 --number GL-2026-00001",
    "rates list",
    "rates history",
    "tenants list",
    "tenants unmapped",
    "held list",
    "alerts list",
    "alerts history",
    "verify",
    "invoice verify GL-2026-00001",
)
"""Asked with --format json."""
WRITES = (
    "invoice show GL-2026-00001 --out {out}/1",
    "invoice show GL-2026-00002 --out {out}/2",
    "invoice show GL-2026-00005 --out {out}/5",
    "invoice statement --period 2026-02 --out {out}/statement",
    "export focus --period 2026-02 --grain day --out {out}/february.csv",
    "export focus --period 2026-03 --out {out}/march.csv",
)
FAR = "2099-01-01 00:00:00"
TTL = re.compile(r" TTL (?:toDateTime\()?(\w+)")


def fill(folder: Path) -> None:
    """Rows in every table: books of two issued months, rows that were refused or are held, alerts and people; drawn
    ones in tables that nothing of this writes to."""
    url = f"chdb://{folder}"
    with open_store(url) as store:
        migrate(store)
        fill_books(store)
        put_what_is_refused(store)
        put_what_is_held(store)
    run("alerts check --at 2026-03-10T10:00Z", url)
    with open_store(url) as store:
        add_silence(store, {"rule": ["idle*"]}, NOW + timedelta(days=1), "ann", "known", NOW)
        put_people(store)
        draw_the_rest(store)
        keep_forever(store)


def put_what_is_refused(store: Store) -> None:
    row = {
        "ts": at("2026-02-10 09:00"),
        "interval_seconds": 60.0,
        "device_id": "g0",
        "utilization": 0.5,
        "state": "odd",
    }
    ingest_tables(store, SAMPLES, "refused", [pa.Table.from_pylist([row])])


def put_what_is_held(store: Store) -> None:
    held(store, "events", job("new", "kyoto", "g2", "2026-02-10 10:20", "2026-02-10 10:50", project="p", cluster="c1"))


def put_people(store: Store) -> None:
    with open_access(store) as access:
        add_person(access, "root", NOW, "ada", PASSWORD, ["analyst"])
        add_person(access, "root", NOW, "agents", "", ["operator"], kind=Kind.service)
        create_token(access, ROOT, NOW, "nightly", timedelta(days=300), owner="agents", roles=["operator"])
        for name, text in QUERIES.items():
            save_query(access, ROOT, NOW, name, text, "of tenants", shared=True)


def draw_the_rest(store: Store) -> None:
    for name, create in tables(store):
        if store.value(f"SELECT count() AS n FROM {name}"):
            continue
        columns = store.rows(
            "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = {table:String} "
            "AND default_kind NOT IN ('MATERIALIZED', 'ALIAS')", {"table": name},
        )  # fmt: skip
        structure = (
            ", ".join(f"{row['name']} {row['type']}" for row in columns).replace("\\", "\\\\").replace("'", "\\'")
        )
        structure = re.sub(r"SimpleAggregateFunction\(\w+, (\w+)\)", r"\1", structure)
        kept = TTL.search(create)
        later = f" REPLACE (toDateTime('{FAR}', 'UTC') AS {kept[1]})" if kept else ""
        store.command(f"INSERT INTO {name} SELECT *{later} FROM generateRandom('{structure}', 17, 8, 2) LIMIT 3")


def keep_forever(store: Store) -> None:
    """Nothing of it ends by its age, however late it is looked at."""
    for name, create in tables(store):
        kept = TTL.search(create)
        if kept and re.search(rf"`{kept[1]}` (SimpleAggregateFunction\(max, )?Date\b", create):
            store.command(
                f"ALTER TABLE {name} UPDATE {kept[1]} = toDate('{FAR[:10]}') WHERE 1 SETTINGS mutations_sync = 2"
            )
    for name, _ in tables(store):
        store.command(f"OPTIMIZE TABLE {name} FINAL")


def tables(store: Store) -> list[tuple[str, str]]:
    sql = (
        "SELECT name, create_table_query FROM system.tables "
        "WHERE database = currentDatabase() AND engine LIKE '%MergeTree'"
    )
    return [(identifier(row["name"]), row["create_table_query"]) for row in store.rows(sql)]


def run(command: str, url: str) -> tuple[int, str]:
    result = CliRunner().invoke(build(), [*shlex.split(command), "--store", url])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def printed(url: str) -> dict[str, Any]:
    """What commands print and write of a store, and what saved queries answer."""
    answers = {command: run(f"{command} --format json", url) for command in COMMANDS}
    with open_store(url) as store, open_access(store) as access:
        rest = {
            "people": sorted(one.label for one in list_people(access)),
            "tokens": sorted(one.name for one in list_tokens(access)),
            "queries": {one.name: store.rows(one.text) for one in saved_queries(access, ROOT)},
        }
    return {
        "commands": {command: (status, json.loads(text)) for command, (status, text) in answers.items()},
        "typst": importlib.metadata.version("typst"),
        "writes": WRITES,
        "written": written(url, WRITES),
        **rest,
    }


def written(url: str, commands: Iterable[str]) -> dict[str, str]:
    """Of each file that the commands write, by its name, the digest."""
    with tempfile.TemporaryDirectory() as out:
        for command in commands:
            status, text = run(command.format(out=out), url)
            assert status == 0, f"{command}: {text}"
        files = (path for path in Path(out).rglob("*") if path.is_file())
        return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def pack(folder: Path, archive: Path) -> None:
    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for name in ("printed.json", "store"):
            tar.add(folder / name, name, filter=plain)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("archive", type=Path)
    archive = options.parse_args().archive
    os.environ.pop("COLUMNS", None)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        fill(store)
        found = printed(f"chdb://{store}")
        text = json.dumps(found, indent=1, ensure_ascii=False, default=str)
        (Path(folder) / "printed.json").write_text(text, encoding="utf-8")
        pack(Path(folder), archive)


if __name__ == "__main__":
    main()
