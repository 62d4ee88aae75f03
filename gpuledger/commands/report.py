"""`gpuledger report`: a tenant's week or month by mail (docs/reports.md)."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gpuledger import options
from gpuledger.books import open_books, opened_store, refuse_served
from gpuledger.output import complain, print_lines, say
from warehouse.errors import LedgerError
from warehouse.private_files import whole_file
from warehouse.store import Store

report = typer.Typer(no_args_is_help=True)
Tenant = Annotated[str, typer.Option("--tenant", help="Whose.")]
PeriodText = Annotated[str, typer.Option("--period", help="A month (2026-10), a day or START..END.")]
Code = Annotated[str, typer.Option("--language", help="en or zh.", show_default="as the file says, else en")]
Settings = Annotated[
    Path,
    typer.Option(
        "--reports",
        envvar="GPULEDGER_REPORTS",
        help="Mail server and recipients, YAML (docs/reports.md).",
        dir_okay=False,
    ),
]


def register(app: typer.Typer) -> None:
    app.add_typer(report, name="report", help="A tenant's week or month by mail.")


@report.command("preview")
def preview(
    tenant: Tenant,
    period: PeriodText,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="An HTML file, with its chart in it.", show_default="text on the terminal"),
    ] = None,
    code: Code = "",
    store: options.Store = "",
) -> None:
    """Show a report without sending it."""
    from dashboards.reports.schedule import check_language

    check_language(code)
    with open_books(store) as books:
        if books.server:
            page = books.server.report(tenant, period, "html" if out else "text", code or "en")
        else:
            page = _page(books.store, tenant, period, out is not None, code)
    if out is None:
        print_lines(*page.splitlines())
        return
    with whole_file(out) as file:
        file.write(page.encode())
    say(f"{out}: {tenant}, {period}")


def _page(store: Store, tenant: str, period: str, as_page: bool, code: str) -> str:
    """The report from a store opened here, as HTML with its chart embedded, or as text."""
    from billing.ledger_report import billing_timezone
    from billing.periods import parse_period
    from dashboards.languages import language
    from dashboards.reports.pages import as_html, as_text, chart
    from dashboards.reports.report import tenant_report

    words = language(code)
    asked = parse_period(period, billing_timezone(store))
    made = tenant_report(store, tenant, asked, datetime.now(UTC))
    if not as_page:
        return as_text(made, words)
    return as_html(made, words, f"data:image/png;base64,{base64.b64encode(chart(made, words)).decode()}")


@report.command("send")
def send(
    reports: Settings,
    tenant: Annotated[str, typer.Option("--tenant", help="Whose; without it what is due.")] = "",
    period: Annotated[str, typer.Option("--period", help="A month (2026-10), a day or START..END.")] = "",
    to: Annotated[list[str] | None, typer.Option("--to", help="Recipient, instead of those in the file.")] = None,
    code: Code = "",
    store: options.Store = "",
) -> None:
    """Send a tenant's report now, or all that are due. Exit 1 if one could not be sent."""
    refuse_served(store, "and mails by itself", "Start it with --reports; report preview shows what it mails")
    if bool(tenant) != bool(period) or ((to or code) and not tenant):
        raise LedgerError(
            "report send", "--tenant and --period go together, and --to and --language with them", "Give both, or none"
        )
    from alerts.transports import SendError
    from billing.audit import whoever
    from billing.ledger_report import billing_timezone
    from billing.periods import parse_period
    from dashboards.reports import schedule as schedules
    from dashboards.reports.periodic import send_due

    schedule, now = schedules.load_schedule(reports), datetime.now(UTC)
    with opened_store(store) as opened:
        if not tenant:
            sent, failed = send_due(opened, schedule, now)
            say(f"{sent} sent, {failed} failed" if sent or failed else "nothing is due")
            raise typer.Exit(1 if failed else 0)
        zone = billing_timezone(opened)
        asked, failed = parse_period(period, zone), False
        for wanted in schedules.wanted_by(schedule, tenant, tuple(to or ()), code):
            name = schedules.name_of(tenant, asked, zone, wanted.to)
            try:
                schedules.send(opened, schedule, schedules.Due(wanted, tenant, asked, name), now, whoever())
            except SendError as error:
                complain(f"report {name}: was not sent: {error}. Check smtp in the file")
                failed = True
            else:
                say(f"sent: {name}")
    if failed:
        raise typer.Exit(1)
