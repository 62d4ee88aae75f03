"""What policies make of a month, and what is corrected of an issued one: drawn usage and documents, each line reckoned
by itself in fractions; no store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from math import floor
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from billing.exact import Scale
from billing.invoicing import corrections as module
from billing.invoicing.adjustments import (
    SessionLength,
    commitment_lines,
    discount_lines,
    long_enough,
    minimum_key,
    minimum_lines,
)
from billing.invoicing.corrections import changed_months, corrections_of
from billing.invoicing.documents import Invoice
from billing.invoicing.shared import pool_costs, shared_lines
from billing.invoicing.usage import NO_SESSION, Session, Usage
from billing.lines import Line
from billing.periods import Period, parse_month
from billing.rates import RateCard, parse_rate_card
from billing.rates.policies import Commitment, Discount
from tests.billing.hand_ledger import HOUR_MS

UNITS = 28
SCALE = Scale(UNITS)
HOUR = UNITS * HOUR_MS * 10**6
"""A GPU-hour on the scale."""
PRICES = (None, Decimal("2.50"), Decimal("1.000000001"), Decimal("0"))

Row = dict[str, Any]


def truth(dice: Random, share: float = 0.5) -> bool:
    return dice.random() < share


def plain(value: str) -> str:
    """Without the digits that say nothing: 2.50 is 2.5."""
    return value.rstrip("0").rstrip(".") if "." in value else value


def two(value: Fraction) -> str:
    """With two digits, half to even."""
    return f"{Decimal(round(value * 100)).scaleb(-2):,.2f}"


# --- minimum ----------------------------------------------------------------------------------------------------------


def test_short_sessions_of_a_price_are_one_line_of_what_no_quota_covers(dice: Random) -> None:
    names = ("tenant", "project", "sku", "list_unit_price", "contracted_unit_price")
    for _ in range(150):
        rows = [
            {"tenant": dice.choice(["chem", "bio"]), "project": dice.choice("pq"), "sku": dice.choice(["h", "l"]),
             "list_unit_price": PRICES[1], "contracted_unit_price": dice.choice(PRICES[:3]),
             "sessions": dice.choice([1, 1, 2]), "device_units": (units := dice.choice([1, 4, 7])),
             "lacking_micro_ms": dice.randint(1, 9 * units * HOUR_MS * 10**6)}
            for _ in range(dice.randint(0, 8))
        ]  # fmt: skip
        expected: dict[tuple[Any, ...], tuple[int, Fraction]] = {}
        for row in rows:
            if row["contracted_unit_price"] is not None:
                key = tuple(row[name] for name in names)
                sessions, hours = expected.get(key, (0, Fraction(0)))
                more = Fraction(row["lacking_micro_ms"], row["device_units"] * HOUR_MS * 10**6)
                expected[key] = sessions + row["sessions"], hours + more
        covered = {key: dice.choice([int(hours * HOUR), int(hours * HOUR) - 1, 1, dice.randint(0, 2 * HOUR)])
                   for key, (_, hours) in expected.items() if truth(dice)}  # fmt: skip
        covered["nobody", "p", "h", PRICES[1], PRICES[1]] = 7
        lines = minimum_lines(rows, 600, SCALE, covered)
        wanted = {key: one for key, one in expected.items() if one[1] > Fraction(covered.get(key, 0), HOUR)}
        assert [
            (one.tenant, one.project, one.sku, one.list_unit_price, one.contracted_unit_price) for one in lines
        ] == [*wanted]
        for one, (key, (sessions, hours)) in zip(lines, wanted.items(), strict=True):
            quantity = hours - Fraction(covered.get(key, 0), HOUR)
            assert (one.kind, one.quantity, one.unit) == ("minimum", quantity, "GPU-hours")
            assert (one.list_cost, one.cost) == (quantity * Fraction(key[3]), quantity * Fraction(key[4]))
            many = "1 session" if sessions == 1 else f"{sessions} sessions"
            less = ", less what quotas cover" if key in covered else ""
            assert one.description == f"{many} shorter than 600 s, charged as 600 s{less}"
            assert one.rule == "minimum_seconds 600"
        assert {minimum_key(row) for row in rows} == {tuple(row[name] for name in names) for row in rows}


# --- quotas -----------------------------------------------------------------------------------------------------------


ALIKE = ("project", "queue", "sku", "preemptible", "list_unit_price", "contracted_unit_price")


def drawn_usages(dice: Random, sessions: Sequence[Session] = (NO_SESSION,)) -> list[Usage]:
    """Of one tenant, no two alike."""
    found: dict[tuple[Any, ...], Usage] = {}
    for _ in range(dice.randint(1, 8)):
        contracted = dice.choice(PRICES)
        one = Usage(
            "chem", dice.choice("pq"), dice.choice("vw"), dice.choice(["h100", "l4"]), truth(dice),
            None if contracted is None else Decimal("2.50"), contracted, dice.choice(sessions),
        )  # fmt: skip
        one.add(dice.choice([0, HOUR, 7 * HOUR, dice.randint(1, 30 * HOUR)]))
        found[one.key] = one
    return list(found.values())


def money(one: Usage) -> Fraction:
    """What is left of its cost."""
    return Fraction(one.cost_left, HOUR * 10**9)


def test_a_quota_is_paid_used_or_not_and_takes_off_what_it_covers(dice: Random) -> None:
    for _ in range(150):
        usages = drawn_usages(dice, [NO_SESSION, ("c", "s1"), ("d", "s1")])
        quota = Commitment.model_validate({
            "name": "quota", "tenant": "chem", "sku": dice.choice(["*", "h*"]), "gpus": dice.choice(["2", "0.50"]),
            "price_per_gpu_hour": dice.choice(["1.25", "0"]),
        })  # fmt: skip
        hours = dice.choice(
            [Fraction(744), Fraction(1), Fraction(1001, 3), Fraction(743 * HOUR_MS + 1, HOUR_MS), Fraction(1, HOUR_MS)]
        )
        covered, taken = [], defaultdict(Fraction)
        left = {one.key: Fraction(one.left, HOUR) for one in usages}
        cost = {one.key: money(one) for one in usages}
        for one in usages:
            for part in (one.left // 3, one.left - one.left // 3)[: dice.randint(0, 2)]:
                covered.append({**{name: getattr(one, name) for name in ALIKE}, "session_cluster": one.session[0],
                                "session": one.session[1], "covered_micro_ms": part})  # fmt: skip
                size = Fraction(part, HOUR)
                left[one.key] -= size
                cost[one.key] -= size * Fraction(one.contracted_unit_price or 0)
                taken[one.project, one.sku, one.list_unit_price, one.contracted_unit_price] += size
        lines = commitment_lines(quota, usages, covered, hours, SCALE)
        assert {one.key: Fraction(one.left, HOUR) for one in usages} == left
        assert {one.key: money(one) for one in usages} == cost
        used = sum(taken.values(), Fraction(0))
        bought = Fraction(floor(Fraction(quota.gpus) * hours * HOUR), HOUR)
        text = f"Quota of {plain(str(quota.gpus))} GPUs for {plain(two(hours))} h"
        price = quota.price_per_gpu_hour
        wanted = [
            ("", quota.sku, f"{text}, used", used, None, price),
            ("", quota.sku, f"{text}, unused", bought - used, None, price),
            *((project, sku, "Covered by quota", -size, listed, own)
              for (project, sku, listed, own), size in taken.items()),
        ]  # fmt: skip
        for one, (project, sku, description, quantity, listed, own) in zip(lines, wanted, strict=True):
            assert one == Line(
                "chem", "commitment", project, sku, description, quantity, "GPU-hours", listed, own,
                None if listed is None else quantity * Fraction(listed),
                None if own is None else quantity * Fraction(own), "quota",
            )  # fmt: skip


# --- discounts --------------------------------------------------------------------------------------------------------


BOUNDS = ("0", "1", "2.50", "7", "20", "40")


def drawn_discount(dice: Random, number: int) -> tuple[Row, Discount]:
    rule: Row = {"name": f"rule {number}"}
    if truth(dice):
        rule["match"] = {
            name: dice.choice(values)
            for name, values in {
                "project": "pq",
                "queue": "vw",
                "sku": ["h*", "l4"],
                "preemptible": [True, False],
            }.items()
            if truth(dice, 0.3)
        }
    if truth(dice, 0.3):
        rule["percent"] = dice.choice(["10", "33.333333333", "100", "2.50"])
    if truth(dice):
        rule |= {"per": "session", "measure": dice.choice(["hours", "gpu_hours"])}
    if "percent" not in rule:
        bounds = sorted(dice.sample(BOUNDS, dice.randint(1, 3)), key=Fraction)
        rule["tiers"] = [{dice.choice(["from", "above"]): bound, "percent": dice.choice(["5", "20", "0", "12.50"])}
                         for bound in bounds]  # fmt: skip
        rule["mode"] = dice.choice(["graduated", "whole"])
    return rule, Discount.model_validate(rule)


def earned(rule: Row, before: Fraction, after: Fraction) -> Fraction:
    """Percent on average of what lies between two amounts."""
    if after == before:
        return Fraction(0)
    bounds = [
        (Fraction(one.get("from", one.get("above"))), "from" in one, Fraction(one["percent"])) for one in rule["tiers"]
    ]
    if rule["mode"] == "whole":
        reached = [percent for bound, inclusive, percent in bounds if after > bound or (inclusive and after == bound)]
        return reached[-1] if reached else Fraction(0)
    ends = [*(bound for bound, _, _ in bounds[1:]), max(after, bounds[-1][0])]
    parts = [percent * max(Fraction(0), min(after, end) - max(before, bound))
             for (bound, _, percent), end in zip(bounds, ends, strict=True)]  # fmt: skip
    return sum(parts, Fraction(0)) / (after - before)


def test_discounts_take_off_their_part_of_what_those_before_left(dice: Random) -> None:
    sessions = [NO_SESSION, ("c", "s1"), ("d", "s1"), ("c", "unknown")]
    for _ in range(200):
        usages = drawn_usages(dice, sessions)
        lengths: dict[Session, SessionLength] = {}
        for session in sessions[1:3]:
            before_ms, before = dice.choice([0, HOUR_MS, dice.randint(0, 9 * HOUR_MS)]), dice.choice([0, 2 * HOUR])
            bound = Fraction(dice.choice(BOUNDS))
            after_ms = dice.choice([before_ms, int(bound * HOUR_MS), before_ms + dice.randint(0, 40 * HOUR_MS)])
            after = dice.choice([before, int(bound * HOUR), before + HOUR, before + 6 * HOUR + 5])
            lengths[session] = SessionLength(before_ms, max(before_ms, after_ms), before, max(before, after))
        rules = [drawn_discount(dice, number) for number in range(dice.randint(0, 3))]
        left = {one.key: one.cost_left for one in usages}
        wanted = []
        for rule, _ in rules:
            match = rule.get("match", {})
            fits = [one for one in usages if left[one.key] > 0 and all(
                getattr(one, name) == value or (value == "h*" and one.sku == "h100") for name, value in match.items()
            )]  # fmt: skip
            held = sum((Fraction(one.left, HOUR) for one in fits), Fraction(0))
            by_project: dict[str, list[int]] = {}
            for one in fits:
                its = lengths.get(one.session)
                if "percent" in rule:
                    percent = Fraction(rule["percent"])
                elif rule.get("per") != "session":
                    percent = earned(rule, Fraction(0), held)
                elif its is None:
                    percent = Fraction(0)
                elif rule["measure"] == "hours":
                    percent = earned(rule, Fraction(its.before_ms, HOUR_MS), Fraction(its.after_ms, HOUR_MS))
                else:
                    percent = earned(rule, Fraction(its.before, HOUR), Fraction(its.after, HOUR))
                cut = floor(left[one.key] * percent / 100)
                sums = by_project.setdefault(one.project, [0, 0])
                sums[0] += left[one.key]
                sums[1] += cut
                left[one.key] -= cut
            for project, (base, cut) in by_project.items():
                if cut:
                    of = two(Fraction(base, HOUR * 10**9))
                    text = f"{rule['name']}: {in_words(rule, held)}, off {of}"
                    cost = -Fraction(cut, HOUR * 10**9)
                    wanted.append(Line("chem", "discount", project, description=text, cost=cost, rule=rule["name"]))
        assert discount_lines([one for _, one in rules], usages, lengths, SCALE) == wanted
        assert {one.key: one.cost_left for one in usages} == left

        by_session = [rule for rule, _ in rules if rule.get("per") == "session" and "tiers" in rule]
        found = long_enough([one for _, one in rules], SCALE)
        assert (found is None) == (not by_session)
        for place, (measure, hour) in enumerate((("hours", HOUR_MS), ("gpu_hours", HOUR))):
            firsts = [rule["tiers"][0] for rule in by_session if rule["measure"] == measure]
            least = min((int(Fraction(one.get("from", one.get("above"))) * hour) + ("above" in one) for one in firsts),
                        default=None)  # fmt: skip
            if found is not None:
                assert found[place] == least if least is not None else found[place] >= 2**62


def in_words(rule: Row, held: Fraction) -> str:
    if "percent" in rule:
        return f"{plain(rule['percent'])} %"
    tiers = []
    for one in rule["tiers"]:
        word = "from" if "from" in one else "above"
        tiers.append(f"{plain(one['percent'])} % {word} {plain(one[word])}")
    unit = "h" if rule.get("measure") == "hours" else "GPU-hours"
    of = "of each session" if rule.get("per") == "session" else f"of {two(held)} in the month"
    return f"{', '.join(tiers)} {unit} {of} ({rule['mode']})"


# --- what nobody held -------------------------------------------------------------------------------------------------


def test_unallocated_time_of_a_pool_is_shared_or_left_to_the_platform_to_the_last_cent(dice: Random) -> None:
    for _ in range(150):
        rows = []
        for pool in ("", "train", "web"):
            for tenant in ("", "bio", "chem", "phys"):
                rows += [
                    {"pool": pool, "held": held, "tenant": tenant if held else "", "unit_price": dice.choice(PRICES),
                     "device_units": (units := dice.choice([1, 4, 7])),
                     "micro_ms": dice.randint(1, 99 * units * HOUR_MS * 10**6)}
                    for held in (True, False) if truth(dice, 0.4)
                ]  # fmt: skip
        month = "2026-10"
        rules = [
            {"pool": dice.choice(["*", "train", "w*"]),
             "share": dice.choice(["allocated_cost", "evenly", "guaranteed"]),
             "effective_from": dice.choice([None, None, "2026-11"])} for _ in range(dice.randint(1, 3))
        ]  # fmt: skip
        rules = sorted({one["pool"]: one for one in rules}.values(), key=lambda one: one["pool"] == "*")
        quotas = [
            {"name": f"q{number}", "tenant": dice.choice(["chem", "bio"]), "sku": ["h", "*", "h*"][number],
             "gpus": dice.choice(["2", "0.5"]),
             "price_per_gpu_hour": "1", "effective_to": dice.choice([None, None, "2026-10"])} for number in range(3)
        ]  # fmt: skip
        card = a_card(idle_policy=rules if truth(dice, 0.9) else "platform", commitments=quotas)
        found = pool_costs(rows, card, month)
        free = sorted({row["pool"] for row in rows if not row["held"]})
        assert [one.pool for one in found] == free
        for one in found:
            its = [row for row in rows if row["pool"] == one.pool]
            hours = {id(row): Fraction(row["micro_ms"], row["device_units"] * HOUR_MS * 10**6) for row in its}
            idle = [row for row in its if not row["held"]]
            cost = sum((hours[id(row)] * Fraction(row["unit_price"] or 0) for row in idle), Fraction(0))
            total = Decimal(round(cost * 100)) / 100
            rule = next((rule for rule in rules if not isinstance(card.idle_policy, str) and not rule["effective_from"]
                         and (rule["pool"] == "*" or (one.pool and one.pool[0] == rule["pool"][0]))), None)  # fmt: skip
            share = rule["share"] if rule else "platform"
            weights: dict[str, Fraction] = defaultdict(Fraction)
            if share == "guaranteed":
                for quota in quotas:
                    weights[quota["tenant"]] += Fraction(quota["gpus"]) if not quota["effective_to"] else 0
            elif share != "platform":
                for row in its:
                    if row["held"] and row["tenant"]:
                        more = hours[id(row)] * Fraction(row["unit_price"] or 0)
                        weights[row["tenant"]] += more if share == "allocated_cost" else 0
                        if share == "evenly":
                            weights[row["tenant"]] = Fraction(1)
            weights = {tenant: weight for tenant, weight in weights.items() if weight}
            whole = sum(weights.values(), Fraction(0))
            assert (one.share, one.unallocated) == (share, total)
            assert one.unallocated_gpu_hours == digits(sum(hours[id(row)] for row in idle))
            assert one.unpriced_gpu_hours == digits(sum(hours[id(row)] for row in idle if row["unit_price"] is None))
            assert one.shared.keys() == weights.keys() if weights else not one.shared
            assert sum(one.shared.values(), one.kept) == total and (one.kept == (0 if weights else total))
            for tenant, amount in one.shared.items():
                assert abs(Fraction(amount) - Fraction(total) * weights[tenant] / whole) < Fraction(1, 100)
                assert amount == amount.quantize(Decimal("0.01"))
        words = {"allocated_cost": "by the cost of what was held there", "evenly": "an even part",
                 "guaranteed": "by guaranteed GPUs"}  # fmt: skip
        assert shared_lines(found) == [
            Line(tenant, "shared", rule=f"idle_policy {one.share}", cost=Fraction(amount), description=(
                f"{100 * amount / one.unallocated:.2f} %, {words[one.share]}, of {one.unallocated:,} for "
                f"{one.unallocated_gpu_hours:.2f} unallocated GPU-hours of "
                + (f"pool {one.pool}" if one.pool else "the devices without a pool")))
            for one in found for tenant, amount in one.shared.items() if amount
        ]  # fmt: skip


def digits(value: Fraction | int) -> Decimal:
    return Decimal(round(Fraction(value) * 10**9)).scaleb(-9)


def a_card(**policies: Any) -> RateCard:
    kept = {
        name: [{key: value for key, value in one.items() if value is not None} for one in rules]
        if isinstance(rules, list) else rules
        for name, rules in policies.items()
    }  # fmt: skip
    return parse_rate_card({"currency": "EUR", "rates": [{"sku": "h", "price_per_gpu_hour": "2"}], **kept})


# --- corrections ------------------------------------------------------------------------------------------------------


MONTHS = [parse_month(month, "UTC") for month in ("2026-07", "2026-08")]
KEY = ("kind", "project", "sku", "list_unit_price", "contracted_unit_price", "rule")


SEPTEMBER = parse_month("2026-09", "UTC")


class Again(NamedTuple):
    """A month that is computed again. lines: who has any."""

    name: str
    lines: frozenset[str]


def drawn_line(dice: Random) -> Row:
    kind = dice.choice(["usage", "usage", "discount", "credit", "tax", "shared", "commitment"])
    found: Row = {
        "kind": kind, "project": dice.choice("pq"), "sku": dice.choice(["h", ""]),
        "list_unit_price": dice.choice(["2.50", None]), "contracted_unit_price": dice.choice(["2", None]),
        "rule": dice.choice(["", "a rule"]),
        "amount": dice.choice([None, "0.00", f"{dice.randint(-9999, 9999) / 100:.2f}", "1234.50"]),
        "description": dice.choice(["", f"why {dice.randint(1, 9)}"]), "unit": dice.choice(["", "GPU-hours", "kWh"]),
        "charge_class": None, "reference": None,
    }  # fmt: skip
    hours = f"{dice.randint(0, 99)}.{dice.randrange(10**9):09}"
    found |= dice.choice([{"quantity": hours}, {"allocated_gpu_hours": hours, "quantity": None}, {}])
    return {
        name: value
        for name, value in found.items()
        if truth(dice, 0.95) or name in ("amount", "charge_class", "reference")
    }


TOTALS = [{"unpriced_gpu_hours": "0"}, {"unpriced_gpu_hours": "3.50"}]


def document(tenant: str, month: str, lines: Sequence[Row], number: str | None = None, **more: Any) -> Invoice:
    return Invoice({"tenant": tenant, "period": {"month": month}, "lines": list(lines), "number": number,
                    "totals": {"unpriced_gpu_hours": "0"}, **more})  # fmt: skip


def sums(lines: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], tuple[Decimal, Decimal, str, str]]:
    """Amount, quantity; unit and description of the last."""
    found: dict[tuple[Any, ...], tuple[Decimal, Decimal, str, str]] = {}
    for one in lines:
        key = (one.get("kind", "usage"), *(one.get(name, "") for name in KEY[1:]))
        amount, quantity, _, _ = found.get(key, (Decimal(0), Decimal(0), "", ""))
        more = Decimal(one.get("quantity") or one.get("allocated_gpu_hours") or 0)
        unit = one.get("unit") or "GPU-hours"
        found[key] = amount + Decimal(one["amount"] or 0), quantity + more, unit, one.get("description") or ""
    return found


def test_a_correction_is_what_a_month_costs_now_less_all_that_was_billed_for_it(
    dice: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = ("bio", "chem", "phys")
    for _ in range(150):
        pool = [drawn_line(dice) for _ in range(6)]

        def some(pool: Sequence[Row] = pool) -> list[Row]:
            lines = dice.sample(pool, dice.randint(0, 4))
            return [{**one, "amount": dice.choice([one["amount"], "5.00"])} for one in lines]

        def about(month: str) -> list[Row]:
            return [
                {**one, "charge_class": "Correction", "reference": {"month": month, "invoice": "x"}} for one in some()
            ]

        now = {(tenant, month): document(tenant, month, some(), totals=dice.choice(TOTALS))
               for tenant in (*tenants, "") for month in ("2026-07", "2026-08")}  # fmt: skip
        billed: list[Invoice] = []
        for number, month in enumerate(("2026-07", "2026-08", "2026-09")):
            for tenant in tenants:
                if truth(dice, 0.7):
                    older = [line for name in ("2026-07", "2026-08")[:number] for line in about(name) if truth(dice)]
                    billed.append(document(tenant, month, [*some(), *older], f"{number}-{tenant}"))
                if truth(dice, 0.2):
                    billed.append(document(tenant, month, some(), "C", document_type="credit_note"))
        owing = {month: {tenant for tenant in (*tenants, "") if truth(dice, 0.6)} for month in ("2026-07", "2026-08")}
        again = [Again(month, frozenset(owing[month])) for month in ("2026-07", "2026-08")]
        months, given = MONTHS[: dice.choice([0, 1, 2, 2])], truth(dice)
        answers = {
            ("changed_months", "store", SEPTEMBER, "books"): months,
            ("standing", "store", None, "whose"): billed,
            **{("month_of", "store", one, "whose", "books"): month for one, month in zip(MONTHS, again, strict=True)},
            **{
                ("document_of", tenant, month, "books"): now[tenant, month.name]
                for tenant in tenants
                for month in again
            },
        }
        for name in ("changed_months", "standing", "month_of", "document_of"):
            monkeypatch.setattr(module, name, lambda *asked, name=name, answers=answers: answers[name, *asked])
        found = corrections_of("store", SEPTEMBER, "whose", "books", months if given else None)  # type: ignore[arg-type]
        assert list(found.months) == again[: len(months)]

        wanted: dict[str, list[Line]] = defaultdict(list)
        unpriced: dict[str, dict[str, Decimal]] = {}
        for period, month in zip(months, ("2026-07", "2026-08"), strict=False):
            assert period in MONTHS
            invoices = [one for one in billed if one.document.get("document_type") != "credit_note"]
            for tenant in tenants:
                own = [one for one in invoices if (one.tenant, one.month) == (tenant, month)]
                lines = [line for one in own for line in one.lines if not line["charge_class"]]
                lines += [line for one in invoices if one.tenant == tenant and one.month != month for line in one.lines
                          if line["charge_class"] and line["reference"]["month"] == month]  # fmt: skip
                is_billed = bool(own or lines)
                if not is_billed and tenant not in owing[month]:
                    continue
                if now[tenant, month].totals["unpriced_gpu_hours"] != "0":
                    unpriced.setdefault(tenant, {})[month] = Decimal("3.50")
                number = own[-1].number if own else None
                wanted[tenant] += differences(tenant, month, number, sums(lines), sums(now[tenant, month].lines))
        assert found.lines == {tenant: lines for tenant, lines in wanted.items() if lines}
        assert found.unpriced == unpriced


NOTHING = (Decimal(0), Decimal(0), "", "")


def differences(
    tenant: str, month: str, number: str | None, was: Mapping[Any, Any], is_: Mapping[Any, Any]
) -> Iterator[Line]:
    for key in [*is_, *(key for key in was if key not in is_)]:
        before, after = was.get(key, NOTHING), is_.get(key, NOTHING)
        if before[0] == after[0]:
            continue
        kind, project, sku, listed, contracted, rule = key
        said = f"{before[0]:,} was billed, {after[0]:,} is due"
        if kind in ("shared", "credit", "tax") and after[3]:
            said += f": {after[3]}"
        if kind == "credit" and before == NOTHING:
            said = after[3]
        yield Line(
            tenant, kind, project, sku, f"{month}: {said}", Fraction(after[1] - before[1]), after[2] or before[2],
            listed and Decimal(listed), contracted and Decimal(contracted), None, Fraction(after[0] - before[0]), rule,
            charge_class="Correction", reference={"invoice": number, "month": month},
        )  # fmt: skip


class Asked:
    """A store with issued documents that notes what it is asked, and answers one month."""

    def __init__(self, documents: int) -> None:
        self.documents, self.params = documents, dict[str, Any]()

    def value(self, sql: str, params: Mapping[str, Any]) -> int:
        return self.documents

    def rows(self, sql: str, params: Mapping[str, Any]) -> list[Row]:
        self.params = dict(params)
        return [{"start": MONTHS[0].start, "end": MONTHS[0].end}]


def test_lengths_of_sessions_matter_to_a_month_where_the_card_asks_for_them(dice: Random) -> None:
    for _ in range(60):
        rules = [
            drawn_discount(dice, number)[0] | {"match": {"tenant": f"t{number}"}}
            for number in range(dice.randint(0, 2))
        ]
        quotas = [{"name": "q", "tenant": "chem", "sku": "*", "gpus": "1", "price_per_gpu_hour": "1",
                   "effective_from": dice.choice([None, "2026-01"]),
                   "effective_to": dice.choice([None, "2026-05"])}]  # fmt: skip
        minimum = dice.choice([0, 0, 0, 1])
        card = a_card(discounts=rules, commitments=quotas[: dice.randint(0, 1)], minimum_seconds=minimum)
        store, books = Asked(dice.choice([0, 1, 1, 1])), SimpleNamespace(card=card, timezone="UTC")
        found = changed_months(store, MONTHS[1], books)  # type: ignore[arg-type]
        if not store.documents:
            assert (found, store.params) == ([], {})
            continue
        assert found == [Period(MONTHS[0].start, MONTHS[0].end)]
        by_length = minimum > 0 or any(
            rule.get("per") == "session" and rule["measure"] == "hours" and "tiers" in rule for rule in rules
        )
        committed = card.commitments
        assert store.params == {
            "before": MONTHS[1].start, "timezone": "UTC", "reach_hours": card.reach_hours, "by_length": int(by_length),
            "minimum_ms": 1000 * minimum, "committed": [one.tenant for one in committed],
            "since": [quotas[0]["effective_from"] or "" for _ in committed],
            "until": [quotas[0]["effective_to"] or "" for _ in committed],
        }  # fmt: skip
    without = Asked(1)
    changed_months(without, MONTHS[1], SimpleNamespace(card=None, timezone="UTC"))  # type: ignore[arg-type]
    asked = without.params
    assert [asked[name] for name in ("reach_hours", "by_length", "minimum_ms", "committed")] == [0, 0, 0, []]
