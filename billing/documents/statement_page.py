"""The content of a statement's page: an invoice's page plus a chart of days and the most expensive workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

from billing.documents.figures import (
    HELD,
    Part,
    bar,
    day_in_words,
    days_in_words,
    hours,
    money,
    month_in_words,
    percent,
)
from billing.documents.html import render
from billing.documents.page import UNKNOWN, Fact, Page, Row, Sum, issuer_of, page_of
from billing.documents.pdf import Faces, set_page
from billing.documents.statement import FLEET, Statement
from billing.invoicing.documents import Invoice
from billing.money import minor_digits


@dataclass(frozen=True)
class Day:
    """A column of the chart; no parts where the day is not closed."""

    label: str
    title: str
    parts: list[Part]


@dataclass(frozen=True)
class Chart:
    """A column a day, up to `top` GPU-hours, with a line at half of it."""

    kinds: tuple[str, ...]
    top: str
    middle: str
    days: list[Day]


@dataclass(frozen=True)
class PoolRow:
    """A pool's time and its cost at list prices. `shared` is what of the unallocated time tenants bear."""

    title: str
    more: str
    bar: list[Part]
    capacity: str
    allocated: str
    unallocated: str
    unavailable: str
    unallocated_cost: str
    shared: str
    unavailable_cost: str


def as_html(statement: Statement) -> str:
    """The statement as one page."""
    template, page, more = _parts(statement)
    return render(template, page, **more)


def as_pdf(statement: Statement, found: Faces | None = None) -> bytes:
    """The statement, A4. Errors: LedgerError if it cannot be set."""
    template, page, more = _parts(statement)
    data = {name: asdict(part) if isinstance(part, Chart) else _plain(part) for name, part in more.items()}
    return set_page(template, asdict(page) | data, found)


def tenant_page(statement: Statement) -> Page:
    """The page of a tenant's statement, as its invoice's would be."""
    document = statement.document
    page = page_of(Invoice(document))
    invoice = Fact("Invoice", page.number or "not issued", page.facts[0].text if page.number else "")
    label = "Amount" if page.number else page.hero_label
    return replace(
        page,
        title="Statement",
        number=page.month,
        watermark="",
        look="issued",
        badge="for information, not a demand for payment",
        tenant_label="For",
        facts=[invoice, *page.facts[1:]],
        hero_label=label,
    )


def platform_page(statement: Statement) -> Page:
    """The page of the platform's statement."""
    document, totals = statement.document, statement.document["totals"]
    period, currency = document["period"], document["currency"]
    issuer = issuer_of(document["issuer"])
    month = month_in_words(period["month"])
    spare = [totals[f"{kind}_cost"] for kind in ("unallocated", "unavailable")]
    sums = [
        Sum("Unallocated time", _money(spare[0], currency)),
        Sum("borne by tenants", _money(totals["shared"], currency, -1)),
        Sum("Unavailable time", _money(spare[1], currency)),
    ]
    shared = Decimal(totals["shared"] or 0)
    known = [Decimal(cost) for cost in spare if cost is not None]
    incomplete = ", incomplete" if Decimal(totals["unpriced_gpu_hours"] or 0) else ""
    left = _money(str(sum(known, -shared)), currency) if known else UNKNOWN
    return Page(
        title="Platform statement",
        number=month,
        look="issued",
        badge="",
        watermark="",
        lang="en",
        issuer=issuer,
        tenant_label="For",
        tenant="The platform",
        tenant_address=[],
        month=month,
        facts=[
            Fact("Period", month, f"{days_in_words(period)}, {period['timezone']}"),
            Fact("Rate card", str(document["rate_card"] or "none")[:16]),
        ],
        hero_label=f"Borne by the platform, at list prices{incomplete}",
        hero_amount=left,
        hero_more="",
        currency=currency,
        issued=None,
        allocated=hours(totals["capacity_gpu_hours"]),
        parts=bar(totals, FLEET),
        small_print="Capacity is what the devices could have given in the closed hours. Unallocated time was held by "
        "nobody; unavailable time is of devices that were down or drained, and is nobody's charge.",
        notes=list(document["notes"]),
        sums=[*sums, Sum(f"Left to the platform{incomplete}", left, "total")],
    )


def chart_of(days: Sequence[Mapping[str, Any]], kinds: tuple[str, ...]) -> Chart:
    """The days on one scale, whose top is a round number."""
    known = [day for day in days if day[f"{kinds[0]}_gpu_hours"] is not None]
    most = max((sum(Decimal(day[f"{kind}_gpu_hours"]) for kind in kinds) for day in known), default=Decimal(0))
    top = _round_above(Decimal(most))
    columns = []
    for day in days:
        at = date.fromisoformat(day["day"])
        closed = day[f"{kinds[0]}_gpu_hours"] is not None
        columns.append(Day(str(at.day), day_in_words(at), bar(day, kinds, top) if closed else []))
    return Chart(kinds, f"{top.normalize():,f} h", f"{(top / 2).normalize():,f} h", columns)


def _parts(statement: Statement) -> tuple[str, Page, dict[str, Any]]:
    """The template's name, its page, and what it asks for besides."""
    document = statement.document
    if statement.is_platform:
        pools = [_pool_row(pool, document["currency"]) for pool in document["pools"]]
        return "platform", platform_page(statement), {"chart": chart_of(document["days"], FLEET), "pools": pools}
    workloads = [_workload_row(workload, document["currency"]) for workload in document["workloads"]]
    more = {"chart": chart_of(document["days"], HELD), "workloads": workloads}
    return "statement", tenant_page(statement), {**more, "workloads_in_all": f"{document['workloads_in_all']:,}"}


def _workload_row(workload: Mapping[str, Any], currency: str) -> Row:
    efficiency = workload["efficiency"]
    return Row(
        title=workload["workload"] or "(no workload)",
        more=workload["project"] or "(no project)",
        bar=bar(workload),
        used=percent(Decimal(efficiency), Decimal(1)) if efficiency is not None else UNKNOWN,
        quantity=hours(workload["allocated_gpu_hours"]),
        unit="GPU-hours",
        list_price="",
        price="",
        discounted=False,
        amount=_money(workload["billed_cost"], currency),
    )


def _pool_row(pool: Mapping[str, Any], currency: str) -> PoolRow:
    policy = pool["idle_policy"]
    return PoolRow(
        title=pool["pool"] or "(no pool)",
        more=f"unallocated time: {policy.replace('_', ' ')}" if policy else "",
        bar=bar(pool, FLEET),
        capacity=hours(pool["capacity_gpu_hours"]),
        allocated=hours(pool["allocated_gpu_hours"]),
        unallocated=hours(pool["unallocated_gpu_hours"]),
        unavailable=hours(pool["unavailable_gpu_hours"]),
        unallocated_cost=_money(pool["unallocated_cost"], currency),
        shared=_money(pool["shared"], currency),
        unavailable_cost=_money(pool["unavailable_cost"], currency),
    )


def _money(value: str | None, currency: str, sign: int = 1) -> str:
    if value is None:
        return UNKNOWN
    amount = round(Decimal(value), minor_digits(currency))
    return money(sign * amount if amount else amount)


_ROUND = ("1", "1.2", "1.6", "2", "3", "4", "5", "6", "8", "10")


def _round_above(most: Decimal) -> Decimal:
    """The least round number that is not below."""
    if most <= 0:
        return Decimal(1)
    power = Decimal(10) ** most.adjusted()
    return next(step * power for step in map(Decimal, _ROUND) if step * power >= most)


def _plain(value: Any) -> Any:
    return [asdict(item) for item in value] if isinstance(value, list) else value
