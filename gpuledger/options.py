"""Options that commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"


Store = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="GPULEDGER_STORE",
        help="chdb:///path, chdb://memory or clickhouse://user@host:8123/database",
        show_default="a store in your home",
    ),
]
OutputFormat = Annotated[Format, typer.Option("--format", help="How to print the answer.")]
