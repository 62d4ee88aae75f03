"""The lines of one draft (`?draft=TENANT`): what would be issued. Loaded after the page, as it takes longer than a page
may. It depends on what all tenants held; whoever sees some of them gets the lines of theirs."""

from __future__ import annotations

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from access.current import current
from billing.invoicing.documents import InvoiceError
from billing.invoicing.drafts import draft_all
from billing.ledger_report import billing_timezone
from billing.periods import parse_month
from dashboards import exports, parts, states
from dashboards.filters import Filters
from dashboards.languages import Language
from dashboards.pages.invoices.document import lines_table
from dashboards.registry import Ask
from warehouse.store import Store


def drafted(filters: Filters) -> str:
    """The tenant whose draft is asked for; '': none, or not one that the reader sees."""
    asked = filters.more.get("draft", "")
    return asked if current().sees(asked) else ""


def draft_card(month: str, tenant: str, filters: Filters, words: Language) -> Component:
    return parts.card(
        words("invoices.draft_of", tenant=tenant),
        words("invoices.draft_is"),
        dcc.Store(id="invoices-draft-asked", data=month),
        dcc.Loading(html.Div(id="invoices-draft", className="gl-later"), color=parts.SPINNING, delay_show=200),
        tool=exports.of_grid("draft-lines", f"draft-{month}", filters, words),
        class_name="gl-table-card",
    )


def lines(whole: Store, filters: Filters, words: Language, month: str) -> Component | None:
    """whole: sees all tenants, whoever asks."""
    tenant = drafted(filters)
    if not tenant:
        return None
    try:
        found = draft_all(whole, parse_month(month, billing_timezone(whole)), tenant)
    except InvoiceError:
        return states.nothing_here(words("invoices.no_drafts"))
    (draft,) = (one for one in found if current().sees(one.tenant))
    return lines_table(draft.document, words, "draft-lines", currency=draft.currency)


def callbacks(app: Dash, ask: Ask) -> None:
    async def loaded(month: str | None, search: str) -> Component | None:
        found: Component | None = await ask.of_all(lines, search, str(month)) if month else None
        return found

    app.callback(Output("invoices-draft", "children"), Input("invoices-draft-asked", "data"), State("url", "search"))(
        loaded
    )
