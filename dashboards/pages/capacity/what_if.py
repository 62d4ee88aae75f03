"""The what-if form: which other GPUs to assume, and the simulator's answer beside what really happened."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from api.capacity import READS, SECONDS, WhatIf, start_simulations, what_if
from billing.insights.capacity import GroupLine
from billing.insights.outlook import MONTH_HOURS
from billing.periods import Period as Span
from dashboards import parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, duration, hours, money, percent, unbroken
from dashboards.languages import Language
from dashboards.registry import Ask
from scheduler.simulate.books.workload import MOST_DEVICES, MOST_SHARES, Change, Group, Outcome
from warehouse.errors import LedgerError
from warehouse.store import Store

SHARES = (1, 2, 3, 4, 8)
MOST_REASONS = 6
OWN = ("group", "gpus", "shares")
"""What of the page's address is the form's."""
Outcomes = tuple[Outcome, ...]


def name_of(line: GroupLine, lines: Sequence[GroupLine]) -> str:
    """`H100 · train`, and the cluster where there are several."""
    clusters = {one.cluster for one in lines}
    return " · ".join(filter(None, (line.model, line.pool, line.cluster if len(clusters) > 1 else "")))


def what_if_card(lines: Sequence[GroupLine], filters: Filters, words: Language) -> Component:
    most_waited = sorted(lines, key=lambda one: one.waits.waited_gpu_hours or 0, reverse=True)
    named = {_key(one): name_of(one, lines) for one in most_waited if one.gpus}
    if not named:
        content: Component = states.nothing_here(words("capacity.no_gpus"))
        return parts.card(words("capacity.what_if"), words("capacity.what_if_is"), content)
    asked = filters.more.get("group") in named
    return parts.card(
        words("capacity.what_if"),
        words("capacity.what_if_is"),
        _form(named, filters, words),
        dcc.Store(id="capacity-asked", data=filters.href("/capacity", **_own(filters)) if asked else ""),
        html.Div(
            [dmc.Skeleton(height=220, radius=10), html.P(words("capacity.simulating"), className="gl-note")]
            if asked
            else html.P(words("capacity.ask"), className="gl-note"),
            id="capacity-answer",
            **{"aria-live": "polite"},
        ),
        id="what-if",
    )


def _key(line: GroupLine) -> str:
    return "|".join((line.cluster, line.pool, line.model))


def unknown_group(lines: Sequence[GroupLine], filters: Filters, words: Language) -> Component | None:
    """That the address asks about other GPUs than there are."""
    is_known = filters.more.get("group") in {_key(one) for one in lines if one.gpus}
    return None if is_known else parts.ignored(filters, words, "group")


def _own(filters: Filters) -> dict[str, str]:
    return {name: filters.more[name] for name in OWN if name in filters.more}


def _form(named: dict[str, str], filters: Filters, words: Language) -> Component:
    """Its fields go into the address, which draws the page again."""
    kept = [("period", filters.period.key if filters.period else ""), ("lang", filters.address.language)]
    kept += [(name, value) for name, values in filters.address.chosen.items() for value in values]
    chosen = filters.more.get("group", "")
    first = {chosen: named[chosen]} if chosen in named else {}
    by_shares = [(str(n), words("capacity.shares", n=n) if n > 1 else words("capacity.no_sharing")) for n in SHARES]
    by_shares.sort(key=lambda one: one[0] != filters.more.get("shares", "1"))
    return html.Form(
        [
            *[dcc.Input(type="hidden", name=name, value=value) for name, value in kept if value],
            _choice("group", words("capacity.group"), [*{**first, **named}.items()]),
            html.Div(
                dmc.TextInput(
                    name="gpus", label=words("capacity.more"), value=filters.more.get("gpus", "+8"), size="xs",
                    inputProps={"inputMode": "numeric"}, autoComplete="off", withAsterisk=False,
                ),
                className="gl-act-field",
            ),
            _choice("shares", words("capacity.sharing"), by_shares),
            html.Button(words("capacity.simulate"), type="submit", className="gl-press"),
        ],
        action="/capacity",
        method="get",
        className="gl-act gl-query",
    )  # fmt: skip


def _choice(name: str, label: str, options: Sequence[tuple[str, str]]) -> Component:
    chosen = [html.Option(text, value=value) for value, text in options]
    return html.Div(html.Label([label, html.Select(chosen, name=name)]), className="gl-act-field")


def callbacks(app: Dash, ask: Ask) -> None:
    async def answered(asked: str, search: str) -> Any:
        if not asked:
            return no_update
        try:
            future, draw = await ask(begun, search)
            outcomes = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), SECONDS)
        except LedgerError as error:
            return html.P(str(error), className="gl-refused", role="alert")
        return draw(outcomes)

    output = Output("capacity-answer", "children")
    app.callback(output, Input("capacity-asked", "data"), State("url", "search"))(answered)


def begun(store: Store, filters: Filters, words: Language) -> tuple[Future[Outcomes], Callable[[Outcomes], Component]]:
    """Starts the simulation that the address asks for, in another process, and draws its answer."""
    current().require(Action.see_fleet)
    if filters.period is None:
        raise filters.nothing_closed()
    span = Span(filters.period.start, filters.period.end)
    group, change = _group(filters.more.get("group", "")), _change(filters)

    def ask() -> tuple[WhatIf, Future[Outcomes]]:
        asked = what_if(store, span, group, change)
        return replace(asked, workload=replace(asked.workload, jobs=())), start_simulations(asked)

    key = ("capacity", span, group, change)
    asked, future = filters.data_version.cached(store, key, READS, ask)
    if future.done() and future.exception() is not None:  # such as that it took too long: what was cached is no answer
        asked, future = ask()
    return future, lambda outcomes: answer(asked, outcomes, filters, words)


def _group(text: str) -> Group:
    cluster, pool, model = [*text.split("|", 2), "", "", ""][:3]
    return Group(cluster, pool, model)


def _change(filters: Filters) -> Change:
    """Errors: LedgerError where a number is none."""
    found = {}
    for name, otherwise in (("gpus", "0"), ("shares", "1")):
        text = filters.more.get(name, "").strip() or otherwise
        try:
            found[name] = int(text)
        except ValueError:
            raise LedgerError(name, f"{text[:40]!r} is not a whole number", "Write it like +8 or -4") from None
    if abs(found["gpus"]) > MOST_DEVICES or not 1 <= found["shares"] <= MOST_SHARES:
        raise LedgerError("gpus, shares", "are out of range", f"At most {MOST_DEVICES:,} GPUs and {MOST_SHARES} shares")
    return Change(**found)


def answer(asked: WhatIf, outcomes: Outcomes, filters: Filters, words: Language) -> Component:
    """Side by side: what happened, the same simulated, and with the change."""
    was, same, changed = outcomes
    currency = asked.price.currency or filters.currency
    named = change_name(asked.change, words)
    columns = [was, same] if asked.change == Change() else [was, same, changed]
    heads = ["", words("capacity.as_it_was"), words("capacity.simulated"), named][: len(columns) + 1]
    lines: list[tuple[str, Callable[[Outcome], str]]] = [
        (words("unit.gpus"), lambda one: f"{one.gpus:,}"),
        (words("capacity.p50"), lambda one: duration(one.p50, words, whole=False)),
        (words("capacity.p95"), lambda one: duration(one.p95, words, whole=False)),
        (words("capacity.waited_long"), lambda one: percent(one.waited, one.started)),
        (words("capacity.gpu_hours_waited"), lambda one: hours(one.waited_gpu_hours)),
        (words("capacity.utilization"), lambda one: percent(one.utilization)),
        (words("capacity.month_cost"), lambda one: money(asked.price.month(one.gpus), currency)),
    ]
    if any(one.never_started for one in columns):
        lines.insert(4, (words("capacity.never"), lambda one: f"{one.never_started:,}"))
    if changed.shared:
        lines.append((words("capacity.sharing_jobs"), lambda one: f"{one.shared:,}"))
    cells = [[label, *(shown(one) for one in columns)] for label, shown in lines]
    return html.Div(
        [
            html.P(unbroken(verdict(asked, outcomes, currency, words)), className="gl-formula"),
            parts.table(heads, cells, "gl-compare"),
            parts.note(trust(was, same, words)),
            html.Ul([html.Li(unbroken(note)) for note in _notes(asked, filters, words)], className="gl-note"),
        ]
    )


def change_name(change: Change, words: Language) -> str:
    said = [words("capacity.with_gpus", n=f"{change.gpus:+,}".replace("-", "−"))] if change.gpus else []
    said += [words("capacity.shares", n=change.shares)] if change.shares > 1 else []
    return words("quality.comma").join(said)


def verdict(asked: WhatIf, outcomes: Outcomes, currency: str, words: Language) -> str:
    """The effect of the change, in one sentence: it compares two simulations, which differ in nothing else."""
    _, same, changed = outcomes
    if asked.change == Change():
        return words("capacity.unchanged")
    cost = difference(asked, outcomes)
    said = words(
        "capacity.verdict", change=change_name(asked.change, words),
        was=duration(same.p95, words), now=duration(changed.p95, words),
        hours_was=hours(same.waited_gpu_hours), hours=hours(changed.waited_gpu_hours),
    )  # fmt: skip
    if not asked.change.gpus:
        return said
    if cost is None:
        return said + words("capacity.no_cost")
    said += words("capacity.costs" if cost > 0 else "capacity.saves", amount=money(abs(cost), currency))
    cost, price = period_cost(asked, outcomes), price_of_waiting(asked, outcomes)
    if cost is None or price is None:
        return said
    return said + words(
        "capacity.price_of_waiting", simulated=hours(_simulated_hours(asked)), cost=money(cost, currency),
        amount=money(price, currency), saved=hours(same.waited_gpu_hours - changed.waited_gpu_hours),
    )  # fmt: skip


def difference(asked: WhatIf, outcomes: Outcomes) -> Decimal | None:
    """What the GPUs cost a month more; None: no price."""
    _, same, changed = outcomes
    was, now = asked.price.month(same.gpus), asked.price.month(changed.gpus)
    return None if was is None or now is None else now - was


def period_cost(asked: WhatIf, outcomes: Outcomes) -> Decimal | None:
    """What the GPUs cost more in the time that is simulated; None: no price."""
    cost = difference(asked, outcomes)
    return None if cost is None else cost * Decimal(_simulated_hours(asked) / float(MONTH_HOURS))


def _simulated_hours(asked: WhatIf) -> float:
    return (asked.workload.end - asked.workload.start) / 3600


def price_of_waiting(asked: WhatIf, outcomes: Outcomes) -> Decimal | None:
    """What added GPUs cost for each GPU-hour of waiting that they save; None: no price, or none is saved."""
    _, same, changed = outcomes
    cost, saved = period_cost(asked, outcomes), same.waited_gpu_hours - changed.waited_gpu_hours
    return None if cost is None or cost <= 0 or saved <= 0 else cost / Decimal(saved)


def trust(was: Outcome, same: Outcome, words: Language) -> str:
    """How far the simulator is from what really happened."""
    return words(
        "capacity.trust", real=hours(was.waited_gpu_hours), model=hours(same.waited_gpu_hours),
        share=percent(same.waited_gpu_hours, was.waited_gpu_hours) if was.waited_gpu_hours else UNKNOWN,
    )  # fmt: skip


def _notes(asked: WhatIf, filters: Filters, words: Language) -> list[str]:
    """What the figures leave out and assume."""
    work = asked.workload
    found = []
    if asked.is_cut:
        since = words.moment(filters.local(datetime.fromtimestamp(work.start, UTC)))
        found.append(words("capacity.note_cut", n=f"{asked.simulated:,}", since=since))
    if work.reasons:
        named = Counter(dict(sorted(work.reasons.items()))).most_common(MOST_REASONS)
        found.append(words("capacity.note_reasons", reasons=", ".join(f"{why} {count:,}" for why, count in named)))
    found += [words.count(f"capacity.left_{why}", count) for why, count in work.left_out.items()]
    if work.left_out:
        found.append(words("capacity.note_left_hours", hours=hours(work.left_out_hours)))
    if work.mig_devices:
        found.append(words.count("capacity.note_mig", work.mig_devices))
    found += [words.count(f"capacity.assumed_{what}", count) for what, count in work.assumed.items()]
    if work.waiting or work.gone:
        at = words.moment(filters.local(datetime.fromtimestamp(work.end, UTC)))
        found.append(words("capacity.note_never", waiting=f"{work.waiting:,}", at=at, gone=f"{work.gone:,}"))
    if work.partly:
        found.append(words.count("capacity.note_partly", work.partly))
    if work.down_hours >= 0.05:
        found.append(words("capacity.note_down", hours=hours(work.down_hours)))
    if asked.change.shares > 1:
        found.append(words("capacity.note_sharing", n=asked.change.shares))
    return [*found, words("capacity.note_model")]
