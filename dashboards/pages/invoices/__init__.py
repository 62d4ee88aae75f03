"""Invoices: the state of each month, its drafts and issued invoices; and one invoice (`?number=`) with its lines.

The month is `?month=`, by default the newest that is over and has closed hours. The browser loads drafts from the API,
because they are computed from the usage of all tenants, which takes longer than a page may.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from dash import ClientsideFunction, Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from billing.closed import closed_period
from billing.invoicing.month_states import Month, MonthState, month_states
from billing.refused import refused_in, unread_rows
from dashboards import exports, forms, grids, parts, states
from dashboards.filters import Filters
from dashboards.format import SYMBOLS, UNKNOWN
from dashboards.languages import Language
from dashboards.pages.invoices import draft, emissions
from dashboards.pages.invoices.amounts import exact
from dashboards.pages.invoices.closing import close_form
from dashboards.pages.invoices.document import document_page, tax_is
from dashboards.pages.invoices.draft import draft_card, drafted
from dashboards.pages.invoices.emissions import emissions_card
from dashboards.parts import Figure
from dashboards.registry import Ask, Page
from warehouse.store import Store

DOTS = {"open": "gl-info", "closing": "gl-warn", "closed": "gl-good", "partly_issued": "gl-warn", "issued": "gl-good"}
ISSUABLE = (MonthState.closed, MonthState.partly_issued, MonthState.issued)
Rows = Sequence[Mapping[str, Any]]


def layout(store: Store, filters: Filters, words: Language) -> Component:
    untimed = replace(filters, period=None)
    if number := filters.more.get("number"):
        return document_page(store, untimed, words, number)
    title = words("invoices.title")
    now = datetime.now(UTC)
    chosen = filters.address.chosen.get("tenant", ())
    known = filters.remembered(store)
    months, closed = month_states(known, now, lambda one: not chosen or one in chosen), closed_period(known)
    if not months or closed is None:
        none, close = states.nothing_here(words("invoices.no_month")), close_form(known, None, untimed, words)
        card = parts.card(words("invoices.months"), words("invoices.months_is"), none, close)
        return parts.page(parts.titles(untimed, words, title), card)
    over = [one for one in months if one.state is not MonthState.open and one.period.start < closed.end] or months
    asked = filters.more.get("month") or over[-1].name
    month = next((one for one in months if one.name == asked), None)
    if month is None:
        return _no_such_month(months, untimed, words)
    sums = filters.rows_now(store, __file__, "by_month")
    issued = filters.rows_now(store, __file__, "issued", month=month.name)
    of_month = [row for row in sums if row["month"] == month.name]
    name, tenant = words.month(datetime.fromisoformat(f"{month.name}-01")), drafted(filters)
    return parts.page(
        parts.titles(untimed, words, f"{title} · {name}"),
        _headline(
            month,
            _until(month, now, closed.end, filters, words),
            of_month,
            words,
        ),
        parts.split(
            _months_card(
                months,
                month,
                sums,
                _costs_so_far(store, [one for one in months if one is not month], filters),
                filters,
                words,
                close_form(known, closed.end, untimed, words),
            ),
            _drafts_card(month, issued, chosen, name, _missing(known, month, words), untimed, words, bool(of_month)),
            class_name="gl-late gl-all-issued" if month.state is MonthState.issued else "gl-late",
        ),
        draft_card(month.name, tenant, untimed, words) if tenant else None,
        _issued_card(issued, month, chosen, untimed, words),
        emissions_card(month.name, words),
    )


def _no_such_month(months: Sequence[Month], filters: Filters, words: Language) -> Component:
    """Of an address that names another month than the books have, or none: figures of another are no answer to it."""
    first, last = (words.month(datetime.fromisoformat(f"{one.name}-01")) for one in (months[0], months[-1]))
    href = filters.href("/invoices", month=months[-1].name)
    link = dcc.Link(words("state.show", period=last), href=href, className="gl-button")
    return states.nothing(words("state.other_period"), words("state.other_period_why", first=first, last=last), link)


def _sum(rows: Rows, name: str) -> str:
    """A sum for each currency."""
    return " + ".join(exact(row[name], row["currency"]) for row in rows) or UNKNOWN


def _taxed(rows: Rows) -> tuple[Any, Any]:
    """Net and tax, where there is but one currency."""
    (row,) = rows if len(rows) == 1 else ({"net": None, "tax": None},)
    return row["net"], row["tax"]


def _until(month: Month, now: datetime, closed_until: datetime, filters: Filters, words: Language) -> str:
    if month.state is MonthState.closing and month.closes_at <= now:
        return words("month_state.closing_late", at=words.moment(filters.local(closed_until)))
    if month.state is MonthState.open and month.closes_at == month.period.end:
        return words("month_state.open_no_grace", at=words.moment(filters.local(month.closes_at)))
    return words(f"month_state.{month.state}_is", at=words.moment(filters.local(month.closes_at)))


def _headline(month: Month, until: str, sums: Rows, words: Language) -> Component:
    notes = sum(row["credit_notes"] for row in sums)
    count = sum(row["invoices"] for row in sums)
    first = [
        Figure(words("invoices.state"), words(f"month_state.{month.state}"), "", until),
        Figure(
            words("invoices.issued"),
            _of_tenants(month, count, words),
            "",
            _notes_are(count, notes, words),
        ),
    ]
    if not sums:
        drafted_so_far = html.B(UNKNOWN, id="invoices-drafted")
        return parts.headline(
            [*first, Figure(words("invoices.drafted"), drafted_so_far, "", words("invoices.drafted_is"))]
        )
    return parts.headline(
        [
            *first,
            Figure(words("invoices.net"), _sum(sums, "net"), "", words("invoices.net_is")),
            Figure(words("invoices.tax"), _sum(sums, "tax"), "", tax_is(*_taxed(sums), words)),
            Figure(words("invoices.amount"), _sum(sums, "amount"), "", words("invoices.amount_is")),
        ]
    )


def _notes_are(invoices: int, notes: int, words: Language) -> str:
    if notes:
        return words.count("invoices.notes", notes)
    return words("invoices.no_notes") if invoices else words("invoices.no_invoices")


def _costs_so_far(store: Store, months: Sequence[Month], filters: Filters) -> dict[str, str]:
    """What was held in a month that records still change, by month."""
    chosen = {name: values for name, values in filters.address.chosen.items() if name == "tenant"}
    tenants_only = replace(filters, address=replace(filters.address, chosen=chosen))
    return {
        month.name: _so_far(tenants_only.over(month.period.start, month.period.end).rows(store, __file__, "so_far"))
        for month in months
        if month.state in (MonthState.open, MonthState.closing)
    }


def _so_far(rows: Rows) -> str:
    """At least so much where something has no price."""
    known = [row for row in rows if row["cost"] is not None and row["currency"]]
    lacks = known and any(row["unpriced"] for row in rows)
    return f"{'≥ ' if lacks else ''}{_sum(known, 'cost')}"


def _months_card(
    months: Sequence[Month],
    here: Month,
    sums: Rows,
    costs: Mapping[str, str],
    filters: Filters,
    words: Language,
    close: Component | None,
) -> Component:
    """costs: so far, of months that records still change."""
    rows = []
    for month in reversed(months):
        of_month = [row for row in sums if row["month"] == month.name]
        link: dict[str, Any] = {"aria-current": "true"} if month is here else {}
        rows.append(
            [
                html.Span(dcc.Link(words.month(datetime.fromisoformat(f"{month.name}-01")),
                                   href=filters.href("/invoices", month=month.name)), **link),
                state_chip(month.state, words),
                _of_tenants(month, sum(row["invoices"] for row in of_month), words),
                _sum(of_month, "amount")
                if of_month
                else _drafted_so_far(month is here, costs.get(month.name, UNKNOWN), words),
            ]
        )  # fmt: skip
    heads = [words(f"invoices.{name}") for name in ("month", "state", "count", "amount")]
    none_left = html.P(words("invoices.no_drafts_left"), className="gl-note gl-none-left")
    table = parts.table(heads, rows)
    return parts.card(
        words("invoices.months"),
        words("invoices.months_is"),
        table,
        none_left if here.state is MonthState.issued else None,
        close,
    )


def _drafted_so_far(is_here: bool, cost: str, words: Language) -> Component:
    """Of a month without a document. Its drafts are computed once it is chosen, because they take longer than a page
    may; the browser sums those that it loads then (`glforms.drafts`).   cost: of what was held, where that changes."""
    if is_here:
        return _with_detail(html.Div(UNKNOWN, id="invoices-so-far"), words("invoices.so_far"))
    if cost == UNKNOWN:
        return html.Span(UNKNOWN, title=words("invoices.so_far_unknown"))
    return _with_detail(html.Div(cost, title=words("invoices.so_far_unknown")), words("invoices.cost_so_far"))


def _with_detail(amount: Component, what: str) -> Component:
    return html.Div([amount, html.Div(what, className="gl-detail")])


def _of_tenants(month: Month, invoices: int, words: Language) -> str:
    """`2 of 3` where others of the month's tenants have no invoice yet."""
    if not month.tenants or invoices == month.tenants:
        return f"{invoices:,}"
    return words("invoices.of_tenants", n=f"{invoices:,}", all=f"{month.tenants:,}")


def state_chip(state: str, words: Language) -> Component:
    return html.Span(
        [html.Span(className=f"gl-dot {DOTS.get(state, 'gl-warn')}"), words.of(f"month_state.{state}", state)],
        className="gl-state",
    )


def _may_issue(month: Month) -> bool:
    return month.state in ISSUABLE and current().may(Action.issue)


def _missing(store: Store, month: Month, words: Language) -> Sequence[str]:
    """A sentence for each kind of facts that the month's invoices lack, or may lack, for those who may issue them."""
    if not _may_issue(month):
        return []
    found = {"lacks_claims": refused_in(store, month.period), "lacks_rows": unread_rows(store, month.period)}
    return [words.count(f"invoices.{name}", number) for name, number in found.items() if number]


def _drafts_card(
    month: Month,
    issued: Rows,
    tenants: Sequence[str],
    name: str,
    missing: Sequence[str],
    filters: Filters,
    words: Language,
    has_issued: bool,
) -> Component:
    """missing: what the invoices lack.   has_issued: so that headline and months have other figures than the sum of the
    drafts."""
    done = [row["tenant"] for row in issued if row["document_type"] == "invoice" and row["status"] == "issued"]
    asked = {"month": month.name, "issued": done, "tenants": list(tenants), "nobody": words("no_name"),
             "href": filters.href("/invoices", month=month.name, draft=""), "symbols": SYMBOLS,
             "incomplete": words("invoices.incomplete"), "complete": words("invoices.complete"),
             "lost": words("form.unanswered")}  # fmt: skip
    columns = [
        grids.link("tenant", words("filter.tenant"), words("invoices.draft_link_is"), minimum=110, flex=1.0),
        grids.number("lines", words("invoices.lines"), shape=",d", minimum=70),
        grids.number("hours", words("workload.quantity"), words("invoices.hours_is")),
        grids.number("unpriced", words("invoices.unpriced"), words("invoices.unpriced_is")),
        grids.number("tax", words("invoices.tax"), shape=",.2f"),
        grids.sorted_by(
            grids.number("amount", words("invoices.amount"), words("invoices.amount_is"), ",.2f", minimum=104)
        ),
        grids.number("corrections", words("invoices.corrections"), words("invoices.corrections_is"), ",.2f"),
        grids.text("currency", words("invoices.currency"), minimum=70),
        grids.text("state", words("invoices.total_is"), words("invoices.incomplete_is"), minimum=96),
    ]
    issue = forms.form(
        "POST /invoices", words("invoices.issue", month=name), words, body={"month": month.name},
        note=words("invoices.issue_note"),
    )  # fmt: skip
    return parts.card(
        words("invoices.drafts"),
        words("invoices.drafts_is"),
        dcc.Store(id="invoices-asked", data=asked),
        dcc.Loading(
            grids.grid(
                columns,
                None,
                words,
                "invoices-drafts",
                empty=words("invoices.no_drafts"),
                spare=("lines", "tax", "unpriced"),
            ),
            color=parts.SPINNING,
            delay_show=200,
        ),
        html.P(id="invoices-refused", className="gl-said gl-refused"),
        *(html.Span(id=f"invoices-{name}", hidden=True) for name in ("drafted", "so-far") if has_issued),
        html.Div(
            [*(_warning(text) for text in missing), issue] if _may_issue(month) else None,
            id="invoices-issue",
            hidden=True,
        ),
        tool=exports.of_grid("invoices-drafts", f"drafts-{month.name}", filters, words),
        class_name="gl-table-card gl-drafts",
    )


def _warning(text: str) -> Component:
    return html.P([html.Span(className="gl-dot gl-warn"), text], className="gl-note")


def _issued_card(
    rows: Rows, month: Month, tenants: Sequence[str], filters: Filters, words: Language
) -> Component | None:
    """None where there is none, nor a file of the month: the figures say so."""
    focus = _focus(month, tenants, words)
    if not rows and focus is None:
        return None
    columns = [
        grids.link("number", words("invoices.number"), minimum=150),
        grids.text("tenant", words("filter.tenant")),
        grids.number("amount", words("invoices.amount"), words("invoices.amount_is"), ",.2f", minimum=96),
        grids.text("type", words("invoices.type"), minimum=106, flex=0.8),
        grids.text("status", words("invoices.status"), minimum=84, flex=0.7),
        grids.moment("at", words("invoices.at")),
        grids.number("net", words("invoices.net"), words("invoices.net_is"), ",.2f"),
        grids.number("tax", words("invoices.tax"), shape=",.2f"),
        grids.number("due", words("invoices.due"), words("invoices.due_is"), ",.2f"),
        grids.text("currency", words("invoices.currency"), minimum=80),
    ]
    shown = [
        {
            **{name: row[name] for name in ("number", "net", "tax", "amount", "due", "currency")},
            "tenant": row["tenant"] or words("no_name"),
            **({"due": 0} if row["status"] == "void" else {}),
            "href": filters.href("/invoices", number=row["number"]),
            "type": words(f"invoices.{row['document_type']}"),
            "status": words(f"invoices.is_{row['status']}"),
            "at": (at := filters.local(row["issued_at"])),
            "at_text": words.day(at),
        }
        for row in rows
    ]
    table = grids.grid(
        columns,
        shown,
        words,
        "invoices-issued",
        empty=words("invoices.none_issued"),
        spare=("tax", "net", "due", "status", "at"),
    )
    tool = parts.tools(
        focus,
        exports.of_grid("invoices-issued", f"invoices-{month.name}", filters, words),
    )
    return parts.card(
        words("invoices.documents"), words("invoices.documents_is"), table, tool=tool, class_name="gl-table-card"
    )


def _focus(month: Month, tenants: Sequence[str], words: Language) -> Component | None:
    """The month's costs as FOCUS rows, of all tenants or of one, once it is over."""
    mine = sorted(current().tenants)
    of = list(tenants) or ([] if current().sees_all else mine)
    if month.state is MonthState.open or len(of) > 1:
        return None
    query = urlencode({"month": month.name, "grain": "day", **({"tenant": of[0]} if of else {})})
    return forms.links(words("invoices.focus"), [("FOCUS", f"/api/v1/exports/focus?{query}", "")])


def callbacks(app: Dash, ask: Ask) -> None:
    emissions.callbacks(app, ask)
    draft.callbacks(app, ask)
    app.clientside_callback(
        ClientsideFunction("glforms", "drafts"),
        Output("invoices-drafts", "rowData"),
        Output("invoices-refused", "children"),
        Output("invoices-issue", "hidden"),
        Output("invoices-drafted", "children"),
        Output("invoices-so-far", "children"),
        Input("invoices-asked", "data"),
    )


PAGE = Page(
    "/invoices",
    "invoices.title",
    50,
    layout,
    icon="M6 2h9l4 4v16H6zM14 2v5h5M9 12h7M9 16h7",
    callbacks=callbacks,
    filters=("tenant",),
    has_period=False,
    needs_books=False,
    refreshes=False,
)
