"""What a page and a table say of documents in which everything stands, and what else once a value in them is another.

GPULEDGER_GOLDEN=write pytest tests/billing/test_golden_pages.py     renews golden/pages.json

Each value of each document in turn is left out, nothing, or another. Whether the words are right is for
test_documents.py; this one notices where they changed: read the difference before it is renewed.
"""

from __future__ import annotations

import copy
import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from typing import Any

import pytest

from billing.documents.csv import as_csv
from billing.documents.page import page_of
from billing.invoicing.documents import Invoice
from tests.billing.golden import compare, digest
from tests.billing.sample_documents import PARTIES, credit_note, every_kind, invoice_of, other, usage

FEW = 4
"""Differences of a page that are kept as they are; of more of them the first, and a digest of all."""
MEASURES = ("used_gpu_hours", "idle_gpu_hours", "unmetered_gpu_hours")
LATE = {"charge_class": "Correction", "reference": {"invoice": "MB-2026-00007", "month": "2026-09"}}
OWED = {"charge_class": "Correction", "reference": {"invoice": None, "month": "2026-09"}}
VALIDITY = [
    {"from": "2026-10-15T22:00:00.000Z", "to": None, "only": "queue batch"},
    {"from": None, "to": "2026-10-16T07:30:00.000Z", "only": ""},
]
CHANGE = {
    "month": "2026-09",
    "from": "2026-09-03T10:00:00.000Z",
    "to": "2026-09-20T22:00:00.000Z",
    "closed_at": "2026-11-01T23:30:00.000Z",
    "allocations": 5,
    "first": [
        {"allocation": "40058", "workload": "slurm-40058", "gpu_hours": "-1.25"},
        {"allocation": "4711", "gpu_hours": "3"},
        {"allocation": "a2", "gpu_hours": "1200"},
    ],
}


def one_line_of_each(**changes: Any) -> Invoice:
    return invoice_of(
        [
            {
                **usage("p", "h100", ("5", "2", "1"), "3", "2.5", None),
                "price_validity": VALIDITY,
                "list_price_validity": [{**VALIDITY[1], "only": "pool web"}],
            },
            usage("q", "h100", ("900", "0", "1"), "3", "3", None),
            other("energy", "12.56", "Measured energy", "power", project="p", quantity="50", unit="kWh"),
            other("commitment", "-3.10", "Quota", "quota", sku="h100", quantity="4", unit="GPU-hours"),
            other("credit", "-1.50", "Outage", "slo", project="p"),
            other("usage", "-4.20", "ended sooner", project="q", sku="l40s", quantity="-2", unit="GPU-hours", **LATE),
            other("discount", "0.13", "Tiers", "volume", **OWED),
            other("tax", "3.00", "VAT 19 %", "VAT"),
            other("tax", "-0.70", "VAT 19 % of -3.70", "VAT", **LATE),
        ],
        **{"parties": PARTIES, "changes": [CHANGE], "references": "MB-2026-00002", **changes},
    )


DOCUMENTS = {
    "invoice": one_line_of_each(),
    "draft": one_line_of_each(status="draft", number=None, issued_at=None),
    "void": one_line_of_each(status="void", void={"reason": "twice"}),
    "every kind": every_kind(),
    "credit note": credit_note(),
}
OF_EACH_LINE = ("invoice", "credit note")
"""Of others every value but those of lines is spoiled."""


def others(value: Any) -> list[Any]:
    """What else a value could be."""
    if not isinstance(value, str):
        return [[] if isinstance(value, list) else None if value else "1.5"]
    try:
        Decimal(value)
    except InvalidOperation:
        return [None, "", "2026-08-31T21:30:00.000Z" if value.endswith("Z") else "2026-08-07"]
    return [None, "0", "-7.5"]


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if above:
        yield above
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(one, (*above, key))


def flat(value: Any, above: str = "") -> dict[str, str]:
    if isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {place: one for key, inner in items for place, one in flat(inner, f"{above}.{key}").items()}
    return {above.removeprefix("."): str(value)}


def shown(document: dict[str, Any]) -> dict[str, str]:
    """The page's texts and the table's cells by their places; or the kind of error that there is."""
    invoice = Invoice(document)
    found = {}
    for name, made in (("page", lambda: asdict(page_of(invoice))), ("csv", lambda: rows(invoice))):
        try:
            found |= flat(made(), name)
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            found[name] = type(error).__name__
    return found


def rows(invoice: Invoice) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(as_csv(invoice))))


def differences(one: dict[str, str], two: dict[str, str]) -> list[str]:
    if errors := [f"{name}: {two[name]}" for name in ("page", "csv") if name in two]:
        return errors
    found = [f"{place}: {two.get(place)}" for place in sorted({*one, *two}) if one.get(place) != two.get(place)]
    if len(found) <= FEW:
        return found
    return [*found[:FEW], f"{len(found)} in all, {digest(found)}"]


def said_of(name: str, document: dict[str, Any]) -> dict[str, Any]:
    whole = shown(document)
    said: dict[str, Any] = {"": whole}
    for place in places(document):
        if place[0] == "issuer" or (place[0] == "lines" and name not in OF_EACH_LINE):
            continue
        *above, last = place
        was = document
        for key in place:
            was = was[key]
        for value in others(was):
            changed = copy.deepcopy(document)
            holder: Any = changed
            for key in above:
                holder = holder[key]
            holder[last] = value
            if found := differences(whole, shown(changed)):
                said[f"{'.'.join(map(str, place))} = {json.dumps(value)}"] = found
    return said


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_word_is_that_of_the_golden_file(name: str) -> None:
    compare("pages", name, said_of(name, json.loads(json.dumps(DOCUMENTS[name].document))))
