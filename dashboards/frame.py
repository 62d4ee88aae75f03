"""Shows a URL: finds its page, queries the store as the signed-in user, and draws the frame around the page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dash
from dash import ALL, ClientsideFunction, Dash, Input, Output, State
from dash.development.base_component import Component

from access.current import current
from access.principal import Principal
from access.roles import Action
from access.scope import Stores
from dashboards import shell, states, tour
from dashboards.data_version import UNCACHED, AnswerCache, DataVersion
from dashboards.filters import Address, Filters, Opens, filters_of
from dashboards.languages import Language, language
from dashboards.registry import Page, all_pages
from warehouse.errors import LedgerError, StoreError
from warehouse.store import Store, read_sql

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RenderedPage:
    """A page in its frame. meta: for the browser: title, language, version of the books."""

    page: Any
    navigation: Any
    bar: Any
    skip: Any
    tour: Any
    foot: Any
    meta: dict[str, Any]


def show(
    store: Store,
    principal: Principal,
    path: str | None,
    search: str | None,
    cache: AnswerCache | None = None,
    rules: Path | None = None,
    whole: Opens | None = None,
    aside: Opens | None = None,
) -> RenderedPage:
    """The page at a URL; an error of the store is shown as a page, too.   whole, aside: as of Filters."""
    path = path or "/"
    address = Address.of(search)
    words = language(address.language)
    pages = [page for page in all_pages() if principal.may(page.action)]
    page = next((page for page in all_pages() if page.path == path), None)
    filters: Filters | None = None
    data_version = UNCACHED
    try:
        data_version = DataVersion.of(store, _scope(principal), cache)
        filters = filters_of(store, search, data_version, rules, whole, aside)
        content = _content(store, page, page in pages, filters, path, words)
    except StoreError as error:
        content = states.error(str(error), words)
    except LedgerError as error:
        own = (filters.address if filters else Address(language=address.language)).href(path)
        content = states.unanswered(str(error), words, own)
    except Exception:  # shown as a page; Dash would show nothing
        log.exception("a page failed: %s %s", path, search)
        content = states.error(words("state.own_error"), words, "state.failed")
    bar = shell.bar(page, filters, path, words) if filters else shell.tools(None, path, words)
    title = f"{words(page.title)} · gpuledger" if page else "gpuledger"
    meta = {
        "title": title,
        "lang": words.code,
        "books": str(data_version.books),
        "refreshes": bool(page and page.refreshes),
        "zone": filters.zone if filters else "",
        "period": filters.period.key if page and page.has_period and filters and filters.period else "",
    }
    navigation = shell.navigation(pages, path, address.href, words, principal)
    stops = tour.stops({page.path for page in pages}, address.href, words)
    foot = shell.footer(words, filters)
    return RenderedPage(content, navigation, bar, shell.skip_link(words), stops, foot, meta)


def _content(
    store: Store, page: Page | None, is_allowed: bool, filters: Filters, path: str, words: Language
) -> Component:
    if page is None:
        return states.not_found(path, words, filters.href("/"))
    if not is_allowed:
        return states.not_yours(words, filters.href("/"))
    if page.needs_books and filters.period is None:
        (facts,) = store.rows(read_sql(__file__, "facts_held"))
        return states.no_books(filters, facts, words)
    return page.layout(store, filters, words)


def failed(error: Exception) -> None:
    """A note that a callback failed, above the page, which stays as it is; it disappears with the next page."""
    meta = {**dash.ctx.inputs, **dash.ctx.states}
    words = language(Address.of(meta.get("url.search")).language)
    if isinstance(error, LedgerError):
        message = str(error)
    else:
        log.exception("a callback failed: %s", ", ".join(dash.ctx.triggered_prop_ids), exc_info=error)
        message = words("state.own_error")
    dash.set_props("failed", {"children": states.failed(message, words)})


def _scope(principal: Principal) -> Hashable:
    return None if principal.sees_all else principal.tenants


def add_callbacks(app: Dash, stores: Stores) -> None:
    """The frame's and the pages' own. Dash runs plain callbacks on the event loop, so ours are coroutines that ask the
    store on worker threads, as whoever looks at the page may see it."""

    def with_store(action: Action, answer: Callable[..., Any], *arguments: Any) -> Any:
        current().require(action)
        with stores.scoped_to(current()) as store:
            return answer(store, *arguments)

    def aside() -> AbstractContextManager[Store]:
        return stores.scoped_to(current())

    cache = AnswerCache()
    rules: Path | None = app.server.state.reach.rules

    def filtered(store: Store, answer: Callable[..., Any], search: str | None, *arguments: Any) -> Any:
        data_version = DataVersion.of(store, _scope(current()), cache)
        filters = filters_of(store, search, data_version, rules, stores.unscoped, aside)
        return answer(store, filters, language(filters.address.language), *arguments)

    def over_all(store: Store, answer: Callable[..., Any], search: str | None, *arguments: Any) -> Any:
        def on_whole(_: Store, filters: Filters, words: Language, *more: Any) -> Any:
            with stores.unscoped() as whole:
                return answer(whole, replace(filters, aside=stores.unscoped), words, *more)

        return filtered(store, on_whole, search, *arguments)

    class Asking:
        """For the callbacks of a page, which take what the page takes, and whatever they ask for themselves."""

        def __init__(self, page: Page) -> None:
            self._action = page.action

        async def __call__(self, answer: Callable[..., Any], search: str | None, *arguments: Any) -> Any:
            return await asyncio.to_thread(with_store, self._action, filtered, answer, search, *arguments)

        async def of_all(self, answer: Callable[..., Any], search: str | None, *arguments: Any) -> Any:
            return await asyncio.to_thread(with_store, self._action, over_all, answer, search, *arguments)

    async def show_page(path: str, search: str) -> tuple[Any, ...]:
        shown: RenderedPage = await asyncio.to_thread(
            with_store, Action.see, show, current(), path, search, cache, rules, stores.unscoped, aside
        )
        dash.set_props("failed", {"children": None})
        return shown.page, shown.navigation, shown.bar, shown.skip, shown.tour, shown.foot, shown.meta

    def newer(store: Store, path: str, search: str, meta: dict[str, Any]) -> tuple[Any, Any]:
        is_live = any(page.live for page in all_pages() if page.path == path)
        if not is_live and str(DataVersion.of(store, _scope(current()), cache).books) == meta["books"]:
            return dash.no_update, dash.no_update
        shown = show(store, current(), path, search, cache, rules, stores.unscoped, aside)
        return shown.page, shown.meta

    async def refresh(_: int, path: str, search: str, meta: dict[str, Any] | None) -> tuple[Any, Any]:
        if not meta or not meta["refreshes"]:
            return dash.no_update, dash.no_update
        found: tuple[Any, Any] = await asyncio.to_thread(with_store, Action.see, newer, path, search, meta)
        return found

    app.callback(
        Output("page", "children"),
        Output("nav", "children"),
        Output("bar", "children"),
        Output("skip", "children"),
        Output("tour", "children"),
        Output("foot", "children"),
        Output("meta", "data"),
        Input("url", "pathname"),
        Input("url", "search"),
        running=[(Output("page", "className"), "gl-busy", "")],
    )(show_page)
    app.callback(
        Output("page", "children", allow_duplicate=True),
        Output("meta", "data", allow_duplicate=True),
        Input("tick", "n_intervals"),
        State("url", "pathname"),
        State("url", "search"),
        State("meta", "data"),
        prevent_initial_call=True,
    )(refresh)
    app.clientside_callback(
        ClientsideFunction("gl", "filter"),
        Output("url", "search"),
        Input({"type": "filter", "name": ALL}, "value"),
        State({"type": "filter", "name": ALL}, "id"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("gl", "days"),
        Output("url", "search", allow_duplicate=True),
        Input("days", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    app.clientside_callback(ClientsideFunction("gl", "meta"), Output("live", "children"), Input("meta", "data"))
    for page in all_pages():
        if page.callbacks:
            page.callbacks(app, Asking(page))
