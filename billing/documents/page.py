"""The content of an invoice's or credit note's page as text and figures, for HTML and PDF alike.

It reads the stored document (docs/billing.md, "A line" and "Totals") and computes no amount that is owed: sums of lines
are shown beside the document's own totals. Documents from before lines had a kind consist of usage only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import Any

from billing.documents.figures import (
    DASH,
    Part,
    bar,
    day_in_words,
    days_in_words,
    hours,
    local_day,
    money,
    month_in_words,
    percent,
    price,
    shortened,
    since_in_words,
    until_in_words,
)
from billing.documents.given_back import GivenBack, given_back
from billing.invoicing.documents import Invoice
from billing.lines import kind_of
from billing.money import minor_digits

HELD_KINDS = ("usage", "energy", "memory")
"""Lines of what was held and measured, shown by project; the others are adjustments."""
TITLES = {
    "usage": "GPU time",
    "minimum": "Minimum duration",
    "energy": "Energy",
    "memory": "Memory",
    "commitment": "Commitments",
    "discount": "Discounts",
    "shared": "Shared cost",
    "credit": "Credits",
    "tax": "Tax",
}
"""Of the kinds of lines, in their order. A kind that is not here yet is shown under its own name."""
RANKED = 5
"""How many projects the summary compares."""
UNKNOWN = "unknown"
PRINCIPLE = (
    "Who holds a GPU pays for it, from start to end, to the millisecond; telemetry only says how it was used. "
    "Prices times exact quantities, rounded once on the total, which is shared out to the lines by largest remainder."
)


@dataclass(frozen=True)
class Fact:
    """An item in the page's header; `more` is printed smaller."""

    label: str
    text: str
    more: str = ""


@dataclass(frozen=True)
class Row:
    """A line of the document. `bar` is None where nothing was measured; `discounted` where list and price differ."""

    title: str
    more: str
    bar: list[Part] | None
    used: str
    quantity: str
    unit: str
    list_price: str
    price: str
    discounted: bool
    amount: str


@dataclass(frozen=True)
class Group:
    """Rows under one heading (a project, a kind of adjustment, a corrected invoice) and what they sum to."""

    title: str
    hours: str
    amount: str
    rows: list[Row]


@dataclass(frozen=True)
class Rank:
    """One of the most expensive projects, `percent` of the first as text that CSS and typst read."""

    title: str
    amount: str
    percent: str


@dataclass(frozen=True)
class Sum:
    """A step from list prices to what is due. `style` is '', 'sum' or 'total'."""

    label: str
    amount: str
    style: str = ""
    more: str = ""


@dataclass(frozen=True)
class Page:
    """The page. `look` is draft, issued or void; `issued` the document's date, None for a draft."""

    title: str
    number: str
    look: str
    badge: str
    watermark: str
    lang: str
    issuer: Mapping[str, Any]
    tenant_label: str
    tenant: str
    tenant_address: Sequence[str]
    month: str
    facts: list[Fact]
    hero_label: str
    hero_amount: str
    hero_more: str
    currency: str
    issued: tuple[int, int, int] | None
    allocated: str
    parts: list[Part]
    small_print: str
    notes: list[str]
    sums: list[Sum] = field(default_factory=list)
    ranking: list[Rank] = field(default_factory=list)
    projects: list[Group] = field(default_factory=list)
    adjustments_title: str = "Adjustments"
    adjustments_more: str = "what the rate card's rules make of it, each with the rule's name"
    adjustments: list[Group] = field(default_factory=list)
    corrections: list[Group] = field(default_factory=list)
    payment: list[Fact] = field(default_factory=list)
    given_back: GivenBack | None = None


def page_of(invoice: Invoice) -> Page:
    document = invoice.document
    look = _look(document)
    credit = document.get("document_type") == "credit_note"
    kind = "Credit note" if credit else "Invoice"
    period, totals = document["period"], invoice.totals
    zone = period["timezone"]
    issued = local_day(document["issued_at"], period["timezone"]) if document.get("issued_at") else None
    lines = [completed(line) for line in invoice.lines]
    corrections = [line for line in lines if line["charge_class"] and line["kind"] != "tax"]
    charged = [line for line in lines if not line["charge_class"] or line["kind"] == "tax"]
    held = [line for line in charged if line["kind"] in HELD_KINDS]
    others = [line for line in charged if line["kind"] not in HELD_KINDS]
    due = totals.get("due") or totals["amount"]
    buyer = (document.get("parties") or {}).get("buyer") or {}
    return Page(
        title=f"Draft {kind.lower()}" if look == "draft" else kind,
        number=invoice.number or "",
        look=look,
        badge={"draft": "not issued, not a demand for payment", "void": _void(document)}.get(look, ""),
        watermark={"draft": "DRAFT", "void": "VOID"}.get(look, ""),
        lang="en",
        issuer=seller_of(document),
        tenant_label="Credited to" if credit else "Billed to",
        tenant=(buyer.get("name") or invoice.tenant) or "(no tenant)",
        tenant_address=_buyer_lines(buyer),
        month=month_in_words(period["month"]),
        facts=_facts(document, day_in_words(issued) if issued else None),
        hero_label=_hero_label(look, credit) + (", incomplete" if invoice.is_incomplete else ""),
        hero_amount=UNKNOWN if invoice.known_amount is None else money(-Decimal(due) if credit else due),
        hero_more=_payable(document.get("payable"), invoice.currency, credit),
        currency=invoice.currency,
        issued=(issued.year, issued.month, issued.day) if issued else None,
        allocated=hours(totals["allocated_gpu_hours"]),
        parts=bar(totals) if Decimal(totals["allocated_gpu_hours"]) else [],
        sums=_sums(invoice, held, others, corrections),
        ranking=_ranking(held),
        projects=_grouped(held, _project, zone),
        adjustments_title="What is credited" if credit else "Adjustments",
        adjustments_more="" if credit else Page.adjustments_more,
        adjustments=[replace(group, title=_title(group.title)) for group in _grouped(others, _kind, zone)],
        corrections=_grouped(corrections, _corrected, zone),
        payment=_payment(invoice, due) if look == "issued" and not credit else [],
        given_back=given_back(document),
        notes=[*(document.get("notes") or ()), *(_change(one, zone) for one in document.get("changes") or ())],
        small_print=f"{PRINCIPLE} Period {period['start']} to {period['end']} (exclusive); "
        f"ledger run {document['run'] if document.get('run') not in (None, '', '0') else DASH}.",
    )


def completed(line: Mapping[str, Any]) -> dict[str, Any]:
    """The line with every key of the model, whatever the document's age."""
    absent: dict[str, Any] = dict.fromkeys(
        ("project", "sku", "description", "rule", "charge_class", "reference", "quantity", "list_unit_price",
         "contracted_unit_price", "list_cost", "billed_cost", "amount", "allocated_gpu_hours")
    )  # fmt: skip
    full = {**absent, **line, "kind": kind_of(line)}
    if full["kind"] == "usage":
        full["quantity"] = full["quantity"] or full["allocated_gpu_hours"]
    full["unit"] = line.get("unit") or ("GPU-hours" if full["kind"] == "usage" else "")
    return full


def _look(document: Mapping[str, Any]) -> str:
    if document.get("void") or str(document["status"]).startswith("void"):
        return "void"
    return "draft" if document["status"] == "draft" else "issued"


def _void(document: Mapping[str, Any]) -> str:
    void = document.get("void")
    reason = void.get("reason") if isinstance(void, Mapping) else None
    return "void, nothing is due" + (f": {reason}" if reason else "")


def issuer_of(issuer: Mapping[str, Any] | None) -> dict[str, Any]:
    name = str((issuer or {}).get("name") or "GPU platform")
    return {
        "name": name,
        "address": list((issuer or {}).get("address") or ()),
        "contact": str((issuer or {}).get("contact") or ""),
        "logo": str((issuer or {}).get("logo") or ""),
        "monogram": name[:1].upper(),
    }


def seller_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """The issuer, with the seller's details where they were applied when the document was issued."""
    issuer = issuer_of(document.get("issuer"))
    seller = (document.get("parties") or {}).get("seller")
    if not seller:
        return issuer
    tax = [f"Tax ID {seller['tax_id']}"] if seller["tax_id"] else []
    return {
        **issuer,
        "name": seller["name"],
        "address": [*seller["address"], *tax],
        "contact": seller["contact"] or issuer["contact"],
        "monogram": seller["name"][:1].upper(),
    }


def _buyer_lines(buyer: Mapping[str, Any]) -> list[str]:
    """The lines under the buyer's name. The tenant is the name in the books."""
    if not buyer:
        return []
    lines = list(buyer["address"])
    lines += [f"Tax ID {buyer['tax_id']}"] if buyer["tax_id"] else []
    lines += [f"Purchase order {buyer['purchase_order']}"] if buyer["purchase_order"] else []
    return [*lines, *([f"Tenant {buyer['tenant']}"] if buyer["tenant"] != buyer["name"] else [])]


def _payment(invoice: Invoice, due: str) -> list[Fact]:
    """How, by when and to whom to pay; nothing if the seller's details were not applied."""
    document = invoice.document
    parties = document.get("parties") or {}
    seller = parties.get("seller") or {}
    if not seller:
        return []
    if Decimal(due) <= 0:
        return [Fact("To pay", "nothing", "what is in your favour is set off against what is due next")]
    payable = document.get("payable") or {}
    amount, currency = (payable["amount"], payable["currency"]) if payable else (due, invoice.currency)
    facts = [Fact("To pay", f"{money(amount) if amount is not None else UNKNOWN} {currency}")]
    if parties.get("due_date"):
        day = day_in_words(date.fromisoformat(parties["due_date"]))
        facts.append(Fact("By", day, f"{parties['payment_days']} days after the day of issue"))
    if bank := seller["bank"]:
        number = f"IBAN {_in_fours(bank['iban'])}" if bank["iban"] else f"Account {bank['account']}"
        facts.append(
            Fact("To", bank["holder"], ", ".join(filter(None, (bank["name"], bank["bic"] and f"BIC {bank['bic']}"))))
        )
        facts.append(Fact("Account", number))
    facts.append(Fact("Reference", invoice.number or ""))
    return [*facts, Fact("Terms", seller["terms"])] if seller["terms"] else facts


def _in_fours(iban: str) -> str:
    return " ".join(iban[at : at + 4] for at in range(0, len(iban), 4))


def _facts(document: Mapping[str, Any], issued: str | None) -> list[Fact]:
    period = document["period"]
    facts = [
        Fact("Issued", issued or "not issued"),
        Fact("Period", month_in_words(period["month"]), f"{days_in_words(period)}, {period['timezone']}"),
        Fact("Rate card", str(document.get("rate_card") or "none")[:16]),
    ]
    due_date = (document.get("parties") or {}).get("due_date")
    if due_date and not document.get("void") and document.get("document_type") != "credit_note":
        facts.insert(1, Fact("Due", day_in_words(date.fromisoformat(due_date))))
    references = _references(document.get("references"))
    return [*facts, Fact("Refers to", ", ".join(references))] if references else facts


def _references(found: Any) -> list[str]:
    """Numbers of the documents referred to, however they are written: one or several, a number or {invoice, month}."""
    if not found:
        return []
    several = [found] if isinstance(found, str | Mapping) else list(found)
    return [str(one.get("invoice") or one.get("number")) if isinstance(one, Mapping) else str(one) for one in several]


def _hero_label(look: str, credit: bool) -> str:
    if look == "void":
        return "Was due"
    if credit:
        return "To be credited" if look == "draft" else "Credited to you"
    return "Amount so far" if look == "draft" else "Amount due"


def _payable(payable: Mapping[str, Any] | None, currency: str, credit: bool) -> str:
    if not payable:
        return ""
    how, sign = ("credited", -1) if credit else ("payable", 1)
    if payable["amount"] is None:
        return f"{how} in {payable['currency']}; the exchange rate is not known yet"
    paid = f"{money(sign * Decimal(payable['amount']))} {payable['currency']}"
    others = "".join(
        f"; corrections of {month_in_words(one['month'])} at {price(one['rate'])}"
        for one in payable["corrections"]
        if one["rate"] != payable["rate"]
    )
    return f"{how} as {paid} (1 {currency} = {price(payable['rate'])} {payable['currency']}{others})"


def _sums(
    invoice: Invoice,
    held: Sequence[Mapping[str, Any]],
    others: Sequence[Mapping[str, Any]],
    corrections: Sequence[Mapping[str, Any]],
) -> list[Sum]:
    """From list prices to what is due, in the order of the rating."""
    totals = invoice.totals
    sums = _usage_sums([line for line in held if line["kind"] == "usage"], invoice.currency)
    later = [*[line for line in held if line["kind"] != "usage"], *others]
    order = {kind: number for number, kind in enumerate(TITLES)}
    for kind in sorted({_kind(line) for line in later}, key=lambda kind: (order.get(kind, len(order)), kind)):
        if kind != "tax":
            sums.append(Sum(_title(kind), _amount_of([line for line in later if line["kind"] == kind])))
    if corrections:
        sums.append(Sum("Corrections of earlier months", _amount_of(corrections)))
    taxes = [line for line in others if line["kind"] == "tax"]
    if taxes:
        net = totals.get("net")
        sums.append(Sum("Net", money(net) if net is not None else UNKNOWN, "sum"))
        sums += [Sum(_row_title(line), _amount_of([line])) for line in taxes]
    elif (invoice.document.get("parties") or {}).get("seller"):
        sums.append(Sum("Tax", "none"))
    total, amount = ("Total, incomplete" if invoice.is_incomplete else "Total"), invoice.known_amount
    sums.append(Sum(total, UNKNOWN if amount is None else money(amount), "total", _without(invoice)))
    if Decimal(totals.get("prepaid") or 0):
        sums.append(Sum("Paid from the prepaid balance", money(-Decimal(totals["prepaid"]))))
        sums.append(Sum("Due", money(totals["due"]), "total"))
    return sums


def _without(invoice: Invoice) -> str:
    """What the total of a draft lacks."""
    if not invoice.is_incomplete:
        return ""
    if not invoice.unpriced_gpu_hours:
        return "GPU-hours of a corrected month have no price"
    return f"{hours(invoice.unpriced_gpu_hours)} GPU-hours have no price"


def _usage_sums(usage: Sequence[Mapping[str, Any]], currency: str) -> list[Sum]:
    """What the usage costs, and how much of its list price the contract takes off."""
    if not usage:
        return []
    known = [line for line in usage if line["amount"] is not None]
    if any(_is_discounted(line) for line in known) and all(line["list_cost"] is not None for line in known):
        full = round(sum((Decimal(line["list_cost"]) for line in known), Decimal(0)), minor_digits(currency))
        charged = sum((Decimal(line["amount"]) for line in known), Decimal(0))
        return [Sum("GPU time at list prices", money(full)), Sum("Contract prices", money(charged - full))]
    return [Sum(_title("usage"), _amount_of(usage))]


def _is_discounted(line: Mapping[str, Any]) -> bool:
    listed, charged = line["list_unit_price"], line["contracted_unit_price"]
    return None not in (listed, charged) and Decimal(listed) != Decimal(charged)


def _grouped(lines: Iterable[Mapping[str, Any]], heading: Any, timezone: str) -> list[Group]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        groups.setdefault(heading(line), []).append(line)
    order = {kind: number for number, kind in enumerate(TITLES)}
    for members in groups.values():
        members.sort(key=lambda line: (order.get(line["kind"], len(order)), line["kind"], *_place(line)))
    return [
        Group(title, _hours_of(members), _amount_of(members), [_row(line, timezone) for line in members])
        for title, members in groups.items()
    ]


def _ranking(held: Iterable[Mapping[str, Any]]) -> list[Rank]:
    """The projects that cost most, most expensive first."""
    costs: dict[str, Decimal] = {}
    for line in held:
        if line["amount"] is not None:
            costs[_project(line)] = costs.get(_project(line), Decimal(0)) + Decimal(line["amount"])
    first = sorted(costs.items(), key=lambda item: (-item[1], item[0]))[:RANKED]
    return [Rank(shortened(title), money(cost), f"{100 * cost / first[0][1]:.3f}") for title, cost in first if cost > 0]


def _row(line: Mapping[str, Any], timezone: str) -> Row:
    listed, charged = line["list_unit_price"], line["contracted_unit_price"]
    measured = line["allocated_gpu_hours"] is not None
    used = line.get("used_gpu_hours")
    return Row(
        title=_row_title(line),
        more=_row_more(line, timezone),
        bar=bar(line) if measured and used is not None else None,
        used=percent(Decimal(used), Decimal(line["allocated_gpu_hours"])) if measured and used is not None else "",
        quantity=hours(line["quantity"]) if _has_quantity(line) else "",
        unit=line["unit"],
        list_price=price(listed) if listed is not None else "",
        price=price(charged) if charged is not None else UNKNOWN if line["amount"] is None else "",
        discounted=_is_discounted(line),
        amount=money(line["amount"]) if line["amount"] is not None else UNKNOWN,
    )


def _has_quantity(line: Mapping[str, Any]) -> bool:
    """A correction of an amount alone is of no quantity."""
    return line["quantity"] is not None and not (line["charge_class"] and Decimal(line["quantity"]) == 0)


def _is_tax_of_a_correction(line: Mapping[str, Any]) -> bool:
    reference = line["reference"]
    return bool(line["kind"] == "tax" and line["charge_class"] and isinstance(reference, Mapping) and line["rule"])


def _row_title(line: Mapping[str, Any]) -> str:
    """The title of a charge; for a policy with its own description, that."""
    if line["kind"] == "usage":
        return str(line["sku"] or "(no rate)")
    if _is_tax_of_a_correction(line):
        return f"{line['rule']} on the correction of {month_in_words(line['reference']['month'])}"
    if line["kind"] in HELD_KINDS or line["charge_class"]:
        kind, sku = _title(line["kind"]), line["sku"] or ""
        return f"{kind}: {sku}" if sku.lower() not in ("", kind.lower()) else kind
    return str(line["description"] or line["sku"] or _title(line["kind"]))


def _row_more(line: Mapping[str, Any], timezone: str) -> str:
    """The text under the title: what made the line, and whom it concerns; for a price, its validity."""
    title = _row_title(line)
    parts = [validity(line, timezone)]
    if line["description"] != title:
        parts.append(line["description"])
    if line["kind"] == "commitment" and not line["charge_class"]:
        parts.append(f"SKU {line['sku']}" if line["sku"] else "")
    if line["project"] and (line["kind"] not in HELD_KINDS or line["charge_class"]):
        parts.append(f"project {line['project']}")
    if line["rule"] and line["rule"] not in title:
        parts.append(f"rule {line['rule']}")
    if line["reference"] and (line["kind"] == "tax" or not line["charge_class"]):
        parts.append(_corrected(line) if line["charge_class"] else f"invoice {line['reference']['invoice']}")
    return " · ".join(str(part) for part in parts if part)


def validity(line: Mapping[str, Any], timezone: str) -> str:
    """Like `price from 16 October 2026 on, for queue batch`; with that of the list price where it is another."""
    parts = [_validity(line, which, timezone) for which in ("price", "list_price")]
    return "; ".join(filter(None, parts))


def _validity(line: Mapping[str, Any], which: str, timezone: str) -> str:
    parts = []
    for one in line.get(f"{which}_validity") or ():
        days = _days(*(one[end] and said_of(one[end], timezone) for end, said_of in ENDS))
        only = (one["only"] or "").replace("partition_profile ", "partition profile ")
        parts.append(", ".join(filter(None, (days, only and f"for {only}"))))
    return f"{which.replace('_', ' ')} {' and '.join(dict.fromkeys(filter(None, parts)))}" if any(parts) else ""


ENDS = (("from", since_in_words), ("to", until_in_words))


def _days(first: str | None, last: str | None) -> str:
    if first and last:
        return f"from {first} to {last}"
    return f"from {first} on" if first else f"until {last}" if last else ""


def _change(change: Mapping[str, Any], timezone: str) -> str:
    """Why a month is corrected: which allocations' entries differ from what was billed, in which hours, and since
    when."""
    hours_of = [_changed(one) for one in change["first"]]
    more = change["allocations"] - len(hours_of)
    since = (
        f" Closed with the facts until {since_in_words(change['closed_at'], timezone)}." if change["closed_at"] else ""
    )
    return (
        f"Why {month_in_words(change['month'])} is corrected: from {since_in_words(change['from'], timezone)} to "
        f"{until_in_words(change['to'], timezone)} the ledger has other hours than were billed for "
        f"{', '.join(hours_of)}{f' and {more:,} more' if more else ''}.{since}"
    )


def _changed(one: Mapping[str, str]) -> str:
    """Like `train-7 (+2.00 GPU-hours)`; of an allocation whose name is a number, that it is one, and of what."""
    allocation, workload = one["allocation"], one.get("workload")
    hours_of = f"{Decimal(one['gpu_hours']):+,.2f} GPU-hours"
    if workload:
        return f"{workload} (allocation {allocation}, {hours_of})"
    return f"{'allocation ' if allocation.isdecimal() else ''}{allocation} ({hours_of})"


def _place(line: Mapping[str, Any]) -> tuple[str, str, str]:
    """Among the lines of its kind: prices of one SKU in the order in which they held. Policies keep the order in which
    they applied, and a quota's price stands before what the quota covers."""
    return (line["sku"] or "", _since(line, "price"), _since(line, "list_price")) if not line["rule"] else ("", "", "")


def _since(line: Mapping[str, Any], which: str) -> str:
    """From when on that price of it held; '' for always."""
    return min((one["from"] or "" for one in line.get(f"{which}_validity") or ()), default="")


def _project(line: Mapping[str, Any]) -> str:
    return str(line["project"]) or "(no project)"


def _kind(line: Mapping[str, Any]) -> str:
    return str(line["kind"])


def _title(kind: str) -> str:
    return TITLES.get(kind, kind.replace("_", " ").capitalize())


def _corrected(line: Mapping[str, Any]) -> str:
    reference = line["reference"]
    if not reference:
        return "Corrections"
    if not isinstance(reference, Mapping):
        return f"Corrects {reference}"
    month = f", {month_in_words(reference['month'])}" if reference.get("month") else ""
    if not reference.get("invoice"):
        return f"Owed for {month_in_words(reference['month'])}, which had no invoice"
    return f"Corrects invoice {reference['invoice']}{month}"


def _hours_of(lines: Iterable[Mapping[str, Any]]) -> str:
    held = [Decimal(line["allocated_gpu_hours"]) for line in lines if line["allocated_gpu_hours"] is not None]
    return hours(sum(held, Decimal(0))) if held else ""


def _amount_of(lines: Iterable[Mapping[str, Any]]) -> str:
    known = [Decimal(line["amount"]) for line in lines if line["amount"] is not None]
    return money(sum(known, Decimal(0))) if known else UNKNOWN
