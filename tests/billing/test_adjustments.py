"""What policies make of a month, by hand: minimum, commitments, discounts, shared cost, taxes, currencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from billing.invoicing.invoices import Invoice, InvoiceError, draft_all, issue_all
from billing.invoicing.month import platform_costs
from billing.periods import parse_period
from billing.rates import RateError, apply_rate_card, parse_rate_card
from tests.billing.account_books import NO_PRICES
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from tests.draws import seldom
from warehouse.store import Store

pytestmark = seldom(6, "all of adjustments")

OCTOBER = parse_period("2026-10", "UTC")
NOW = at("2026-11-02 09:00")
LAST_HOUR = at("2026-10-31 23:00")


def apply(store: Store, **policies: Any) -> None:
    card = {
        "currency": "EUR",
        "minimum_seconds": 0,
        "rates": [{"sku": "h100", "price_per_gpu_hour": "2.00"}],
        **policies,
    }
    apply_rate_card(store, parse_rate_card(card), "me", "", NOW)


def hours(tenant: str, count: int, start: str = "2026-10-05 00:00", **more: Any) -> list[Row]:
    """So many whole device-hours, one after the other, all used."""
    first = at(start)
    return [Row(first + timedelta(hours=n), tenant, used=str(HOUR_MS), **more) for n in range(count)]


def lines(invoice: Invoice, kind: str, *names: str) -> list[list[Any]]:
    return [[line[name] for name in names] for line in invoice.lines if line["kind"] == kind]


def allocate(store: Store, lives: Mapping[str, tuple[datetime, datetime | None]]) -> None:
    """Writes when allocations started and ended."""
    store.insert(
        "allocations",
        pa.table(
            {
                "claim": pa.array(range(len(lives)), pa.uint64()),
                "allocation_id": list(lives),
                "tenant": [name.split("/")[0] for name in lives],
                "start_at": pa.array([start for start, _ in lives.values()], pa.timestamp("ms", "UTC")),
                "end_at": pa.array([end for _, end in lives.values()], pa.timestamp("ms", "UTC")),
            }
        ),
    )


def test_the_minimum_of_a_session_counts_nothing_of_later_months(books: Store) -> None:
    """As `invoice verify` sees an invoice of before the session went on, for another tenant."""
    noon = at("2026-10-05 12:00")
    apply(books, minimum_seconds=60)
    later = Row(at("2026-11-05 12:00"), "chem", "a", used="60000")
    fill(books, [Row(noon, "chem", "a", used="15000"), later], closed=[LAST_HOUR])
    allocate(books, {"chem/a": (noon, noon + timedelta(seconds=15))})
    (invoice,) = draft_all(books, OCTOBER)
    assert lines(invoice, "minimum", "quantity", "billed_cost") == [["0.012500000", "0.025000000"]]


def test_a_session_shorter_than_the_minimum_is_charged_as_if_it_lasted_so_long(books: Store) -> None:
    noon = at("2026-10-05 12:00")
    apply(books, minimum_seconds=60)
    # Fifteen seconds of one GPU lack 45, ninety seconds lack nothing: 45 / 3600 x 1.50, for 2.00, = 0.01875.
    short = Row(noon, "chem", "a", used="15000", contracted="1.50")
    fill(books, [short, Row(noon, "chem", "b", device="gpu-1", used="90000")], closed=[LAST_HOUR])
    allocate(books, {"chem/a": (noon, noon + timedelta(seconds=15)), "chem/b": (noon, noon + timedelta(seconds=90))})
    (invoice,) = draft_all(books, OCTOBER)
    assert lines(invoice, "minimum", "project", "quantity", "billed_cost", "rule") == [
        ["a", "0.012500000", "0.018750000", "minimum_seconds 60"]
    ]
    assert lines(invoice, "minimum", "list_unit_price", "contracted_unit_price", "list_cost") == [
        ["2.000000000", "1.500000000", "0.025000000"]
    ]
    assert invoice.lines[-1]["description"] == "1 session shorter than 60 s, charged as 60 s"


def test_a_session_that_is_still_open_or_ended_in_another_month_owes_no_minimum(books: Store) -> None:
    start = at("2026-10-31 23:59") + timedelta(seconds=50)
    apply(books, minimum_seconds=60)
    fill(
        books,
        [Row(start, "chem", "a", used="10000"), Row(start, "chem", "b", device="g1", used="10000")],
        closed=[LAST_HOUR],
    )
    allocate(books, {"chem/a": (start, None), "chem/b": (start, OCTOBER.end + timedelta(seconds=20))})
    (invoice,) = draft_all(books, OCTOBER)
    assert lines(invoice, "minimum", "project") == []


# 600 GPU-hours at 2.00 = 1200.00.
def test_a_session_that_ends_on_the_months_midnight_is_charged_in_the_month_that_it_was_in_and_once(
    books: Store,
) -> None:
    """30 s until midnight lack 30 s to the minimum: 30 / 3600 x 2.00 = 0.016666667, in October alone."""
    midnight = at("2026-11-01 00:00")
    apply(books, minimum_seconds=60)
    fill(books, [Row(LAST_HOUR, "chem", "a", used="30000")], closed=[at("2026-11-30 23:00")])
    allocate(books, {"chem/a": (midnight - timedelta(seconds=30), midnight)})
    (october,) = draft_all(books, OCTOBER)
    assert lines(october, "minimum", "billed_cost") == [["0.016666667"]]
    assert draft_all(books, parse_period("2026-11", "UTC")) == []


def test_tiers_count_what_no_commitment_covers(books: Store) -> None:
    """200 GPU-hours, of which a quota of 1 covers 100: the other 100 reach the tier of 100 (10 % of 200.00), and not
    that of 101, which all 200 would."""
    quota = {"name": "q", "tenant": "chem", "gpus": "1", "price_per_gpu_hour": "1.00"}
    tiers = [{"from": "100", "percent": "10"}, {"from": "101", "percent": "50"}]
    apply(books, commitments=[quota], discounts=[{"name": "v", "mode": "whole", "tiers": tiers}])
    fill(books, hours("chem", 100) + hours("chem", 100, device="gpu-1"), closed=[LAST_HOUR])
    (invoice,) = draft_all(books, OCTOBER)
    assert lines(invoice, "discount", "amount") == [["-20.00"]]


def test_a_quota_of_an_hour_that_the_month_cuts_is_the_part_within(books: Store) -> None:
    """October in Kolkata begins at 18:30 UTC. Two GPUs held from then until 19:00 are 1 GPU-hour at 2.00; a quota of 1
    covers half of it (1.00), and all of the next hour's one GPU (2.00)."""
    quota = {"name": "q", "tenant": "chem", "gpus": "1", "price_per_gpu_hour": "1.00"}
    apply(books, timezone="Asia/Kolkata", commitments=[quota])
    start = at("2026-09-30 18:30")
    half = [Row(start, "chem", device=device, used=str(HOUR_MS // 2)) for device in ("gpu-0", "gpu-1")]
    fill(books, [*half, Row(at("2026-09-30 19:00"), "chem", used=str(HOUR_MS))], closed=[LAST_HOUR])
    (invoice,) = draft_all(books, parse_period("2026-10", "Asia/Kolkata"))
    covered = [row for row in lines(invoice, "commitment", "description", "amount") if row[0].startswith("Covered")]
    assert covered == [["Covered by q", "-3.00"]]


def test_a_quota_is_billed_for_the_hours_that_are_closed(books: Store) -> None:
    """Of a month that is closed until the 11th: 240 h x 1 x 1.00, not the 744 h of October."""
    quota = {"name": "q", "tenant": "chem", "gpus": "1", "price_per_gpu_hour": "1.00"}
    apply(books, commitments=[quota])
    fill(books, hours("chem", 1), closed=[at("2026-10-10 23:00")])
    (invoice,) = draft_all(books, OCTOBER)
    rows = lines(invoice, "commitment", "description", "amount")
    assert [row for row in rows if row[0].startswith("Quota")] == [
        ["Quota of 1 GPUs for 240 h, used", "1.00"],
        ["Quota of 1 GPUs for 240 h, unused", "239.00"],
    ]


def test_a_tenant_without_a_name_bears_no_part_of_what_was_free(books: Store) -> None:
    """Two GPU-hours were free: 4.00, all of it for the only tenant that has a name."""
    apply(books, idle_policy=[{"share": "evenly"}])
    free = [Row(at("2026-10-05 12:00"), device="gpu-2", unallocated=HOUR_MS, workload=""),
            Row(at("2026-10-05 13:00"), device="gpu-2", unallocated=HOUR_MS)]  # fmt: skip
    fill(books, [*hours("chem", 1), *hours("", 3, device="gpu-1"), *free], closed=[LAST_HOUR])
    (pool,) = platform_costs(books, OCTOBER)
    assert {tenant: str(amount) for tenant, amount in pool.shared.items()} == {"chem": "4.00"}
    assert str(pool.kept) == "0.00"


@pytest.mark.parametrize(
    ("mode", "off"),
    [("graduated", "-120.000000000"), ("whole", "-240.000000000")],
)  # graduated: 400 h at 10 % and 100 h at 20 % are 60 hours = 120.00; whole: 20 % of all
def test_volume_discounts_of_a_month(books: Store, mode: str, off: str) -> None:
    tiers = [{"above": "100", "percent": "10"}, {"above": "500", "percent": "20"}, {"above": "1000", "percent": "30"}]
    apply(books, discounts=[{"name": "volume", "mode": mode, "tiers": tiers}])
    fill(books, hours("chem", 600) + hours("small", 100, device="gpu-1"), closed=[LAST_HOUR])
    chem, small = draft_all(books, OCTOBER)
    assert lines(chem, "discount", "billed_cost", "rule") == [[off, "volume"]]
    assert lines(small, "discount", "billed_cost") == []


@pytest.mark.parametrize(("bound", "off"), [("from", [["-20.00"]]), ("above", [])])
@pytest.mark.parametrize("per", ["month", "session"])
def test_a_whole_tier_is_reached_from_its_hours_on_or_above_them_as_the_card_says(
    books: Store, per: str, bound: str, off: list[list[str]]
) -> None:
    apply(books, discounts=[{"name": "v", "per": per, "mode": "whole", "tiers": [{bound: "100", "percent": "10"}]}])
    fill(books, hours("chem", 100) + hours("less", 99, device="g1"), closed=[LAST_HOUR])
    start = at("2026-10-05 00:00")
    allocate(books, {"chem/": (start, start + timedelta(hours=100)), "less/": (start, start + timedelta(hours=99))})
    chem, less = draft_all(books, OCTOBER)
    assert (lines(chem, "discount", "amount"), lines(less, "discount", "amount")) == (off, [])
    for (text,) in lines(chem, "discount", "description"):
        assert "10 % from 100 GPU-hours" in text


def test_a_tier_says_from_or_above_and_not_both() -> None:
    for tier in ({"percent": "10"}, {"from": "1", "above": "1", "percent": "10"}):
        with pytest.raises(RateError, match=r"either from \(who reaches it counts\) or above"):
            parse_rate_card({"currency": "EUR", "rates": NO_PRICES, "discounts": [{"name": "v", "tiers": [tier]}]})


def test_discounts_follow_each_other_and_name_what_they_match(books: Store) -> None:
    apply(
        books,
        discounts=[{"name": "a", "percent": "50", "match": {"project": "x*"}}, {"name": "b", "percent": "10"}],
    )
    fill(books, hours("chem", 10, project="x1") + hours("chem", 10, project="y", device="g1"), closed=[LAST_HOUR])
    (invoice,) = draft_all(books, OCTOBER)
    assert lines(invoice, "discount", "rule", "project", "amount", "description") == [
        ["a", "x1", "-10.00", "a: 50 %, off 20.00"],
        ["b", "x1", "-1.00", "b: 10 %, off 10.00"],
        ["b", "y", "-2.00", "b: 10 %, off 20.00"],
    ]
    assert invoice.totals["amount"] == "27.00"


def test_a_session_earns_its_tier_by_its_own_length_over_months(books: Store) -> None:
    tiers = [{"above": "100", "percent": "10"}]
    apply(books, discounts=[{"name": "long", "per": "session", "measure": "hours", "tiers": tiers}])
    start = at("2026-09-29 00:00")  # 48 hours lie in September
    fill(books, hours("chem", 120, "2026-09-29 00:00", project="p"), closed=[LAST_HOUR])
    allocate(books, {"chem/p": (start, start + timedelta(hours=120))})
    (invoice,) = draft_all(books, OCTOBER)
    # Of the 72 hours in October the last 20 lie beyond 100: 20 x 2.00 x 10 %.
    assert lines(invoice, "discount", "amount", "rule") == [["-4.00", "long"]]
    (september,) = draft_all(books, parse_period("2026-09", "UTC"))
    assert lines(september, "discount", "amount") == []


def test_a_commitment_half_used_is_paid_whole_and_covers_what_was_held(books: Store) -> None:
    apply(books, commitments=[{"name": "c1", "tenant": "chem", "gpus": "2", "price_per_gpu_hour": "1.00"}])
    # In one hour three GPUs: two covered, one on demand. In another one GPU. Quota: 744 x 2 = 1488 GPU-hours.
    first = [Row(at("2026-10-05 12:00"), "chem", device=f"gpu-{n}", used=str(HOUR_MS)) for n in range(3)]
    fill(books, [*first, *hours("chem", 1, "2026-10-06 00:00")], closed=[LAST_HOUR])
    (invoice,) = draft_all(books, OCTOBER)
    assert lines(invoice, "commitment", "description", "quantity", "contracted_unit_price", "amount") == [
        ["Quota of 2 GPUs for 744 h, used", "3.000000000", "1.00", "3.00"],
        ["Quota of 2 GPUs for 744 h, unused", "1485.000000000", "1.00", "1485.00"],
        ["Covered by c1", "-3.000000000", "2.000000000", "-6.00"],
    ]
    assert invoice.totals["amount"] == "1490.00"  # 4 x 2.00 - 6.00 + 1488.00


def test_the_minimum_is_not_charged_beside_a_quota_that_is_paid_and_unused(books: Store) -> None:
    """Two sessions of 30 s in one hour lack 3570 s each, at 2.00; the quota of 1.25 GPUs has 4440 s left there."""
    noon = at("2026-10-05 12:00")
    apply(
        books,
        minimum_seconds=3600,
        commitments=[{"name": "q", "tenant": "chem", "sku": "h100", "gpus": "1.25", "price_per_gpu_hour": "1.00"}],
    )
    short = {"used": "30000"}
    rows = [Row(noon, "chem", "a", device="g0", **short), Row(noon, "chem", "b", device="g1", **short)]
    fill(books, [*rows, Row(noon, "phys", "c", device="g2", **short)], closed=[LAST_HOUR])
    end = noon + timedelta(seconds=30)
    allocate(books, dict.fromkeys(("chem/a", "chem/b", "phys/c"), (noon, end)))
    chem, phys = draft_all(books, OCTOBER)
    # 2 x 3570 - 4440 = 2700 s are left of b's, who comes second: 0.75 h; a's are all covered.
    assert lines(chem, "minimum", "project", "quantity", "amount", "description") == [
        ["b", "0.750000000", "1.50", "1 session shorter than 3600 s, charged as 3600 s, less what quotas cover"]
    ]
    assert chem.totals["net"] == "931.50"  # 744 x 1.25, all that was held is covered
    assert lines(phys, "minimum", "quantity") == [["0.991666667"]]
    (alone,) = draft_all(books, OCTOBER, "chem")
    assert alone == chem


def test_a_commitment_is_owed_by_a_tenant_that_held_nothing(books: Store) -> None:
    apply(books, commitments=[{"name": "c1", "tenant": "chem", "gpus": "1", "price_per_gpu_hour": "1.00"}])
    fill(books, hours("other", 1), closed=[LAST_HOUR])
    chem, _ = draft_all(books, OCTOBER)
    assert (chem.tenant, chem.totals["amount"]) == ("chem", "744.00")


def test_two_commitments_of_one_tenant_cover_each_hour_once(books: Store) -> None:
    # 10 held of 12 bought all October (744 h): 744 x (8 x 1.00 + 4 x 1.50) = 10,416.00, used or not, and nothing else.
    quotas = [("a", "8", "1.00"), ("b", "4", "1.50")]
    apply(
        books,
        rates=[{"sku": "h100", "price_per_gpu_hour": "3.00"}],
        commitments=[{"name": n, "tenant": "chem", "gpus": g, "price_per_gpu_hour": p} for n, g, p in quotas],
    )
    rows = [row for n in range(10) for row in hours("chem", 744, "2026-10-01 00:00", device=f"g{n}", price="3.00")]
    fill(books, rows)
    (invoice,) = draft_all(books, OCTOBER)
    assert [line[:2] for line in lines(invoice, "commitment", "description", "quantity")] == [
        ["Quota of 8 GPUs for 744 h, used", "5952.000000000"],
        ["Quota of 8 GPUs for 744 h, unused", "0.000000000"],
        ["Covered by a", "-5952.000000000"],
        ["Quota of 4 GPUs for 744 h, used", "1488.000000000"],
        ["Quota of 4 GPUs for 744 h, unused", "1488.000000000"],
        ["Covered by b", "-1488.000000000"],
    ]
    assert invoice.totals["amount"] == "10416.00"


def test_commitments_that_share_some_skus_take_turns_in_the_cards_order(books: Store) -> None:
    """Four h100 at 2.00 and one l40s at 1.00, one hour: `any` takes two h100, `only` a third, `last` what is left."""
    quotas = [("any", "*", "2"), ("only", "h100", "1"), ("last", "*", "9")]
    apply(
        books,
        commitments=[
            {"name": n, "tenant": "chem", "sku": s, "gpus": g, "price_per_gpu_hour": "0"} for n, s, g in quotas
        ]
        + [{"name": "other", "tenant": "phys", "gpus": "1", "price_per_gpu_hour": "0"}],
    )
    rows = [row for n in range(4) for row in hours("chem", 1, device=f"g{n}")]
    rows += hours("chem", 1, device="l0", sku="l40s", price="1.00") + hours("phys", 2, device="g9")
    fill(books, rows, closed=[LAST_HOUR])
    chem, phys = draft_all(books, OCTOBER)
    covered = [one for one in lines(chem, "commitment", "rule", "sku", "quantity", "amount") if one[2][0] == "-"]
    assert covered == [
        ["any", "h100", "-2.000000000", "-4.00"],
        ["only", "h100", "-1.000000000", "-2.00"],
        ["last", "h100", "-1.000000000", "-2.00"],
        ["last", "l40s", "-1.000000000", "-1.00"],
    ]
    assert (chem.totals["amount"], phys.totals["amount"]) == ("0.00", "0.00")


def test_discounts_are_on_what_a_commitment_leaves(books: Store) -> None:
    apply(
        books,
        commitments=[{"name": "c1", "tenant": "chem", "gpus": "1", "price_per_gpu_hour": "1.00"}],
        discounts=[{"name": "d", "percent": "50"}],
    )
    fill(books, hours("chem", 2) + hours("chem", 2, device="g1", project="q"), closed=[LAST_HOUR])
    (invoice,) = draft_all(books, OCTOBER)
    assert sum(Decimal(amount) for (amount,) in lines(invoice, "discount", "amount")) == Decimal("-2.00")


@pytest.mark.parametrize(
    ("share", "expected", "kept"),
    [
        ("allocated_cost", {"a": "25.00", "b": "75.00"}, "0.00"),
        ("evenly", {"a": "50.00", "b": "50.00"}, "0.00"),
        ("guaranteed", {"a": "100.00"}, "0.00"),
        ("platform", {}, "100.00"),
    ],
)
def test_unallocated_cost_is_shared_as_the_policy_says(
    books: Store, share: str, expected: Mapping[str, str], kept: str
) -> None:
    apply(
        books,
        idle_policy=[{"pool": "*", "share": share}],
        commitments=[{"name": "g", "tenant": "a", "gpus": "1", "price_per_gpu_hour": "0"}],
    )
    idle = [Row(at("2026-10-05 00:00") + timedelta(hours=n), device="gpu-9", unallocated=HOUR_MS) for n in range(50)]
    fill(books, hours("a", 1) + hours("b", 3, device="g1") + idle, closed=[LAST_HOUR])
    found = {one.tenant: lines(one, "shared", "amount") for one in draft_all(books, OCTOBER)}
    assert {tenant: amounts[0][0] for tenant, amounts in found.items() if amounts} == expected
    (pool,) = platform_costs(books, OCTOBER)
    assert (str(pool.unallocated), str(pool.kept)) == ("100.00", kept)
    assert sum(pool.shared.values()) + pool.kept == pool.unallocated


def test_a_hundred_over_three_tenants_loses_no_cent(books: Store) -> None:
    apply(books, idle_policy=[{"share": "evenly"}])
    idle = [Row(at("2026-10-05 00:00") + timedelta(hours=n), device="gpu-9", unallocated=HOUR_MS) for n in range(50)]
    rows = [row for n, name in enumerate("abc") for row in hours(name, 1, device=f"g{n}")]
    fill(books, rows + idle, closed=[LAST_HOUR])
    drafts = draft_all(books, OCTOBER)
    assert [lines(one, "shared", "amount")[0][0] for one in drafts] == ["33.34", "33.33", "33.33"]


def test_idle_cost_that_no_tenant_can_bear_stays_with_the_platform(books: Store) -> None:
    apply(books, idle_policy=[{"share": "allocated_cost"}])
    fill(books, [Row(at("2026-10-05 00:00"), device="gpu-9", unallocated=HOUR_MS)], closed=[LAST_HOUR])
    assert draft_all(books, OCTOBER) == []
    (pool,) = platform_costs(books, OCTOBER)
    assert (pool.unallocated, pool.kept) == (Decimal("2.00"), Decimal("2.00"))


def test_taxes_are_the_first_of_a_name_that_fits_and_stand_apart(books: Store) -> None:
    apply(
        books,
        taxes=[
            {"name": "VAT", "percent": "0", "tenant": "public-*"},
            {"name": "VAT", "percent": "19"},
            {"name": "levy", "percent": "1.5"},
        ],
    )
    fill(books, hours("chem", 3) + hours("public-lab", 1, device="g1"), closed=[LAST_HOUR])
    chem, public = draft_all(books, OCTOBER)
    assert lines(chem, "tax", "rule", "amount") == [["VAT 19 %", "1.14"], ["levy 1.5 %", "0.09"]]
    assert [chem.totals[name] for name in ("net", "tax", "amount", "due")] == ["6.00", "1.23", "7.23", "7.23"]
    assert lines(public, "tax", "rule", "amount") == [["VAT 0 %", "0.00"], ["levy 1.5 %", "0.03"]]


def test_a_tenant_is_invoiced_in_its_currency_at_the_months_rate(books: Store) -> None:
    currencies = [{"tenant": "kyoto", "currency": "JPY"}]
    apply(books, invoice_currencies=currencies)
    fill(books, hours("kyoto", 3), closed=[LAST_HOUR])
    (draft,) = draft_all(books, OCTOBER)
    assert "no exchange rate from EUR to JPY for 2026-10" in draft.document["notes"][-1]
    with pytest.raises(InvoiceError, match="is invoiced in JPY, and the rate card has no exchange rate"):
        issue_all(books, OCTOBER, NOW)
    apply(
        books, invoice_currencies=currencies, exchange_rates=[{"month": "2026-10", "currency": "JPY", "rate": "163.25"}]
    )
    (invoice,) = issue_all(books, OCTOBER, NOW)
    assert invoice.document["payable"] == {
        "currency": "JPY",
        "rate": "163.25",
        "corrections": [],
        "amount": "980",
    }  # 6.00 x 163.25 = 979.5


def test_the_minimum_may_change_from_a_month_on(books: Store) -> None:
    noon = at("2026-10-05 12:00")
    minimum = [{"seconds": 60, "effective_to": "2026-10"}, {"seconds": 90, "effective_from": "2026-10"}]
    apply(books, minimum_seconds=minimum)
    fill(books, [Row(noon, "chem", "a", used="30000")], closed=[LAST_HOUR])
    allocate(books, {"chem/a": (noon, noon + timedelta(seconds=30))})
    assert lines(draft_all(books, OCTOBER)[0], "minimum", "rule") == [["minimum_seconds 90"]]
    with pytest.raises(RateError, match="60 and 90 share a month"):
        apply(books, minimum_seconds=[{"seconds": 60, "effective_to": "2026-11"}, minimum[1]])


def test_policies_hold_for_the_months_they_name(books: Store) -> None:
    apply(books, discounts=[{"name": "d", "percent": "50", "effective_from": "2026-11"}])
    fill(books, hours("chem", 1), closed=[LAST_HOUR])
    assert lines(draft_all(books, OCTOBER)[0], "discount", "amount") == []


def test_the_lines_sum_to_the_net_total(books: Store) -> None:
    apply(
        books,
        discounts=[{"name": "third", "percent": "33.333333333"}],
        rates=[{"sku": "h100", "price_per_gpu_hour": "0.333333333"}],
    )
    rows: Sequence[Row] = [row for n in range(7) for row in hours("chem", 1 + n, device=f"g{n}", project=f"p{n}")]
    fill(books, rows, closed=[LAST_HOUR])
    (invoice,) = draft_all(books, OCTOBER)
    assert sum(Decimal(line["amount"]) for line in invoice.lines) == Decimal(invoice.totals["net"])
