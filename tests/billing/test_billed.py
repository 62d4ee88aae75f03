"""Which months the invoices that stand bill, against documents read one by one."""

from __future__ import annotations

from typing import Any

import pytest

from billing.invoicing.issued import Billed, billed, billed_later, issued
from billing.lines import is_correction
from billing.periods import month_name, parse_month
from tests.billing.account_books import issue, void
from tests.draws import dice_of, seeds
from warehouse.store import Store

MONTHS = ("2026-08", "2026-09", "2026-10")
TENANTS = ("chem", "bio", 'Ω "x"')
ZONES = ("UTC", "Europe/Berlin", "America/Los_Angeles")


def by_hand(store: Store, tenant: str | None) -> list[Billed]:
    found = []
    for one in issued(store, tenant=tenant):
        if one.is_void or one.is_credit_note:
            continue
        about = [line["reference"] for line in one.lines if is_correction(line)]
        corrected = dict.fromkeys(ref["month"] for ref in about if ref["invoice"] is None)
        zone = one.document["period"]["timezone"]
        found.append(Billed(str(one.number), one.tenant, one.month, zone, list(corrected)))
    return found


@pytest.mark.parametrize("seed", seeds("GPULEDGER_BILLED_SEEDS"))
def test_months_are_billed_as_the_documents_say(books: Store, seed: int | None) -> None:
    dice = dice_of(seed)
    for number in range(dice.randint(8, 16)):
        month, zone = dice.choice(MONTHS), dice.choice(ZONES)
        lines: list[dict[str, Any]] = [
            {"kind": "usage", "description": 'says "Correction" of null', "charge_class": None}
        ]
        for _ in range(dice.randrange(4)):
            about = {"month": dice.choice(MONTHS), "invoice": dice.choice([None, f"N{number:02}"])}
            lines.append({"kind": "usage", "charge_class": "Correction", "reference": about})
        kind = dice.choice(["invoice", "invoice", "credit_note"])
        name = issue(
            books, month, "1.00", tenant=dice.choice(TENANTS), timezone=zone, number=f"N{number:02}", lines=lines,
            document_type=kind, period={"month": month, "timezone": zone},
        )  # fmt: skip
        if dice.random() < 0.25:
            void(books, name)
    for tenant in (None, *TENANTS):
        expected = by_hand(books, tenant)
        assert billed(books, tenant) == expected
        for month in MONTHS:
            for zone in ZONES:
                period = parse_month(month, zone)
                later: dict[str, str] = {}
                for one in expected:
                    if month_name(period, one.timezone) in one.corrected:
                        later.setdefault(one.tenant, one.number)
                assert billed_later(books, period, tenant) == later
