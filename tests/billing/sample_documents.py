"""Documents typed by hand, with every kind of line: what the rating will one day make of a busy month."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

from billing.invoicing.documents import Invoice

MARK = b"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 48 48">
<rect width="48" height="48" rx="9" fill="#123c5a"/>
<path d="M11 33V15h8l5 9 5-9h8v18" fill="none" stroke="#7fd1c7" stroke-width="4" stroke-linejoin="round"/></svg>"""
LOGO = "data:image/svg+xml;base64," + base64.b64encode(MARK).decode()
MEASURES = ("allocated_gpu_hours", "used_gpu_hours", "idle_gpu_hours", "unmetered_gpu_hours")


PARTIES: dict[str, Any] = {
    "version": "0f1e2d3c4b5a", "payment_days": 30, "due_date": "2026-12-02",
    "seller": {
        "name": "Meridian Compute Platform", "contact": "billing@meridian.example", "tax_id": "DE123456789",
        "address": ["Rechenweg 12", "10115 Berlin, Germany"], "payment_days": 30, "terms": "Net, no discount.",
        "bank": {"name": "Sparkasse", "holder": "Meridian Compute Platform", "iban": "DE89370400440532013000",
                 "account": "", "bic": "COLSDE33"},
    },
    "buyer": {"tenant": "Physics 物理研究所", "name": "Institute of Physics 物理研究所", "address": ["Campus 4"],
              "tax_id": "", "purchase_order": "4500012345", "payment_days": None},
}  # fmt: skip


def usage(
    project: str, sku: str, held: tuple[str, str, str], listed: str, charged: str, amount: str | None
) -> dict[str, Any]:
    """`held` are GPU-hours used, idle and unmetered."""
    used, idle, unmetered = map(Decimal, held)
    hours = used + idle + unmetered
    return {
        "kind": "usage", "project": project, "sku": sku, "description": "", "quantity": f"{hours:.9f}",
        "unit": "GPU-hours", "list_unit_price": listed, "contracted_unit_price": charged,
        "list_cost": f"{hours * Decimal(listed):.9f}", "billed_cost": f"{hours * Decimal(charged):.9f}",
        "amount": amount or f"{hours * Decimal(charged):.2f}", "rule": "", "charge_class": None, "reference": None,
        "allocated_gpu_hours": f"{hours:.9f}", "used_gpu_hours": f"{used:.9f}", "idle_gpu_hours": f"{idle:.9f}",
        "unmetered_gpu_hours": f"{unmetered:.9f}", "unpriced_gpu_hours": "0.000000000",
        "coverage": f"{(used + idle) / hours:.9f}",
    }  # fmt: skip


def other(kind: str, amount: str, description: str, rule: str = "", **keys: Any) -> dict[str, Any]:
    """A line that is no usage: its measures are null."""
    names = ("quantity", "list_unit_price", "contracted_unit_price", "list_cost", "charge_class", "reference")
    line = {"kind": kind, "project": "", "sku": "", "description": description, "unit": "", "rule": rule}
    line |= dict.fromkeys((*names, *MEASURES, "unpriced_gpu_hours", "coverage")) | {"billed_cost": amount}
    return line | {"amount": amount} | keys


def every_kind(**changes: Any) -> Invoice:
    """An issued invoice of October 2026 in which every kind of line occurs, two of them corrections."""
    correction = {"charge_class": "Correction", "reference": {"invoice": "MB-2026-00007", "month": "2026-09"}}
    lines = [
        usage("llm-pretraining", "H100-SXM5-80GB", ("3812.5", "401.25", "20"), "2.900000000", "2.450000000", None),
        usage("llm-pretraining", "H200-SXM5-141GB", ("961", "38", "0"), "3.800000000", "3.400000000", None),
        usage("研发一部 / 推理", "A100-SXM4-80GB", ("402.125", "655.5", "14.25"), "1.900000000", "1.900000000", None),
        usage("研发一部 / 推理", "A100 MIG 1g.10gb", ("120", "61.5", "0"), "0.310000000", "0.280000000", None),
        usage("notebooks", "L40S", ("88.4", "512.6", "71"), "1.100000000", "1.100000000", None),
        other("energy", "1204.56", "Measured energy", "power", project="llm-pretraining", quantity="5019.000000000",
              unit="kWh", contracted_unit_price="0.240000000"),
        other("memory", "61.20", "Memory held", "memory", project="notebooks", quantity="20400.000000000",
              unit="GiB-hours", contracted_unit_price="0.003000000"),
        other("minimum", "3.42", "41 sessions shorter than 60 seconds, charged as 60 seconds", "minimum_seconds",
              project="notebooks", quantity="3.109000000", unit="GPU-hours", contracted_unit_price="1.100000000"),
        other("commitment", "9374.40", "Quota of 6 H100 for the whole month", "h100-quota", sku="H100-SXM5-80GB",
              quantity="4464.000000000", unit="GPU-hours", contracted_unit_price="2.100000000"),
        other("commitment", "-10372.69", "Usage that the quota covers, hour by hour", "h100-quota",
              sku="H100-SXM5-80GB"),
        other("discount", "-310.80", "5 % above 1,000 GPU-hours in the month, graduated", "volume"),
        other("shared", "218.03", "Part of pool training's unallocated time, by cost", "idle_policy training"),
        other("credit", "-150.00", "Node gpu-14 lost its NVLink on 12 October", "slo", project="llm-pretraining"),
        other("usage", "-42.60", "18 September: allocation job-4711 ended two hours earlier than was known",
              project="notebooks", sku="L40S", quantity="-38.727272727", unit="GPU-hours", **correction),
        other("discount", "2.13", "5 % above 1,000 GPU-hours in the month, graduated", "volume", **correction),
        other("tax", "3158.56", "VAT 19 % of 16,623.99", "VAT 19 %"),
        other("tax", "-7.69", "VAT 19 % of -40.47", "VAT 19 %", **correction),
    ]  # fmt: skip
    return invoice_of(lines, **changes)


def invoice_of(lines: list[dict[str, Any]], **changes: Any) -> Invoice:
    """An issued invoice of the lines, with totals summed from them."""
    lines = [{"line": number, **line} for number, line in enumerate(lines, 1)]
    amounts = {tax: sum((Decimal(line["amount"]) for line in lines if line["amount"] is not None
                         and (line["kind"] == "tax") is tax), Decimal(0)) for tax in (True, False)}  # fmt: skip
    total = amounts[True] + amounts[False]
    late = sum((Decimal(line["amount"]) for line in lines if line["charge_class"]), Decimal(0))
    prepaid = Decimal("5000.00") if total > 5000 else Decimal("0.00")
    measures = {name: format(sum((Decimal(line[name] or 0) for line in lines), Decimal(0)), "f") for name in MEASURES}
    document = {
        "document_type": "invoice", "number": "MB-2026-00012", "status": "issued",
        "issued_at": "2026-11-02T08:30:00.000Z",
        "issuer": {
            "name": "Meridian Compute Platform", "number_prefix": "MB", "logo": LOGO,
            "address": ["Rechenweg 12", "10115 Berlin, Germany", "VAT ID DE 123 456 789"],
            "contact": "billing@meridian.example",
        },
        "tenant": "Physics 物理研究所", "currency": "EUR", "run": "1790845",
        "period": {"month": "2026-10", "start": "2026-09-30T22:00:00.000Z", "end": "2026-10-31T23:00:00.000Z",
                   "timezone": "Europe/Berlin"},
        "rate_card": "7f3a9c21b04e", "lines": lines,
        "totals": {
            **measures, "unpriced_gpu_hours": "0.000000000", "list_cost": None, "billed_cost": str(amounts[False]),
            "coverage": "0.985", "net": str(amounts[False]), "tax": str(amounts[True]), "amount": str(total),
            "prepaid": str(prepaid), "due": str(total - prepaid),
        },
        "payable": {
            "currency": "USD",
            "rate": "1.085000000",
            "corrections": [{"month": "2026-09", "amount": str(late), "rate": "1.100000000"}],
            "amount": f"{(total - prepaid - late) * Decimal('1.085') + late * Decimal('1.1'):.2f}",
        },
        "notes": [
            "105.25 GPU-hours were held while no telemetry said whether they were used.",
            "12.50 GPU-hours are estimated: the end of the allocation was never reported.",
        ],
    }  # fmt: skip
    return Invoice(document | changes)


def many_lines(count: int = 200) -> Invoice:
    """A draft with long names of every script, unpriced time and amounts of ten digits."""
    long = "a-very-long-project-name-that-nobody-shortened/" * 4 + "x" * 120
    names = ["模型训练平台研发中心第三研究小组大规模分布式训练项目" * 3, long, "short", "Ελληνικά проект — <b>&amp;"]
    lines = [
        usage(
            f"{names[number % 4]} {number // 10}", f"sku-{number}", (f"{number * 977}", "12345.5", "3"),
            "1234.123456789", "999.123456789", None,
        )
        for number in range(count - 1)
    ]  # fmt: skip
    free = usage("short 0", "", ("1", "1", "1"), "1", "1", "0.00")
    free |= {"list_unit_price": None, "contracted_unit_price": None, "list_cost": None, "billed_cost": None}
    return invoice_of([*lines, free | {"amount": None}], number=None, status="draft", issued_at=None, payable=None)


def credit_note() -> Invoice:
    """5,000.00 given back on the invoice of every kind, with its tax."""
    reference = {"invoice": "MB-2026-00012", "month": "2026-10"}
    lines = [
        other("credit", "-5000.00", "Credit on MB-2026-00012: outage", "credit note", reference=reference),
        other("tax", "-950.00", "VAT 19 %", "VAT 19 %", reference=reference),
    ]
    changes = {"document_type": "credit_note", "references": "MB-2026-00012", "number": "MB-2026-00013"}
    return invoice_of(lines, **changes, notes=["outage"], payable=None)
