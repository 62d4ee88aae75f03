"""Invoices from entries typed here: lines, rounding, numbers, and what refuses to be issued."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing import audit
from billing.invoicing import changes, invoices
from billing.invoicing.changes import changed_entries, with_changes
from billing.invoicing.credit_notes import Creditable, credit_note
from billing.invoicing.documents import Invoice
from billing.invoicing.explain import explain
from billing.invoicing.invoices import InvoiceError, draft_all, issue_all, issued
from billing.invoicing.month import Books
from billing.money import largest_remainder, minor_digits
from billing.periods import parse_period
from billing.rates import RateCard, apply_rate_card, parse_rate_card
from tests.billing.hand_ledger import HOUR_MS, Row, at, close, fill
from tests.draws import drawn_seed
from warehouse.chain import TakenError
from warehouse.instants import rfc3339
from warehouse.store import Store

OCTOBER, NOVEMBER = (parse_period(month, "UTC") for month in ("2026-10", "2026-11"))
NOON = at("2026-10-05 12:00")
LAST_HOUR = at("2026-10-31 23:00")
NOW = at("2026-11-02 09:00")


def card(price: str = "2.00", currency: str = "EUR", name: str = "GPU platform", prefix: str = "GL") -> RateCard:
    return parse_rate_card(
        {
            "currency": currency,
            "rates": [{"sku": "h100", "price_per_gpu_hour": price}],
            "issuer": {"name": name, "number_prefix": prefix},
        }
    )


@pytest.fixture
def october(books: Store) -> Store:
    """October, closed: physics has a contract price and two projects, o'brien a third of an hour."""
    apply_rate_card(books, card(), "me", "", NOW)
    fill(
        books,
        [
            Row(NOON, "physics", "qcd", used=str(HOUR_MS // 2), idle=str(HOUR_MS // 4), unmetered=HOUR_MS // 4),
            Row(NOON, "physics", "bsm", device="gpu-1", used=str(HOUR_MS), contracted="1.50"),
            Row(NOON, "physics", "bsm", device="gpu-2", units=7, used=str(HOUR_MS), contracted="1.50"),
            Row(NOON, "o'brien", "研发一部", device="gpu-3", used=str(HOUR_MS // 3)),
            Row(NOON, device="gpu-4", unallocated=HOUR_MS),
        ],
        closed=[LAST_HOUR],
    )
    return books


def test_lines_are_by_project_and_sku_and_sum_to_the_total(october: Store) -> None:
    (invoice,) = draft_all(october, OCTOBER, "physics")
    prices = ("list_unit_price", "contracted_unit_price")
    names = ("project", "allocated_gpu_hours", *prices, "list_cost", "billed_cost", "amount")
    assert [[line[name] for name in names] for line in invoice.lines] == [
        ["bsm", "1.142857143", "2.000000000", "1.500000000", "2.285714286", "1.714285714", "1.71"],
        ["qcd", "1.000000000", "2.000000000", "2.000000000", "2.000000000", "2.000000000", "2.00"],
    ]
    assert invoice.document["totals"] == {
        "allocated_gpu_hours": "2.142857143",
        "used_gpu_hours": "1.642857143",
        "idle_gpu_hours": "0.250000000",
        "unmetered_gpu_hours": "0.250000000",
        "unpriced_gpu_hours": "0.000000000",
        "list_cost": "4.285714286",
        "billed_cost": "3.714285714",
        "coverage": "0.883333333",
        "net": "3.71",
        "tax": "0.00",
        "amount": "3.71",
        "prepaid": "0.00",
        "due": "3.71",
    }
    assert (invoice.number, invoice.document["status"], invoice.document["run"]) == (None, "draft", "7")
    assert invoice.document["notes"] == ["0.25 GPU-hours were held while no telemetry said whether they were used."]


def test_an_estimate_for_one_device_marks_the_whole_allocation(books: Store) -> None:
    apply_rate_card(books, card(), "me", "", NOW)
    why = "device unknown: a free one of the node was assumed"
    devices = (("gpu-0", ""), ("gpu-1", why), ("gpu-2", ""))
    rows = [Row(NOON, "physics", device=name, used=str(HOUR_MS), estimated=said) for name, said in devices]
    fill(books, rows, closed=[LAST_HOUR])
    (draft,) = draft_all(books, OCTOBER)
    assert [row["estimated"] for row in explain(books, draft, 1).rows] == [why]
    assert {row["device"]: row["estimated"] for row in explain(books, draft, 1, by_hour=True).rows} == dict(devices)


def test_a_draft_of_an_open_month_says_so(october: Store) -> None:
    close(october, [at("2026-11-01 00:00")])
    fill(october, [Row(at("2026-11-01 01:00"), "physics", used=str(HOUR_MS))])
    (invoice,) = draft_all(october, NOVEMBER)
    assert invoice.document["notes"] == [
        "The books are closed until 2026-11-01T02:00:00.000Z; the month is not complete."
    ]


def test_numbers_have_no_gaps_and_what_was_issued_stays_as_it_was_whatever_changes(october: Store) -> None:
    first = issue_all(october, OCTOBER, NOW)
    assert [(one.number, one.tenant) for one in first] == [("GL-2026-00001", "o'brien"), ("GL-2026-00002", "physics")]
    fill(october, [Row(NOON, "physics", "late", used=str(HOUR_MS))], run=8)
    assert issue_all(october, OCTOBER, NOW + timedelta(days=1)) == first
    assert issue_all(october, OCTOBER, NOW + timedelta(days=1), "physics") == [first[1]]
    assert [line["project"] for line in draft_all(october, OCTOBER, "physics")[0].lines] == ["late"]
    assert issued(october) == first
    assert issued(october, OCTOBER, "o'brien") == [first[0]]
    assert issued(october, number="GL-2026-00002") == [first[1]]
    assert issued(october, NOVEMBER) == []


def test_a_later_tenant_gets_the_next_number_and_a_new_year_starts_at_one(october: Store) -> None:
    issue_all(october, OCTOBER, NOW, "physics")
    assert [one.number for one in issue_all(october, OCTOBER, NOW)] == ["GL-2026-00002", "GL-2026-00001"]
    fill(october, [Row(at("2026-11-05 00:00"), "physics", used=str(HOUR_MS))], closed=[at("2026-11-30 23:00")])
    assert [one.number for one in issue_all(october, NOVEMBER, at("2027-01-03 00:00"))] == ["GL-2027-00001"]


def test_another_issuer_needs_another_prefix(october: Store) -> None:
    issue_all(october, OCTOBER, NOW, "physics")
    apply_rate_card(october, card(name="Other Ltd"), "me", "", NOW)
    with pytest.raises(InvoiceError, match="GL-2026- belong to 'GPU platform'"):
        issue_all(october, OCTOBER, NOW)
    apply_rate_card(october, card(name="Other Ltd", prefix="OT"), "me", "", NOW)
    assert [one.number for one in issue_all(october, OCTOBER, NOW)] == ["OT-2026-00001", "GL-2026-00001"]


def test_a_month_that_is_not_over_or_not_closed_is_refused(october: Store) -> None:
    with pytest.raises(InvoiceError, match="the month ends at 2026-11-01T00:00:00"):
        issue_all(october, OCTOBER, NOVEMBER.start - timedelta(seconds=1))
    with pytest.raises(InvoiceError, match=r"closed until 2026-11-01T00:00:00.000Z only. Run: gpuledger close"):
        issue_all(october, NOVEMBER, at("2026-12-02 00:00"))


def test_hours_without_a_price_are_refused_before_anything_is_issued(october: Store) -> None:
    fill(october, [Row(NOON + timedelta(hours=1), "physics", used=str(HOUR_MS), price=None)], closed=[LAST_HOUR])
    with pytest.raises(InvoiceError, match=r"allocated GPU-hours have no price \(physics 1.00\)"):
        issue_all(october, OCTOBER, NOW)
    assert issued(october) == []
    (draft,) = draft_all(october, OCTOBER, "physics")
    (unpriced,) = [line for line in draft.lines if line["sku"] == ""]
    assert (unpriced["contracted_unit_price"], unpriced["billed_cost"], unpriced["amount"]) == (None, None, None)
    assert "1.00 GPU-hours have no price" in " ".join(draft.document["notes"])
    assert (draft.is_incomplete, draft.known_amount) == (True, draft.amount)
    assert draft.amount == Decimal("3.71")


def test_time_held_by_an_unknown_tenant_is_on_no_invoice(october: Store) -> None:
    rows = [Row(NOON + timedelta(hours=1), "", "orphan", used=str(HOUR_MS))]
    fill(october, rows, closed=[LAST_HOUR])
    assert [one.tenant for one in draft_all(october, OCTOBER)] == ["", "o'brien", "physics"]
    assert [one.tenant for one in issue_all(october, OCTOBER, NOW)] == ["o'brien", "physics"]


def closed_with(store: Store, run: int, rates: RateCard) -> None:
    """A close of all of October at these prices."""
    moment = pa.array([NOW], pa.timestamp("ms", "UTC"))
    row = {"run": pa.array([run], pa.uint64()), "closed_until": pa.array([NOVEMBER.start], pa.timestamp("ms", "UTC"))}
    row |= {"started_at": moment, "finished_at": moment, "rate_card": pa.array([rates.version], pa.string())}
    store.insert("close_runs", pa.table(row))


def test_prices_that_changed_after_the_last_close_are_refused(october: Store) -> None:
    """Also those that an earlier close had."""
    closed_with(october, 6, card("3.00"))
    closed_with(october, 7, card())
    apply_rate_card(october, card("3.00"), "me", "", NOW)
    with pytest.raises(InvoiceError, match=r"changed prices of 'H100' after the last close. Run: gpuledger close"):
        issue_all(october, OCTOBER, NOW)
    apply_rate_card(october, card(prefix="XX"), "me", "another prefix, the same prices", NOW)
    assert len(issue_all(october, OCTOBER, NOW)) == 2


def test_a_tenant_that_held_nothing_gets_a_document_that_says_so(october: Store) -> None:
    with pytest.raises(InvoiceError, match="tenant 'physics-lab': has no allocations in 2026-10"):
        draft_all(october, OCTOBER, "physics-lab")


def test_a_month_that_another_process_issues_meanwhile_is_issued_once(
    october: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    books_of = invoices.books_of

    def while_another_issues(store: Store) -> Books:
        monkeypatch.undo()
        issue_all(store, OCTOBER, NOW)
        return books_of(store)

    monkeypatch.setattr(invoices, "books_of", while_another_issues)
    with pytest.raises(TakenError, match="another process wrote at the same time"):
        issue_all(october, OCTOBER, NOW)
    documents = issued(october)
    assert len({one.tenant for one in documents}) == len(documents)
    noted, failed = (
        {one["object"] for one in audit.history(october, "invoice") if one["action"] == action}
        for action in ("invoice.issue", "invoice.issue.failed")
    )
    assert noted - failed == {one.number for one in documents}, "what the other one got there first with is said"
    assert failed <= noted and failed
    assert issue_all(october, OCTOBER, NOW) == sorted(documents, key=lambda one: one.tenant)


def test_nothing_is_issued_before_the_audit_says_who_did(october: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(audit, "record_all", killed)
        issue_all(october, OCTOBER, NOW)
    assert issued(october) == []


def test_a_close_while_the_drafts_are_computed_is_refused(october: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    drafts_of = invoices.drafts_of

    def while_another_closes(store: Store, *about: Any) -> list[Invoice]:
        monkeypatch.undo()
        drafts = drafts_of(store, *about)
        fill(store, [], run=8, closed=[LAST_HOUR])
        return drafts

    monkeypatch.setattr(invoices, "drafts_of", while_another_closes)
    with pytest.raises(InvoiceError, match="the books were closed again meanwhile"):
        issue_all(october, OCTOBER, NOW)
    assert issued(october) == []
    assert issue_all(october, OCTOBER, NOW) == issued(october) != []


def test_a_correction_names_the_three_allocations_that_changed_most(
    books: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways, and by name where they changed alike; and says how many there are."""
    about = {"device_units": 1, "from_at": NOON, "to_at": NOW, "again": 1, "was_micro_ms": 0, "workload_id": ""}
    hours = {"e": 1, "d": -2, "c": 3, "b": 2, "a": 0}
    entries = [about | {"allocation_id": name, "now_micro_ms": one * HOUR_MS * 10**6} for name, one in hours.items()]
    monkeypatch.setattr(changes, "changed_entries", lambda *_: entries)
    line = {"charge_class": "Correction", "reference": {"month": "2026-09"}}
    (draft,) = with_changes(books, [Invoice({"tenant": "chem", "lines": [line]})])
    (change,) = draft.document["changes"]
    assert [(one["allocation"], float(one["gpu_hours"])) for one in change["first"]] == [("c", 3), ("b", 2), ("d", -2)]
    assert (change["month"], change["allocations"]) == ("2026-09", 5)


# --- documents beside each other --------------------------------------------------------------------------------------

CENTS = st.integers(1, 10**7).map(lambda cents: Decimal(cents).scaleb(-2))


@given(
    CENTS,
    st.fractions(0, 1),
    st.lists(CENTS, max_size=3),
    st.sampled_from((None, "JPY", "KWD", "USD")),
    st.integers(1, 10**9).map(lambda rate: Decimal(rate).scaleb(-4)),
)
def test_a_credit_note_gives_back_its_part_of_each_tax_and_is_converted_as_its_invoice_is(
    net: Decimal, part: Fraction, taxes: list[Decimal], currency: str | None, rate: Decimal
) -> None:
    """Each to the half of a last digit; all of an invoice gives back all of its taxes."""
    amount = max(Decimal("0.01"), Decimal(int(part * int(net * 100))).scaleb(-2))
    payable = None if currency is None else {"currency": currency, "rate": str(rate), "amount": "1", "corrections": []}
    period = {"month": "2026-10", "start": "2026-10-01T00:00:00Z", "end": "2026-11-01T00:00:00Z", "timezone": "UTC"}
    document = {"number": "GL-1", "tenant": "t", "period": period, "currency": "EUR", "totals": {}, "payable": payable}
    left = Creditable(net, {f"tax {n}": tax for n, tax in enumerate(taxes)})
    note = credit_note(Invoice(document), amount, "outage", left)
    back = [Fraction(line["amount"]) for line in note["lines"]]
    assert back[0] == -Fraction(amount)
    assert Fraction(note["totals"]["amount"]) == sum(back)
    for given_back, tax in zip(back[1:], taxes, strict=True):
        assert abs(given_back + Fraction(tax) * Fraction(amount) / Fraction(net)) <= Fraction(1, 200)
        assert amount != net or given_back == -Fraction(tax)
    if currency is None:
        assert note["payable"] is None
        return
    assert {name: note["payable"][name] for name in ("currency", "rate")} == {"currency": currency, "rate": str(rate)}
    converted, least = Fraction(note["payable"]["amount"]), Fraction(1, 10 ** minor_digits(currency))
    assert abs(converted - sum(back) * Fraction(rate)) <= least / 2
    assert converted % least == 0


def drawn_document(dice: Random, number: int) -> Invoice:
    """Of a tenant and a month, with corrections of earlier ones."""
    corrected = [{"month": f"2026-{dice.randrange(5, 8):02}"} for _ in range(dice.randrange(3))]
    about = [{"charge_class": None}, *({"charge_class": "Correction", "reference": one} for one in corrected)]
    document: dict[str, Any] = {"number": f"GL-{number}", "tenant": dice.choice(("chem", "phys")), "lines": about}
    document["period"] = {"month": f"2026-{dice.randrange(5, 9):02}", "timezone": "UTC"}
    document["document_type"] = dice.choice(("invoice", "invoice", "invoice", "credit_note"))
    document["status"] = dice.choice(("issued", "issued", "issued", "void"))
    return Invoice({**document, "issued_at": rfc3339(NOW + timedelta(hours=number)), "as_of_run": number + 100})


class Asked:
    """In place of a store: what it is asked with."""

    def rows(self, _: str, params: dict[str, Any]) -> list[dict[str, Any]]:
        self.params = params
        return []


def test_a_correction_is_explained_by_what_changed_since_the_last_document_about_its_month_before_it() -> None:
    """Not since a later one, another tenant's, a void one or a credit note; of a draft since any of them."""
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    dice = Random(seed)
    for _ in range(100):
        documents = [drawn_document(dice, number) for number in range(8)]
        place = dice.randrange(9)
        draft = Invoice({**drawn_document(dice, 8).document, "number": None, "issued_at": None})
        asking, earlier = (draft, documents) if place == 8 else (documents[place], documents[:place])
        month, before = f"2026-{dice.randrange(5, 8):02}", 0
        for one in earlier:
            stands = one.document["document_type"] == "invoice" and one.document["status"] == "issued"
            months = {one.month, *(line["reference"]["month"] for line in one.lines[1:])}
            if stands and one.tenant == asking.tenant and month in months:
                before = one.document["as_of_run"]
        store = Asked()
        changed_entries(store, asking, month, dice.sample(documents, 8))  # type: ignore[arg-type]
        found = {name: store.params[name] for name in ("before", "after", "tenant")}
        assert found == {"before": before, "after": asking.document["as_of_run"], "tenant": asking.tenant}
        assert store.params["start"] == parse_period(month, "UTC").start


# --- rounding --------------------------------------------------------------------------------------------------------


def test_a_hundred_over_three_lines() -> None:
    third = Fraction(100, 3)
    assert largest_remainder([third] * 3, 2) == (
        [Decimal("33.34"), Decimal("33.33"), Decimal("33.33")],
        Decimal("100.00"),
    )


def test_currencies_have_their_own_minor_units() -> None:
    assert [minor_digits(code) for code in ("EUR", "JPY", "KWD")] == [2, 0, 3]
    assert largest_remainder([Fraction("0.5"), Fraction("0.7")], 0) == ([Decimal(0), Decimal(1)], Decimal(1))


@given(st.lists(st.fractions(min_value=0, max_value=10**6), max_size=40), st.sampled_from([0, 2, 3]))
def test_rounded_lines_sum_to_the_rounded_total_and_stay_near_their_cost(costs: list[Fraction], digits: int) -> None:
    amounts, total = largest_remainder(costs, digits)
    assert sum(map(Fraction, amounts), Fraction(0)) == Fraction(total)
    assert Fraction(total) == Fraction(round(sum(costs, Fraction(0)) * 10**digits), 10**digits)
    for amount, cost in zip(amounts, costs, strict=True):
        assert abs(Fraction(amount) - cost) < Fraction(1, 10**digits)
    assert all(-amount.as_tuple().exponent == digits for amount in amounts)  # type: ignore[operator]
