"""The month's cost on the overview: day by day so far, where it will end, its budget, and days that cost unusually much
or little. Of the month of the billing zone in which the page's period ends; all filters apply."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from billing.accounts.forecast import DAY, band, days_of, forecast, is_blind, known_since, path
from billing.exact import rounded
from billing.insights.anomalies import WEEKS, Anomaly, DayCost, Subject, flagged_days
from billing.money import minor_digits
from billing.periods import Period, midnight, parse_month
from dashboards import budgets, figures, parts
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, hours, money, money_alike, symbol, unbroken
from dashboards.languages import Language
from dashboards.parts import Figure
from dashboards.periods import HOUR
from dashboards.registry import Ask, has_page
from warehouse.store import Store

UNIT = 10**15
"""Costs are whole numbers of its reciprocal: the digits that `billed_cost` has."""
READ = "ledger, ledger_days, closed_hours"
LISTED = 4
"""Costs of tenants on unusual days that stand below the chart; the command has all."""
SPENT, BUDGET, UNUSUAL = figures.PALETTE[0], figures.PALETTE[4], figures.PALETTE[1]
BAND, BAND_EDGE = "rgba(74,122,240,0.28)", "rgba(74,122,240,0.7)"


@dataclass(frozen=True)
class MonthCost:
    """What a month cost until an instant, and what it should cost in all; unrounded.

    costs: by day, as far as they are known.   gaps: days of the month of which a part is not known: without a price, in
    another currency or not closed.   unpriced: its GPU-hours without a price.   known_from: the first closed hour.
    ends: None if there is no forecast.   between: None if the past is too short for a band.
    path: by the end of each day that is left.   unusual: the most unusual amount of each day first.
    """

    key: str
    month: Period
    zone: ZoneInfo
    known_from: datetime
    until: datetime
    costs: Mapping[date, Fraction]
    gaps: Sequence[date]
    unpriced: float
    ends: Fraction | None
    between: tuple[Fraction, Fraction] | None
    path: Mapping[date, Fraction]
    unusual: Sequence[Anomaly]
    tenants: frozenset[str]

    @property
    def so_far(self) -> Fraction | None:
        """None: nothing of it has a known cost."""
        known = any(self.costs.values()) or not self.gaps
        return sum(self.costs.values(), Fraction(0)) if known else None

    @property
    def is_over(self) -> bool:
        return self.until >= self.month.end


@dataclass(frozen=True)
class MonthBudget:
    """amount: None with the reason why there is none in `note` ('' if nobody has one)."""

    amount: Decimal | None = None
    note: str = ""


def month_of(filters: Filters) -> str:
    """The month in which the newest closed hour of the period lies, like 2026-10."""
    assert filters.period is not None
    newest = _at(filters.closed.within(filters.period.start, filters.period.end)[-1][0])
    return f"{filters.local(min(newest + HOUR, filters.period.end) - timedelta(milliseconds=1)):%Y-%m}"


def month_cost(store: Store, filters: Filters) -> MonthCost:
    zone, closed, key = ZoneInfo(filters.zone), filters.closed, month_of(filters)
    month = parse_month(key, filters.zone)
    until = min(_at(closed.hours[-1][0]) + HOUR, month.end)
    first = month.start.astimezone(zone).date()
    start = midnight(first - timedelta(weeks=WEEKS), zone)
    asked = ("month_cost", key, start, until, filters.zone, filters.currency, str(filters.address.chosen))
    found: MonthCost = filters.data_version.cached(
        store,
        asked,
        READ,
        lambda: _month_cost(store, filters, parse_month(key, filters.zone), key, start, until),
        until,
    )
    return found


def _month_cost(store: Store, filters: Filters, month: Period, key: str, start: datetime, until: datetime) -> MonthCost:
    """start: of the past that tells what is usual."""
    zone, closed = ZoneInfo(filters.zone), filters.closed
    known_from, first = _at(closed.hours[0][0]), month.start.astimezone(zone).date()
    rows = filters.over(start, until).rows_of_days(store, __file__, "daily")
    lengths = {filters.local(at).date(): length for at, length in closed.steps(start, until, "day").items()}
    costs, gaps, unpriced = _by_day(rows, filters)
    gaps |= _not_closed(lengths, max(start, known_from), until, zone)
    total: dict[date, int] = defaultdict(int)
    for (day, _), cost in costs.items():
        total[day] += cost
    is_known = until >= month.end or not is_blind(gaps, until, month, zone)
    ends = forecast(total, known_from, until, month, zone) if is_known else None
    between = None if ends is None else band(total, known_since(known_from, gaps, zone), until, month, zone)
    days = days_of(month, zone)
    return MonthCost(
        key,
        month,
        zone,
        known_from,
        until,
        {
            day: Fraction(total[day], UNIT)
            for day in days
            if known_from < midnight(day + DAY, zone) and midnight(day, zone) < until
        },
        sorted(gaps & set(days)),
        sum(held for day, held in unpriced.items() if day >= first),
        None if ends is None else ends / UNIT,
        None if between is None else (between[0] / UNIT, between[1] / UNIT),
        {day: cost / UNIT for day, cost in path(total, known_from, until, month, zone).items()} if is_known else {},
        flagged_days(_series(costs, gaps, lengths, zone), first, filters.currency),
        frozenset(tenant for day, tenant in costs if day >= first),
    )


def _by_day(
    rows: Sequence[Mapping[str, Any]], filters: Filters
) -> tuple[dict[tuple[date, str], int], set[date], dict[date, float]]:
    """Costs by day and tenant in whole UNITs; days of which a part is unknown; GPU-hours without a price."""
    costs: dict[tuple[date, str], int] = defaultdict(int)
    gaps: set[date] = set()
    unpriced: dict[date, float] = defaultdict(float)
    for row in rows:
        day = filters.local(row["at"]).date()
        is_foreign = any(one != filters.currency for one in row["currencies"])
        costs[day, row["tenant"]] += 0 if is_foreign else round((row["billed_cost"] or Decimal(0)).scaleb(15))
        if is_foreign or row["unpriced"] > 0:
            gaps.add(day)
        unpriced[day] += row["unpriced"]
    return costs, gaps, unpriced


def _not_closed(lengths: Mapping[date, float], known_from: datetime, until: datetime, zone: ZoneInfo) -> set[date]:
    """The days between the first and the last known hour of which a part is not closed."""
    found, day = set(), known_from.astimezone(zone).date()
    while (start := max(midnight(day, zone), known_from)) < until:
        length = (min(midnight(day + DAY, zone), until) - start) / HOUR
        if lengths.get(day, 0.0) < length - 1e-9:
            found.add(day)
        day += DAY
    return found


def _series(
    costs: Mapping[tuple[date, str], int], gaps: set[date], lengths: Mapping[date, float], zone: ZoneInfo
) -> list[DayCost]:
    """Each tenant's days since the first on which it held something, as `billing.insights.anomalies.daily_costs`."""
    since: dict[str, date] = {}
    for day, tenant in costs:
        since[tenant] = min(since.get(tenant, day), day)
    whole = {
        day: Fraction((midnight(day + DAY, zone) - midnight(day, zone)) // timedelta(seconds=1), 3600)
        for day in lengths
    }
    return [
        DayCost(
            Subject("tenant", tenant),
            day,
            whole[day],
            None if day in gaps else Fraction(costs.get((day, tenant), 0), UNIT),
            length >= whole[day],
        )
        for tenant in sorted(since)
        for day, length in lengths.items()
        if day >= since[tenant]
    ]


def month_budget(store: Store, filters: Filters, found: MonthCost, words: Language) -> MonthBudget:
    """Of one tenant or one of its projects, where that is chosen; else of all tenants, if each that costs has one."""
    applied, currency = budgets.in_month(store, filters, found.key)
    tenants, projects = (filters.address.chosen.get(name, ()) for name in ("tenant", "project"))
    if projects and (len(projects) > 1 or len(tenants) != 1):
        return MonthBudget()
    project = projects[0] if projects else None
    amounts = {one.tenant: one.amount for one in applied if one.project == project}
    wanted = tenants or sorted(found.tenants)
    own = [amounts[name] for name in wanted if name in amounts]
    if not own:
        return MonthBudget()
    if currency != filters.currency:
        return MonthBudget(None, words("month_cost.budget_currency", currency=currency))
    if len(own) < len(wanted):
        return MonthBudget(None, words("month_cost.budgets_of", n=len(own), all=len(wanted)))
    return MonthBudget(sum(own, Decimal(0)))


def month_card(filters: Filters, words: Language) -> Component:
    """Filled in by a callback, because it reads more than the page: the weeks before, too."""
    first = parse_month(month_of(filters), filters.zone).start
    return parts.card(
        words("month_cost.title", month=words.month(filters.local(first))),
        words("month_cost.is"),
        dcc.Store(id="overview-month-asked", data=filters.href("/")),
        dcc.Loading(html.Div(id="overview-month-shown", className="gl-month"), color=parts.SPINNING, delay_show=200),
        id="month",
    )


def month_shown(store: Store, filters: Filters, words: Language) -> Component:
    """What stands in the card."""
    if not filters.currency:
        return html.P(words("no_price"), className="gl-nothing")
    found = month_cost(store, filters)
    budget = month_budget(store, filters, found, words)
    shown = _figures(found, budget, filters, words)
    colon = words("part.colon")
    said = words("part.break").join(f"{one.label}{colon}{one.value} {one.detail}".strip() for one in shown)
    title = words("month_cost.title", month=words.month(found.month.start.astimezone(found.zone)))
    return html.Div(
        [
            parts.headline(shown, "gl-inset"),
            parts.graph(
                month_figure(found, budget, filters, words),
                f"{title}. {said}",
                id="overview-month",
                height=260,
                keys=words("figure.keys"),
            ),
            _unusual_days(found, filters, words),
            _notes(found, budget, words),
        ]
    )


def callbacks(app: Dash, ask: Ask) -> None:
    async def loaded(_: str, search: str) -> Any:
        return await ask(month_shown, search)

    app.callback(
        Output("overview-month-shown", "children"), Input("overview-month-asked", "data"), State("url", "search")
    )(loaded)
    app.clientside_callback(ClientsideFunction("gl", "follow"), Input("overview-month", "clickData"))


def _figures(found: MonthCost, budget: MonthBudget, filters: Filters, words: Language) -> list[Figure]:
    currency = filters.currency
    amount = (
        "–"
        if found.between is None
        else words("month_cost.between", **dict(zip(("low", "high"), _alike(found.between, currency), strict=True)))
    )
    when = (
        words("month_cost.whole")
        if found.is_over
        else words("month_cost.until", at=words.moment(found.until.astimezone(found.zone)))
    )
    shown = [
        Figure(
            words("month_cost.so_far"),
            _money(found.so_far, currency),
            "",
            words("month_cost.at_least") if found.gaps else when,
        )
    ]
    if not found.is_over:
        detail = (
            words("month_cost.no_forecast")
            if found.ends is None
            else words("month_cost.no_band")
            if found.between is None
            else amount
        )
        shown.append(Figure(words("month_cost.forecast"), _money(found.ends, currency), "", detail))
    shown.append(
        Figure(words("month_cost.budget"), money(budget.amount, currency), "", _against(found, budget, currency, words))
    )
    days = {one.day for one in found.unusual}
    said = words("month_cost.unusual_is" if filters.only("tenant") is None else "month_cost.unusual_of_one")
    shown.append(Figure(words("month_cost.unusual"), f"{len(days):,}", "", said))
    return shown


def _against(found: MonthCost, budget: MonthBudget, currency: str, words: Language) -> str:
    """By how much the budget is missed, or will be."""
    if budget.amount is None:
        return budget.note or words("month_cost.no_budget")
    if found.so_far is not None and found.so_far > budget.amount:
        return words("month_cost.over", amount=_money(found.so_far - Fraction(budget.amount), currency))
    if found.ends is None or found.so_far is None:
        return words("month_cost.not_known")
    gap = found.ends - Fraction(budget.amount)
    if found.is_over:
        return words("month_cost.was_left", amount=_money(-gap, currency))
    return words("month_cost.will_be_over" if gap > 0 else "month_cost.will_be_left", amount=_money(abs(gap), currency))


def _money(amount: Fraction | None, currency: str) -> str:
    return UNKNOWN if amount is None else money(rounded(amount, minor_digits(currency)), currency)


def _alike(amounts: Sequence[Fraction], currency: str) -> list[str]:
    return money_alike([rounded(one, minor_digits(currency)) for one in amounts], currency)


def month_figure(found: MonthCost, budget: MonthBudget, filters: Filters, words: Language) -> figures.Chart:
    days = days_of(found.month, found.zone)
    currency, sums = filters.currency, _cumulated(found)
    known = [day for day in days if day in found.costs]
    last = known[-1] if known else days[0]
    leads = {one.day: _href(one, filters) for one in reversed(found.unusual)}
    traces: list[dict[str, Any]] = []
    if found.path and found.so_far is not None:
        traces += _forecast_traces(found, last, currency, words)
    if budget.amount is not None:
        traces.append(
            _line(days, [float(budget.amount)] * len(days), words("month_cost.budget"), BUDGET, "dot")
            | {"hovertemplate": f"{symbol(currency)}%{{y:,.2f}}"}
        )
    traces.append(
        _line(
            known,
            [None if day in found.gaps else float(sums[day]) for day in known],
            words("month_cost.so_far"),
            SPENT,
            "solid",
        )
        | {
            "mode": "lines+markers",
            "marker": {"size": 5, "color": SPENT},
            "customdata": [leads.get(day) or filters.at_step("/", midnight(day, found.zone), "day") for day in known],
            "hovertemplate": f"{symbol(currency)}%{{y:,.2f}}",
        }
    )
    if found.unusual:
        traces.append(_markers(found, sums, filters, words))
    edges = [
        datetime.combine(days[0] - DAY, datetime.min.time()),
        datetime.combine(days[-1] + DAY, datetime.min.time()),
    ]
    axis = {"range": [one.isoformat() for one in edges], "type": "date"}
    return figures.made(
        traces,
        words,
        xaxis=axis,
        yaxis=figures.money_axis(symbol(currency), [value for trace in traces for value in trace["y"]]),
        showlegend=True,
        legend={"orientation": "h", "y": 1.16, "x": 0, "traceorder": "normal"},
        margin={"l": 60, "r": 8, "t": 34, "b": 30},
    )


def _cumulated(found: MonthCost) -> dict[date, Fraction]:
    sums, so_far = {}, Fraction(0)
    for day, cost in found.costs.items():
        so_far += cost
        sums[day] = so_far
    return sums


def _forecast_traces(found: MonthCost, last: date, currency: str, words: Language) -> list[dict[str, Any]]:
    """From what is known on: the band, each day's share of its width as of the whole, and the dashed line."""
    so_far, ends = found.so_far or Fraction(0), found.ends or Fraction(0)
    if last >= max(found.path):
        return [_forecast_point(found, last, ends, currency, words)]
    line = {last: so_far, **{day: cost for day, cost in found.path.items() if day > last}}
    days, traces = list(line), []
    said = [_money(cost, currency) for cost in line.values()]
    if found.between is not None:
        low, high = (
            [
                so_far + (cost - so_far) * (edge - so_far) / (ends - so_far) if ends != so_far else so_far
                for cost in line.values()
            ]
            for edge in found.between
        )
        said = [
            words("month_cost.hover", amount=amount, low=_money(least, currency), high=_money(most, currency))
            for amount, least, most in zip(said, low, high, strict=True)
        ]
        edge: dict[str, Any] = {"hoverinfo": "skip", "line": {"width": 1, "color": BAND_EDGE}}
        traces = [
            {**_line(days, [float(one) for one in high], "", BAND_EDGE, "solid"), **edge, "showlegend": False},
            {**_line(days, [float(one) for one in low], words("month_cost.band"), BAND_EDGE, "solid"), **edge,
             "fill": "tonexty", "fillcolor": BAND},
        ]  # fmt: skip
    forecast_line = _line(days, [float(cost) for cost in line.values()], words("month_cost.forecast"), SPENT, "dash")
    return [*traces, forecast_line | {"customdata": said, "hovertemplate": "%{customdata}"}]


def _forecast_point(found: MonthCost, day: date, ends: Fraction, currency: str, words: Language) -> dict[str, Any]:
    """On the month's last day a line would have no length: where it ends, and between which amounts."""
    point = _line([day], [float(ends)], words("month_cost.forecast"), SPENT, "dash") | {
        "mode": "markers",
        "marker": {"symbol": "circle-open", "size": 9, "color": SPENT, "line": {"width": 2}},
        "customdata": [_money(ends, currency)],
        "hovertemplate": "%{customdata}",
    }
    if found.between is None:
        return point
    low, high = found.between
    least, most = _money(low, currency), _money(high, currency)
    reach = {"array": [float(high - ends)], "arrayminus": [float(ends - low)]}
    return point | {
        "customdata": [words("month_cost.hover", amount=_money(ends, currency), low=least, high=most)],
        "error_y": {"type": "data", "symmetric": False, **reach, "color": BAND_EDGE, "thickness": 2, "width": 5},
    }


def _line(days: Sequence[date], values: Sequence[float | None], name: str, colour: str, dash: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [datetime.combine(day, datetime.min.time()) for day in days],
        "y": list(values),
        "name": name,
        "line": {"color": colour, "width": 2, "dash": dash},
    }


def _markers(found: MonthCost, sums: Mapping[date, Fraction], filters: Filters, words: Language) -> dict[str, Any]:
    by_day: dict[date, list[Anomaly]] = defaultdict(list)
    for one in found.unusual:
        by_day[one.day].append(one)
    days = list(by_day)
    texts = ["\n".join(part for one in by_day[day][:LISTED] for part in _said(one, filters, words)) for day in days]
    return _line(days, [float(sums.get(day, 0)) for day in days], words("month_cost.unusual"), UNUSUAL, "solid") | {
        "mode": "markers",
        "marker": {"symbol": "diamond", "size": 11, "color": UNUSUAL, "line": {"width": 1, "color": "#ffffff"}},
        "customdata": [[_href(by_day[day][0], filters), text] for day, text in zip(days, texts, strict=True)],
        "hovertemplate": "%{customdata[1]}",
    }


def _said(one: Anomaly, filters: Filters, words: Language) -> tuple[str, str]:
    """Whose day cost what, and what was expected."""
    expected, low, high = money_alike([one.expected, one.low, one.high], filters.currency)
    return (
        words("month_cost.unusual_day", who=one.tenant or words("no_name"), cost=money(one.cost, filters.currency)),
        words("month_cost.expected", amount=expected, low=low, high=high),
    )


def _href(one: Anomaly, filters: Filters) -> str:
    """The day against the same weekday before, for its tenant."""
    day, before = (str(each) for each in (one.day, one.day - timedelta(weeks=1)))
    if has_page("/changes"):
        return filters.href("/changes", period=day, tenant=one.tenant, against=before)
    return filters.href("/", period=day, tenant=one.tenant)


def _unusual_days(found: MonthCost, filters: Filters, words: Language) -> Component | None:
    """The greatest of them as links, also for who cannot point at the chart."""
    if not found.unusual:
        return None
    listed = sorted(found.unusual, key=lambda one: (-abs(one.cost - one.expected), one.day))[:LISTED]
    more = len({one.day for one in found.unusual} - {one.day for one in listed})
    return html.Ul(
        [
            *(
                html.Li(
                    [
                        html.Span(className="gl-dot gl-warn"),
                        dcc.Link(words.day(one.day), href=_href(one, filters)),
                        unbroken(words("part.break").join(_said(one, filters, words))),
                    ]
                )
                for one in sorted(listed, key=lambda one: one.day)
            ),
            *([html.Li(words.count("month_cost.more_days", more))] if more else []),
        ],
        className="gl-unusual",
    )


def _notes(found: MonthCost, budget: MonthBudget, words: Language) -> Component:
    """What the amounts do not contain, and the commands that say the same."""
    said = [budget.note] if budget.note else []
    if found.gaps:
        said.append(words.count("month_cost.gaps", len(found.gaps)))
    if found.unpriced > 0:
        said.append(words("quality.unpriced", n=hours(found.unpriced)))
    if found.known_from > found.month.start:
        said.append(words("month_cost.since", at=words.moment(found.known_from.astimezone(found.zone))))
    commands = [html.Code(f"gpuledger {name} --period {found.key}") for name in ("budget", "anomalies")]
    return html.P(
        [unbroken(" · ".join([*said, words("month_cost.more")])), " ", commands[0], words("part.break"), commands[1]],
        className="gl-note",
    )


def _at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, ZoneInfo("UTC"))
