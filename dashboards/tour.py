"""The tour: five stops from "what did it cost" to "who is idle now and what to do", each on the page that answers.

Which stop a reader is at is known to the browser alone (assets/frame.js): every stop is drawn, and the style sheet
shows one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from dash import html
from dash.development.base_component import Component

from dashboards.format import unbroken
from dashboards.languages import Language

STOPS = (("cost", "/"), ("why", "/changes"), ("invoice", "/invoices"), ("waiting", "/queues"), ("idle", "/now"))
"""(name in the languages, path of its page)."""
SHOWN = {"/now": "idle=1"}
"""What a stop asks its page for."""


def stops(paths: Collection[str], href: Callable[[str], str], words: Language) -> Component | None:
    """All stops whose pages the reader may see.   paths: of those pages.   href: path -> link with the page's state."""
    open_to = [(name, path) for name, path in STOPS if path in paths]
    if not open_to:
        return None
    links = [_asking(href(path), SHOWN.get(path, "")) for _, path in open_to]
    return html.Section(
        html.Ol([_stop(at, name, links, words) for at, (name, _) in enumerate(open_to)]),
        className="gl-tour",
        **{"aria-label": words("tour.title")},
    )


def _asking(link: str, query: str) -> str:
    return f"{link}{'&' if '?' in link else '?'}{query}" if query else link


def _stop(at: int, name: str, links: list[str], words: Language) -> Component:
    earlier = _go(words("tour.back"), links[at - 1], at - 1) if at else None
    is_last = at + 1 == len(links)
    later = None if is_last else _go(words("tour.next"), links[at + 1], at + 1, "gl-button")
    leave = html.Button(words("tour.done") if is_last else words("tour.skip"), type="button", className="gl-tour-leave")
    return html.Li(
        [
            html.P(words("tour.count", n=f"{at + 1}", all=f"{len(links)}"), className="gl-tour-count"),
            html.P(words(f"tour.{name}"), className="gl-tour-question", tabIndex=-1),
            html.P(unbroken(words(f"tour.{name}_is"))),
            html.Div([one for one in (earlier, later, leave) if one is not None], className="gl-tour-steps"),
        ],
        className="gl-stop",
        **{"data-stop": str(at)},
    )


def start(href: str, words: Language) -> Component:
    """The link that begins it."""
    return _go(words("tour.start"), href, 0)


def _go(text: str, href: str, stop: int, class_name: str = "") -> Component:
    return html.A(text, href=href, className=f"gl-go gl-tour-go {class_name}".strip(), **{"data-stop": str(stop)})
