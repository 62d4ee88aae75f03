"""An invoice's lines as FOCUS rows: drawn invoices with lines of every kind, each row and group reckoned by itself."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

from billing.exports.lines import Statement, statement_of, usage_row
from billing.invoicing.documents import Invoice

COSTS = ("list_cost", "contracted_cost", "billed_cost", "effective_cost")
UNITS = {None: "Hours", "GPU-hours": "Hours", "GiB-hours": "GB-Hours", "kWh": "kWh", "TB": "TB"}
KINDS = {
    "minimum": ("Usage", "Usage-Based"), "energy": ("Usage", "Usage-Based"), "memory": ("Usage", "Usage-Based"),
    "commitment": ("Purchase", "Recurring"), "tax": ("Tax", "Recurring"), "credit": ("Credit", "One-Time"),
    "goodwill": ("Adjustment", "One-Time"), "discount": ("Adjustment", "One-Time"), "usage": ("Usage", "Usage-Based"),
}  # fmt: skip
METERS = {"energy": "Energy", "memory": "GPU Memory"}

Line = dict[str, Any]


def hours(dice: Random) -> str:
    return f"{dice.randint(0, 90)}.{dice.randrange(10**9):09}"


def price(dice: Random) -> str:
    return dice.choice(["0.70", "1.50", "2.00", "0.333333333"])


def line(kind: str, **more: Any) -> Line:
    blank = dict.fromkeys(("project", "sku", "list_unit_price", "contracted_unit_price", "quantity", "unit", "rule",
                           "charge_class", "reference", "amount"))  # fmt: skip
    return {**blank, "kind": kind, "description": f"about {kind}", "billed_cost": None, **more}


def usage(dice: Random, project: str, sku: str, contracted: str | None) -> Line:
    held = Fraction(hours(dice)) + 1
    used, unmetered = held / 2, held / 8
    amounts = {"allocated": held, "used": used, "unmetered": unmetered}
    as_text = {f"{name}_gpu_hours": f"{float(value):.9f}" for name, value in amounts.items()}
    cost = None if contracted is None else str(Decimal(as_text["allocated_gpu_hours"]) * Decimal(contracted))
    prices = {"list_unit_price": contracted and "2.50", "contracted_unit_price": contracted}
    amount = cost and f"{Decimal(cost):.2f}"
    return line("usage", project=project, sku=sku, billed_cost=cost, amount=amount, **prices, **as_text)


def drawn(dice: Random) -> Invoice:
    """Discounts and quotas take no more than a part of what they are about, unless they find nothing."""
    groups = [usage(dice, project, sku, contracted)
              for project in ("qcd", "") for sku, contracted in (("h", "2.00"), ("h", "1.50"), ("l", None))
              if dice.random() < 0.7]  # fmt: skip
    lines = list(groups)
    for rule in ("a tenth", "half"):
        project = dice.choice(["qcd", "", "nothing of it"])
        base = sum((Fraction(one["billed_cost"] or 0) for one in groups if one["project"] == project), Fraction(0))
        off = f"-{float(base) * dice.choice([0.1, 0.25]):.9f}" if base else "-3.5"
        lines.append(line("discount", project=project, rule=rule, billed_cost=off, amount=off))
    for rule in ("big", "small", "without hours"):
        bought = None if rule == "without hours" else str(dice.choice([400, Decimal("31.25")]))
        share = dice.choice([0, 0, 1, 2])
        some = [one for one in groups if one["billed_cost"]][:share]
        for one in some if bought else ():
            taken = Decimal(one["allocated_gpu_hours"]) / dice.choice([4, 8])
            saved = taken * Decimal(one["contracted_unit_price"])
            prices = {name: one[name] for name in ("project", "sku", "list_unit_price", "contracted_unit_price")}
            lines.append(line("commitment", rule=rule, quantity=str(-taken), billed_cost=str(-saved), **prices))
        paid = str(Decimal(bought) * Decimal("1.25")) if bought else "99.5"
        priced = {"contracted_unit_price": "1.25", "quantity": bought} if bought else {}
        lines.append(line("commitment", rule=rule, sku="h", billed_cost=paid, amount=paid, **priced))
    for kind in ("energy", "memory", "minimum"):
        for _ in range(dice.randint(0, 3)):
            quantity, contracted = dice.choice([None, hours(dice)]), dice.choice([None, price(dice)])
            charged = dice.choice([None, Decimal(1)])
            if quantity is not None:
                charged = Decimal(quantity) * Decimal(contracted or "0.5")
            lines.append(line(
                kind, project="qcd", sku=dice.choice([None, "kwh"]), quantity=quantity, rule="r",
                contracted_unit_price=contracted, list_unit_price=contracted and dice.choice([None, "3.00"]),
                unit=dice.choice(list(UNITS)),
                billed_cost=charged and str(charged), amount=dice.choice([None, charged and f"{charged:.2f}"]),
            ))  # fmt: skip
    for kind in dice.sample(list(KINDS), 5):
        amount = f"{dice.randint(-9, 9)}.25"
        reference = dice.choice([None, {"month": "2026-08", "invoice": "GL-1"}, {"invoice": "GL-2"}])
        lines.append(line(kind, charge_class="Correction", reference=reference, rule="r", billed_cost=amount,
                          amount=amount, quantity=dice.choice([None, "-2.5"]),
                          contracted_unit_price=dice.choice([None, "2.00"])))  # fmt: skip
    lines += [
        line(kind, billed_cost=f"{dice.randint(1, 30)}.5", amount=f"{dice.randint(1, 30)}.50",
             quantity=dice.choice([None, "3"]) if kind == "goodwill" else None,
             contracted_unit_price="2.00", description=dice.choice([None, "in words"]))
        for kind in ("tax", "credit", "goodwill")
    ]  # fmt: skip
    dice.shuffle(lines)
    document = {
        "number": dice.choice([None, "GL-7"]), "tenant": "physics", "currency": "EUR", "run": dice.choice([None, 9]),
        "issuer": dice.choice([None, {}, {"name": "RZ"}]), "rate_card": dice.choice([None, "v1"]), "lines": lines,
        "period": {"start": "2026-09-30T22:00:00+00:00", "end": "2026-10-31T23:00:00+00:00",
                   "timezone": "Europe/Berlin"},
        "totals": {"net": dice.choice([None, "0", "250.00"])},
    }  # fmt: skip
    return Invoice(document)


def key(one: Line) -> tuple[Any, ...]:
    return tuple(one[name] for name in ("project", "sku", "list_unit_price", "contracted_unit_price"))


def is_quota(one: Line) -> bool:
    return one["kind"] == "commitment" and Fraction(one["billed_cost"]) > 0


Groups = dict[Any, Fraction]


def reckoned_groups(lines: list[Line]) -> tuple[Groups, Groups, dict[str, Fraction], list[Line]]:
    """What is left of each group's cost, what it has effectively, the hours of each quota that are used, and the
    reductions that found nothing."""
    own = [one for one in lines if one["charge_class"] is None]
    left = {key(one): Fraction(one["allocated_gpu_hours"]) * Fraction(one["contracted_unit_price"])
            for one in own if one["kind"] == "usage" and one["billed_cost"]}  # fmt: skip
    covered: dict[str, dict[Any, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    unfound = []
    for one in own:
        if one["kind"] not in ("discount", "commitment") or Fraction(one["billed_cost"]) >= 0:
            continue
        scope = [group for group in left if left[group] > 0 and group[0] == one["project"]
                 and (one["kind"] == "discount" or group == key(one))]  # fmt: skip
        base = sum(left[group] for group in scope)
        off = -Fraction(one["billed_cost"])
        if off > base + Fraction(1, 10**6):
            unfound.append(one)
            continue
        shares = {group: left[group] / base for group in scope}
        for group, share in shares.items():
            left[group] -= min(off, base) * share
            if one["kind"] == "commitment":
                covered[one["rule"]][group] += -Fraction(one["quantity"]) * share
    effective = dict(left)
    used = {}
    for rule, groups in covered.items():
        bought = [one for one in own if one["rule"] == rule and is_quota(one)]
        cost, amount = (sum(Fraction(one[name]) for one in bought) for name in ("billed_cost", "quantity"))
        used[rule] = sum(groups.values(), Fraction(0))
        for group, quantity in groups.items():
            effective[group] += Fraction(cost) * quantity / amount
    return left, effective, used, unfound


def near(found: Any, expected: Fraction | int, digits: int = 20) -> bool:
    return abs(Fraction(found) - expected) <= Fraction(1, 10**digits)


def check_row(row: dict[str, Any], one: Line, invoice: Invoice) -> None:
    document = invoice.document
    kind, is_own, quantity = one["kind"], one["charge_class"] is None, one["quantity"]
    category, frequency = KINDS[kind]
    if kind == "commitment" and not is_own:
        category, frequency = KINDS["discount"]
    assert (row["kind"], row["category"], row["frequency"]) == (kind, category, frequency)
    assert row["class"] == one["charge_class"]
    assert row["description"] == (one["description"] or kind)
    reference = one["reference"] or {}
    month = reference.get("month") if not is_own else None
    start = "2026-07-31T22:00" if month else "2026-09-30T22:00"
    end = "2026-08-31T22:00" if month else "2026-10-31T23:00"
    assert [row["period_start"], row["period_end"]] == [datetime.fromisoformat(f"{at}:00+00:00") for at in (start, end)]
    assert row["corrects_invoice"] == reference.get("invoice")
    assert (row["project"], row["rule"], row["tenant"]) == (one["project"] or "", one["rule"], "physics")
    assert row["issuer"] == ((document["issuer"] or {}).get("name") or "GPU platform")
    assert (row["invoice_id"], row["currency"]) == (document["number"], "EUR")
    assert (row["rate_card"], row["run"]) == (document["rate_card"] or "", document["run"] or 0)
    contracted = one["contracted_unit_price"]
    if is_own and category != "Adjustment" and quantity is not None and contracted is not None:
        listed = one["list_unit_price"] or contracted
        assert (row["sku"], row["meter"]) == (one["sku"] or "", METERS.get(kind, "GPU Hours"))
        assert row["commitment"] == (one["rule"] if kind == "commitment" else None)
        assert near(row["quantity"], Fraction(quantity)) and row["unit"] == UNITS[one["unit"]]
        assert row["consumed"] == (row["quantity"] if category == "Usage" else None)
        assert (row["list_unit_price"], row["contracted_unit_price"]) == (listed, contracted)
        costs = [Fraction(quantity) * Fraction(listed), *[Fraction(quantity) * Fraction(contracted)] * 3]
    else:
        assert (row["sku"], row["meter"], row.get("commitment")) == ("", "", None)
        has_quantity = category == "Usage" and quantity is not None
        assert row.get("unit") == (UNITS[one["unit"]] if has_quantity else None)
        assert row.get("quantity") == row.get("consumed")
        assert near(row["quantity"], Fraction(quantity)) if has_quantity else row.get("quantity") is None
        costs = [Fraction(one["amount"] if one["amount"] is not None else one["billed_cost"])] * 4
    if category == "Purchase" and is_own and is_quota(one):
        costs[3] = Fraction(0)
    for name, cost in zip(COSTS[1:], costs[1:], strict=True):
        assert near(row[name], cost), name
    if category != "Tax" or not is_own:
        assert near(row["list_cost"], costs[0])


def is_shown(one: Line) -> bool:
    """Of energy of which nothing was measured nothing is charged, and nothing is said."""
    silent = KINDS[one["kind"]][0] == "Usage" and one["quantity"] is None and not Fraction(one["billed_cost"] or 0)
    return one["charge_class"] is not None or not silent


def test_each_line_is_a_row_or_in_the_usage_that_it_is_about(dice: Random) -> None:
    for _ in range(60):
        invoice = drawn(dice)
        lines = [dict(one) for one in invoice.lines]
        statement: Statement = statement_of(invoice)
        left, effective, used, unfound = reckoned_groups(lines)
        assert statement.groups.keys() == left.keys()
        for group, found in statement.groups.items():
            assert near(found.billed, left[group]) and near(found.effective, effective[group])
        own = [one for one in lines if one["charge_class"] is None]
        is_bought = [one for one in own if is_quota(one)]
        apart = ("usage", "discount", "commitment")
        others = [one for one in lines if one["charge_class"] is not None or one["kind"] not in apart]
        rows = list(statement.rows)
        unused = {row["commitment"]: row for row in rows if row.get("commitment_status") == "Unused"}
        rest = [row for row in rows if row.get("commitment_status") != "Unused"]
        expected = [*filter(is_shown, others), *unfound, *is_bought]
        assert len(rest) == len(expected)
        for one, row in zip(expected, rest, strict=True):
            check_row(row, one, invoice)

        # Of each quota what nobody used is a row, too, unless that is nothing.
        reckoned = {}
        for one in is_bought:
            amount = Fraction(one["quantity"] or 0)
            free = amount - used.get(one["rule"], Fraction(0))
            if not amount or free > Fraction(1, 10**6):
                reckoned[one["rule"]] = one, free, Fraction(one["billed_cost"]) * (free / amount if amount else 1)
        assert unused.keys() == reckoned.keys()
        for rule, (_, free, cost) in reckoned.items():
            row = unused[rule]
            assert (row["category"], row["frequency"]) == ("Usage", "Usage-Based")
            assert row["description"] == f"Unused part of {rule}"
            assert [Fraction(row[name]) for name in COSTS[:3]] == [0, 0, 0] and near(row["effective_cost"], cost)
            has_hours = rule != "without hours"
            assert row["unit"] == ("Hours" if has_hours else None)
            assert near(row["quantity"], free, 14) if has_hours else row["quantity"] is None

        # A tax is on the list cost as it is on the cost.
        net = Fraction(invoice.totals.get("net") or 0)
        listed = sum(
            (Fraction(row["list_cost"]) for row in rows if row["category"] not in ("Tax", "Credit")), Fraction(0)
        )
        for one in own:
            if one["kind"] == "usage" and one["billed_cost"]:
                listed += Fraction(one["allocated_gpu_hours"]) * Fraction(one["list_unit_price"])
        for row in rows:
            if row["category"] == "Tax" and row["class"] is None:
                assert near(row["list_cost"], Fraction(row["billed_cost"]) * (listed / net if net else 1))


def test_a_group_without_entries_is_one_row_with_parts_that_add_up(dice: Random) -> None:
    for _ in range(20):
        invoice = drawn(dice)
        statement = statement_of(invoice)
        for group in statement.groups.values():
            row, one = usage_row(statement, group), group.line
            held, used, unmetered = (Fraction(one[f"{name}_gpu_hours"]) for name in ("allocated", "used", "unmetered"))
            contracted = Fraction(one["contracted_unit_price"])
            assert near(row["billed_cost"], group.billed, 15) and near(row["effective_cost"], group.effective, 15)
            assert near(row["contracted_cost"], held * contracted) and near(row["used_cost"], used * contracted)
            assert (row["unit"], Fraction(row["quantity"]), Fraction(row["consumed"])) == ("Hours", held, held)
            seconds = {"allocated": held, "used": used, "idle": held - used - unmetered, "unmetered": unmetered}
            for name, value in seconds.items():
                assert Fraction(row[f"{name}_seconds"]) == value * 3600
            assert row["description"] == f"GPU time of {one['project'] or 'no project'}, {one['sku']}, as invoiced"
            for part, of in ((group.part(group.billed), group.billed), (group.part(group.effective), group.effective)):
                assert (part is None) == (of == group.cost)
