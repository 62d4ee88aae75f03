"""An invoice as a file: one self-contained HTML page, JSON, or CSV with a row for each line."""

from __future__ import annotations

import csv
import functools
import hashlib
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from billing.invoicing.drafts import Invoice
from billing.money import minor_digits

if TYPE_CHECKING:
    from jinja2 import Template

FORMATS = ("html", "json", "csv")
COLUMNS = (
    "number",
    "status",
    "tenant",
    "period_start",
    "period_end",
    "currency",
    "line",
    "project",
    "sku",
    "allocated_gpu_hours",
    "used_gpu_hours",
    "idle_gpu_hours",
    "unmetered_gpu_hours",
    "list_unit_price",
    "contracted_unit_price",
    "list_cost",
    "billed_cost",
    "amount",
)
"""Of the CSV. Costs are exact to nine digits, amounts are what is paid."""


def line_rows(invoice: Invoice) -> list[dict[str, Any]]:
    """The lines, each with what identifies its invoice."""
    document = invoice.document
    shared = {name: document[name] for name in ("number", "status", "tenant", "currency")}
    shared |= {"period_start": document["period"]["start"], "period_end": document["period"]["end"]}
    return [{**shared, **line} for line in invoice.lines]


def as_json(invoice: Invoice) -> str:
    return json.dumps(invoice.document, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def as_csv(invoice: Invoice) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(line_rows(invoice))
    return text.getvalue()


def as_html(invoice: Invoice) -> str:
    """One page that needs nothing from elsewhere, made to be printed; every text in it is escaped."""
    projects = [
        _Project(name, tuple(lines)) for name, lines in groupby(invoice.lines, key=lambda line: str(line["project"]))
    ]
    totals = invoice.totals
    return _template().render(
        document=invoice.document,
        totals=totals,
        projects=projects,
        shares=_shares(totals),
        discount=_discount(invoice),
    )


def write_invoice(invoice: Invoice, directory: Path, formats: Iterable[str] = FORMATS) -> list[Path]:
    """Writes the invoice in each of the formats (see `FORMATS`), over what an earlier run wrote. Answers the paths."""
    directory.mkdir(parents=True, exist_ok=True)
    render = {"html": as_html, "json": as_json, "csv": as_csv}
    paths = []
    for name in formats:
        path = directory / f"{file_stem(invoice)}.{name}"
        path.write_text(render[name](invoice), encoding="utf-8")
        paths.append(path)
    return paths


def file_stem(invoice: Invoice) -> str:
    """A file name without suffix, fit for any file system and different for different tenants."""
    slug = re.sub(r"[^\w-]+", "-", invoice.tenant).strip("-")
    slug = slug.encode()[:60].decode(errors="ignore")
    if slug != invoice.tenant:
        slug = f"{slug or 'tenant'}-{hashlib.sha256(invoice.tenant.encode()).hexdigest()[:8]}"
    return f"{invoice.number or f'draft-{invoice.month}'}-{slug}"


@dataclass(frozen=True)
class _Project:
    name: str
    lines: Sequence[Mapping[str, Any]]

    @property
    def amount(self) -> Decimal:
        return sum((Decimal(line["amount"]) for line in self.lines if line["amount"] is not None), Decimal(0))

    @property
    def hours(self) -> Decimal:
        return sum((Decimal(line["allocated_gpu_hours"]) for line in self.lines), Decimal(0))


def _shares(measures: Mapping[str, Any]) -> list[tuple[str, Decimal, Decimal]]:
    """(kind, percent of the allocated time, where its bar starts) of used, idle and unmetered time."""
    allocated = Decimal(measures["allocated_gpu_hours"])
    shares, start = [], Decimal(0)
    for kind in ("used", "idle", "unmetered"):
        percent = 100 * Decimal(measures[f"{kind}_gpu_hours"]) / allocated if allocated else Decimal(0)
        shares.append((kind, round(percent, 3), round(start, 3)))
        start += percent
    return shares


def _discount(invoice: Invoice) -> tuple[Decimal, Decimal] | None:
    """(the list cost in minor units, what the contract takes off it), None where it takes nothing."""
    listed = invoice.totals["list_cost"]
    if listed is None or invoice.totals["list_cost"] == invoice.totals["billed_cost"]:
        return None
    full = round(Decimal(listed), minor_digits(invoice.currency))
    return full, invoice.amount - full


@functools.cache
def _template() -> Template:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"hours": _hours, "money": _money, "price": _price}
    environment.globals["shares_of"] = _shares
    return environment.get_template("invoice.html")


def _hours(value: str | Decimal) -> str:
    return f"{round(Decimal(value), 2):,}"


def _money(value: str | Decimal) -> str:
    return f"{Decimal(value):,f}"


def _price(value: str) -> str:
    """At least two digits after the point, and no more zeros than that."""
    whole, _, digits = value.partition(".")
    return f"{int(whole):,}.{digits.rstrip('0'):0<2}"
