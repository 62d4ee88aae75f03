"""Saved queries on the page: the list, the chosen one (`?saved=&owner=`), and a form that saves one."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from dash import dcc, html
from dash.development.base_component import Component

from access.current import current, current_access
from access.roles import Action
from api.sql.saved import SavedQuery, SavedQueryError, saved_queries, saved_query
from dashboards import forms
from dashboards.filters import Filters
from dashboards.languages import Language

MOST = 40
"""Shown: one's own first; the API and the command line have all."""


def chosen(filters: Filters) -> SavedQuery | None:
    """The saved query that the URL names; None if it names none, or an unknown one."""
    name = filters.more.get("saved", "")
    try:
        return _named(name, filters) if name else None
    except SavedQueryError:
        return None


def _named(name: str, filters: Filters) -> SavedQuery:
    owner, issuer = filters.more.get("owner", ""), filters.more.get("issuer", "")
    return saved_query(current_access(), current(), name, owner, issuer)


def saved_part(filters: Filters, words: Language) -> list[Component | None]:
    """The part between the editor and the examples."""
    here = chosen(filters)
    asked = filters.more.get("saved", "")
    missing = html.P(words("explore.not_saved", name=asked), className="gl-note") if asked and here is None else None
    return [
        _chosen(here, words) if here else missing,
        _form(here, filters, words) if current().may(Action.save_queries) else None,
        html.H3(words("explore.saved"), className="gl-sub"),
        _list(here, filters, words),
    ]


def _list(here: SavedQuery | None, filters: Filters, words: Language) -> Component:
    me = current().id
    found = [one for one in saved_queries(current_access(), current()) if one.shared or one.id == me]
    found.sort(key=lambda one: one.id != me)
    if not found:
        return html.P(words("explore.none_saved"), className="gl-none-saved")
    entries = []
    for one in found[:MOST]:
        is_here = here is not None and (one.id, one.name) == (here.id, here.name)
        said = [one.name] if one.id == me else [one.name, html.Small(words("explore.of_owner", owner=one.owner))]
        entries.append(
            html.Li(
                dcc.Link(
                    said,
                    href=filters.href("/explore", saved=one.name, owner=one.subject, issuer=one.issuer),
                    title=one.description or None,
                    className="gl-press gl-small",
                ),
                **({"aria-current": "true"} if is_here else {}),
            )
        )
    if len(found) > MOST:
        entries.append(html.Li(html.Small(words("explore.more_saved", n=f"{len(found) - MOST:,}"))))
    return html.Ul(entries, className="gl-files", **{"aria-label": words("explore.saved")})


def _chosen(one: SavedQuery, words: Language) -> Component:
    """Its name, whose it is and what it answers; with a button that deletes it, for whom it is to delete."""
    notes = [words("explore.of_owner", owner=one.owner), *([words("explore.is_shared")] if one.shared else [])]
    may = current().may(Action.save_queries) and one.may_be_changed_by(current())
    delete = forms.form(
        f"DELETE /queries/{quote(one.name, safe='')}?{urlencode({'owner': one.subject, 'issuer': one.issuer})}",
        words("explore.delete"),
        words,
        sure=words("explore.delete_sure", name=one.name),
        then="/explore",
        small=True,
    )
    said = html.P([html.Strong(one.name), html.Small(" · ".join(filter(None, [*notes, one.description])))])
    return html.Div([said, delete if may else None], className="gl-kept")


def _form(here: SavedQuery | None, filters: Filters, words: Language) -> Component:
    """Saves what stands in the editor as one's own, under the name of what is chosen or another."""
    seen = [("false", words("explore.private")), ("true", words("explore.shared"))]
    mine = here is None or here.id == current().id
    return html.Details(
        [
            html.Summary(words("explore.save_again" if here else "explore.save_this")),
            html.P(words("explore.yours_then", owner=here.owner), className="gl-note") if here and not mine else None,
            forms.form(
                "PUT /queries/{name}",
                words("explore.save"),
                words,
                forms.elsewhere("text", "explore-sql"),
                forms.field("name", words("explore.name"), here.name if here else "", required=True),
                forms.field("description", words("explore.description"), here.description if here else ""),
                forms.choice(
                    "shared", words("explore.seen_by"), seen[::-1] if here and here.shared and mine else seen, "boolean"
                ),
                then=_to_saved(filters),
            ),
        ],
        className="gl-more gl-save",
    )


def _to_saved(filters: Filters) -> str:
    """Where the form leads: what was saved, as the answer names it."""
    address = filters.href("/explore")
    return f"{address}{'&' if '?' in address else '?'}saved={{name}}&owner={{subject}}&issuer={{issuer}}"
