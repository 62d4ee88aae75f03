"""The button that closes hours: what the server does each hour, now. A close that is already at work ends first."""

from __future__ import annotations

from datetime import datetime

from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from dashboards import forms
from dashboards.filters import Filters
from dashboards.format import unbroken
from dashboards.languages import Language
from warehouse.store import Store, read_sql


def close_form(store: Store, closed_until: datetime | None, filters: Filters, words: Language) -> Component | None:
    """None for those who may not close."""
    if not current().may(Action.close):
        return None
    last: datetime | None = store.value(read_sql(__file__, "last_close"))
    if closed_until is None or last is None:
        note = words("invoices.close_first")
    else:
        until, at = (words.moment(filters.local(one)) for one in (closed_until, last))
        note = unbroken(words("invoices.close_note", until=until, at=at))
    return forms.form(
        "POST /close",
        words("invoices.close"),
        words,
        note=note,
        working=words("invoices.close_working"),
        done=words("invoices.close_done", closed_until="{closed_until}", changed="{changed}"),
        zone=filters.zone,
        small=True,
    )
