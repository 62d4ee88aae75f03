"""Applied configuration, each kind with its history and a form for the next version: rate cards, the tenant mapping
with allocations that no rule matches, budgets, objectives, energy settings, parties.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from api import applied_files
from billing.rates import current_rate_card, rate_card_of
from billing.rates.applied import AppliedCard
from billing.rates.rate_card import MATCH_KEYS
from billing.tenants import current_mapping
from billing.tenants.mapping import MATCH_KEYS as OWNER_KEYS
from billing.tenants.unmapped import unmapped
from dashboards import exports, grids, parts, states
from dashboards.filters import Filters
from dashboards.format import unit_price
from dashboards.languages import Language
from dashboards.pages.admin import in_force
from dashboards.pages.admin.apply_form import form_card
from dashboards.said import who
from warehouse.store import Store

CLOCK = re.compile(r"[ \u00a0](?=\d\d:\d\d$)")
"""What is before a date's clock: where a cell is narrower than both, the line ends there, and nowhere else."""


def rates_part(store: Store, filters: Filters, words: Language) -> list[Component]:
    """The card in force, or another (`?card=`)."""
    in_force = current_rate_card(store)
    if in_force is None:
        none = parts.card(words("admin.rates"), "", states.nothing_here(words("admin.no_card")))
        return [none, form_card(applied_files.RATES, None, words)]
    asked = filters.more.get("card", "")
    card = (rate_card_of(store, asked) if asked else None) or in_force
    is_current = card.version == in_force.version
    columns = [
        grids.text("sku", words("workload.sku"), minimum=130),
        grids.sentence("match", words("admin.match"), words("admin.match_is"), 220, 370),
        grids.on_cards(
            grids.price("price", words("admin.price"), unit=card.card.currency), words("admin.price_on_cards")
        ),
        grids.text("windows", words("admin.windows"), words("admin.windows_is"), 130),
        grids.wrapped(grids.moment("from", words("fleet.from"), minimum=144, flex=190)),
        grids.wrapped(grids.moment("to", words("fleet.until"), minimum=144, flex=190)),
    ]
    rows = [
        {
            "sku": rule.sku,
            "match": _matches(rule.match, MATCH_KEYS, words),
            "price": float(rule.price_per_gpu_hour),
            "price_text": unit_price(rule.price_per_gpu_hour, rule.currency or card.card.currency),
            "windows": rule.windows_in_words or words("admin.always"),
            **_since(rule.effective_from, rule.effective_to, filters, words),
        }
        for rule in card.card.rates
    ]
    title = words("admin.in_force" if is_current else "admin.once_in_force")
    said = words("admin.card_is", version=card.version, currency=card.card.currency, author=card.author)
    table = grids.grid(columns, rows, words, "admin-rates", spare=("windows",))
    tool = exports.of_grid("admin-rates", f"rates-{card.version}", replace(filters, period=None), words)
    return [
        parts.card(title, said, table, _policies(card, words), tool=tool, class_name="gl-table-card"),
        form_card(applied_files.RATES, card.card, words),
        _history_card(applied_files.versions(store, applied_files.RATES), filters, words, card.version, "card"),
    ]


def _matches(match: Any, keys: Sequence[str], words: Language) -> str:
    """Like `tenant physics, model NVIDIA*`, in the page's language."""
    given = {key: value for key in keys if (value := getattr(match, key)) is not None}
    named = [f"{words(f'match.{key}')} {value if value != '' else repr(value)}" for key, value in given.items()]
    return words("quality.comma").join(named) or words("admin.anything")


def _since(start: datetime | None, end: datetime | None, filters: Filters, words: Language) -> dict[str, Any]:
    start, end = (at and filters.local(at) for at in (start, end))
    open_end = {f"{name}_text": words("admin.open") for name, at in (("from", start), ("to", end)) if at is None}
    found = grids.dated("from", start, words) | grids.dated("to", end, words) | open_end
    return {key: CLOCK.sub("\n", one) if isinstance(one, str) else one for key, one in found.items()}


def _policies(card: AppliedCard, words: Language) -> Component | None:
    """The rest of the card, as it was applied."""
    others = {key: value for key, value in json.loads(card.card.canonical()).items() if key != "rates" and value}
    text = json.dumps(others, ensure_ascii=False, indent=2)
    return html.Details(
        [html.Summary(words("admin.policies")), html.Pre(text, className="gl-written")], className="gl-more"
    )


def _history_card(
    found: Sequence[Mapping[str, Any]], filters: Filters, words: Language, shown: str, key: str
) -> Component:
    """key: of the URL, where a version can be looked at; '' where not."""
    rows = []
    for row in reversed(found):
        version = row["version"]
        here: dict[str, Any] = {"aria-current": "true"} if version == shown else {}
        href = filters.href("/administration", part="rates", card=version) if key else ""
        rows.append(
            [
                html.Span(dcc.Link(version, href=href) if href else version, **here),
                words.dated(filters.local(row["applied_at"])),
                who(row["author"], words),
                f"{row['rules']:,}",
                row["reason"],
            ]
        )
    heads = [words(f"admin.{name}") for name in ("version", "applied_at", "actor", "rules")]
    table = parts.table([*heads, words("invoices.reason")], rows, "gl-history", cards=True)
    return parts.card(words("admin.history"), words("admin.history_is"), table)


def tenants_part(store: Store, filters: Filters, words: Language) -> list[Component]:
    found = current_mapping(store)
    if found is None:
        mapping = parts.card(words("admin.mapping"), "", states.nothing_here(words("admin.no_mapping")))
        return [mapping, _unmapped_card(filters, words), form_card(applied_files.TENANTS, None, words)]
    columns = [
        grids.text("match", words("admin.match"), words("admin.match_is"), 240, 2.4),
        grids.text("tenant", words("filter.tenant")),
        grids.text("project", words("filter.project")),
        grids.text("cost_center", words("admin.cost_center")),
    ]
    if any(rule.effective_from or rule.effective_to for rule in found.mapping.rules):
        columns += [
            grids.moment(at, words(f"fleet.{name}"), minimum=110) for at, name in (("from", "from"), ("to", "until"))
        ]
    rows = [
        {
            "match": _matches(rule.match, OWNER_KEYS, words),
            **{name: getattr(rule, name) or words("admin.as_reported") for name in ("tenant", "project")},
            "cost_center": rule.cost_center or "",
            **_since(rule.effective_from, rule.effective_to, filters, words),
        }
        for rule in found.mapping.rules
    ]
    owner = found.mapping.unmapped_owner or words("admin.as_reported")
    said = words("admin.mapping_is", version=found.version, author=found.author, owner=owner)
    table = grids.grid(columns, rows, words, "admin-mapping")
    tool = exports.of_grid("admin-mapping", f"mapping-{found.version}", replace(filters, period=None), words)
    return [
        parts.card(words("admin.mapping"), said, table, tool=tool, class_name="gl-table-card"),
        _unmapped_card(filters, words),
        form_card(applied_files.TENANTS, found.mapping, words),
        _history_card(applied_files.versions(store, applied_files.TENANTS), filters, words, found.version, ""),
    ]


def file_part(kind: applied_files.Kind, store: Store, filters: Filters, words: Language) -> list[Component]:
    """A file's content as tables, and as it is written; its effects are on other pages."""
    found, title = applied_files.in_force(store, kind), words(f"admin.{kind.name}")
    if found is None:
        none = parts.card(title, "", states.nothing_here(words(f"admin.no_{kind.name}")))
        return [none, form_card(kind, None, words)]
    said = words("admin.file_is", version=found.version, author=found.author)
    written = html.Details(
        [
            html.Summary(words("admin.as_written")),
            html.Pre(applied_files.as_yaml(found.file), className="gl-written"),
        ],
        className="gl-more",
    )
    shown = in_force.tables(kind.name, store, found.file, filters, words)
    tool = exports.of_grid(f"admin-{kind.name}", f"{kind.name}-{found.version}", replace(filters, period=None), words)
    return [
        parts.card(title, said, *shown, written, tool=tool, class_name="gl-table-card"),
        form_card(kind, found.file, words),
        _history_card(applied_files.versions(store, kind), filters, words, found.version, ""),
    ]


def _unmapped_card(filters: Filters, words: Language) -> Component:
    """Filled in by a callback: it reads all of the books."""
    return parts.card(
        words("admin.unmapped"),
        words("admin.unmapped_is"),
        dcc.Store(id="admin-asked", data="unmapped"),
        html.Div(html.P(words("explore.runs"), className="gl-nothing"), id="admin-unmapped"),
        tool=exports.of_grid("admin-unmapped-grid", "unmapped", replace(filters, period=None), words),
        class_name="gl-table-card",
    )


def unmapped_table(store: Store, filters: Filters, words: Language) -> Component:
    current().require(Action.see_audit)
    columns = [
        grids.text("reported_tenant", words("filter.tenant")),
        grids.text("reported_project", words("filter.project")),
        grids.text("queue", words("filter.queue")),
        grids.text("cluster", words("filter.cluster")),
        grids.text("owner", words("admin.owner"), words("admin.owner_is")),
        grids.number("allocations", words("admin.allocations"), shape=",d"),
        grids.sorted_by(grids.number("gpu_hours", words("workload.quantity"))),
        grids.moment("until", words("admin.last"), minimum=156),
    ]
    names = ("reported_tenant", "reported_project", "queue", "cluster", "allocations", "gpu_hours")
    rows = [
        {
            **{name: row[name] for name in names},
            "owner": row["owner"] or words("no_name"),
            "until": until,
            "until_text": words.dated(until),
        }
        for row in unmapped(store)
        for until in [filters.local(row["until"])]
    ]
    return grids.grid(
        columns,
        rows,
        words,
        "admin-unmapped-grid",
        empty=words("admin.all_mapped" if current_mapping(store) else "admin.nothing_to_map"),
    )
