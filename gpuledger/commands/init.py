"""`gpuledger init`: create or upgrade the schema."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuledger import options
from gpuledger.output import console, say
from warehouse.store import migrate, migrations, open_store


def register(app: typer.Typer) -> None:
    app.command("init")(init)


def init(
    store: options.Store = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the SQL and change nothing.")] = False,
) -> None:
    """Create the store, or upgrade its schema; a second run changes nothing."""
    if dry_run:
        for _, name, text in migrations():
            console.print(f"-- {name}\n{text}", markup=False, soft_wrap=True)
        return
    with open_store(store) as opened:
        applied = migrate(opened)
        say(f"{opened.url}: " + (f"applied {', '.join(applied)}" if applied else "schema is up to date"))
