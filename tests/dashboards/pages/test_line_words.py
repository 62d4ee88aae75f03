"""Lines of stored documents on a Chinese page: exactly the texts that the policies make, from what makes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from billing.accounts.credits import Credit
from billing.accounts.credits import _line as credit_line
from billing.energy.components import _description as component_description
from billing.energy.components import _Sum as Measured
from billing.exact import Scale
from billing.invoicing.adjustments import _in_words, commitment_lines, minimum_lines
from billing.invoicing.corrections import _in_words as correction
from billing.invoicing.corrections import _Sum as Billed
from billing.invoicing.month import _taxes
from billing.invoicing.shared import PoolCost, shared_lines
from billing.lines import Line
from billing.rates.policies import Commitment, Component, Discount, Tax
from dashboards.languages import language
from dashboards.pages.invoices.line_words import described, holds, unit

SCALE = Scale.of([1])
EN, ZH = language("en"), language("zh")
ONE = Decimal(1)


def lines() -> Iterator[Line]:
    """One of every text that a policy makes."""
    short = {"tenant": "t", "project": "p", "sku": "h100", "list_unit_price": ONE, "contracted_unit_price": ONE,
             "sessions": 3, "lacking_micro_ms": 3_600_000 * 10**6, "device_units": 1}  # fmt: skip
    (minimum,) = minimum_lines([short], 60, SCALE, {})
    yield minimum
    yield from minimum_lines([short], 60, SCALE, {("t", "p", "h100", ONE, ONE): 1})
    reserved = Commitment.model_validate(
        {"name": "reserved: 8", "tenant": "t", "gpus": "1.5", "price_per_gpu_hour": "1"}
    )
    quota = commitment_lines(reserved, [], [], Fraction(720), SCALE)
    yield from quota
    yield replace(quota[0], description=f"Covered by {reserved.name}")
    tiers = [{"from": "100", "percent": "5"}, {"above": "1000", "percent": "7.5"}]
    for card in (
        {"name": "ten, off 3", "percent": "10"},
        {"name": "volume", "tiers": tiers},
        {"name": "long", "tiers": tiers, "per": "session", "measure": "hours", "mode": "whole"},
    ):
        discount = Discount.model_validate(card)
        how = _in_words(discount, 3_600_000 * 10**6 * 12_345, SCALE)
        yield Line("t", "discount", description=f"{discount.name}: {how}, off 1,234.50", rule=discount.name)
    for share in ("allocated_cost", "evenly", "guaranteed"):
        for pool in ("train: a", ""):
            yield from shared_lines([PoolCost(pool, share, Decimal("60.5"), Decimal(1200), {"t": ONE}, ONE, ONE)])
    for priced in ({"sku": "power", "kind": "energy", "price": "0.30", "pue": "1.2"},
                   {"sku": "hbm", "kind": "memory", "price": "0.01"}):  # fmt: skip
        component = Component.model_validate(priced)
        for measured in (Fraction(0), Fraction(3), Fraction(4)):
            text = component_description(component, Measured(Fraction(4), measured, Fraction(7, 3)))
            yield Line("t", component.kind, description=text, rule=component.sku)
    for kind in ("manual", "slo", "interference"):
        yield credit_line(Credit("t", "2026-10", ONE, "EUR", "原因", kind, id="c1"))
    yield credit_line(Credit("t", "2026-10", -ONE, "EUR", "原因", evidence={"reverses": "c1"}, id="c2"))
    yield Line(
        "t", "credit", description="Credit on GL-2026-1: 原因", rule="credit note", reference={"invoice": "GL-2026-1"}
    )
    yield from _taxes("t", Decimal("1234.50"), _Card(), "2026-10", 2)  # type: ignore[arg-type]  # its taxes alone are asked


class _Card:
    taxes = (Tax.model_validate({"name": "VAT of here", "percent": "19"}),)


def as_stored(line: Line) -> dict[str, Any]:
    return {name: getattr(line, name) for name in ("kind", "sku", "description", "rule", "charge_class", "reference")}


NAMES = {
    "reserved",
    "ten",
    "off",
    "volume",
    "long",
    "train",
    "a",
    "GPU",
    "PUE",
    "kWh",
    "GiB",
    "c",
    "GL",
    "VAT",
    "of",
    "here",
}


def check(line: Mapping[str, Any]) -> str:
    said, text = described(line, ZH), line["description"]
    assert described(line, EN) == text
    assert {*re.findall(r"[A-Za-z]+", said)} <= NAMES, said
    figures = re.compile(r"\d+(?:[.,]\d+)*")
    written = text.replace("2026-09", "2026年9月")
    assert {*figures.findall(said)} == {*figures.findall(written)}, said
    return said


@pytest.mark.parametrize("line", [*lines()], ids=lambda line: line.description)
def test_a_policy_s_line_is_said_in_chinese_with_every_figure_and_name(line: Line) -> None:
    check(as_stored(line))
    before, after = Billed(ONE), Billed(Decimal("2.50"), description=line.description)
    was = correction(line.kind, before, after)
    stored = as_stored(line) | {
        "charge_class": "Correction",
        "reference": {"month": "2026-09", **(line.reference or {})},
    }
    assert check(stored | {"description": f"2026-09: {was}"}).startswith("2026年9月：已计费 1，应计费 2.50")
    assert (
        "：：" not in check(stored | {"description": f"2026-09: {correction('credit', Billed(), after)}"})
        or line.kind != "credit"
    )


@pytest.mark.parametrize(
    "text",
    ["Covered by another", "3 sessions shorter than 60 s, charged as 61 s", "Quota of many GPUs", "reserved: as agreed",
     "19 % of 100"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["minimum", "commitment", "discount", "shared", "energy", "credit", "tax", "usage"])
def test_a_text_that_no_policy_makes_stays_as_it_is(kind: str, text: str) -> None:
    line = {"kind": kind, "sku": "", "description": text, "rule": "reserved", "charge_class": None, "reference": None}
    assert described(line, ZH) == text
    assert described({**line, "description": ""}, ZH) == "reserved"


def test_when_a_price_holds_is_said_as_in_english() -> None:
    at = {name: datetime(2026, 10, day, hour, tzinfo=UTC).isoformat() for name, day, hour in
          (("day", 15, 22), ("hour", 16, 9))}  # fmt: skip

    def line(since: str | None, until: str | None, only: str = "") -> dict[str, Any]:
        return {"price_validity": [{"from": since, "to": until, "only": only}], "list_price_validity": None}

    said = [
        (holds(one, "Europe/Berlin", EN), holds(one, "Europe/Berlin", ZH))
        for one in (line(at["day"], None), line(None, at["day"], "queue batch"), line(at["day"], at["hour"]),
                    line(None, None), line(None, None, "mon-fri 08:00-20:00, preemptible no, pool a, b, "
                                                       "partition_profile 1g.10gb"), {})
    ]  # fmt: skip
    assert said == [
        ("price from 16 October 2026 on", "价格自\u00a02026年10月16日起"),
        ("price until 15 October 2026, for queue batch", "价格有效至\u00a02026年10月15日，适用于：队列 batch"),
        (
            "price from 16 October 2026 to 16 October 2026, 11:00",
            "价格自\u00a02026年10月16日至\u00a02026年10月16日\u00a011:00",
        ),
        ("", ""),
        (
            "price for mon-fri 08:00-20:00, preemptible no, pool a, b, partition profile 1g.10gb",
            "价格适用于：mon-fri 08:00-20:00，可抢占 否，资源池 a，b，分区规格 1g.10gb",
        ),
        ("", ""),
    ]


def test_units_are_words_of_the_page() -> None:
    assert [unit({"unit": one}, ZH) for one in ("GPU-hours", "GiB-hours", "kWh", "")] == [
        "GPU 小时",
        "GiB 小时",
        "kWh",
        "",
    ]
