"""`gpuledger close` and `gpuledger verify`: compute the ledger, and prove that it balances."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import open_books, refuse_absent, served
from gpuledger.output import print_json, print_rows, say
from gpuledger.progress import bar
from warehouse.errors import LedgerError
from warehouse.instants import rfc3339
from warehouse.printable import grouped

if TYPE_CHECKING:
    from gpuledger import documents

GRACE_MINUTES = 15


def register(app: typer.Typer) -> None:
    app.command("close")(close)
    app.command("verify")(verify)


def close(
    store: options.Store = "",
    until: Annotated[
        str,
        typer.Option(
            help="Close the hours before this instant, e.g. 2026-11-01T00:00Z.",
            show_default="the last recorded fact, less the grace",
        ),
    ] = "",
    grace_minutes: Annotated[
        int, typer.Option(min=0, max=527_040, help="How long an hour waits for late records.")
    ] = GRACE_MINUTES,
    whole: Annotated[
        bool,
        typer.Option("--whole", help="Read all facts again, not only those around new ones. The result is the same."),
    ] = False,
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Compute the ledger of every hour whose facts or prices changed; a second run changes nothing."""
    from billing import close as billing_close

    limit = options.parse_instant("--until", until) if until else None
    report: billing_close.CloseReport | documents.Closed
    if served(store) and (grace_minutes != GRACE_MINUTES or whole):
        raise LedgerError("--grace-minutes, --whole", "a server has its own", "Leave them out")
    with open_books(store) as books:
        if books.server:
            report = books.server.close_books(limit)
        else:
            with bar("hours") as show:
                task = show.add_task("claims", total=None)
                report = billing_close.close(
                    books.store,
                    until=limit,
                    now=books.now,
                    grace=timedelta(minutes=grace_minutes),
                    whole=whole,
                    on_progress=lambda what, done, total: show.update(
                        task, description=what, completed=done, total=total or None
                    ),
                )
    if fmt is not options.Format.table:
        row = {
            "run": str(report.run),
            "closed_until": report.closed_until,
            "hours_checked": report.checked,
            "hours_changed": report.changed,
            "claims_refused": report.refused,
            "rows_held": report.held,
            "rate_card": report.rate_card,
        }
        if fmt is options.Format.json:
            print_json(row)
        else:
            print_rows([row], list(row), fmt)
        return
    if report.closed_until is None:
        say("nothing to close: no facts yet. Next: gpuledger ingest devices FILE, then events and samples")
        return
    computed = f"{grouped(report.checked, 'hour')} computed, {report.changed:,} changed"
    say(
        f"closed until {rfc3339(report.closed_until)}: {computed}"
        + (f", {grouped(report.refused, 'claim')} refused (gpuledger doctor shows them)" if report.refused else "")
        + (f", {grouped(report.held, 'pushed row')} held (gpuledger held list)" if report.held else "")
        + ("" if report.rate_card else "; no rate card yet, so prices are unknown (gpuledger rates apply FILE)")
    )


def verify(store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """Verify quantities, prices, documents and chains of the books; exit 1 and list what is wrong."""
    proof = _proof(store)
    if fmt is options.Format.json:
        print_json(proof)
    elif proof["failures"] or fmt is options.Format.csv:
        print_rows(proof["failures"], ("table", "where", "what", "step"), fmt)
    if proof["waiting"]:
        say(f"{grouped(proof['waiting'], 'device-hour')} had device rows since their close. Next: gpuledger close")
    if proof["balanced"] and not proof["hours"] and not proof["documents"]:
        say("nothing is closed yet, so there is nothing to verify. Next: gpuledger close")
        return
    if proof["balanced"]:
        hours, device_hours = grouped(proof["hours"], "hour"), grouped(proof["device_hours"], "device-hour")
        fit = "fits its" if proof["documents"] == 1 else "fit their"
        documents = f"{grouped(proof['documents'], 'document')} {fit} chain"
        say(f"the books balance: {hours}, {device_hours}, to the millisecond; {documents}")
        return
    say(f"the books do not balance: {grouped(len(proof['failures']), 'check')} failed")
    raise typer.Exit(1)


def _proof(store: str) -> dict[str, Any]:
    from billing.verify import verify as prove

    refuse_absent(store, "verified")
    with open_books(store) as books:
        if books.server:
            return books.server.proof().model_dump()
        report = prove(books.store)
    failures = [vars(failure) for failure in report.failures]
    return {**vars(report), "failures": failures, "balanced": report.balanced}
