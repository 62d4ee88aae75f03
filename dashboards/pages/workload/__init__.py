"""Workloads: all of them, and one (`?workload=`): its events, its use, its charges, its recommendations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from dashboards import exports, grids, headline_figures, parts, states
from dashboards.advice import of_workload
from dashboards.amounts import Amounts, amounts
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, duration, fixed, gpu_count, unbroken, unit_price
from dashboards.kinds import ALLOCATED
from dashboards.languages import Language
from dashboards.pages.invoices.amounts import exact
from dashboards.pages.workload.held_now import HeldNow, held_now, now_cards
from dashboards.pages.workload.lifecycle import Lifecycle, lifecycle_of, plain, step_seconds
from dashboards.pages.workload.timeline import timeline
from dashboards.pages.workload.waited import waited_cards
from dashboards.pages.workload.waits import Wait, clock, wait_cards, waits_of
from dashboards.parts import Figure
from dashboards.periods import HOUR, span_key
from dashboards.registry import Ask, Page
from dashboards.said import said
from warehouse.store import Store

MOST = 500
FEW_EVENTS = 5
Rows = Sequence[Mapping[str, Any]]


def layout(store: Store, filters: Filters, words: Language) -> Component:
    workload = filters.more.get("workload")
    return _all(store, filters, words) if workload is None else _one(store, filters, words, workload)


def _all(store: Store, filters: Filters, words: Language) -> Component:
    find, currency = filters.more.get("find", ""), filters.currency
    rows, in_all = _dearest(store, filters, find)
    columns = [
        grids.link("name", words("workload.name"), minimum=160, flex=2),
        grids.text("tenant", words("filter.tenant"), minimum=96, flex=1.2),
        grids.text("project", words("filter.project"), minimum=96, flex=1.2),
        grids.text("queue", words("filter.queue"), minimum=90),
        grids.number("devices", words("workload.devices"), words("workload.devices_is"), ",d", minimum=78),
        grids.use_bar(words("tenants.use_bar"), words("tenants.use_bar_is")),
        grids.number(
            "allocated", words("overview.allocated"), words("tenants.allocated_is"), unit=words("unit.gpu_hours")
        ),
        grids.percent("efficiency", words("tenants.efficiency"), words("tenants.efficiency_is")),
        grids.percent("coverage", words("overview.coverage"), words("part.coverage_why")),
        grids.money("idle_cost", words("tenants.idle_cost"), currency, words("tenants.idle_cost_is")),
        grids.sorted_by(grids.money("list_cost", words("account.cost"), currency)),
    ]
    return parts.page(
        parts.titles(filters, words, words("workload.title")),
        parts.card(
            words.count("workload.count", in_all),
            words("tenants.table_is" if in_all <= MOST else "tenants.table_cut", most=MOST, all=f"{in_all:,}"),
            grids.grid(
                columns,
                [_row(row, filters, words) for row in rows],
                words,
                "workload-grid",
                empty=words("workload.none_found", find=find) if find else "",
                spare=("coverage", "devices", "queue", "project", "use", "allocated"),
            ),
            tool=parts.tools(
                dmc.TextInput(
                    id="workload-find",
                    value=find,
                    placeholder=words("workload.find"),
                    debounce=True,
                    size="xs",
                    className="gl-find",
                    **{"aria-label": words("workload.find")},
                ),
                exports.of_grid("workload-grid", "workloads", filters, words),
            ),
            class_name="gl-table-card",
        ),
    )


def _dearest(store: Store, filters: Filters, find: str) -> tuple[Sequence[Mapping[str, Any]], int]:
    """The rows of workloads.sql of those that cost most, the dearest first, and how many there are."""
    shown = filters.rows(store, __file__, "dearest", find=find, most=MOST)
    if not shown:
        return [], 0
    names = [row["workload_id"] for row in shown]
    held = {row["workload_id"]: row for row in filters.rows(store, __file__, "workloads", workloads=names)}
    return [held[name] for name in names if name in held], shown[0]["in_all"]


def _row(row: Mapping[str, Any], filters: Filters, words: Language) -> dict[str, Any]:
    metered = row["used"] + row["idle"]
    allocated = metered + row["unmetered"]
    return {
        "name": row["workload_id"] or words("no_name"),
        "href": filters.href("/workloads", workload=row["workload_id"]),
        **{name: row[name] for name in ("tenant", "project", "queue", "devices", "used", "idle", "unmetered")},
        "use": row["used"] / allocated if allocated else None,
        "allocated": allocated,
        "efficiency": row["used"] / metered if metered else None,
        "coverage": metered / allocated if allocated else None,
        "idle_cost": row["idle_cost"],
        "list_cost": row["list_cost"],
    }


def _one(store: Store, filters: Filters, words: Language, workload: str) -> Component:
    above = (words("workload.title"), filters.href("/workloads"))
    lifecycle = lifecycle_of(store, filters, workload)
    if lifecycle is None:
        return parts.page(
            parts.titles(filters, words, workload, trail=[above]), states.nothing_here(words("workload.unknown"))
        )
    trail = _trail(lifecycle, filters, above)
    now = clock()
    waiting = waits_of(store, filters, workload, now) if lifecycle.may_wait(now) else []
    waits = [card for wait in waiting for card in wait_cards(wait, filters, words)]
    if lifecycle.window is None or not lifecycle.in_books:
        runs = None if lifecycle.in_books or not lifecycle.has_begun else held_now(store, filters, workload, now)
        of_now = now_cards(runs, filters, words) if runs else []
        return parts.page(
            parts.titles(filters, words, workload, trail=_trail_of_now(runs, waiting, filters) or trail),
            *(waits + of_now or [_not_then(lifecycle, filters, words)]),
            _events_card(lifecycle, filters, words, waiting),
        )
    rows = filters.rows(store, __file__, "hours", workload=workload, **lifecycle.bounds())
    total = amounts([{**row, **_PLATFORM} for row in rows])
    waited = waited_cards(store, filters, lifecycle, words)
    waited_longer = (lifecycle.waited_seconds or 0) > (lifecycle.ran_seconds or 0)  # then that comes first
    return parts.page(
        parts.titles(filters, words, workload, coverage=total.coverage, unpriced=total.unpriced, trail=trail),
        *waits,
        _headline(lifecycle, total, filters, words),
        waited if waited_longer else None,
        parts.card(
            words("workload.timeline"),
            words("workload.timeline_is", step=duration(step_seconds(lifecycle.window), words)),
            timeline(store, filters, lifecycle, words),
            tool=parts.legend(ALLOCATED, words),
        ),
        None if waited_longer else waited,
        *_beside(
            _charges_card(store, filters, lifecycle, total, words),
            _advice_card(workload, words),
            _events_card(lifecycle, filters, words, waiting),
            len(lifecycle.events),
        ),
        _hours_card(rows, filters, words),
    )


def _beside(charges: Component, advice: Component, events: Component, n: int) -> list[Component]:
    """Many events are as high as both others; few stand beside the charges."""
    if n > FEW_EVENTS:
        return [parts.split(html.Div([charges, advice], className="gl-page"), events)]
    return [parts.split(charges, events), advice]


def _not_then(lifecycle: Lifecycle, filters: Filters, words: Language) -> Component:
    """It was allocated nothing in the period: never, elsewhen, or in hours that are not closed."""
    begun = [event["ts"] for event in lifecycle.events if event["event"] == "started"]
    if not lifecycle.claims and not begun:
        last = words.of(f"event.{lifecycle.events[-1]['event']}", lifecycle.events[-1]["event"])
        return states.nothing_here(words("workload.never", state=last))
    if not lifecycle.in_books:
        begun += [claim["start_at"] for claim in lifecycle.claims]
        return states.nothing_here(words("workload.not_closed", at=words.moment(filters.local(min(begun)))))
    ends = ((lifecycle.start_at, timedelta(0)), (lifecycle.until, HOUR))
    own = span_key(
        *(filters.local(at).replace(tzinfo=None, minute=0, second=0, microsecond=0) + extra for at, extra in ends)
    )
    href = filters.href("/workloads", workload=lifecycle.workload, period=own)
    return states.nothing(
        lifecycle.workload,
        words("workload.not_then"),
        dcc.Link(words("workload.own_time"), href=href, className="gl-go"),
    )


def _advice_card(workload: str, words: Language) -> Component:
    """Filled in by a callback: it examines what the workload did recently."""
    return parts.card(
        words("workload.advice"),
        words("workload.advice_is"),
        dcc.Store(id="workload-advised", data=workload),
        html.Div(html.P(words("workload.advice_wait"), className="gl-nothing"), id="workload-advice"),
    )


def _trail_of_now(runs: HeldNow | None, waiting: Sequence[Wait], filters: Filters) -> list[tuple[str, str]]:
    """Of what runs or waits now and has no closed hour yet."""
    row = runs.rows[0] if runs else waiting[0].row if waiting else None
    if row is None or not row["tenant"]:
        return []
    links = [(row["tenant"], filters.href("/tenants", tenant=row["tenant"], project=None))]
    if row["project"]:
        links.append((row["project"], filters.href("/tenants", tenant=row["tenant"], project=row["project"])))
    return links


_PLATFORM = dict.fromkeys(("unallocated", "unavailable", "unallocated_cost", "unavailable_cost"), 0.0)
"""What a workload never has."""


def _trail(lifecycle: Lifecycle, filters: Filters, above: tuple[str, str]) -> list[tuple[str, str]]:
    if not lifecycle.claims:
        return [above]
    tenant, project = lifecycle.claims[-1]["tenant"], lifecycle.claims[-1]["project"]
    return [
        (tenant, filters.href("/tenants", tenant=tenant, project=None)),
        (project, filters.href("/tenants", tenant=tenant, project=project)),
    ]


def _headline(lifecycle: Lifecycle, total: Amounts, filters: Filters, words: Language) -> Component:
    currency = filters.currency
    last = lifecycle.events[-1] if lifecycle.events else None
    state = words.of(f"event.{last['event']}", last["event"]) if last else UNKNOWN
    since = words.moment(filters.local(last["ts"])) if last else ""
    return parts.headline(
        [
            Figure(words("workload.state"), state, "", since),
            Figure(
                words("workload.waited"), duration(lifecycle.waited_seconds, words), "", words("workload.waited_is")
            ),
            Figure(
                words("workload.ran"),
                duration(lifecycle.ran_seconds, words),
                "",
                _ran_on(lifecycle, filters, words),
            ),
            *_of_closed_hours(
                [
                    headline_figures.efficiency(total, words),
                    headline_figures.cost(total, currency, words),
                    headline_figures.waste(total, currency, words),
                ],
                lifecycle,
                filters,
                words,
            ),
        ]
    )


def _of_closed_hours(
    figures: Sequence[Figure], lifecycle: Lifecycle, filters: Filters, words: Language
) -> Sequence[Figure]:
    """With until when they are, where it is known to have run on after the last hour that is closed."""
    closed = filters.months[-1].last + HOUR
    is_cut = lifecycle.window is not None and lifecycle.window[1] > closed
    if not is_cut or all((claim["end_at"] or closed) <= closed for claim in lifecycle.claims):
        return figures
    until = words("month_cost.until", at=words.moment(filters.local(closed)))
    return [replace(one, detail=f"{one.detail} · {until}") for one in figures]


def _ran_on(lifecycle: Lifecycle, filters: Filters, words: Language) -> str:
    """On how many GPUs; since when, if before the period; and until when that is known, where it goes on."""
    gpus = lifecycle.gpus
    on = words("workload.on_one" if gpus == 1 else "workload.on", n=gpu_count(gpus))
    began = min((claim["start_at"] for claim in lifecycle.claims), default=None)
    since = words.moment(filters.local(began)) if filters.period and began and began < filters.period.start else ""
    goes_on = lifecycle.is_open and lifecycle.ran_seconds is not None
    until = words.moment(filters.local(lifecycle.until)) if goes_on else ""
    if since and until:
        return f"{on} · {since} – {until}"
    when = words("wait.since", at=since) if since else words("month_cost.until", at=until) if until else ""
    return f"{on} · {when}" if when else on


def _charges_card(store: Store, filters: Filters, lifecycle: Lifecycle, total: Amounts, words: Language) -> Component:
    rows = filters.rows(store, __file__, "charges", workload=lifecycle.workload, **lifecycle.bounds())
    currency = filters.currency
    levels = [row["isolation_level"] or "unknown" for row in rows]
    several = {sku for sku, n in Counter(row["sku"] for row in rows).items() if n > 1}
    cells = [
        [
            html.Span(
                [
                    row["sku"] or words("workload.no_sku"),
                    html.Small(_kind(row)),
                    html.Small(_when(row, filters, words), className="gl-words") if row["sku"] in several else None,
                ]
            ),
            words(f"isolation.{level}"),
            fixed(row["gpu_hours"], 2),
            UNKNOWN if row["unit_price"] is None else unit_price(row["unit_price"], currency),
            _cost(row["list_cost"], currency),
            _cost(row["billed_cost"], currency),
        ]
        for row, level in zip(rows, levels, strict=True)
    ]
    heads = [words(f"workload.{name}") for name in ("sku", "quantity", "price", "list", "billed")]
    heads.insert(1, words("isolation.title"))
    cells.append([words("tenants.all"), "", fixed(total.allocated, 2), "", _cost(total.list_cost, currency),
                  _cost(total.billed_cost, currency)])  # fmt: skip
    fields = ("sku", "model", "partition_profile", "gpu_hours", "unit_price", "list_cost", "billed_cost")
    reported = [
        [
            *(row[name] for name in fields[:3]), *(grids.instant(row[at]) for at in ("from_at", "to_at")),
            words(f"isolation.{level}"), *(row[name] for name in fields[3:]),
        ]
        for row, level in zip(rows, levels, strict=True)
    ]  # fmt: skip
    times = (f"{words(f'fleet.{name}')} (UTC)" for name in ("from", "until"))
    named = [heads[0], words("filter.model"), words("workload.profile"), *times, *heads[1:3]]
    named += [exports.with_unit(head, currency) for head in heads[3:]]
    return parts.card(
        words("workload.charges"),
        words("workload.charges_is"),
        parts.table(heads, cells, "gl-with-sum", cards=True),
        *[_promise(level, words) for level in dict.fromkeys(levels)],
        tool=exports.of_rows(f"{lifecycle.workload}-charges", named, reported, filters, words),
    )


def _cost(value: Decimal | None, currency: str) -> str:
    """To the last cent, as a quantity times a price is."""
    return exact(value, currency) if currency else UNKNOWN


def _promise(level: str, words: Language) -> Component:
    said = words("isolation.may", level=words(f"isolation.{level}"), what=words(f"isolation.{level}_may"))
    return parts.note(said)


def _when(row: Mapping[str, Any], filters: Filters, words: Language) -> str:
    """From when to when it is charged so."""
    first, last = (words.moment(filters.local(row[at])) for at in ("from_at", "to_at"))
    return unbroken(words("line_said.from_to", first=first, last=last))


def _kind(row: Mapping[str, Any]) -> str:
    return " · ".join(part for part in (row["model"], row["partition_profile"]) if part)


def _events_card(lifecycle: Lifecycle, filters: Filters, words: Language, waiting: Sequence[Wait] = ()) -> Component:
    """waiting: their reasons stand above it already."""
    told = {(wait.row["allocation_id"], wait.row["reported_at"]) for wait in waiting}
    items = [
        html.Li(
            [
                html.Span(className=f"gl-dot gl-event-{event['event']}"),
                html.Span(
                    [
                        html.Strong(name),
                        html.Small(
                            event["actor"]
                            if (event["allocation_id"], event["ts"]) in told
                            else _event_details(event, filters, words)
                        ),
                    ]
                ),
                html.Small(words.moment(filters.local(event["ts"])), className="gl-since"),
            ]
        )
        for event, name in zip(lifecycle.events, _event_names(lifecycle.events, words), strict=True)
    ]
    return parts.card(
        words("workload.events"),
        words("workload.events_is"),
        parts.long_list(items, "gl-quality gl-fires", words)
        if items
        else states.nothing_here(words("workload.no_events")),
    )


def _event_names(events: Rows, words: Language) -> list[str]:
    """A job is submitted once; each `submitted` that follows says that it waits still, and why."""
    before: dict[str, str] = {}
    names = []
    for event in events:
        is_again = event["event"] == before.get(event["allocation_id"]) == "submitted"
        names.append(
            words("workload.still_waiting") if is_again else words.of(f"event.{event['event']}", event["event"])
        )
        before[event["allocation_id"]] = event["event"]
    return names


def _event_details(event: Mapping[str, Any], filters: Filters, words: Language) -> str:
    """Reason, message and place of an event, as far as they are reported."""
    place = ", ".join(event["nodes"])
    share = event["gpus"] if event["devices"] == 1 and 0 < (event["gpus"] or 0) < 1 else event["devices"]
    gpus = words("workload.gpus_one" if share == 1 else "workload.gpus", n=gpu_count(share))
    where = words("workload.at", devices=gpus, nodes=place) if place else ""
    message = said(plain(event["message"], words), filters, words)
    reported = (said(event["reason"], filters, words), message, event["actor"], where)
    return " · ".join(part for part in reported if part)


def _hours_card(rows: Rows, filters: Filters, words: Language) -> Component:
    """The smallest entries that the books know: an hour of the workload; each leads to that hour of the page."""
    currency = filters.currency
    workload = filters.more["workload"]
    columns = [
        grids.moment_link("name", words("workload.hour"), flex=1.4),
        grids.use_bar(words("tenants.use_bar"), words("tenants.use_bar_is")),
        *[
            grids.number(name, words(f"kind.{name}"), shape=",.2f", unit=words("unit.gpu_hours"))
            for name in ("used", "idle", "unmetered")
        ],
        grids.money("list_cost", words("account.cost"), currency),
    ]
    shown = []
    for row in rows:
        local = filters.local(row["hour"])
        start = local.replace(tzinfo=None)
        allocated = row["used"] + row["idle"] + row["unmetered"]
        shown.append(
            {
                "name": local,
                "href": filters.href("/workloads", workload=workload, period=span_key(start, start + HOUR)),
                **{name: row[name] for name in ("used", "idle", "unmetered", "list_cost")},
                "allocated": allocated,
                "use": row["used"] / allocated if allocated else None,
            }
        )
    return parts.card(
        words("workload.hours"),
        words("workload.hours_is"),
        grids.grid(columns, shown, words, "workload-hours"),
        tool=exports.of_grid("workload-hours", f"{workload}-hours", filters, words),
        class_name="gl-table-card",
    )


def advice(store: Store, filters: Filters, words: Language) -> Component:
    """What the workload could do cheaper, judged by the last days of its time in the period."""
    lifecycle = lifecycle_of(store, filters, filters.more.get("workload", ""))
    if lifecycle is None or lifecycle.window is None:
        return states.nothing_here(words("workload.no_advice"))
    if not filters.rows(store, __file__, "hours", workload=lifecycle.workload, **lifecycle.bounds()):
        return states.nothing_here(words("workload.no_closed_hour"))
    return of_workload(store, filters, words, lifecycle.workload)


def callbacks(app: Dash, ask: Ask) -> None:
    async def advised(_: str, search: str) -> Any:
        return await ask(advice, search)

    app.callback(Output("workload-advice", "children"), Input("workload-advised", "data"), State("url", "search"))(
        advised
    )
    app.clientside_callback(
        ClientsideFunction("gl", "find"),
        Output("url", "search", allow_duplicate=True),
        Input("workload-find", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )


PAGE = Page(
    "/workloads",
    "workload.title",
    30,
    layout,
    icon="M3 12h4l3-8 4 16 3-8h4",
    callbacks=callbacks,
    formerly="/workload",
)
