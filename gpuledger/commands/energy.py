"""`gpuledger energy`: kWh and kgCO2e of a period; carbon intensity, PUE and idle power that a site declares."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import open_books, opened_store
from gpuledger.output import figures_of, percent, print_json, print_rows, say
from warehouse.instants import rfc3339

if TYPE_CHECKING:
    from billing.energy.report import EnergyReport
    from gpuledger import documents

energy = typer.Typer(invoke_without_command=True)
intensity = typer.Typer(no_args_is_help=True)
energy.add_typer(intensity, name="intensity", help="Carbon intensity, PUE and idle power: apply a file, list.")

HEADINGS = {
    "held_by": "held by",
    "kwh": "kWh",
    "kwh_with_pue": "kWh with PUE",
    "kgco2e": "kgCO2e",
    "gpu_hours": "GPU-hours",
    "coverage": "measured",
}
COLUMNS = (
    "kind", "region", "cluster", "pool", "model", "grams_per_kwh", "hours", "pue", "watts",
    "effective_from", "effective_to", "source", "version",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    app.add_typer(energy, name="energy", help="kWh and kgCO2e of the closed hours; carbon intensity of the grid.")


@energy.callback()
def report(
    context: typer.Context,
    store: options.Store = "",
    period: options.Period = "",
    by: options.Dimensions = "tenant",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Energy of the devices (kWh), with PUE, and what it emitted (kgCO2e), by tenant or any other dimension."""
    if context.invoked_subcommand:
        return
    from billing.energy.report import energy_report
    from billing.ledger_report import billing_timezone
    from billing.periods import parse_period

    dimensions = [name.strip() for name in by.split(",") if name.strip()]
    with open_books(store) as books:
        if books.server:
            found = _report_of(books.server.energy(period, dimensions))
        else:
            asked = parse_period(period, billing_timezone(books.store)) if period else None
            found = energy_report(books.store, asked, dimensions)
    if fmt is options.Format.json:
        print_json(found.document())
    elif fmt is options.Format.csv:
        print_rows(found.rows, found.columns, fmt)
    else:
        _print_table(found)


def _report_of(document: documents.Energy) -> EnergyReport:
    """The report from the server's API: computing it stages tables, which the server's SQL cannot."""
    from billing.energy.report import EnergyReport
    from gpuledger.closed_spans import closed_part_of

    *rows, platform, total = (
        {name: value for name, value in row if name in row.model_fields_set}
        for row in (*document.rows, document.platform or document.total, document.total)
    )
    held, measured = document.total.gpu_hours, document.total.measured_gpu_hours
    return EnergyReport(
        closed_part_of(document.period), tuple(document.by), tuple(rows), platform, total,
        None if held is None or measured is None else held - measured, tuple(document.notes),
    )  # fmt: skip


@intensity.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="Intensity, PUE and idle power, YAML (docs/energy.md).")],
    store: options.Store = "",
    author: options.Author = "",
    reason: options.Reason = "",
) -> None:
    """Check and apply a file; repeating it changes nothing."""
    from billing.energy.settings import apply_energy_settings, current_energy_settings, load_energy_settings

    settings = load_energy_settings(file)
    with open_books(store, author) as books:
        before = None if books.server else current_energy_settings(books.store)
        line = books.apply(
            "energy settings", settings, reason, lambda server, text: server.apply_energy_settings(text, reason),
            current_energy_settings, apply_energy_settings,
        )  # fmt: skip
    if not line:
        return
    idle = before.settings.idle_version if before else ""
    following = "gpuledger close (idle power changed)" if idle != settings.idle_version else "gpuledger energy"
    count = f"{len(settings.intensity)} intensit{'y' if len(settings.intensity) == 1 else 'ies'}"
    say(f"{line}: {count}, {len(settings.idle_power)} idle power. Next: {following}")


@intensity.command("list")
def list_(store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """The applied rules, in order (UTC; a dash is open or not set)."""
    from billing.energy.settings import current_energy_settings

    with opened_store(store) as opened:
        current = current_energy_settings(opened)
    if current is None:
        if fmt is options.Format.table:
            say("no carbon intensity yet. Next: gpuledger energy intensity apply FILE")
        else:
            print_rows([], COLUMNS, fmt)
        return
    rows = [
        *(
            {"kind": "intensity", "hours": len(rule.hourly) or None, **dict(rule)}
            for rule in current.settings.intensity
        ),
        *({"kind": "idle_power", **dict(rule)} for rule in current.settings.idle_power),
    ]
    print_rows([{**row, "version": current.version} for row in rows], COLUMNS, fmt)


def _print_table(found: EnergyReport) -> None:
    if (period := figures_of(found.closed)) is None:
        return
    title = f"{rfc3339(period.start)} to {rfc3339(period.end)}"
    total = {**dict.fromkeys(found.by[:1], "total"), **found.total}
    rows = [_for_people(row) for row in (*found.rows, total)]
    print_rows(rows[:-1], (*found.by, *HEADINGS.values()), options.Format.table, title, totals=rows[-1:])
    for note in found.notes:
        say(note)


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    shown = {
        HEADINGS.get(name, name): round(value, 2 if name == "gpu_hours" else 3) if isinstance(value, Decimal) else value
        for name, value in row.items()
    }
    shown["measured"] = percent(row["coverage"])
    return shown
