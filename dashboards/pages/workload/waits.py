"""A waiting workload: why it waits, its rank in its queue, when it may start, and who holds what it waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from billing.insights.now import ASKED, QUOTA, Ask, moment, reported, wanted
from dashboards import exports, grids, parts, states
from dashboards.column_widths import text_width
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, duration, gpu_count
from dashboards.languages import Language
from dashboards.pages.queues.waiters import announced, expected, waiting
from dashboards.parts import Figure
from dashboards.said import said
from warehouse.store import Store

MOST = 200
"""Holders in the table."""
FEW_LINES = 2400
"""px of a text that is about four lines of half a card."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Wait:
    """row: of waiting.sql.   at: the instant as of which it waits, the newest for which facts came.
    pools, holders: as `billing.insights.now.wanted` has them."""

    row: Row
    at: datetime
    pools: Sequence[Row]
    holders: Sequence[Row]


def waits_of(store: Store, filters: Filters, workload: str, clock: datetime) -> list[Wait]:
    """One for each of its allocations that waits now, whatever the page's period and filters are."""
    now = moment(store, clock)
    if now is None:
        return []
    whole = _narrowed(filters)
    found = []

    def narrowed(**chosen: Sequence[str]) -> Ask:
        by_name = {name.removesuffix("s"): tuple(values) for name, values in chosen.items()}
        return partial(_narrowed(filters, **by_name).rows_now, store, ASKED)

    for row in waiting(store, whole, workload, now.after):
        its = wanted(store, narrowed, row, now.at, MOST)
        found.append(Wait(row, now.at, its.pools, its.holders))
    return found


def _narrowed(filters: Filters, **chosen: tuple[str, ...]) -> Filters:
    return replace(filters, address=replace(filters.address, chosen=chosen))


def wait_cards(wait: Wait, filters: Filters, words: Language) -> list[Component]:
    return [
        _headline(wait, filters, words),
        parts.split(_reason_card(wait, filters, words), _pools_card(wait, words), class_name="gl-even"),
        _holders_card(wait, filters, words),
    ]


def _headline(wait: Wait, filters: Filters, words: Language) -> Component:
    row = wait.row
    asked = UNKNOWN if row["gpus"] is None else gpu_count(row["gpus"])
    since = words.moment(filters.local(row["since"]))
    return parts.headline(
        [
            Figure(words("wait.state"), words("wait.waiting"), "",
                   words("wait.as_of", at=_moment(wait.at, filters, words))),
            Figure(words("queues.waited"), duration(row["waited_seconds"], words), "", words("wait.since", at=since)),
            Figure(words("queues.asked"), asked, words("unit.gpus"), row["queue"] or words("no_name")),
            Figure(words("queues.rank"), words("queues.rank_of", n=row["rank"], all=f"{row['queued']:,}"), "",
                   words("wait.rank_is")),
            Figure(words("queues.expected"), expected(row, wait.at, filters, words) or UNKNOWN, "",
                   _expected_note(wait, filters, words)),
        ]
    )  # fmt: skip


def _expected_note(wait: Wait, filters: Filters, words: Language) -> str:
    """What stands below the expected start: the interval, where it is no longer all ahead; but not one that had begun
    when it was reported, as the first one of a long wait."""
    found = reported(wait.row)
    due = found.due(wait.at)
    if due is None:
        return words("wait.not_expected")
    return (
        ""
        if due == "ahead" or found.due(wait.row["reported_at"]) != "ahead"
        else words("wait.announced", interval=announced(wait.row, filters, words))
    )


def _moment(at: datetime, filters: Filters, words: Language) -> str:
    return words.moment(filters.local(at))


def _reason_card(wait: Wait, filters: Filters, words: Language) -> Component:
    row, text = wait.row, said(reported(wait.row).text, filters, words)
    if not row["reason"] and not text:
        content = [states.nothing_here(words("wait.no_reason"))]
    else:
        content = [
            html.P(html.Strong(said(row["reason"], filters, words))) if row["reason"] else None,
            reason_text(text) if text else None,
            parts.note(words("wait.reported", at=_moment(row["reported_at"], filters, words))),
        ]
    return parts.card(words("wait.why"), words("wait.why_is"), *content)


def reason_text(text: str) -> Component:
    """A few lines of a long one, which unfold."""
    if text_width(text) <= FEW_LINES:
        return html.P(text, className="gl-reason-text")
    return html.Details(html.Summary(html.Span(text)), className="gl-reason-text gl-fold")


def _pools_card(wait: Wait, words: Language) -> Component:
    wanted = reported(wait.row)
    asked = " · ".join(part for part in (", ".join(wanted.models), wanted.pool) if part)
    said = words("wait.asks_for", what=asked) if asked else words("wait.pools_is")
    if not wait.pools:
        nothing = words("wait.none_asked" if asked and current().may(Action.see_fleet) else "wait.no_pools")
        return parts.card(words("wait.pools"), said, states.nothing_here(nothing))
    heads = [words("capacity.group"), words("wait.devices"), words("wait.free")]
    cells = [
        [
            " · ".join((pool["model"] or words("no_name"), pool["pool"] or words("no_name"))),
            *[UNKNOWN if pool[n] is None else f"{pool[n]:,}" for n in ("devices", "free")],
        ]
        for pool in wait.pools
    ]
    hidden = any(pool["free"] is None for pool in wait.pools)
    return parts.card(
        words("wait.pools"),
        said,
        parts.table(heads, cells),
        html.P(words("wait.not_yours"), className="gl-note") if hidden else None,
    )


def _holders_card(wait: Wait, filters: Filters, words: Language) -> Component | None:
    if not wait.pools:
        return None
    by_quota = wait.row["reason"] in QUOTA
    gpus = grids.number("gpus", words("unit.gpus"), words("now.gpus_is"), ",.2~f", minimum=70)
    own = wait.row["tenant"]
    columns = [
        grids.link("name", words("workload.name"), minimum=140, flex=1.6),
        grids.text("tenant", words("filter.tenant"), minimum=88),
        gpus if by_quota else grids.sorted_by(gpus),
        grids.percent("used", words("now.used_60"), words("now.used_is"), minimum=100),
        grids.moment("since", words("now.since"), words("now.since_is"), minimum=116),
        grids.text("queue", words("waits.queue"), minimum=84),
    ]
    rows = [
        {
            "key": f"{row['cluster']}/{row['allocation_id']}",
            "name": row["workload_id"] or row["allocation_id"],
            "href": filters.href("/workloads", workload=row["workload_id"]) if row["workload_id"] else "",
            **{name: row[name] for name in ("tenant", "gpus", "queue")},
            "used": row["used_60"],
            "since": filters.local(row["since"]),
        }
        for row in wait.holders
    ]
    pools, models = (list(dict.fromkeys(pool[name] for pool in wait.pools)) for name in ("pool", "model"))
    all_now = dcc.Link(
        words("wait.to_now"), href=filters.href("/now", pool=pools, model=models, tenant=None, project=None, queue=None)
    )
    return parts.card(
        words("wait.holders"),
        words("wait.quota_holders_is", tenant=own) if by_quota else words("wait.holders_is"),
        grids.grid(columns, rows, words, "wait-holders", empty=words("now.nothing"), key="key"),
        tool=parts.tools(all_now, exports.of_grid("wait-holders", "holders", filters, words, clock())),
        class_name="gl-table-card",
    )


def clock() -> datetime:
    return datetime.now(UTC)
