"""The format of the parties' file: details of the seller and the buyers, in YAML.

    seller:                                # dated; of one time there is one
      - name: "Rechenzentrum Köln GmbH"
        address: ["Zülpicher Str. 1", "50674 Köln", "Germany"]
        tax_id: "DE123456789"
        contact: "billing@example.org"
        payment_days: 30
        terms: "Net 30 days; no discount for early payment."
        bank: {name: "Sparkasse", holder: "Rechenzentrum Köln GmbH", iban: "DE89370400440532013000", bic: "COLSDE33"}
    buyers:
      - {tenant: physics, name: "Institute of Physics", address: ["Albertus-Magnus-Platz"], tax_id: "DE987654321",
         purchase_order: "4711", effective_from: 2026-10-01}

Days are of the billing zone; `effective_to` is exclusive, absent = open. An invoice holds what is in force on the day
on which it is issued.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from billing.rates.policies import Name, Part, WholeFile
from warehouse.errors import LedgerError
from warehouse.written_files import first_error, read_yaml


class PartiesError(LedgerError):
    """Details of parties that cannot be used."""


def _day(value: object) -> object:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise ValueError("expected a day such as 2026-10-01") from None
    return value


Day = Annotated[date, BeforeValidator(_day)]
Lines = Annotated[tuple[Name, ...], Field(strict=False, max_length=8)]


class Dated(Part):
    """In force on the days [effective_from, effective_to); None = open."""

    effective_from: Day | None = None
    effective_to: Day | None = None

    def on(self, day: date) -> bool:
        return (self.effective_from or day) <= day and (self.effective_to is None or day < self.effective_to)

    def shares_a_day(self, other: Dated) -> bool:
        first = max(self.effective_from or date.min, other.effective_from or date.min)
        return first < min(self.effective_to or date.max, other.effective_to or date.max)

    @model_validator(mode="after")
    def _starts_before_it_ends(self) -> Self:
        if self.effective_from and self.effective_to and self.effective_to <= self.effective_from:
            raise ValueError(f"effective_to {self.effective_to} is not after effective_from {self.effective_from}")
        return self


class Bank(Part):
    """Where to pay to. `iban` is checked; `account` is a number of any other kind."""

    name: str = ""
    holder: Name
    iban: str = ""
    account: str = ""
    bic: Annotated[str, Field(pattern=r"^([A-Z]{6}[A-Z0-9]{2}([A-Z0-9]{3})?)?$")] = ""

    @field_validator("iban")
    @classmethod
    def _adds_up(cls, value: str) -> str:
        iban = value.replace(" ", "")
        if iban and (not re.fullmatch("[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", iban) or _remainder(iban) != 1):
            raise ValueError("its check digits are wrong; expected an IBAN such as DE89 3704 0044 0532 0130 00")
        return iban

    @model_validator(mode="after")
    def _says_where(self) -> Self:
        if bool(self.iban) == bool(self.account):
            raise ValueError("give either iban or account, not both")
        return self


def _remainder(iban: str) -> int:
    return int("".join(str(int(letter, 36)) for letter in iban[4:] + iban[:4])) % 97


class Seller(Dated):
    """Who sends the invoices. `payment_days`: after the day of issue, until when they are paid."""

    name: Name
    address: Lines
    tax_id: str = ""
    contact: str = ""
    payment_days: Annotated[int, Field(ge=0, le=365)] = 30
    terms: str = ""
    bank: Bank | None = None


class Buyer(Dated):
    """Who pays for a tenant. `payment_days` where it has other ones than the seller gives to all."""

    tenant: Name
    name: Name
    address: Lines = ()
    tax_id: str = ""
    purchase_order: str = ""
    payment_days: Annotated[int | None, Field(ge=0, le=365)] = None


class Parties(WholeFile):
    """All of it."""

    seller: Annotated[tuple[Seller, ...], Field(strict=False)] = ()
    buyers: Annotated[tuple[Buyer, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _one_at_a_time(self) -> Self:
        _refuse_overlap("seller", [("", one) for one in self.seller])
        _refuse_overlap("buyers", [(one.tenant, one) for one in self.buyers])
        return self

    def on_document(self, tenant: str, day: date, to_pay: bool) -> dict[str, Any]:
        """What a document of the day says of both: texts and numbers, as JSON holds them.

        to_pay: whether something is due; otherwise there is no day by which to pay it.
        """
        seller = next((one for one in self.seller if one.on(day)), None)
        buyer = next((one for one in self.buyers if one.tenant == tenant and one.on(day)), None)
        days = buyer.payment_days if buyer else None
        if days is None and seller:
            days = seller.payment_days
        due = day + timedelta(days=days) if to_pay and days is not None else None
        return {
            "version": self.version,
            "seller": seller and seller.model_dump(mode="json", exclude=_DATES),
            "buyer": buyer and buyer.model_dump(mode="json", exclude=_DATES),
            "payment_days": days,
            "due_date": due and due.isoformat(),
        }


_DATES = {"effective_from", "effective_to"}


def _refuse_overlap(key: str, named: Sequence[tuple[str, Dated]]) -> None:
    for number, (name, one) in enumerate(named):
        for before, (rival, other) in enumerate(named[:number]):
            if name == rival and one.shares_a_day(other):
                whose = f" of tenant {name!r}" if name else ""
                raise ValueError(
                    f"{key}[{before}] and {key}[{number}]{whose} are in force on the same day; "
                    "end one where the other starts"
                )


def load_parties(path: Path | str) -> Parties:
    """Reads the file. Errors: PartiesError naming the key, what was found there and what fits."""
    content = read_yaml(path, "parties", "It has the keys seller and buyers", PartiesError)
    return parse_parties(content, str(path))


def parse_parties(content: dict[str, Any], where: str = "parties") -> Parties:
    """From what the YAML holds. Errors: PartiesError with the first thing that does not fit."""
    try:
        return Parties.model_validate(content)
    except ValidationError as error:
        raise first_error(where, error, Parties, PartiesError, "See docs/billing.md", content=content) from error


def _days(one: Dated) -> dict[str, date | None]:
    return {"effective_from": one.effective_from, "effective_to": one.effective_to}


def rows_of(parties: Parties) -> Iterable[dict[str, Any]]:
    """For a table: a row for each seller and buyer, with the days on which it is in force."""
    for role, several in (("seller", parties.seller), ("buyer", parties.buyers)):
        for one in several:
            found = dict(one)
            yield {
                "role": role,
                "tenant": found.get("tenant", ""),
                "name": one.name,
                "tax_id": one.tax_id,
                "purchase_order": found.get("purchase_order", ""),
                "payment_days": one.payment_days,
                **{name: day and day.isoformat() for name, day in _days(one).items()},
            }
