"""Changes: why the period cost more or less than another, as steps from one total to the other, and for whom.

The level is that of the filters, as on the tenants page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from billing.insights.changes import Change, Held, compared, in_all, walk
from billing.periods import Period as Span
from billing.periods import parse_period
from dashboards import exports, figures, grids, parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, hours, money, percent, signed_hours, symbol
from dashboards.languages import Language
from dashboards.pages.changes.adding_up import in_short, with_texts
from dashboards.pages.changes.bills import bills_card, callbacks
from dashboards.parts import Figure
from dashboards.periods import ALL, HOUR, Period, latest
from dashboards.registry import Page
from warehouse.store import Store

EXACT_TO = 12
"""Digits of GPU-hours that come as floating point: three more than are shown."""
WEEK = timedelta(days=7)
OTHERS = 6
"""Months that are offered to compare with."""
MOST = 500
"""Rows of the table, the greatest changes first."""
SUMS = ("cost_before", "cost")
"""Columns that are no change."""
MORE, LESS, SUM = "#d9567a", "#22a38b", "#66758f"
Changes = Mapping[str, Change]


def layout(store: Store, filters: Filters, words: Language) -> Component:
    assert filters.period is not None
    spans = _spans(store, filters)
    title = words("changes.title")
    if spans is None:
        return parts.page(parts.titles(filters, words, title), states.nothing_here(words("changes.no_other")))
    before, now = spans
    found, total = changes_of(store, before, now)
    compared_with = parts.chip(words("changes.with", period=before.period.label(words) if before.period else UNKNOWN),
                               words("changes.with_is"), state="")  # fmt: skip
    notes = [compared_with, _partly(before.period, words), _since(filters, before.period, now.period, words)]
    if before.period is not None and not before.period.hours_closed:
        return parts.page(parts.titles(now, words, title, compared_with), _chooser(filters, before.period, words),
                          states.nothing_here(words("changes.no_other")))  # fmt: skip
    return parts.page(
        parts.titles(now, words, title, *notes),
        _chooser(filters, before.period, words, is_shorter=notes[-1] is not None),
        _headline(total, filters, words),
        parts.card(
            words("changes.walk"),
            words("changes.walk_is"),
            parts.graph(_walked(total, before, now, words), words("changes.walk"), "changes-walk", 280),
        ),
        parts.card(
            words(f"tenants.{filters.level}s"),
            words("changes.table_is"),
            _table(found, total, filters, words),
            tool=exports.of_grid("changes-grid", "changes", filters, words),
            class_name="gl-table-card",
        ),
        bills_card(filters, words),
    )


def _partly(before: Period | None, words: Language) -> Component | None:
    """What the books do not know of the other period looks like a rise."""
    if before is None or before.hours_closed >= before.hours:
        return None
    hours = {"closed": f"{before.hours_closed:,}", "all": f"{before.hours:,}"}
    return parts.chip(words("changes.partly", **hours), words("changes.partly_why"))


def _since(filters: Filters, before: Period | None, now: Period | None, words: Language) -> Component | None:
    """That the page leaves out the beginning of its period, where the books do not know the other one's."""
    if filters.period is None or before is None or now is None or now.start <= filters.period.start:
        return None
    first, start = (words.moment(filters.local(at)) for at in (before.start, now.start))
    return parts.chip(words("changes.since", at=start), words("changes.since_why", at=first))


def _spans(store: Store, filters: Filters) -> tuple[Filters, Filters] | None:
    """The filters of the other period and of this one, as much as is compared; None: of all time there is no other."""
    period = filters.period
    assert period is not None
    if period.key == ALL:
        return None
    asked = filters.more.get("against", "")
    against = parse_period(asked, filters.zone) if asked else None
    before, now = compared(store, Span(period.start, period.end), against)
    return filters.over(before.start, before.end), filters.over(now.start, now.end)


def changes_of(store: Store, before: Filters, now: Filters) -> tuple[Changes, Change]:
    """By tenant, project or workload; and of all of them as one."""
    was, has = (_held(each.rows(store, __file__, "by_model", level=each.level)) for each in (before, now))
    found = {name: walk(was.get(name, {}), has.get(name, {})) for name in {*was, *has}}
    return found, in_all(was.values(), has.values())


def _held(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Held]]:
    found: dict[str, dict[str, Held]] = defaultdict(dict)
    for row in rows:
        numbers = (Fraction(Decimal(str(row[name]))) for name in ("hours", "cost", "idle_cost", "unpriced"))
        found[row["name"]][row["model"]] = Held(*(round(one, EXACT_TO) for one in numbers))
    return found


def _chooser(filters: Filters, before: Period | None, words: Language, is_shorter: bool = False) -> Component:
    """Which other period: the one before, or one of the last months. Where the books do not know all of it, the newest
    weeks that they know are offered, too.   is_shorter: less is compared for that reason."""
    asked = filters.more.get("against", "")
    own = filters.period.key if filters.period else ""
    months = [month.key for month in filters.months if month.key != own][-OTHERS:]
    others = {"": words("changes.before")}
    others |= {key: words.month(date.fromisoformat(f"{key}-01")) for key in reversed(months)}
    if asked not in others:
        others[asked] = asked
    links = [
        html.Li(
            dcc.Link(name, href=filters.href("/changes", against=key or None), className="gl-choice"),
            **({"aria-current": "true"} if key == asked else {}),
        )
        for key, name in others.items()
    ]
    is_known = not is_shorter and _partly(before, words) is None
    if not is_known and sum(month.hours for month in filters.months) * HOUR >= 2 * WEEK:
        weeks = filters.href("/changes", period=latest(filters.months, filters.zone, WEEK), against=None)
        links.append(html.Li(dcc.Link(words("changes.weeks"), href=weeks, className="gl-choice")))
    return html.Ul(links, className="gl-choices", **{"aria-label": words("changes.against")})


def _headline(total: Change, filters: Filters, words: Language) -> Component:
    known = total.measures()
    currency, difference = filters.currency, known["difference"]
    idle = None if difference is None else known["idle_cost"] - known["idle_cost_before"]
    more_hours = known["gpu_hours"] - known["gpu_hours_before"]
    was, said = known["cost_before"], in_short(known, currency)
    return parts.headline(
        [
            Figure(words("changes.difference"), said["difference"], "",
                   words("changes.part", share=percent(abs(float(difference / was)) if was else None))
                   if difference is not None else ""),
            Figure(words("changes.now"), said["cost"], "", words("changes.was", amount=said["cost_before"])),
            Figure(words("changes.hours"), signed_hours(float(more_hours)),
                   "", words("changes.hours_was", hours=hours(float(known["gpu_hours_before"])))),
            Figure(words("changes.idle"), signed(idle, currency), "",
                   words("changes.idle_was", amount=money(known["idle_cost_before"], currency)), "idle"),
        ]
    )  # fmt: skip


def signed(amount: Decimal | None, currency: str) -> str:
    """With its sign, also where it is more."""
    if amount is None:
        return UNKNOWN
    return ("+" if amount > 0 else "−" if amount < 0 else "") + money(abs(amount), currency)


def _walked(total: Change, before: Filters, now: Filters, words: Language) -> figures.Chart:
    known, currency = total.measures(), now.currency
    names = [words("changes.was_short"), *(words(f"changes.step_{name}") for name in ("hours", "price", "mix")),
             words("changes.now")]  # fmt: skip
    steps = [known[name] for name in ("cost_before", "by_hours", "by_price", "by_mix", "cost")]
    amounts = [float(one) if one is not None else None for one in steps]
    shown = in_short(known, currency)
    said = [shown[name] for name in ("cost_before", "by_hours", "by_price", "by_mix", "cost")]
    walk = {
        "type": "waterfall",
        "x": names,
        "y": amounts,
        "measure": ["absolute", "relative", "relative", "relative", "total"],
        "text": said,
        "textposition": "outside",
        "textfont": {"size": 11},
        "constraintext": "none",
        "cliponaxis": False,
        "increasing": {"marker": {"color": MORE}},
        "decreasing": {"marker": {"color": LESS}},
        "totals": {"marker": {"color": SUM}},
        "connector": {"line": {"color": figures.GRID}},
        "hoverinfo": "x+text",
    }
    return figures.made(
        [walk],
        words,
        xaxis={"type": "category"},
        yaxis=figures.money_axis(symbol(currency), amounts),
        margin={"l": 70, "r": 8, "t": 28, "b": 30},
        hovermode="closest",
    )


def _table(found: Changes, total: Change, filters: Filters, words: Language) -> Component:
    currency, level = filters.currency, filters.level
    columns = [
        grids.link("name", words(f"tenants.{level}")),
        *(
            grids.as_told(
                grids.money(
                    name, words(f"changes.{name}"), currency, words(f"changes.{name}_is"), "" if name in SUMS else "+"
                )
            )
            for name in ("cost_before", "cost", "difference", "by_hours", "by_price", "by_mix", "idle_difference")
        ),
    ]
    rows = [_row(name, one, filters, words) for name, one in found.items()]
    rows.sort(key=lambda row: (row["difference"] is None, -abs(row["difference"] or 0), row["name"]))
    last = _row("", total, filters, words) | {"name": words("tenants.all"), "href": ""}
    shown = [with_texts(row, currency) for row in rows[:MOST]]
    return grids.grid(
        columns, shown, words, "changes-grid", with_texts(last, currency), spare=("idle_difference", "cost_before")
    )


def _row(name: str, change: Change, filters: Filters, words: Language) -> dict[str, Any]:
    known = change.measures()
    idle = None if known["idle_cost"] is None else known["idle_cost"] - known["idle_cost_before"]
    links = {
        "tenant": filters.href("/changes", tenant=name, **filters.more),
        "project": filters.href("/changes", project=name, **filters.more),
        "workload": filters.href("/workloads", workload=name),
    }
    return {**known, "idle_difference": idle, "name": name or words("no_name"), "href": links[filters.level]}


PAGE = Page(
    "/changes",
    "changes.title",
    25,
    layout,
    icon="M4 18h4v-7H4zM10 13h4V6h-4zM16 20h4v-9h-4z",
    callbacks=callbacks,
)
