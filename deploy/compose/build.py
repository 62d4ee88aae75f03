"""The accounts of Compose's ClickHouse: `python deploy/compose/build.py` writes clickhouse-users.xml."""

from __future__ import annotations

import sys
from pathlib import Path

from warehouse.accounts.users_d import users_d
from warehouse.store import DATABASE

HERE = Path(__file__).parent
ACCOUNTS = ("gpuledger_writer", "gpuledger_reader", "gpuledger_auditor", "gpuledger_grafana")


def main() -> int:
    (HERE / "clickhouse-users.xml").write_text(users_d(DATABASE, ACCOUNTS), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
