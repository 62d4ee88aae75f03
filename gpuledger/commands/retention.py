"""`gpuledger retention`: how long samples, sums, metrics and superseded entries are kept, and their removal."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from gpuledger import options
from gpuledger.books import open_books
from gpuledger.output import print_json, print_rows, say
from warehouse.errors import LedgerError
from warehouse.printable import counted

if TYPE_CHECKING:
    from billing.retention import Retention
    from gpuledger import documents

COLUMNS = ("name", "days", "rows", "bytes", "goes_rows", "goes_bytes")
FOR_GOOD = "always"
SHOWN = 5
"""Numbers of invoices in a line."""


def register(app: typer.Typer) -> None:
    app.command("retention")(retention)


def retention(
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            help="KIND=DAYS, or KIND=always, as often as wanted: samples, sums, metrics, findings, superseded.",
        ),
    ] = None,
    even_invoiced: Annotated[
        bool, typer.Option("--even-invoiced", help="Also samples that issued invoices are verified from.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Remove what is due; else only show it.")] = False,
    reason: options.Reason = "",
    author: options.Author = "",
    store: options.Store = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Show how long rows are kept and what a removal would take; with --keep set it, with --apply remove it."""
    days = _days(keep or [])
    found: Retention | documents.Retention
    with open_books(store, author) as books:
        if books.server:
            if days:
                books.server.keep(days, reason)
            found = books.server.remove_due(even_invoiced, reason) if apply else books.server.retention(even_invoiced)
        else:
            from billing import retention as kept

            if days:
                kept.set_days(books.store, days, books.author, reason, books.now)
            if apply:
                found = kept.remove(books.store, books.author, books.now, even_invoiced, reason)
            else:
                found = kept.retention(books.store, books.now, even_invoiced)
    rows = [{name: getattr(one, name) for name in COLUMNS} for one in found.tables]
    if fmt is options.Format.json:
        print_json({"tables": rows, "days": [f"{day:%Y-%m-%d}" for day in found.days], "invoices": found.invoices,
                    "held_back": found.held_back, "unread": found.unread,
                    "removed": [f"{one.day:%Y-%m-%d}" for one in found.removed]})  # fmt: skip
        return
    if fmt is options.Format.table:
        rows = [{**row, "days": FOR_GOOD if row["days"] is None else row["days"]} for row in rows]
    print_rows(rows, COLUMNS, fmt)
    if fmt is options.Format.table:
        _say(found, apply, books.now)


def _say(found: Retention | documents.Retention, applied: bool, now: datetime) -> None:
    if found.days:
        went = "removed" if applied else "would be removed"
        span = f"from {min(found.days):%Y-%m-%d} to {max(found.days):%Y-%m-%d}"
        say(f"samples of {counted(len(found.days), 'day')} {went}, {span}")
    if found.invoices:
        more = f" and {len(found.invoices) - SHOWN} more" if len(found.invoices) > SHOWN else ""
        cannot = "cannot be computed again any more" if applied else "could not be computed again then"
        say(f"{', '.join(found.invoices[:SHOWN])}{more} {cannot}")
    if found.held_back:
        stay = "stays" if found.held_back == 1 else "stay"
        say(
            f"{counted(found.held_back, 'day')} {stay} because issued invoices are verified from that (--even-invoiced)"
        )
    if found.unread and _is_due(found.unread, now):
        say(f"facts since {found.unread:%Y-%m-%d %H:%M}Z wait for a close, and their days stay. Next: gpuledger close")


def _is_due(unread: datetime, now: datetime) -> bool:
    """Whether a close would read such facts; it takes no hour that goes on."""
    from billing.close import GRACE
    from billing.periods import hour_of

    return hour_of(unread) + timedelta(hours=1) + GRACE <= now


def _days(texts: list[str]) -> dict[str, int | None]:
    """From KIND=DAYS. Errors: LedgerError naming the one that is no such text."""
    found: dict[str, int | None] = {}
    for text in texts:
        name, sign, days = text.partition("=")
        if not sign or not (days == FOR_GOOD or (days.isascii() and days.isdigit() and len(days) < 10)):
            raise LedgerError("--keep", f"{text[:60]!r} is not KIND=DAYS", "Such as samples=400 or superseded=always")
        if name in found:
            raise LedgerError("--keep", f"{name} is named twice", "Give each kind one number of days")
        found[name] = None if days == FOR_GOOD else int(days)
    return found
