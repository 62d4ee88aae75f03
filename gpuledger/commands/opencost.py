"""`gpuledger allocation`: the closed hours in the format of OpenCost's allocation API."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import opened_store
from gpuledger.output import percent, print_json, print_rows, say
from warehouse.instants import rfc3339

if TYPE_CHECKING:
    from billing.opencost.allocation import Allocations

COLUMNS = (
    "start", "end", "name", "minutes", "gpuCount", "gpuHours", "gpuCost", "gpuCostAdjustment", "gpuCostIdle",
    "totalCost", "gpuEfficiency",
)  # fmt: skip

HEADINGS = {
    "gpuCount": "GPUs",
    "gpuHours": "GPU-hours",
    "gpuCost": "cost",
    "gpuCostAdjustment": "adjusted",
    "totalCost": "total",
    "gpuEfficiency": "efficiency",
}
"""Column headings that fit a terminal."""


def register(app: typer.Typer) -> None:
    app.command("allocation")(allocation)


def allocation(
    store: options.Store = "",
    window: Annotated[
        str,
        typer.Option(
            help="1d, 12h, today, yesterday, lastweek, month, 2026-10, or START,END in UTC or with an offset."
        ),
    ] = "1d",
    aggregate: Annotated[
        str,
        typer.Option(
            help="Any of cluster, node, namespace, pod, label:tenant, label:queue, label:model, label:pool, "
            "label:device, comma-separated; a namespace is a project.",
            show_default="every pod on every node",
        ),
    ] = "",
    step: Annotated[
        str, typer.Option(help="Divide the window into sets of 1h, 1d, 1w, ...", show_default="one set")
    ] = "",
    accumulate: Annotated[bool, typer.Option("--accumulate", help="One set, whatever the step.")] = False,
    include_idle: Annotated[
        bool, typer.Option("--include-idle", help="Show unallocated and unavailable time.")
    ] = False,
    idle_by_node: Annotated[bool, typer.Option("--idle-by-node", help="Show idle time by node.")] = False,
    share_idle: Annotated[
        bool, typer.Option("--share-idle", help="Share the cost of idle time among the allocations beside it.")
    ] = False,
    filters: Annotated[str, typer.Option("--filter", help='Like namespace:"a","b"+label[tenant]:"x".')] = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """GPU-hours, cost and efficiency by namespace, pod or label, in OpenCost's terms and JSON."""
    from billing.ledger_report import billing_timezone
    from billing.opencost.allocation import allocations
    from billing.opencost.document import response
    from billing.opencost.query import parse_query

    params = {
        "window": window,
        "aggregate": aggregate,
        "step": step,
        "accumulate": str(accumulate).lower(),
        "includeIdle": str(include_idle).lower(),
        "idleByNode": str(idle_by_node).lower(),
        "shareIdle": str(share_idle).lower(),
        "filter": filters,
    }
    with opened_store(store) as opened:
        answer = allocations(opened, parse_query(params, billing_timezone(opened), datetime.now(UTC)))
    document = response(answer)
    if fmt is options.Format.json:
        print_json(document)
    else:
        _print_rows(answer, document, fmt)
    for warning in answer.warnings:
        say(warning)


def _print_rows(answer: Allocations, document: dict[str, Any], fmt: options.Format) -> None:
    found = [one for each in document["data"] for one in each.values()]
    if fmt is options.Format.table:
        period = answer.query.window
        title = f"{rfc3339(period.start)} to {rfc3339(period.end)}, GPU-hours and {answer.currency or 'no price'}"
        keys = ("start", "name") if len(document["data"]) > 1 else ("name",)
        rows = [
            {**{key: one[key] for key in keys}, **{head: _shown(key, one[key]) for key, head in HEADINGS.items()}}
            for one in found
        ]
        print_rows(rows, (*keys, *HEADINGS.values()), fmt, title)
    else:
        print_rows([{key: one[key] for key in COLUMNS} for one in found], COLUMNS, fmt)


def _shown(key: str, value: Any) -> Any:
    if key == "gpuEfficiency":
        return percent(value)
    return Decimal(f"{value:.2f}") if isinstance(value, float) else value
