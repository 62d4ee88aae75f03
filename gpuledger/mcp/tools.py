"""The questions, each a function of a client. Names and messages in answers are text that users wrote."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BaseModel, Field

from billing.exact import DIGITS, rounded
from billing.lines import lines_by
from gpuledger import documents
from gpuledger.client import Client
from gpuledger.closed_spans import note_of
from gpuledger.mcp import queries
from warehouse.errors import LedgerError
from warehouse.json_values import as_json
from warehouse.printable import grouped

MOST = 20
"""Maximum rows of evidence in an answer."""
HOLDERS = 5
"""Of what a waiting job asks for: how many of them an answer names."""
HOLDS = ("allocation_id", "tenant", "gpus", "since", "used_60")
"""What an answer says of a holder."""
NUMBER = re.compile(r"(?:.+_)?(?:hours|cost|price|amount|quantity|coverage)")
"""Keys of the API's untyped rows whose texts are decimals; others may be names that look like some."""
DECIMAL = re.compile(r"-?\d+\.\d+", re.ASCII)
Span = tuple[datetime, datetime]
Period = Annotated[
    str, Field(description="A month (2026-10), a day (2026-10-05) or START..END; empty: all that is closed.")
]
Month = Annotated[str, Field(description="A month, such as 2026-10; empty: the last with closed hours.")]
Before = Annotated[str, Field(description="The month to compare it with; empty: the one before it.")]
Tenant = Annotated[str, Field(description="One tenant; empty: all that the token sees.")]


class Answer(BaseModel):
    """answer: in words, with units.   figures: the numbers in it, to nine decimals.   evidence: rows, the most
    important first; evidence_in_all: how many there are.   sql: a statement over the documented views that shows the
    same facts; empty if they are not in the closed books yet.   notes: what is unknown or not counted."""

    answer: str
    figures: dict[str, Any] = {}
    evidence: list[dict[str, Any]] = []
    evidence_in_all: int = 0
    sql: str = ""
    notes: list[str] = []


def idle_holders(client: Client, tenant: Tenant = "", queue: str = "") -> Answer:
    """Who is allocated which GPUs right now, which of them are idle, what that costs an hour and has wasted so far."""
    now = client.now(tenant or None, queue or None, MOST)
    if now.at is None:
        return Answer(answer="Nothing was ever reported: nobody knows what is allocated now.")
    total, notes = now.total, []
    whose = f"{_of(tenant)}{f' in queue {queue}' if queue else ''}"
    if now.stopped:
        notes.append(f"Nothing has been reported since {_at(now.at)}: what holds after that is unknown.")
    if (unseen := total.gpus - total.seen_gpus) > 0.005:
        notes.append(f"No samples of {_count(unseen)} in the last 5 minutes: whether they are idle is unknown.")
    if total.unpriced:
        notes.append(f"Not counted: the cost of {grouped(total.unpriced, 'allocation')} without a price.")
    return Answer(
        answer=f"As of {_at(now.at)}, "
        + (
            f"{grouped(now.rows_in_all, 'allocation')}{whose} with {_count(total.gpus)}, of which"
            f" {_plain(total.idle_gpus)} did nothing for 5 minutes. Idle ones cost"
            f" {_money(total.idle_hour, now.currency)} an hour at list price; wasted so far:"
            f" {_money(total.waste, now.currency)}."
            if now.rows_in_all
            else f"there is no allocation{whose}."
        ),
        figures=_shown(vars(total)) | {"currency": now.currency, "as_of": documents.instant(now.at)},
        evidence=[_shown(one) for one in now.allocations],
        evidence_in_all=now.rows_in_all,
        sql=queries.allocations_at(now.at, tenant=tenant or None, queue=queue or None),
        notes=notes,
    )


def gpu_waste(client: Client, period: Period = "", tenant: Tenant = "") -> Answer:
    """GPU-hours allocated against used, and what the idle part cost, by tenant and project."""
    found = client.efficiency(period, ("tenant", "project"))
    rows = [row for row in found.rows if not tenant or row.tenant == tenant]
    if not rows:
        return Answer(answer=f"No allocated time is known{_of(tenant)} {_in(found.period, period)}.",
                      notes=_not_closed(found.period))  # fmt: skip
    idle, allocated, used = (_sum(rows, name) for name in ("idle_gpu_hours", "allocated_gpu_hours", "used_gpu_hours"))
    unpriced, unmetered = (_sum(rows, name) for name in ("unpriced_gpu_hours", "unmetered_gpu_hours"))
    cost = None if all(row.idle_cost is None for row in rows) else _sum(rows, "idle_cost")
    notes = [f"{unmetered:,.2f} GPU-hours were not measured: they are neither used nor idle."] if unmetered else []
    if unpriced or any(row.idle_cost is None for row in rows):
        notes.append(f"{unpriced:,.2f} GPU-hours have no price: the cost of idle time is without them.")
    notes += _not_closed(found.period)
    rows = sorted(rows, key=lambda row: row.idle_cost or 0, reverse=True)
    span, currency = _span(found.period), _currency(rows)
    unknown = f"; of {unmetered:,.2f} it is unknown whether they were used" if unmetered else ""
    return Answer(
        answer=f"{_name(tenant)} had {allocated:,.2f} GPU-hours allocated {_in(found.period, period)} and used"
        f" {used:,.2f}; {idle:,.2f} were idle, at {_money(cost, currency)}{unknown}.",
        figures=_shown({"allocated_gpu_hours": allocated, "used_gpu_hours": used, "idle_gpu_hours": idle,
                        "unmetered_gpu_hours": unmetered, "idle_cost": cost, "currency": currency}),
        evidence=[_known(row) for row in rows[:MOST]],
        evidence_in_all=len(rows),
        sql=queries.usage(span, ("tenant", "project"), tenant=tenant or None) if span else "",
        notes=notes,
    )  # fmt: skip


def right_sizing(client: Client, period: Period = "", tenant: Tenant = "", workload: str = "") -> Answer:
    """What is allocated now or recurs and could be allocated cheaper, with the saving a month and what it rests on."""
    found = client.savings(period, tenant or None, workload)
    advised = sorted(found.recommendations, key=lambda one: one.monthly_amount or 0, reverse=True)
    monthly = sum((one.monthly_amount for one in advised if one.monthly_amount is not None), Decimal(0))
    notes = [f"{grouped(len(found.not_judged), 'allocation')} could not be judged, for lack of measurements."]
    waste, figures = found.waste, {"monthly_amount": monthly, "currency": found.currency}
    if waste is not None:
        figures |= {"idle_cost": waste.idle_cost, "covered": waste.covered}
        notes += [f"Not covered: {_money(one.amount, found.currency)}: {one.what}." for one in waste.not_covered]
    return Answer(
        answer=f"{grouped(len(advised), 'recommendation')}{_of(tenant)} {_in(found.period, period)}, worth"
        f" {_money(monthly, found.currency)} a month. The largest: {advised[0].what}."
        if advised
        else f"No recommendation{_of(tenant)} {_in(found.period, period)}.",
        figures=_shown(figures),
        evidence=[_shown(one) for one in advised[:MOST]],
        evidence_in_all=len(advised),
        sql=advised[0].reproduce if advised else "",
        notes=[note for note in notes if not note.startswith("0 ")] + _not_closed(found.period),
    )


def cost_anomalies(client: Client, period: Period = "", tenant: Tenant = "") -> Answer:
    """Days that cost more or less than expected, each with the workloads that made the difference."""
    found = client.anomalies(period, tenant or None)
    rows = sorted(found.anomalies, key=lambda one: abs(one.cost - one.expected), reverse=True)
    listed = "; ".join(
        f"{one.day} {one.tenant or one.subject}: {_money(one.cost, one.currency)} where"
        f" {_money(one.expected, one.currency)} was expected"
        + (f", most of it by {one.contributors[0].name}" if one.contributors else "")
        for one in rows[:3]
    )
    span = _span(found.period)
    return Answer(
        answer=f"{len(rows)} of {grouped(found.judged, 'day')} judged{_of(tenant)} {_in(found.period, period)}"
        f" {'is an anomaly' if len(rows) == 1 else 'are anomalies'}{': ' if listed else ''}{listed}. Days are"
        " judged by tenant."
        if found.judged
        else f"No day could be judged{_of(tenant)} {_in(found.period, period)}.",
        figures=_shown({"anomalies": len(rows), "judged": found.judged, "not_judged": found.not_judged}),
        evidence=[_shown(one) for one in rows[:MOST]],
        evidence_in_all=len(rows),
        sql=queries.daily(span, found.timezone, tenant=tenant or None) if span else "",
        notes=(
            [f"{grouped(found.not_judged, 'day')} could not be judged: too little history."] if found.not_judged else []
        )
        + _not_closed(found.period),
    )


def efficiency_score(client: Client, period: Period = "", tenant: Tenant = "") -> Answer:
    """One number from 0 to 100 for each tenant: the used part of the GPU-hours that were allocated and measured."""
    found = client.efficiency(period, ("tenant",))
    rows = [row for row in found.rows if not tenant or row.tenant == tenant]
    scored = sorted((row for row in rows if row.efficiency is not None), key=lambda row: row.efficiency or 0)
    used, measured = _sum(rows, "used_gpu_hours"), _sum(rows, "used_gpu_hours") + _sum(rows, "idle_gpu_hours")
    score = round(100 * used / measured) if measured else None
    worst = [f"{row.tenant or 'nobody'} {round(100 * (row.efficiency or 0))}" for row in scored[:3]]
    coverage = measured / total if (total := _sum(rows, "allocated_gpu_hours")) else None
    unmeasured = []
    if coverage is not None and coverage < 1:
        unmeasured.append(f"{100 * (1 - coverage):.1f} % of the allocated time was not measured.")
    span = _span(found.period)
    return Answer(
        answer="No allocated GPU-hour was measured: there is no score." if score is None else
        f"{_name(tenant)} scored {score} of 100 {_in(found.period, period)}: {used:,.2f} of {measured:,.2f} measured"
        f" GPU-hours were used. Lowest: {', '.join(worst)}.",
        figures=_shown({"score": score, "used_gpu_hours": used, "measured_gpu_hours": measured, "coverage": coverage}),
        evidence=[_known(row) for row in scored[:MOST]],
        evidence_in_all=len(scored),
        sql=queries.usage(span, ("tenant",), tenant=tenant or None) if span else "",
        notes=unmeasured + _not_closed(found.period),
    )  # fmt: skip


def bill_change(client: Client, tenant: str, month: Month = "", before: Before = "") -> Answer:
    """Why a tenant's bill of one month differs from that of another: each kind of line and SKU, split into what more or
    fewer hours did and what another price did. The parts sum to the difference; by_other_lines is that of lines without
    a split: minimums, energy, discounts, credits, taxes, corrections."""
    if not tenant:
        raise LedgerError("tenant", "is empty", "Name one: a bill is one tenant's")
    month = _month(month or _last_month(client))
    before = _month(before or _month_before(month))
    bills = [_bill(client, tenant, one) for one in (before, month)]
    if bills[0].currency != bills[1].currency:
        raise LedgerError(f"{before} and {month}", "have different currencies", "Compare months of one currency")
    was, now = ({key: _charged(lines) for key, lines in lines_by(bill.lines, "project", "sku").items()}
                for bill in bills)  # fmt: skip
    effects = sorted((_effect(key, was.get(key, NOTHING), now.get(key, NOTHING)) for key in {*was, *now}),
                     key=lambda one: abs(one["difference"]), reverse=True)  # fmt: skip
    difference = sum((one["difference"] for one in effects), Decimal(0))
    by_hours, by_price = (sum((one[by] or 0 for one in effects), Decimal(0)) for by in ("by_quantity", "by_price"))
    totals = [sum((amount for _, _, amount in lines.values()), Decimal(0)) for lines in (was, now)]
    currency = bills[1].currency
    status = {"draft": "a draft"}
    notes = [f"{name} is {status.get(bill.status, bill.status)}."
             for name, bill in zip((before, month), bills, strict=True)
             if bill.status != "issued"]  # fmt: skip
    for name, bill in zip((before, month), bills, strict=True):
        if unpriced := sum(line.get("amount") is None for line in bill.lines):
            notes.append(
                f"{name} has {grouped(unpriced, 'line')} without a price: their cost is unknown, not compared."
            )
    if not all(bill.number for bill in bills):
        notes.append("The SQL shows what the ledger charges: a draft's other lines, and its rounding, are in no view.")
    notes += [f"{month}: {note}" for month, bill in ((before, bills[0]), (month, bills[1])) if not bill.number
              for note in _not_closed(client.ledger(month, ("tenant",)).period)]  # fmt: skip
    notes.append("Credit notes, and corrections that later invoices have, are documents of their own: not compared.")
    causes = "; ".join(f"{one['what']}: {_money(one['difference'], currency, sign=True)}" for one in effects[:3]
                       if one["difference"])  # fmt: skip
    return Answer(
        answer=f"{tenant}'s bill went from {_money(totals[0], currency)} in {before} to {_money(totals[1], currency)}"
        f" in {month} ({_money(difference, currency, sign=True)}){': ' if causes else ''}{causes}.",
        figures=_shown({"before": totals[0], "now": totals[1], "difference": difference, "currency": currency,
                        "by_hours": by_hours, "by_price": by_price,
                        "by_other_lines": difference - by_hours - by_price}),
        evidence=[_shown(one) for one in effects[:MOST]],
        evidence_in_all=len(effects),
        sql=_sql_of_bills(bills, tenant),
        notes=notes,
    )  # fmt: skip


def _sql_of_bills(bills: Sequence[documents.InvoiceDocument], tenant: str) -> str:
    """The lines of issued ones; no view has those of a draft, which the charges of both months stand for."""
    numbers = [bill.number for bill in bills if bill.number]
    if len(numbers) == len(bills):
        return queries.bills(numbers)
    spans = [_month_of(bill) for bill in bills]
    return queries.months(spans, bills[0].period["timezone"], tenant=tenant)


def why_waiting(client: Client, workload: str = "", tenant: Tenant = "", queue: str = "") -> Answer:
    """Why a job has not started: the scheduler's reason with its numbers, its place in the queue, the expected start,
    and who holds most of what it asks for."""
    found = client.waiting(tenant or None, queue or None, workload, MOST)
    if not found.jobs:
        about = f"{workload} does not wait" if workload else "No job waits"
        return Answer(answer=f"{about} now." if found.at else "Nothing was ever reported: nobody knows what waits.",
                      sql=queries.events(workload_id=workload or None, tenant=tenant or None))  # fmt: skip
    first = found.jobs[0]
    held = client.holders(first.allocation_id, first.cluster)
    holders = held.allocations[:HOLDERS]
    expected = ""
    if first.earliest_start is not None and first.latest_start is not None:
        earliest, latest = _at(first.earliest_start), _at(first.latest_start)
        expected = {
            "ahead": f" It is expected to start between {earliest} and {latest}.",
            "due": f" It is expected to start by {latest}: its scheduler announced {earliest} to {latest}.",
            "overdue": f" Its start is overdue: its scheduler announced {earliest} to {latest}.",
        }[first.start_is or "ahead"]
    return Answer(
        answer=f"{first.workload_id or first.allocation_id} has waited {_length(first.waited_seconds)} for"
        f" {_count(first.gpus)} in queue {first.queue or '(none)'}, as number {first.rank} of {first.queued}:"
        f" {_reason(first)}.{expected}",
        figures=_shown({"waiting": found.rows_in_all, "rank": first.rank, "queued": first.queued, "gpus": first.gpus,
                        "waited_seconds": first.waited_seconds, "reason": first.reason,
                        "earliest_start": first.earliest_start, "latest_start": first.latest_start,
                        "start_is": first.start_is, "wanted": held.pools}),
        evidence=[_shown(one) for one in found.jobs]
        + [{"holds": {name: _shown(getattr(one, name)) for name in HOLDS}} for one in holders],
        evidence_in_all=found.rows_in_all + held.rows_in_all,
        sql=queries.events(allocation_id=first.allocation_id, cluster=first.cluster),
        notes=[*([] if first.earliest_start else ["No start is expected: its scheduler reports none."]),
               *_not_shown(held)],
    )  # fmt: skip


def fair_share(client: Client, tenant: Tenant = "") -> Answer:
    """What a tenant's scheduler guarantees it, what it holds and asks for, what is owed to it or borrowed, its part of
    all, and why its oldest waiting job has not started."""
    everybody = client.quotas()
    rows = sorted((one for one in everybody.rows if not tenant or one.tenant == tenant),
                  key=lambda one: (one.owed or 0, one.held or 0), reverse=True)  # fmt: skip
    if not rows:
        return Answer(answer=f"No scheduler has reported a quota{_of(tenant)} lately: a share is not known.",
                      notes=["Kubernetes' and Slurm's own order of jobs is in no report."])  # fmt: skip
    names = ("guaranteed", "held", "asked", "owed", "borrowed")
    sums = {name: _known_sum([getattr(one, name) for one in rows]) for name in names}
    notes = ["The order of tenants (weights, past use) only the scheduler tells: gpuledger scheduler explain JOB."]
    others = len({one.tenant for one in everybody.rows}) > 1
    part = None
    if tenant and others and sums["held"] is not None:
        pools = {(one.cluster, one.pool) for one in rows}
        of_all = _known_sum([one.held for one in everybody.rows if (one.cluster, one.pool) in pools])
        part = sums["held"] / of_all if of_all else None
    elif not others:
        notes.append("Quotas are those that the token sees; what others hold is not shown.")
    oldest = max(client.waiting(tenant or None, limit=1000).jobs, key=lambda one: one.waited_seconds, default=None)
    why = ""
    if oldest is not None:
        why = (f" Of its jobs, {oldest.workload_id or oldest.allocation_id} has waited longest,"
               f" {_length(oldest.waited_seconds)}: {_reason(oldest)}.")  # fmt: skip
    return Answer(
        answer=f"{_name(tenant)}: guaranteed {_count(sums['guaranteed'])}, holds {_count(sums['held'])}"
        + (f" ({100 * part:.1f} % of what all hold there)" if part is not None else "")
        + f", asks for {_count(sums['asked'])} more; {_count(sums['owed'])} of the guarantee"
        f" {'is' if sums['owed'] == 1 else 'are'} owed, {_count(sums['borrowed'])}"
        f" {'is' if sums['borrowed'] == 1 else 'are'} borrowed beyond it.{why}",
        figures=_shown({**sums, "part_of_held": part}),
        evidence=[_shown(one) for one in rows[:MOST]],
        evidence_in_all=len(rows),
        sql=queries.quotas(sorted({one.reported_at for one in rows}), tenant=tenant or None),
        notes=notes,
    )


def _known_sum(values: Iterable[float | None]) -> float | None:
    """None if any is not known."""
    found = list(values)
    return None if any(one is None for one in found) else sum(one for one in found if one is not None)


def _not_shown(held: documents.Holders) -> list[str]:
    """Of the holders of what a job asks for."""
    if not held.pools:
        return ["What it may run on is unknown, and so is who holds it: its scheduler does not tell, and no job of its"
                " queue was placed lately."]  # fmt: skip
    if any(pool.devices is None for pool in held.pools):
        return ["Holders are those that the token sees; how much of it others hold is not shown."]
    return []


def budget_status(client: Client, month: Month = "", tenant: Tenant = "") -> Answer:
    """Budgets of a month: spent, forecast with what it rests on, and which thresholds were crossed when."""
    month = _month(month or _last_month(client))
    found = sorted(client.budgets(month, tenant or None), key=lambda one: one.forecast_percent or 0, reverse=True)
    over = [one for one in found if (one.forecast_percent or 0) > 100]
    listed = "; ".join(
        f"{one.tenant}{f'/{one.project}' if one.project else ''}: {_money(one.actual, one.currency)} of"
        f" {_money(one.amount, one.currency)} spent, {_money(one.forecast, one.currency)} expected"
        for one in found[:3]
    )
    span = next(((one.start, one.end) for one in client.months() if one.month == month), None)
    return Answer(
        answer=f"{grouped(len(found), 'budget')}{_of(tenant)} in {month}, {len(over)} expected to be exceeded:"
        f" {listed}."
        if found
        else f"There is no budget{_of(tenant)} in {month}.",
        figures={"budgets": len(found), "expected_over": len(over)},
        evidence=[_shown(one) for one in found[:MOST]],
        evidence_in_all=len(found),
        sql=queries.charges(span, ("tenant", "project"), tenant=tenant or None) if span else "",
        notes=sorted({f"{one.tenant}: no forecast yet." for one in found if one.forecast is None}),
    )


def invoice_line(client: Client, number: str, line: int) -> Answer:
    """How one line of an issued invoice came about: formula, rule of the rate card, and the allocations behind it."""
    found = client.explain(number, line)
    return Answer(
        answer=f"Line {line} of {number}: {found.line.get('description') or found.line['kind']}, amount"
        f" {found.line.get('amount') or 'unknown'} {client.invoice(number).currency}. {found.formula}.",
        figures=_numbers({name: found.line.get(name) for name in ("kind", "quantity", "unit", "amount", "sku")}),
        evidence=[_numbers(one) for one in found.rows[:MOST]],
        evidence_in_all=len(found.rows),
        sql=queries.invoice_lines(number),
        notes=[f"Rate card {found.rate_card}."],
    )


def firing_alerts(client: Client, rule: str = "") -> Answer:
    """Alerts that fire now, each with its evidence and why nobody is notified of it, if so."""
    found = list(client.alerts(("firing",), rule))
    by_rule: dict[str, int] = defaultdict(int)
    for one in found:
        by_rule[one.rule] += 1
    listed = ", ".join(f"{count} {name}" for name, count in sorted(by_rule.items(), key=lambda item: -item[1]))
    return Answer(
        answer=f"{grouped(len(found), 'firing alert')}{': ' if listed else ''}{listed}."
        if found
        else f"No alert{f' of the rule {rule}' if rule else ''} is firing.",
        figures={"firing": len(found), "by_rule": dict(by_rule)},
        evidence=[_shown(one) for one in found[:MOST]],
        evidence_in_all=len(found),
    )


TOOLS: Sequence[Callable[..., Answer]] = (
    idle_holders, gpu_waste, right_sizing, cost_anomalies, efficiency_score, bill_change, why_waiting, fair_share,
    budget_status, invoice_line, firing_alerts,
)  # fmt: skip


def _bill(client: Client, tenant: str, month: str) -> documents.InvoiceDocument:
    """The invoice issued for the month, else its draft.   Errors: LedgerError if there is neither."""
    issued = [one for one in client.invoices(month, tenant)
              if one.document_type == "invoice" and one.status == "issued" and one.month == month]  # fmt: skip
    if issued and issued[-1].number:
        return client.invoice(issued[-1].number)
    drafts = list(client.drafts(month, tenant))
    if not drafts:
        raise LedgerError(f"{tenant}, {month}", "has neither an invoice nor a draft", "See: gpuledger ledger")
    return drafts[0]


Charged = tuple[Decimal, Decimal | None, Decimal]
NOTHING: Charged = (Decimal(0), None, Decimal(0))


def _charged(lines: Sequence[Mapping[str, Any]]) -> Charged:
    """Quantity, unit price (None if there is none; of several the mean) and amount."""
    quantity, amount = (sum((Decimal(one.get(of) or 0) for one in lines), Decimal(0)) for of in ("quantity", "amount"))
    price, *others = {one.get("contracted_unit_price") for one in lines}
    if not quantity:
        return quantity, None, amount
    return quantity, amount / quantity if price is None or others else Decimal(price), amount


def _effect(key: tuple[str, ...], was: Charged, now: Charged) -> dict[str, Any]:
    """A line's difference, split into more or fewer hours at the old price and the new price on all hours.

    Without a price before or after, it cannot be split. At one price it is all of hours: what is left is rounding.
    """
    (kind, project, sku), (quantity, price, amount), (later, new_price, owed) = key, was, now
    difference = owed - amount
    splits = kind == "usage" and (price is not None or new_price is not None)
    at = price if price is not None else new_price
    by_quantity = _rounded((later - quantity) * at) if splits and at is not None else None
    if by_quantity is not None and (price is None or new_price is None or price == new_price):
        by_quantity = difference
    what = " ".join(part for part in (kind, sku, f"of {project}" if project else "") if part)
    return {
        "what": what, "difference": difference, "before": amount, "now": owed,
        "quantity_before": quantity, "quantity_now": later, "by_quantity": by_quantity,
        "by_price": None if by_quantity is None else difference - by_quantity,
    }  # fmt: skip


def _month_of(bill: documents.InvoiceDocument) -> Span:
    return datetime.fromisoformat(bill.period["start"]), datetime.fromisoformat(bill.period["end"])


def _span(period: documents.ClosedSpan) -> Span | None:
    return (period.start, period.end) if period.start and period.end else None


def _in(period: documents.ClosedSpan, asked: str) -> str:
    """A month or day is the books' time zone's, so it is called what it was asked as."""
    if not period.start or not period.end:
        return f"in {asked or 'the books'}, of which nothing is closed"
    return f"in {asked}" if asked else f"from {_at(period.start)} to {_at(period.end)}"


def _not_closed(period: documents.ClosedSpan) -> list[str]:
    """A note, if the figures do not cover the whole period."""
    note = note_of(period)
    return [f"{note[0].upper()}{note[1:]}."] if note else []


def _month(text: str) -> str:
    """Errors: LedgerError if it is none."""
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", text, re.ASCII):
        raise LedgerError(f"month {text!r}", "is no month", "Write it like 2026-10")
    return text


def _last_month(client: Client) -> str:
    """The last with closed hours. Errors: LedgerError if there is none."""
    for one in reversed(client.months()):
        if client.ledger(one.month).period.closed_hours:
            return one.month
    raise LedgerError("month", "is not given, and no hour is closed", "Name one, such as 2026-10")


def _month_before(month: str) -> str:
    return f"{date.fromisoformat(f'{month}-01') - timedelta(days=1):%Y-%m}"


def _at(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _length(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _reason(job: documents.WaitingJob) -> str:
    return (job.text or job.reason or "its scheduler gives no reason").rstrip(".")


def _count(gpus: float | None) -> str:
    return "an unknown number of GPUs" if gpus is None else f"{_plain(gpus)} GPU{'' if gpus == 1 else 's'}"


def _plain(value: float) -> str:
    """Like 12,288 or 0.29."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _name(tenant: str) -> str:
    return tenant or "All that the token sees"


def _of(tenant: str) -> str:
    return f" of {tenant}" if tenant else ""


def _sum(rows: Iterable[documents.EfficiencyRow], name: str) -> Decimal:
    return sum((value for row in rows if (value := getattr(row, name)) is not None), Decimal(0))


def _currency(rows: Iterable[documents.EfficiencyRow]) -> str | None:
    return next((row.currency for row in rows if row.currency), None)


def _money(amount: Decimal | None, currency: str | None, sign: bool = False) -> str:
    if amount is None:
        return "an unknown amount"
    return f"{amount:{'+' if sign else ''},.2f} {currency or ''}".rstrip()


def _shown(value: Any) -> Any:
    """A value for an answer: decimals as texts that people can read and that still add up, instants in UTC."""
    if isinstance(value, Decimal):
        whole, _, part = format(_rounded(value), "f").partition(".")
        return f"{whole}.{part[:2]}{part[2:].rstrip('0')}" if part else whole
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, BaseModel):
        return {name: _shown(one) for name, one in value}
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {key: _shown(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(one) for one in value]
    return as_json(value)


def _known(row: BaseModel) -> dict[str, Any]:
    """What is known of it: other dimensions were not asked for."""
    return {name: _shown(value) for name, value in row if value is not None}


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of texts, with its decimals as `_shown` has them."""
    return {
        name: _shown(Decimal(value) if NUMBER.fullmatch(name) and DECIMAL.fullmatch(str(value)) else value)
        for name, value in row.items()
    }


def _rounded(value: Decimal) -> Decimal:
    """To the digits of an answer, half to even."""
    return rounded(Fraction(value)) if int(value.as_tuple().exponent) < -DIGITS else value
