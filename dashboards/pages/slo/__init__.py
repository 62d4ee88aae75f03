"""Objectives: met or missed, what is left of each error budget; and interference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from access.current import current
from alerts.slo.status import BURNING, SeriesStatus
from dashboards import exports, figures, grids, parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, fixed, percent
from dashboards.languages import Language
from dashboards.objectives import all_series
from dashboards.pages.slo.interference import interference_part
from dashboards.parts import Figure
from dashboards.registry import Ask, Page
from warehouse.store import Store

NEW_LINE = " \n"
"""Between objective and subject on the axis: on a phone both do not fit in one line."""
DRAWN = 12
"""Budgets in the chart, the emptiest first."""
MOST_OVERDRAWN = -2.0
"""What a bar shows of a budget at most."""
ROOM, ROOM_OF_CUT = 0.4, 0.7
"""The part of the bars' axis that is left for the label of one below zero; and of one that is cut, with its arrow."""
GOES_ON = " ◄"
"""Beside a bar that is cut; no emoji, as others like it are on phones."""
GOOD, LOW, GONE = "#22a38b", "#f09a2e", "#c4352f"
Series = Sequence[SeriesStatus]


def layout(store: Store, filters: Filters, words: Language) -> Component:
    series = series_of(store, filters)
    return parts.page(
        parts.titles(filters, words, words("slo.title")),
        *_objectives(series, filters, words),
        dcc.Store(id="slo-asked", data=filters.href("/objectives")),
        html.Div(
            parts.card(words("slo.interference"), "", states.nothing_here(words("slo.wait"))), id="slo-interference"
        ),
    )


def series_of(store: Store, filters: Filters) -> list[SeriesStatus]:
    """Series as of the period's end; an objective without data is shown whichever tenants are chosen."""
    chosen = filters.address.chosen

    def wanted(one: SeriesStatus) -> bool:
        values = {"tenant": one.tenant, "cluster": one.cluster}
        return all(not chosen.get(name) or value in chosen[name] for name, value in values.items())

    return [one for one in all_series(store, filters) if (one.state == "unknown" and not one.tenant) or wanted(one)]


def _objectives(series: Series, filters: Filters, words: Language) -> tuple[Component, ...]:
    if not series:
        said = "slo.none_chosen" if filters.address.chosen or not current().sees_all else "slo.no_objectives"
        return (parts.card(words("slo.objectives"), words("slo.objectives_is"), states.nothing_here(words(said))),)
    known = [one for one in series if one.budget_left is not None]
    chart = (
        parts.graph(
            budgets(known[:DRAWN], words), words("slo.budgets"), "slo-budgets", 80 + 36 * min(DRAWN, len(known))
        )
        if known
        else states.nothing_here(words("slo.nothing_known"))
    )
    is_cut = len(known) > DRAWN
    said = words("slo.budgets_cut", n=DRAWN, all=f"{len(known):,}") if is_cut else words("slo.budgets_is")
    if any((one.budget_left or 0.0) < MOST_OVERDRAWN for one in known[:DRAWN]):
        said = words("part.break").join([said, words("slo.budgets_beyond", most=percent_left(MOST_OVERDRAWN))])
    return (
        _headline(series, words),
        parts.card(words("slo.budgets"), said, chart),
        parts.card(words("slo.objectives"), words("slo.objectives_is"), _table(series, filters, words),
                   tool=exports.of_grid("slo-objectives", "objectives", filters, words), class_name="gl-table-card"),
    )  # fmt: skip


def _headline(series: Series, words: Language) -> Component:
    def of(state: str) -> str:
        return f"{sum(one.state == state for one in series):,}"

    burning = [one for one in series if one.burning]
    fastest = max((one.burning for one in burning), key=BURNING.index, default="")
    worst = min(
        (one for one in series if one.budget_left is not None), key=lambda one: one.budget_left or 0, default=None
    )
    return parts.headline(
        [
            Figure(words("slo.met"), of("met"), "", words.count("slo.of_scopes", len(series))),
            Figure(words("slo.missed"), of("missed"), "", words("slo.missed_is")),
            Figure(words("slo.unknown"), of("unknown"), "", words("slo.unknown_is")),
            Figure(words("slo.burning"), f"{len(burning):,}", "",
                   words("slo.fastest", pace=words(f"slo.{fastest}_is")) if fastest else words("slo.none_burns")),
            Figure(words("slo.least"), percent_left(worst.budget_left if worst else None), "",
                   _name(worst) if worst else ""),
        ]
    )  # fmt: skip


def percent_left(value: float | None) -> str:
    """Of a budget; overdrawn ones are below zero."""
    return UNKNOWN if value is None else f"{fixed(100 * value, 0)}%"


def _name(one: SeriesStatus, between: str = " · ") -> str:
    return between.join(filter(None, (one.objective, " · ".join(filter(None, (one.tenant, one.subject))))))


def budgets(known: Series, words: Language) -> figures.Chart:
    """What is left of each budget, the emptiest on top; what is overdrawn by more than twice the whole is cut there,
    and an arrow says that it goes on."""
    drawn = list(known)[::-1]
    left = [one.budget_left or 0.0 for one in drawn]
    bars = {
        "type": "bar",
        "x": [100 * max(MOST_OVERDRAWN, value) for value in left],
        "y": [f"{_name(one, NEW_LINE)} " for one in drawn],
        "orientation": "h",
        "width": 0.5,
        "text": [percent_left(value) + (GOES_ON if value < MOST_OVERDRAWN else "") for value in left],
        "textposition": "outside",
        "cliponaxis": False,
        "customdata": [f"{percent(one.sli)} / {percent(one.target)}" for one in drawn],
        "hovertemplate": f"%{{y}}{words('part.colon')}%{{customdata}}<extra></extra>",
        "marker": {
            "color": [GONE if value < 0 else LOW if value < 0.25 else GOOD for value in left],
            "line": {"width": 0},
        },
    }
    least, high = 100 * max(MOST_OVERDRAWN, min(0.0, *left)), 112 if max(left) > 0 else 8
    room = ROOM_OF_CUT if min(left) < MOST_OVERDRAWN else ROOM
    low = least - room * (high - least) if least < 0 else 0
    return figures.made(
        [bars],
        words,
        xaxis={"range": [low, high], "ticksuffix": "%", "tickformat": ",d", "tickangle": 0,
               "tickvals": [100 * whole for whole in range(int(MOST_OVERDRAWN), 2) if least <= 100 * whole <= high],
               "showgrid": True, "gridcolor": figures.GRID, "zeroline": True,
               "zerolinecolor": "rgba(126,141,166,0.8)"},
        yaxis={"showgrid": False, "automargin": True, "dtick": 1, "type": "category"},
        hovermode="closest",
        margin={"l": 8, "r": 24, "t": 8, "b": 34},
    )  # fmt: skip


def _table(series: Series, filters: Filters, words: Language) -> Component:
    columns = [
        grids.link("name", words("slo.objective"), minimum=130),
        grids.text("about", words("slo.about"), words("slo.about_is"), minimum=126, flex=1.6),
        grids.text("state", words("slo.state"), minimum=76, flex=0.7),
        grids.percent("target", words("slo.target")),
        grids.number("sli", "SLI", words("slo.sli_is"), ",.2f%", minimum=90),
        grids.number("left", words("slo.left"), words("slo.left_is"), ",.0f%", minimum=90),
        *[
            grids.number(f"burn_{key}", words(f"slo.burn_{key}"), words("slo.burn_is"), ",.2f", minimum=72)
            for key in ("1h", "6h", "3d")
        ],
        grids.text("burning", words("slo.burning"), words("slo.burning_is"), minimum=72, flex=0.6),
        grids.percent("coverage", words("overview.coverage"), words("slo.coverage_is")),
        *(
            [grids.percent("shared", words("slo.shared"), words("slo.shared_is"))]
            if any(one.shared_part for one in series)
            else []
        ),
        grids.duration(words, "window", words("slo.window"), whole=True),
        *([grids.text("owner", words("alerts.owner"), minimum=96)] if any(one.owner for one in series) else []),
    ]
    several = len({one.cluster for one in series}) > 1
    rows = [_row(one, several, filters, words) for one in series]
    return grids.grid(
        columns,
        rows,
        words,
        "slo-objectives",
        spare=("window", "shared", "coverage", "burn_3d", "burn_6h", "burn_1h", "owner", "burning", "target"),
    )


def _row(one: SeriesStatus, several_clusters: bool, filters: Filters, words: Language) -> dict[str, Any]:
    subject = (one.tenant, one.subject, one.cluster if several_clusters else "")
    return {
        "name": one.objective,
        "href": _href(one, filters),
        "about": " · ".join(part for part in subject if part) or one.cluster or UNKNOWN,
        "state": words(f"slo.{one.state}"),
        "target": one.target,
        "sli": one.sli,
        "left": one.budget_left,
        **{f"burn_{key}": getattr(one, f"burn_{key}") for key in ("1h", "6h", "3d")},
        "burning": UNKNOWN if one.sli is None else words(f"slo.{one.burning or 'burns_not'}"),
        "coverage": one.coverage,
        "shared": one.shared_part,
        "window": one.window_seconds,
        "window_text": _days(one.window_seconds, words),
        "owner": one.owner,
    }


def _days(seconds: int, words: Language) -> str:
    """Whole days as they are set; '' of other lengths, which are shown as any duration."""
    days, rest = divmod(seconds, 86_400)
    return words("duration.d", n=f"{days:,}") if days and not rest else ""


def _href(one: SeriesStatus, filters: Filters) -> str | None:
    """A link to the subject: the queue, or the tenant's workloads."""
    if not one.tenant:
        return None
    if one.kind == "queue_wait" and one.subject:
        return filters.href("/queues", queue=one.subject, tenant=one.tenant)
    return filters.href("/workloads", tenant=one.tenant)


def callbacks(app: Dash, ask: Ask) -> None:
    async def disturbed(_: str, search: str) -> Any:
        return await ask(interference_part, search)

    app.callback(Output("slo-interference", "children"), Input("slo-asked", "data"), State("url", "search"))(disturbed)


PAGE = Page(
    "/objectives",
    "slo.title",
    60,
    layout,
    icon="M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 16.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9zM12 12h.01",
    callbacks=callbacks,
    filters=("tenant", "cluster"),
    formerly="/slo",
)
