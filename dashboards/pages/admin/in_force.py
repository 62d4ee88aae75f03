"""What an applied file has in force, as tables: budgets and objectives with their states, energy settings, parties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from dash import html
from dash.development.base_component import Component

from alerts.slo.objectives import ObjectivesFile
from billing.accounts.budget_file import Budget, BudgetError, BudgetFile
from billing.accounts.budgets import BudgetState, State, budget_states, last_spent
from billing.energy.settings import EnergySettings
from billing.parties.details import Buyer, Parties, Seller
from dashboards import grids, parts
from dashboards.filters import Filters
from dashboards.format import duration
from dashboards.languages import Language
from dashboards.objectives import all_series
from warehouse.errors import LedgerError
from warehouse.store import Store

SUBJECT, PLACE = ("tenant", "queue", "service", "cluster"), ("cluster", "pool")
"""What an objective, and an intensity, is about, the most telling first."""
STATES = ("met", "missed", "unknown")
DAY = timedelta(days=1)
Table = Callable[[Store, Any, Filters, Language], Sequence[Component]]


def tables(name: str, store: Store, file: Any, filters: Filters, words: Language) -> Sequence[Component]:
    """Of the applied file of that part of the administration."""
    return _TABLES[name](store, file, filters, words)


def _budgets(store: Store, file: BudgetFile, filters: Filters, words: Language) -> Sequence[Component]:
    month = filters.months[-1].key if filters.months else f"{filters.local(datetime.now(UTC)):%Y-%m}"
    wrong = ""
    try:
        known = budget_states(store, month, datetime.now(UTC))
    except BudgetError as error:
        known, wrong = [], str(error)
    states = {(found.tenant, found.project): found for found in known}
    has_projects = any(one.project for one in file.budgets)
    columns = [
        grids.link("tenant", words("filter.tenant"), minimum=110),
        *([grids.text("project", words("filter.project"))] if has_projects else []),
        grids.money("amount", words("admin.per_month"), file.currency),
        grids.text("months", words("admin.months"), minimum=150),
        grids.text("state", words("admin.state"), words("admin.budget_state_is"), minimum=130),
        grids.money("spent", words("admin.spent"), file.currency, words("admin.spent_is")),
        grids.percent("percent", words("admin.spent_part"), words("admin.spent_part_is")),
        grids.text("thresholds", words("admin.thresholds"), words("admin.thresholds_is"), minimum=150),
        grids.text("owner", words("alerts.owner"), minimum=110),
    ]
    spent = _spent_before(store, file, month)
    rows = [
        _budget(one, states.get((one.tenant, one.project)) if one.in_force(month) else None, spent.get(one), month,
                filters, words)
        for one in sorted(file.budgets, key=lambda one: not one.in_force(month))
    ]  # fmt: skip
    low = [
        grids.text("tenant", words("filter.tenant")),
        grids.money("amount", words("admin.low_balance"), file.currency, words("admin.low_balance_is")),
        grids.text("owner", words("alerts.owner")),
    ]
    balances = [{name: getattr(one, name) for name in ("tenant", "amount", "owner")} for one in file.low_balances]
    return [
        grids.grid(columns, rows, words, "admin-budgets", spare=("owner", "thresholds")),
        *([html.P(wrong, className="gl-note", role="alert")] if wrong else []),
        *([parts.note(_known(known[0].known_until, month, filters, words))] if known else []),
        *([grids.grid(low, balances, words, "admin-low-balances")] if balances else []),
    ]


def _known(until: datetime | None, month: str, filters: Filters, words: Language) -> str:
    """Until when the month's figures are."""
    name = words.month(date.fromisoformat(f"{month}-01"))
    if until is None:
        return words("admin.spent_unknown", month=name)
    return words("admin.spent_until", month=name, at=words.dated(filters.local(until)))


def _spent_before(store: Store, file: BudgetFile, month: str) -> Mapping[Budget, Decimal]:
    """Of the budgets that have ended; none where the books have another currency."""
    try:
        return last_spent(store, file, month)
    except LedgerError:
        return {}


def _budget(
    one: Budget, found: BudgetState | None, last: Decimal | None, month: str, filters: Filters, words: Language
) -> dict[str, Any]:
    """last: what was spent of one that has ended, in its last month."""
    if found is not None:
        state = words(f"report.state.{found.state.name}")
    elif one.in_force(month):
        state = words(f"report.state.{State.unknown.name}")
    elif one.effective_to and one.effective_to <= month:
        how = "is_over" if last is None else "was_exceeded" if last > one.amount else "was_kept"
        state = words(f"admin.{how}")
    else:
        state = words("admin.is_to_come")
    spent = found.actual if found else last
    return {
        "tenant": one.tenant,
        "href": filters.href("/tenants", tenant=one.tenant, period=month),
        "project": one.project or words("admin.all_projects"),
        "amount": one.amount,
        "months": _months(one, words),
        "state": state,
        "spent": spent,
        "percent": None if spent is None else spent / one.amount,
        "thresholds": words("line_said.comma").join(
            words(f"admin.percent_{each.of}", n=f"{each.percent:f}") for each in one.thresholds
        ),
        "owner": one.owner,
    }


def _months(one: Budget, words: Language) -> str:
    """In which it is in force; its end is exclusive."""
    first, end = (date.fromisoformat(f"{at}-01") if at else None for at in (one.effective_from, one.effective_to))
    last = end - DAY if end else None
    if first and last and (first.year, first.month) == (last.year, last.month):
        return words.month(first)
    return _span(words.month(first) if first else "", words.month(last) if last else "", words)


def _span(first: str, last: str, words: Language) -> str:
    name = {(True, True): "from_to", (True, False): "since", (False, True): "until"}.get((bool(first), bool(last)))
    return words(f"line_said.{name}", first=first, last=last) if name else words("admin.always")


def _objectives(store: Store, file: ObjectivesFile, filters: Filters, words: Language) -> Sequence[Component]:
    found: dict[str, Counter[str]] = {}
    for series in all_series(store, filters) if filters.period is not None else ():
        found.setdefault(series.objective, Counter())[series.state] += 1
    columns = [
        grids.link("name", words("slo.objective"), minimum=130),
        grids.text("kind", words("admin.kind"), minimum=150),
        grids.text("about", words("admin.match"), words("admin.match_is"), minimum=130),
        grids.percent("target", words("slo.target")),
        grids.text("bound", words("admin.bound"), words("admin.bound_is"), minimum=80),
        grids.text("state", words("admin.state"), words("admin.objective_state_is"), minimum=150),
        grids.duration(words, "window", words("slo.window"), whole=True),
        grids.text("owner", words("alerts.owner"), minimum=110),
    ]
    rows = [
        {
            "name": one.name,
            "href": filters.href("/objectives"),
            "kind": words.of(f"objective.{one.kind}", one.kind),
            "about": _about(one.match, SUBJECT, words),
            "target": one.target,
            "bound": _bound(one, words),
            "state": words("line_said.comma").join(
                words(f"admin.{state}", n=number)
                for state in STATES
                if (number := found.get(one.name, Counter())[state])
            )
            or words("slo.unknown"),
            "window": one.window,
            "owner": one.owner,
        }
        for one in file.objectives
    ]
    return [grids.grid(columns, rows, words, "admin-objectives", spare=("owner", "window"))]


def _about(match: Any, names: Sequence[str], words: Language) -> str:
    """What its globs are about; one that fits all is left out."""
    given = {name: getattr(match, name) for name in names if getattr(match, name) != "*"}
    named = [f"{words(f'match.{name}')} {value}" for name, value in given.items()]
    return words("quality.comma").join(named) or words("admin.anything")


def _bound(one: Any, words: Language) -> str:
    """Within what time, or to how many GPUs; '' where the target alone counts."""
    if hasattr(one, "guaranteed_gpus"):
        return f"{one.guaranteed_gpus:g} {words('unit.gpus')}"
    within = getattr(one, "within", None) or getattr(one, "at_most_seconds", None)
    if within is None:
        return ""
    return words("duration.s", n=f"{float(within):g}") if within < 60 else duration(float(within), words)


def _energy(store: Store, file: EnergySettings, filters: Filters, words: Language) -> Sequence[Component]:
    columns = [
        grids.text("region", words("admin.region"), minimum=80),
        grids.text("about", words("admin.match"), words("admin.match_is"), minimum=130),
        grids.number("grams", words("admin.grams"), words("admin.grams_is"), ",.1~f"),
        grids.number("pue", "PUE", words("admin.pue_is"), ",.2f"),
        grids.text("times", words("admin.times"), minimum=130),
        grids.sentence("source", words("admin.intensity_source"), minimum=200, flex=200),
    ]
    rows = [
        {
            "region": one.region,
            "about": _about(one, PLACE, words),
            "grams": sum(one.hourly) / len(one.hourly) if one.hourly else one.grams_per_kwh,
            "pue": one.pue,
            "times": _times(one.effective_from, one.effective_to, filters, words),
            "source": one.source,
        }
        for one in file.intensity
    ]
    idle = [grids.text("model", words("filter.model")), grids.number("watts", words("admin.idle_watts"), shape=",.0f")]
    power = [{"model": one.model, "watts": one.watts} for one in file.idle_power]
    return [
        *([grids.grid(columns, rows, words, "admin-energy")] if rows else []),
        *([html.H3(words("admin.idle_power"), className="gl-sub")] if rows and power else []),
        *([grids.grid(idle, power, words, "admin-idle-power")] if power else []),
    ]


def _times(start: datetime | None, end: datetime | None, filters: Filters, words: Language) -> str:
    first, last = (words.dated(filters.local(at)) if at else "" for at in (start, end))
    return _span(first, last, words)


def _parties(store: Store, file: Parties, filters: Filters, words: Language) -> Sequence[Component]:
    columns = [
        grids.text("tenant", words("filter.tenant"), minimum=110),
        grids.text("name", words("admin.party"), minimum=150),
        grids.sentence("address", words("admin.address"), minimum=190, flex=190),
        grids.text("tax_id", words("admin.tax_id"), minimum=110),
        grids.text("order", words("admin.purchase_order"), minimum=110),
        grids.number("days", words("admin.payment_days"), words("admin.payment_days_is"), ",d", unknown=""),
        grids.text("times", words("admin.times"), minimum=110),
    ]
    rows = [_party(one, words("admin.seller"), words) for one in file.seller]
    rows += [_party(one, one.tenant, words) for one in file.buyers]
    return [grids.grid(columns, rows, words, "admin-parties", spare=("order", "times"))]


def _party(one: Seller | Buyer, whose: str, words: Language) -> dict[str, Any]:
    first, end = one.effective_from, one.effective_to
    return {
        "tenant": whose,
        **{name: getattr(one, name) for name in ("name", "tax_id")},
        "address": ", ".join(one.address),
        "order": getattr(one, "purchase_order", ""),
        "days": one.payment_days,
        "times": _span(words.day(first) if first else "", words.day(end - DAY) if end else "", words),
    }


_TABLES: Mapping[str, Table] = {
    "budgets": _budgets, "objectives": _objectives, "energy": _energy, "parties": _parties,
}  # fmt: skip
