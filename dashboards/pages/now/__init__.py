"""Now: current allocations, whether they are used, what they cost per hour, and what they have wasted so far;
`?idle=1`: those alone that hold idle GPUs, and what to do about each; `&job=`: that one alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from alerts.speaking import rules_by_name
from api.reach import Reach
from billing.insights.now import Free, Moment, isolation, moment
from dashboards import exports, forms, grids, parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, duration, gpu_count, money, percent
from dashboards.idle_jobs import JOB
from dashboards.languages import Language
from dashboards.pages.now import reclaiming
from dashboards.pages.now.allocated import free, held
from dashboards.parts import Figure
from dashboards.registry import Ask, Page
from scheduler.live.idle import RULE
from warehouse.durations import parse_if_duration
from warehouse.store import Store

MOST = 500
"""Allocations in the table; the headline counts all."""
RECENT_SECONDS = 10
"""For so long all readers with the same filters see the same moment: facts come all the time."""
Row = Mapping[str, Any]
Found = tuple[Moment | None, Sequence[Row], str]
"""The moment, its allocations and their currency."""


def layout(store: Store, filters: Filters, words: Language) -> Component:
    return _drawn(store, filters, words, _recent(store, filters))


def _recent(store: Store, filters: Filters) -> Found:
    chosen = tuple(sorted(filters.address.chosen.items()))
    found: Found = filters.data_version.recent(
        (__file__, chosen), RECENT_SECONDS, lambda: _found(store, filters, datetime.now(UTC))
    )
    return found


def at_clock(store: Store, filters: Filters, words: Language, clock: datetime) -> Component:
    return _drawn(store, filters, words, _found(store, filters, clock))


def _found(store: Store, filters: Filters, clock: datetime) -> Found:
    now = moment(store, clock)
    return (None, [], "") if now is None else (now, *held(store, filters, now.at, MOST))


def _drawn(store: Store, filters: Filters, words: Language, found: Found) -> Component:
    now, rows, currency = found
    if now is None:
        return parts.page(_titles(filters, words, None), states.nothing(words("now.title"), words("now.no_facts")))
    only_idle = filters.more.get("idle") == "1"
    if only_idle:
        rows, currency = _by_idle(store, filters, now, rows, currency)
    table = _idle_card if only_idle else _card
    unheld = _free(store, filters, now) if only_idle else None
    return parts.page(
        _titles(filters, words, now),
        _stopped(filters, words, now),
        _headline(rows, currency, filters, now, only_idle, words, unheld),
        # Asked of the scheduler once the page is drawn, so that a slow one delays nothing.
        dcc.Store(id="now-jobs-asked", data="now") if only_idle else None,
        forms.notices(reclaiming.NOTICES) if only_idle else None,
        html.Div(id="now-jobs", className="gl-later") if only_idle else None,
        table(rows, currency, filters, now, words),
    )


def _free(store: Store, filters: Filters, now: Moment) -> Free | None:
    """Asked for as seldom as what is allocated."""
    asked = (__file__, "free", now.at, tuple(sorted(filters.address.chosen.items())))
    found: Free | None = filters.data_version.recent(asked, RECENT_SECONDS, lambda: free(store, filters, now.at))
    return found


def _by_idle(
    store: Store, filters: Filters, now: Moment, rows: Sequence[Row], currency: str
) -> tuple[Sequence[Row], str]:
    """Those with idle GPUs first, of all that are allocated."""
    if rows and rows[0]["all_rows"] > MOST:
        return held(store, filters, now.at, MOST, by_idle=True)
    return idle_first(rows), currency


def _known(store: Store, filters: Filters) -> reclaiming.Known:
    now, rows, currency = _recent(store, filters)
    if now is None:
        return reclaiming.Known()
    rows, currency = _by_idle(store, filters, now, rows, currency)
    keyed = {(row["cluster"], row["allocation_id"]): row for row in rows}
    return reclaiming.Known(
        {key: row["list_hour"] for key, row in keyed.items()},
        currency,
        {key for key, row in keyed.items() if row["used_5"] and row["idle_gpus"] <= 0},
    )


def idle_first(rows: Sequence[Row]) -> Sequence[Row]:
    """All rows in the order in which held.sql has them if those with idle GPUs come first."""
    return sorted(
        rows,
        key=lambda row: (
            row["idle_gpus"] <= 0,
            row["idle_hour"] is None,
            -(row["idle_hour"] or 0),
            -row["idle_gpus"],
        ),
    )


def _titles(filters: Filters, words: Language, now: Moment | None) -> Component:
    said = "" if now is None else words("now.as_of", at=_clock(filters, words, now.at), zone=filters.zone)
    chips = []
    if now is not None and now.unmetered:
        last = UNKNOWN if now.samples is None else words.moment(filters.local(now.samples))
        chips.append(parts.chip(words("now.no_samples", at=last), words("now.no_samples_why")))
    return html.Div(
        [
            html.Div([html.H1(words("now.title")), html.P(said, className="gl-scope")]),
            html.Div(chips, className="gl-chips"),
        ],
        className="gl-titles",
    )


def _stopped(filters: Filters, words: Language, now: Moment) -> Component | None:
    """A warning before all figures if no facts arrive any more."""
    if not now.stopped:
        return None
    at = words.dated(filters.local(now.at))
    late = duration((now.clock - now.at).total_seconds(), words)
    return html.P(words("now.stopped", at=at, late=late), className="gl-card gl-stopped", role="alert")


def _clock(filters: Filters, words: Language, at: datetime) -> str:
    return f"{words.moment(filters.local(at))}:{filters.local(at):%S}"


def _headline(
    rows: Sequence[Row],
    currency: str,
    filters: Filters,
    now: Moment,
    only_idle: bool,
    words: Language,
    unheld: Free | None = None,
) -> Component:
    """unheld: what nobody has, if that is said here."""
    sums: Row = rows[0] if rows else dict.fromkeys(SUMS, 0)
    unseen = sums["all_gpus"] - sums["all_seen_gpus"]
    unpriced = words.count("now.unpriced", sums["all_unpriced"]) if sums["all_unpriced"] else ""
    knows_use = _knows_use(rows)
    idle_hour = sums["all_idle_hour"] if knows_use else None
    idle_alone = "" if only_idle else filters.href("/now", idle="1")
    return parts.headline(
        [
            Figure(words("now.held"), gpu_count(sums["all_gpus"]), words("unit.gpus"),
                   words.count("now.allocations", sums["all_rows"]), href=filters.href("/now") if only_idle else ""),
            Figure(words("now.idle"), gpu_count(sums["all_idle_gpus"]) if knows_use else UNKNOWN, words("unit.gpus"),
                   words("now.unseen", n=gpu_count(unseen)) if unseen > 0.005 else words("now.idle_is"), "idle",
                   idle_alone),
            Figure(words("now.hourly"), money(sums["all_list_hour"], currency), "",
                   unpriced or words("overview.billed", amount=money(sums["all_billed_hour"], currency))),
            Figure(words("now.idle_hourly"), money(idle_hour, currency), "",
                   words("now.idle_share", share=percent(_float(idle_hour), _float(sums["all_list_hour"]))), "idle",
                   idle_alone),
            Figure(words("now.waste"), money(sums["all_waste"], currency), "", _until(filters, now, words)),
            *([_unheld(unheld, words)] if unheld else []),
        ]
    )  # fmt: skip


def _unheld(free: Free, words: Language) -> Figure:
    cost = words("kind.unallocated_is")
    if free.list_hour:
        cost = words("now.free_hourly", amount=money(free.list_hour, free.currency))
    return Figure(words("kind.unallocated"), gpu_count(free.gpus), words("unit.gpus"), cost, "unallocated")


def _knows_use(rows: Sequence[Row]) -> bool:
    """Whether the use of anything allocated is metered."""
    return not rows or rows[0]["all_seen_gpus"] > 0


SUMS = ("all_rows", "all_gpus", "all_idle_gpus", "all_seen_gpus", "all_list_hour", "all_billed_hour", "all_idle_hour",
        "all_waste", "all_unpriced", "all_idle_rows")  # fmt: skip


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


SPARE = ("metered", "billed_hour", "cost_center", "project", "silence", "used_5", "since", "gpus", "place")
IDLE_SPARE = ("project", "waste", "used_60", "since", "place", "tenant", "silence")
"""Columns that are left out where they do not fit, the first ones first."""


def _until(filters: Filters, now: Moment, words: Language) -> str:
    """Waste is of closed hours alone."""
    if now.closed is None:
        return words("now.none_closed")
    return words("now.closed_until", at=words.moment(filters.local(min(now.closed, now.at))))


def _card(rows: Sequence[Row], currency: str, filters: Filters, now: Moment, words: Language) -> Component:
    in_all = rows[0]["all_rows"] if rows else 0
    subtitle = words("now.table_is") if in_all <= MOST else words("now.table_cut", most=MOST, all=f"{in_all:,}")
    may_silence = current().may(Action.silence)
    columns = [
        grids.link("name", words("workload.name"), minimum=140, flex=1.5),
        grids.text("tenant", words("filter.tenant"), minimum=88),
        grids.sorted_by(_money("waste", words("now.waste"), currency, _until(filters, now, words), 128)),
        _money("list_hour", words("now.hour"), currency, words("now.hour_is"), 88),
        _used("used_5", words("now.used_5"), words("now.used_is"), words),
        _used("used_60", words("now.used_60"), words("now.used_is"), words),
        grids.number("gpus", words("unit.gpus"), words("now.gpus_is"), ",.2~f", minimum=64),
        _where(words),
        grids.moment("since", words("now.since"), words("now.since_is")),
        grids.link("alert", words("now.alert"), words("now.alert_is"), minimum=96, flex=0.8, to="to_alert"),
        *([grids.link("silence", "", words("now.silence_is"), minimum=80, flex=0.5, to="to_silence")]
          if may_silence and _any(rows, "alert") else []),
        grids.text("project", words("filter.project"), minimum=84),
        grids.text("isolation", words("isolation.title"), words("isolation.is"), minimum=96, flex=0.7),
        *([grids.text("cost_center", words("now.cost_center"), minimum=88)] if _any(rows, "cost_center") else []),
        _money("billed_hour", words("now.billed_hour"), currency, words("now.billed_hour_is"), 84),
        grids.percent("metered", words("now.metered"), words("now.metered_is"), minimum=84),
    ]  # fmt: skip
    return parts.card(
        words("now.table"),
        words("part.break").join([subtitle, _until(filters, now, words)]),
        grids.grid(columns, [_row(row, filters, may_silence, words) for row in rows], words, "now-grid",
                   empty=words("now.nothing"), key="key", spare=SPARE),
        tool=parts.tools(
            dcc.Link(words.count("now.only_idle", rows[0]["all_idle_rows"]), href=filters.href("/now", idle="1"))
            if rows and _knows_use(rows) else None,
            exports.of_grid("now-grid", "now", filters, words, now.at),
        ),
        class_name="gl-table-card",
    )  # fmt: skip


def _idle_card(rows: Sequence[Row], currency: str, filters: Filters, now: Moment, words: Language) -> Component:
    """Those alone that hold idle GPUs, the dearest idle hour first, each with what to do."""
    in_all = rows[0]["all_idle_rows"] if rows else 0
    subtitle = words("now.idle_table_is") if in_all <= MOST else words("now.idle_cut", most=MOST, all=f"{in_all:,}")
    may_silence = current().may(Action.silence)
    job = filters.more.get(JOB, "")
    shown = [row for row in rows if row["idle_gpus"] > 0 and job in ("", row["workload_id"], row["allocation_id"])]
    columns = [
        grids.link("name", words("workload.name"), minimum=140, flex=1.3),
        grids.sorted_by(_money("idle_hour", words("now.idle_hour"), currency, words("now.idle_hour_is"), 122)),
        grids.wrapped(grids.link("what", words("now.what"), words("now.what_is"), 180, 214, to="to_what")),
        *([grids.link("silence", "", words("now.silence_is"), minimum=80, flex=0.5, to="to_silence")]
          if may_silence and _any(shown, "alert") else []),
        grids.number("idle_gpus", words("now.idle_gpus"), words("now.idle_gpus_is"), ",.2~f", minimum=96),
        _used("used_60", words("now.used_60"), words("now.used_is"), words),
        grids.text("tenant", words("filter.tenant"), minimum=88, flex=0.8),
        _where(words),
        grids.moment("since", words("now.since"), words("now.since_is")),
        _money("waste", words("now.waste"), currency, _until(filters, now, words), 112),
        grids.text("project", words("filter.project"), minimum=84),
    ]  # fmt: skip
    return parts.card(
        words("now.idle_table"),
        subtitle,
        _only_job(job, bool(shown), filters, words) if job else None,
        grids.grid(columns, [_idle_row(row, filters, now, may_silence, words) for row in shown], words, "now-idle",
                   empty=words("now.nobody_idle" if _knows_use(rows) else "now.idle_unknown"), key="key",
                   spare=IDLE_SPARE) if shown or not job else None,
        tool=parts.tools(
            dcc.Link(words("now.show_all"), href=filters.href("/now")),
            exports.of_grid("now-idle", "idle", filters, words, now.at),
        ),
        class_name="gl-table-card",
    )  # fmt: skip


def _only_job(job: str, is_idle: bool, filters: Filters, words: Language) -> Component:
    """That the address asks for one job, which alone is shown, or is not idle."""
    links = [dcc.Link(words("now.all_idle"), href=filters.href("/now", idle="1"))]
    if not is_idle:
        links.insert(0, dcc.Link(words("now.job_page"), href=filters.href("/workloads", workload=job)))
    said = words("now.only_job" if is_idle else "now.job_not_idle", job=job)
    return html.P([html.Span(said), *links], className="gl-note gl-apart", role="status")


def _idle_row(row: Row, filters: Filters, now: Moment, may_silence: bool, words: Language) -> dict[str, Any]:
    shown = _row(row, filters, may_silence, words)
    rule = row["alert_rule"].replace("-", "_")
    owner = row["alert_owner"] or row["tenant"] or words("no_name")
    begins = "now.do_starting" if now.at - row["since"] < _grace(filters) else "now.do"
    said = words(f"now.do_{rule}" if row["alert_rule"] in ACTED else begins, owner=owner)
    return {
        **shown,
        **{name: row[name] for name in ("idle_hour", "idle_gpus")},
        "what": said,
        "to_what": shown["to_alert"] or shown["href"],
    }


def _grace(filters: Filters) -> timedelta:
    """After a start, in which the alert on idle holders counts nothing as idle."""
    rule = rules_by_name(filters.rules).get(RULE)
    grace = parse_if_duration(rule.parameters.get("grace_seconds")) if rule else None
    return timedelta(seconds=float(grace)) if isinstance(grace, int | float) else timedelta()


ACTED = ("idle-holder-notice", "idle-holder", "idle-holder-reclaim")
"""The steps of the alert on an idle holder; each has its own advice."""


def _any(rows: Sequence[Row], name: str) -> bool:
    return any(row[name] for row in rows)


def _money(field: str, header: str, currency: str, tip: str, minimum: int) -> grids.Column:
    return {**grids.money(field, header, currency, tip), "minWidth": minimum}


def _where(words: Language) -> grids.Column:
    """One GPU leads to its page; several lead nowhere, and do not look as if they did."""
    column = grids.link("place", words("now.place"), words("now.place_is"), minimum=110, flex=1.2, to="device")
    return {**column, "cellClass": ""}


def _used(field: str, header: str, tip: str, words: Language) -> grids.Column:
    """A share; a holding without telemetry is unmetered, not unused."""
    return grids.number(field, header, tip, ",.1f%", unknown=words("kind.unmetered"))


def _row(row: Row, filters: Filters, may_silence: bool, words: Language) -> dict[str, Any]:
    device = row["devices"][0][0] if len(row["devices"]) == 1 else ""
    return {
        "key": f"{row['cluster']}/{row['allocation_id']}",
        "name": row["workload_id"] or row["allocation_id"],
        "href": filters.href("/workloads", workload=row["workload_id"]) if row["workload_id"] else "",
        **{name: row[name] for name in ("tenant", "project", "cost_center", "gpus", "used_5", "used_60")},
        "place": _place(row, words),
        "device": filters.href("/fleet", device=device) if device else "",
        "isolation": words(f"isolation.{isolation(row) or 'unknown'}"),
        "since": filters.local(row["since"]),
        "metered": row["metered_60"],
        **{name: row[name] for name in ("list_hour", "billed_hour", "waste")},
        "alert": words.of(f"now.{row['alert_rule'].replace('-', '_')}", row["alert_rule"]),
        "to_alert": filters.href("/alerts", rule=row["alert_rule"], alert=row["alert"]) if row["alert"] else "",
        **(
            {"silence": words("alerts.keep_quiet"), "to_silence": filters.href("/alerts", silence=row["alert"])}
            if row["alert"] and may_silence
            else {}
        ),
    }


def _place(row: Row, words: Language) -> str:
    """`n1`, `3g.40gb on n1`, `3/7 on n1`, `n1, n2, n3 and 5 more`."""
    nodes = [node for node in row["nodes"] if node]
    named = ", ".join(nodes[:2]) + (words("now.more_nodes", n=len(nodes) - 2) if len(nodes) > 2 else "")
    shares = {
        profile or f"{units}/{whole}" for _, _, profile, units, whole, _ in row["devices"] if profile or units < whole
    }
    share = ", ".join(sorted(shares))
    return words("workload.at", devices=share, nodes=named) if share and named else share or named or UNKNOWN


def callbacks(app: Dash, ask: Ask) -> None:
    reach: Reach = app.server.state.reach

    def part(store: Store, filters: Filters, words: Language) -> Component | None:
        return reclaiming.part(store, filters, words, reach, lambda: _known(store, filters))

    async def jobs(_: str | None, search: str) -> Any:
        return await ask(part, search)

    app.callback(Output("now-jobs", "children"), Input("now-jobs-asked", "data"), State("url", "search"))(jobs)


PAGE = Page(
    "/now",
    "now.title",
    15,
    layout,
    icon="M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zM12 7v5l3.500 2.500",
    has_period=False,
    needs_books=False,
    live=True,
    callbacks=callbacks,
)
