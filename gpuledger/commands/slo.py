"""`gpuledger slo`: service level objectives, their state, and credits for missed ones."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import open_books, opened_store
from gpuledger.output import percent, print_csv, print_json, print_rows, say
from warehouse.store import ServedStore

if TYPE_CHECKING:
    from alerts.slo.credits import Offers
    from alerts.slo.status import SeriesStatus

slo = typer.Typer(no_args_is_help=True)

LIST_COLUMNS = ("name", "kind", "match", "target", "window_seconds", "owner", "definition")
At = Annotated[str, typer.Option(help="The instant, like 2026-10-06T12:00Z.", show_default="now")]


def register(app: typer.Typer) -> None:
    app.add_typer(slo, name="slo", help="Service level objectives: their state and error budgets.")


@slo.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="The objectives, YAML.")],
    store: options.Store = "",
    author: options.Author = "",
    reason: options.Reason = "",
) -> None:
    """Check and apply a file of objectives; repeating it changes nothing."""
    from alerts.slo.applied import apply_objectives, current_objectives
    from alerts.slo.objectives import load_objectives

    loaded = load_objectives(file)
    with open_books(store, author) as books:
        line = books.apply(
            "objectives", loaded, reason, lambda server, text: server.apply_objectives(text, reason),
            current_objectives, apply_objectives,
        )  # fmt: skip
    if line:
        say(f"{line}: {len(loaded.objectives)}. Next: gpuledger slo status")


@slo.command("list")
def list_(store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """The applied objectives."""
    from alerts.slo.applied import current_objectives

    with opened_store(store) as opened:
        applied = current_objectives(opened)
    if applied is None and fmt is options.Format.table:
        say("no objectives yet. Next: gpuledger slo apply FILE")
        return
    rows = [
        {
            "name": one.name,
            "kind": one.kind,
            "match": " ".join(f"{key}={glob}" for key, glob in one.match.model_dump(exclude_defaults=True).items()),
            "target": one.target,
            "window_seconds": one.window,
            "owner": one.owner,
            "definition": one.definition,
        }
        for one in (applied.file.objectives if applied else ())
    ]
    print_rows(rows, LIST_COLUMNS, fmt, f"objectives {applied.version}" if applied else "")


@slo.command("status")
def status(
    store: options.Store = "",
    tenant: options.OneTenant = None,
    at: At = "",
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 if an objective is missed or its budget burns.")
    ] = False,
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Measure the objectives: their state, the error budget left, and how fast it burns."""
    from alerts.slo.measure import measure
    from alerts.slo.status import COLUMNS, by_tenant, slo_status

    moment = options.parse_instant("--at", at) if at else datetime.now(UTC)
    with opened_store(store) as opened:
        if not isinstance(opened, ServedStore):  # its server measures every minute
            measure(opened, moment)
        series = slo_status(opened, moment, tenant)
    if fmt is options.Format.json:
        tenants = [asdict(one) for one in by_tenant(series)]
        print_json({"at": moment, "series": [asdict(one) for one in series], "tenants": tenants})
    elif fmt is options.Format.csv:
        print_rows([asdict(one) for one in series], COLUMNS, fmt)
    elif not series:
        say("no objectives are in force" if tenant is None else f"no objective knows anything of {tenant}")
    else:
        _print_table(series)
    if check and any(one.state == "missed" or one.burning for one in series):
        raise typer.Exit(1)


@slo.command("credits")
def credits(
    month: Annotated[str, typer.Option(help="Like 2026-10.")],
    store: options.Store = "",
    author: Annotated[str, typer.Option(help="Whose name the credits bear.", show_default="you")] = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Credits for a month's missed objectives; as CSV for `gpuledger credits import`."""
    from alerts.slo.credits import COLUMNS, slo_credits
    from alerts.slo.measure import measure
    from billing.audit import whoever

    with opened_store(store) as opened:
        if not isinstance(opened, ServedStore):
            measure(opened, datetime.now(UTC))
        found = slo_credits(opened, month)
    rows: list[dict[str, Any]] = [dict(one.row(whoever(author))) for one in found.offers]
    if fmt is options.Format.csv:
        print_csv(COLUMNS, rows)
    elif fmt is options.Format.json:
        print_json({"offers": rows, "not_judged": [asdict(one) for one in found.not_judged]})
    else:
        print_rows(rows, ("tenant", "amount", "currency", "reason", "id"), fmt, f"offered for {month}")
    _say_not_judged(found)


def _say_not_judged(found: Offers) -> None:
    for one in found.not_judged:
        say(f"not judged: {one.objective} {one.tenant} {one.subject}: {one.why}")


def _print_table(series: list[SeriesStatus]) -> None:
    rows = [
        {
            "objective": one.objective,
            "tenant": one.tenant,
            "of": one.subject,
            "target": percent(one.target, 2),
            "achieved": percent(one.sli, 2),
            "known": percent(one.coverage, 2),
            "budget left": percent(one.budget_left, 2),
            "burn 1h": _rate(one.burn_1h),
            "6h": _rate(one.burn_6h),
            "3d": _rate(one.burn_3d),
            "state": one.state,
            "burning": one.burning,
        }
        for one in series
    ]
    print_rows(rows, tuple(rows[0]), options.Format.table)
    for one in series:
        if one.measured_until is None:
            say(f"{one.objective}: not measured yet; what it is measured from is not there")
        elif one.shared_part:
            who = " ".join(filter(None, (one.objective, one.tenant, one.subject)))
            part = percent(one.shared_part)
            say(f"{who}: {part} of its GPU-hours of the day before were on shared devices, which promise no {one.kind}")


def _rate(burn: float | None) -> str | None:
    return None if burn is None else f"{burn:.1f}"
