"""Preemptions: a heat map of tenants by tenants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from dashboards import parts
from dashboards.filters import Filters
from dashboards.languages import Language
from dashboards.registry import has_page

SHOWN = 12
"""Tenants of each side; the others are one more."""
STEPS = 8
Rows = Sequence[Mapping[str, Any]]


def preemptions_card(rows: Rows, filters: Filters, words: Language) -> Component:
    taken = sum(row["taken"] for row in rows)
    return parts.card(
        words("queues.preemptions"),
        words("queues.preemptions_is"),
        _matrix(rows, filters, words),
        parts.note(words.count("queues.reported", sum(row["named"] for row in rows))),
        tool=html.Span(words.count("queues.taken", taken), className="gl-since"),
    )


def _matrix(rows: Rows, filters: Filters, words: Language) -> Component:
    """A row a victim, a column who got the place; None: not known."""
    rest = words("queues.others")
    victims = _first(Counter({row["victim"]: 0 for row in rows}), rows, "victim")
    takers = _first(Counter(), rows, "by")
    cells: Counter[tuple[str | None, str | None]] = Counter()
    for row in rows:
        victim = row["victim"] if row["victim"] in victims else rest
        by = row["by"] if row["by"] in takers else rest
        cells[victim, by] += row["taken"]
    down = [*victims, *([rest] if any(victim == rest for victim, _ in cells) else [])]
    across = [*takers, *([rest] if any(by == rest for _, by in cells) else [])]
    most = max(cells.values())
    heads = [html.Th(words("queues.victim"), scope="col"), *[html.Th(_name(by, words), scope="col") for by in across]]
    body = [
        html.Tr(
            [
                html.Th(_link(victim, filters, words) if victim != rest else rest, scope="row"),
                *[_cell(cells[victim, by], most) for by in across],
            ]
        )
        for victim in down
    ]
    table = html.Table([html.Thead(html.Tr(heads)), html.Tbody(body)], className="gl-plain gl-matrix")
    return parts.scrolled(table)


def _first(counted: Counter[str | None], rows: Rows, side: str) -> list[str | None]:
    """Those of a side with the most, unknown last."""
    for row in rows:
        counted[row[side]] += row["taken"]
    first = [name for name, _ in counted.most_common(SHOWN)]
    return sorted(first, key=lambda name: name is None)


def _cell(taken: int, most: int) -> Component:
    if not taken:
        return html.Td("·", className="gl-since")
    step = min(STEPS - 1, round((STEPS - 1) * (taken / most) ** 0.5))
    return html.Td(html.Span(f"{taken:,}", className=f"gl-heat-cell gl-hot-{step} {'gl-deep' if step > 3 else ''}"))


def _name(tenant: str | None, words: Language) -> str:
    return words("queues.not_known") if tenant is None else tenant or words("no_name")


def _link(tenant: str | None, filters: Filters, words: Language) -> Any:
    if tenant is None or not has_page("/tenants"):
        return _name(tenant, words)
    return html.A(_name(tenant, words), href=filters.href("/tenants", tenant=tenant), className="gl-go")
