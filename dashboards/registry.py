"""Finds the pages: each module or package in dashboards/pages/ that has a `PAGE`. docs/pages.md says how to write
one.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from dash import Dash
from dash.development.base_component import Component

from access.roles import Action
from dashboards import filters, pages
from dashboards.filters import Filters
from dashboards.languages import Language
from warehouse.store import Store

Layout = Callable[[Store, Filters, Language], Component]
"""Queries the store and builds the page; blocking, on a worker thread. The store is scoped to the signed-in user."""


class Ask(Protocol):
    """For callbacks: runs answer(store, filters, words, *arguments) on a worker thread, as the signed-in user."""

    def __call__(self, answer: Callable[..., Any], search: str | None, *arguments: Any) -> Coroutine[Any, Any, Any]: ...

    def of_all(self, answer: Callable[..., Any], search: str | None, *arguments: Any) -> Coroutine[Any, Any, Any]:
        """The same with a store that sees everything as its first argument, for figures that depend on what all held:
        answer(whole, filters, words, *arguments). It returns only what the signed-in user sees."""
        ...


@dataclass(frozen=True)
class Page:
    """path: in the URL.   title: key in the dictionaries.   order: in the navigation.   layout: builds the page.
    formerly: its earlier path, which redirects here.

    icon: path data of a 24 x 24 picture drawn in strokes.   callbacks: adds the page's own.
    filters: the filters that it uses.   has_period: whether it uses the period.
    needs_books: shown only if something of the period is closed; else the frame explains why not.
    refreshes: redrawn while it is open, when hours were closed or alerts changed.
    live: redrawn at every poll, because it shows the present.
    action: what its readers must be allowed to do.
    """

    path: str
    title: str
    order: int
    layout: Layout
    icon: str = ""
    callbacks: Callable[[Dash, Ask], None] | None = None
    filters: tuple[str, ...] = filters.NAMES
    has_period: bool = True
    needs_books: bool = True
    refreshes: bool = True
    live: bool = False
    action: Action = Action.see
    formerly: str = ""


def has_page(path: str) -> bool:
    """Whether there is a page at the path to link to."""
    return any(page.path == path for page in all_pages())


@functools.cache
def all_pages() -> tuple[Page, ...]:
    """In the order of the navigation."""
    names = [found.name for found in pkgutil.iter_modules(pages.__path__)]
    modules = [importlib.import_module(f"{pages.__name__}.{name}") for name in names]
    found: list[Page] = [module.PAGE for module in modules if hasattr(module, "PAGE")]
    return tuple(sorted(found, key=lambda page: (page.order, page.path)))
