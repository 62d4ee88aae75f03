"""`gpuledger export`: FOCUS files of the books for other systems, and their check."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuledger import options
from gpuledger.books import client, opened_store, served
from gpuledger.output import say
from warehouse.printable import grouped
from warehouse.private_files import whole_file
from warehouse.store import open_store

if TYPE_CHECKING:
    from billing.exports.focus import FocusReport

export = typer.Typer(no_args_is_help=True)


class Version(StrEnum):
    v1_2 = "1.2"
    v1_3 = "1.3"


class Grain(StrEnum):
    hour = "hour"
    day = "day"
    month = "month"


class Which(StrEnum):
    all = "all"
    invoiced = "invoiced"
    draft = "draft"


def register(app: typer.Typer) -> None:
    app.add_typer(export, name="export", help="The books as files for other systems (FOCUS).")


@export.command("focus")
def focus(
    period: Annotated[str, typer.Option("--period", help="A month in the billing time zone, like 2026-10.")],
    out: Annotated[Path, typer.Option("--out", help="A file that ends in .csv, .csv.gz or .parquet.", dir_okay=False)],
    store: options.Store = "",
    tenant: options.OneTenant = None,
    which: Annotated[
        Which,
        typer.Option("--which", help="Issued invoices, drafts, or issued where there is one and drafts for the rest."),
    ] = Which.all,
    invoiced: Annotated[bool, typer.Option("--invoiced", help="The same as --which invoiced.")] = False,
    draft: Annotated[bool, typer.Option("--draft", help="The same as --which draft.")] = False,
    version: Annotated[Version, typer.Option("--version", help="Of FOCUS.")] = Version.v1_2,
    grain: Annotated[Grain, typer.Option("--grain", help="How long a charge period is.")] = Grain.hour,
    platform: Annotated[bool, typer.Option("--platform", help="With the platform's own time as rows.")] = False,
    skip_unpriced: Annotated[
        bool, typer.Option("--skip-unpriced", help="Leave out time whose price is unknown.")
    ] = False,
    check: Annotated[bool, typer.Option(help="Read the file again and check it.")] = True,
) -> None:
    """A month's costs as FinOps FOCUS rows, checked against the specification and the invoices."""
    from billing.closed import closed_part
    from billing.exports.errors import ExportError
    from billing.exports.focus import FocusOptions, export_focus
    from billing.ledger_report import billing_timezone
    from billing.periods import parse_month

    if invoiced and draft:
        raise ExportError("export focus", "--invoiced and --draft exclude each other", "Give one of them, or neither")
    if tenant is not None and platform:
        raise ExportError("export focus", "--platform is nobody's: it goes with all tenants", "Leave out --tenant")
    wanted = Which.invoiced if invoiced else Which.draft if draft else which
    if served(store):
        options_ = {"tenant": tenant or "", "which": wanted.value, "version": version.value, "grain": grain.value,
                    "platform": str(platform).lower(), "skip_unpriced": str(skip_unpriced).lower()}  # fmt: skip
        with client(served(store)) as server, whole_file(out) as file:
            file.writelines(server.focus(period, out.name, **options_))
        say(f"{out}: written")
        if check:
            _check(out, is_new=True)
        return
    with opened_store(store) as opened:
        month = parse_month(period, billing_timezone(opened))
        asked = FocusOptions(tenant, wanted.value, version.value, grain.value, platform, skip_unpriced)
        report = export_focus(opened, month, out.resolve(), asked)
        closed = closed_part(opened, month)
    _print_report(report, out)
    if closed is not None and (note := closed.note()):
        say(note)
    if check:
        _check(out, report, is_new=True)


@export.command("check")
def check_file(
    file: Annotated[Path, typer.Argument(help="A FOCUS file: .csv, .csv.gz or .parquet.")],
) -> None:
    """Check a FOCUS file against the specification, row by row; exit 1 if a rule is violated."""
    _check(file)


def _print_report(report: FocusReport, out: Path) -> None:
    invoices = f", {grouped(len(report.invoices), 'invoice')}" if report.invoices else ""
    say(f"{out}: {grouped(report.rows, 'row')}{invoices}")
    if report.unpriced_hours:
        say(f"{report.unpriced_hours:,.2f} GPU-hours have no price and are left out")
    if report.by_line:
        say(
            f"the ledger changed since invoices of {', '.join(report.by_line[:3])}"
            f"{' and others' if len(report.by_line) > 3 else ''} were issued; what changed is exported by invoice line"
        )


def _check(file: Path, report: FocusReport | None = None, is_new: bool = False) -> None:
    from billing.exports.check import check_focus

    with open_store("chdb://memory") as engine:
        findings = check_focus(engine, file.resolve(), report, is_new)
    for finding in findings:
        say(str(finding))
    if findings:
        raise typer.Exit(1)
    say(f"{file}: keeps the rules")
