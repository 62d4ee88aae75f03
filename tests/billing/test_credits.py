"""Credits: lines of drafts, said once, taken back, never on an issued month; and many at once from a file."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from billing import audit
from billing.accounts.credit_files import import_credits
from billing.accounts.credits import (
    Credit,
    CreditError,
    add_credit,
    add_credits,
    credit_lines,
    evidence_of,
    following,
    list_credits,
    parse_amount,
    reverse_credit,
)
from billing.invoicing.corrections import changed_months
from billing.invoicing.month import Books, books_of
from billing.lines import Line
from billing.periods import month_name, parse_period
from billing.rates import RateCard, parse_rate_card
from tests.billing.account_books import NO_PRICES, NOW, issue, void, without_prices
from tests.draws import drawn_seed
from warehouse.errors import LedgerError
from warehouse.store import Store


@pytest.fixture
def accounts(books: Store) -> Store:
    return without_prices(books)


def credit(**more: Any) -> Credit:
    given = {
        "tenant": "physics",
        "month": "2026-10",
        "amount": Decimal("25.00"),
        "currency": "EUR",
        "reason": "switch down",
        "author": "o'brien",
    }
    return Credit(**{**given, **more})


def test_a_credit_is_a_line_of_negative_cost_that_says_who_why_and_from_what(accounts: Store) -> None:
    slo = credit(kind="slo", project="qcd", evidence={"promised": "0.999", "kept": "0.987", "hours": 12}, id="slo-1")
    add_credit(accounts, slo, NOW)
    assert credit_lines(accounts, "2026-10") == [
        Line(
            "physics",
            "credit",
            "qcd",
            description="Credit for a missed service level: switch down (by o'brien); hours 12, kept 0.987, "
            "promised 0.999",
            cost=Fraction(-25),
            rule="credit:slo-1",
        )
    ]
    assert credit_lines(accounts, "2026-11") == []
    assert credit_lines(accounts, "2026-10", "physics-lab") == []
    add_credit(accounts, credit(month="2026-12", author=""), NOW)
    assert [line.description for line in credit_lines(accounts, "2026-12")] == ["Credit: switch down"]


def test_the_same_credit_twice_is_one_whoever_adds_it_and_another_under_its_id_is_refused(accounts: Store) -> None:
    assert add_credit(accounts, credit(), NOW)
    assert not add_credit(accounts, credit(author="somebody else", amount=Decimal("25")), NOW)
    assert add_credit(accounts, credit(id="second"), NOW)
    with pytest.raises(CreditError, match="credit second: another credit has this id"):
        add_credit(accounts, credit(id="second", month="2026-11"), NOW)
    assert [line.cost for line in credit_lines(accounts, "2026-10")] == [-25, -25]
    assert len(audit.history(accounts, "credits.add")) == 2


def test_an_issued_month_takes_no_credit_and_says_which_one_does(accounts: Store) -> None:
    issue(accounts, "2026-10", "100.00")
    number = issue(accounts, "2026-11", "100.00")
    with pytest.raises(CreditError, match=r"invoice GL-physics-2026-10 .* is issued\. .*next open month: 2026-12"):
        add_credit(accounts, credit(), NOW)
    assert add_credit(accounts, credit(tenant="physics-lab"), NOW)
    void(accounts, number)
    with pytest.raises(CreditError, match="next open month: 2026-11"):
        add_credit(accounts, credit(), NOW)
    assert add_credit(accounts, credit(month="2026-11"), NOW)


def test_only_a_reversal_says_that_it_reverses(accounts: Store) -> None:
    original, forged = credit(id="c"), {"amount": Decimal("-25.00"), "evidence": {"reverses": "c"}}
    back, other = credit(id="c-reversed", **forged), credit(id="d", **forged)
    for one in (back, other):
        with pytest.raises(CreditError, match="cannot say that it reverses c"):
            add_credit(accounts, one, NOW)
    outcomes = add_credits(accounts, [original, back, other], NOW)  # as a list that was exported elsewhere
    assert outcomes[:2] == [True, True] and isinstance(outcomes[2], CreditError)


def test_a_credit_note_alone_closes_no_month(accounts: Store) -> None:
    issue(accounts, "2026-10", "-5.00", document_type="credit_note")
    assert add_credit(accounts, credit(), NOW)


def test_taking_back_in_an_open_month_leaves_nothing(accounts: Store) -> None:
    add_credit(accounts, credit(id="c"), NOW)
    first = reverse_credit(accounts, "c", "me", "wrong tenant", NOW)
    assert reverse_credit(accounts, "c", "me", "again", NOW).content() == first.content()
    lines = credit_lines(accounts, "2026-10")
    assert sum((line.cost or Fraction(0) for line in lines), Fraction(0)) == 0
    assert (lines[1].description, lines[1].charge_class) == ("Credit c taken back: wrong tenant (by me)", None)
    for credit_id in ("e", "e-reversed"):
        add_credit(accounts, credit(id=credit_id), NOW)
    with pytest.raises(CreditError, match="e-reversed: is another credit"):
        reverse_credit(accounts, "e", "me", "no", NOW)
    with pytest.raises(CreditError, match="reverses c"):
        reverse_credit(accounts, "c-reversed", "me", "no", NOW)
    with pytest.raises(CreditError, match="no such credit"):
        reverse_credit(accounts, "d", "me", "no", NOW)


def test_taking_back_what_an_issued_invoice_bears_stays_in_its_month_for_the_next_invoice_to_correct(
    accounts: Store,
) -> None:
    add_credit(accounts, credit(id="c", month="2026-12"), NOW)
    issue(accounts, "2026-12", "75.00", number="GL-2026-00009", lines=[{"kind": "credit", "rule": "credit:c"}])
    add_credit(accounts, credit(id="d", month="2026-12", tenant="chemistry"), NOW)
    for tenant, number in (("physics", "GL-2026-00009"), ("chemistry", None)):
        (kept,) = list_credits(accounts, tenant=tenant)
        assert kept.invoice == number
        assert kept in list_credits(accounts)
    back = reverse_credit(accounts, "c", "me", "found the switch up", NOW)
    assert (back.month, back.amount, back.reverses) == ("2026-12", Decimal("-25.00"), "c")
    assert [one.cost for one in credit_lines(accounts, "2026-12", "physics")] == [-25, 25]
    assert credit_lines(accounts, "2027-01") == []


def test_a_month_is_computed_again_for_a_credit_that_no_document_of_the_tenant_has(accounts: Store) -> None:
    """For no other: with each draft, every month that ever had a credit would be."""
    january = parse_period("2027-01", "UTC")

    def found() -> list[str]:
        return [month_name(month, "UTC") for month in changed_months(accounts, january, books_of(accounts))]

    for month in ("2026-10", "2026-11", "2026-12"):
        add_credit(accounts, credit(id=f"c-{month}", month=month), NOW)
        add_credit(accounts, credit(id=f"c-{month}-2", month=month), NOW)
    assert found() == [], "nothing is issued"
    both = [{"kind": "credit", "rule": f"credit:c-2026-10{n}"} for n in ("", "-2")]
    issue(accounts, "2026-10", "50.00", lines=both)
    issue(accounts, "2026-11", "75.00", lines=[{"kind": "credit", "rule": "credit:c-2026-11"}])
    issue(accounts, "2026-12", "75.00", lines=[{"kind": "usage", "rule": f"credit:c-2026-12{n}"} for n in ("", "-2")])
    assert found() == ["2026-11", "2026-12"]
    reverse_credit(accounts, "c-2026-10", "me", "found the switch up", NOW)
    assert found() == ["2026-10", "2026-11", "2026-12"]


def books_with(books: Books, card: RateCard) -> Books:
    assert books.current is not None
    return replace(books, current=replace(books.current, card=card))


def test_a_month_is_computed_again_for_who_was_committed_and_has_no_invoice_of_it(accounts: Store) -> None:
    """Of the months that others were billed for, from the promise's first until before its last."""
    months = [f"2026-{number:02}" for number in range(6, 11)]
    for month in months:
        issue(accounts, month, "75.00")
    books = books_of(accounts)
    for since, until in product((None, months[1]), (None, months[3])):
        promise = {"name": "q", "tenant": "kyoto", "gpus": "1", "price_per_gpu_hour": "1"}
        promises = [{**promise, "effective_from": since, "effective_to": until}]
        card = parse_rate_card({"currency": "EUR", "rates": NO_PRICES, "commitments": promises})
        found = changed_months(accounts, parse_period("2026-12", "UTC"), books_with(books, card))
        expected = [month for month in months if (since or "") <= month and (until is None or month < until)]
        assert [month_name(month, "UTC") for month in found] == expected, (since, until)


def test_what_is_no_credit_is_refused(accounts: Store) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"currency": "USD"}, "found USD, but the rate card is in EUR"),
        ({"kind": "gift"}, "kind: found 'gift'. Choose from manual, slo, interference"),
        ({"tenant": " "}, "tenant: missing"),
        ({"reason": ""}, "reason: missing"),
        ({"amount": Decimal(0)}, "cannot be zero"),
        ({"month": "2026-13"}, "2026-13"),
        ({"month": "2026-10-01"}, "not a month"),
    ]
    for more, says in refused:
        with pytest.raises(LedgerError, match=says):
            add_credit(accounts, credit(**more), NOW)
    assert list_credits(accounts) == []


def test_without_a_rate_card_there_is_no_currency(books: Store) -> None:
    store = without_prices(books)
    store.command("TRUNCATE TABLE rate_cards")
    with pytest.raises(CreditError, match="none is in force"):
        add_credit(store, credit(), NOW)


def test_amounts_and_evidence_keep_every_digit() -> None:
    assert parse_amount("-0.000000001") == Decimal("-0.000000001")
    for text in ("1,000", "1e3", "", "1.0000000001", "NaN"):
        with pytest.raises(CreditError, match="Expected a decimal such as"):
            parse_amount(text)
    assert evidence_of('{"kept": 0.98700000000000000001}') == {"kept": "0.98700000000000000001"}
    for text in ("[1]", "{", "1"):
        with pytest.raises(CreditError, match="Expected an object such as"):
            evidence_of(text)
    assert [following(month) for month in ("2026-09", "2026-12")] == ["2026-10", "2027-01"]


# --- files -----------------------------------------------------------------------------------------------------------

TABLE = """id,tenant,month,amount,reason,kind,evidence
slo-1,physics,2026-10,12.50,availability,slo,"{""kept"": 0.98}"
slo-2,o'brien,2026-10,abc,availability,slo,
slo-3,研发一部,2026-10,1.25,interference,interference,{broken
slo-4,physics,2026-09,1.25,too late,slo,
slo-5,physics,2026-10,1.25
slo-1,physics,2026-10,99.00,not the same,slo,
slo-6,研发一部,2026-10,3.00,interference,interference,
"""


def test_good_rows_are_added_and_each_bad_one_is_quarantined_with_one_line(accounts: Store, tmp_path: Path) -> None:
    issue(accounts, "2026-09", "100.00")
    path = tmp_path / "credits.csv"
    path.write_text(TABLE)
    report = import_credits(accounts, path, "me", NOW)
    assert (report.read, report.added, report.known) == (7, 2, 0)
    assert [(one.row, one.why) for one in report.refused] == [
        (2, "amount: found 'abc'. Expected a decimal such as \"25.00\", with at most 9 digits on each side"),
        (
            3,
            "evidence: not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1)). "
            'Expected an object such as {"availability": "0.987"}',
        ),
        (
            4,
            "month 2026-09: invoice GL-physics-2026-09 of 'physics' is issued. It goes to the next open month: 2026-10",
        ),
        (5, "row: has 4 cells, the header 7. Check its commas and quotes"),
        (6, "credit slo-1: another credit has this id. Give it an id of its own"),
    ]
    assert [kept.credit.id for kept in list_credits(accounts)] == ["slo-1", "slo-6"]
    assert accounts.value("SELECT count() AS n FROM quarantine FINAL WHERE record_type = 'credits'") == 5
    again = import_credits(accounts, path, "me", NOW)
    assert (again.read, again.added, again.known, len(again.refused)) == (7, 0, 2, 5)
    assert accounts.value("SELECT count() AS n FROM quarantine FINAL") == 5
    noted = [one["action"] for one in audit.history(accounts, "credits.import")]
    assert noted == ["credits.import", "credits.import.done"]


def test_an_import_that_is_not_in_the_audit_adds_nothing(
    accounts: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "credits.csv"
    path.write_text(TABLE)

    def away(*_: object) -> None:
        raise CreditError("audit", "cannot be written")

    with monkeypatch.context() as patched, pytest.raises(CreditError, match="cannot be written"):
        patched.setattr(audit, "record", away)
        import_credits(accounts, path, "me", NOW)
    assert not list_credits(accounts)


def test_empty_lines_are_no_rows(accounts: Store, tmp_path: Path) -> None:
    """Wherever they stand: what comes after them is read, and counted as without them."""
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    dice = Random(seed)
    lines = TABLE.splitlines()
    rows = [json.dumps(dict(zip(lines[0].split(","), one, strict=False))) for one in csv.reader(lines[1:])]
    issue(accounts, "2026-09", "100.00")
    for suffix, header, body in (("csv", lines[:1], lines[1:]), ("jsonl", [], rows)):
        found = []
        for most in (0, 2):
            text = "".join(f"{line}\n" + "\n" * dice.randint(0, most) for line in body) + "\n" * most
            path = tmp_path / f"{most}.{suffix}"
            path.write_text("".join(f"{line}\n" for line in header) + "\n" * most + text)
            report = import_credits(accounts, path, "me", NOW)
            found.append((report.read, report.added + report.known, [(one.row, one.why) for one in report.refused]))
        assert found[0] == found[1], suffix
        assert found[0][0] == len(body)


def test_json_lines_say_the_same_and_a_number_without_quotes_is_refused(accounts: Store, tmp_path: Path) -> None:
    row = {"tenant": "physics", "month": "2026-10", "amount": "12.50", "reason": "r", "evidence": {"kept": "0.98"}}
    lines = [json.dumps(row), json.dumps({**row, "amount": 12.5}), "{", "[1]", json.dumps({**row, "sku": "x"}), ""]
    path = tmp_path / "credits.jsonl"
    path.write_text("\n".join(lines))
    report = import_credits(accounts, path, "me", NOW)
    assert (report.read, report.added) == (5, 1)
    whys = [one.why for one in report.refused]
    assert whys[0] == 'amount: found 12.5. Write it in quotes, such as "12.5"'
    assert whys[1:3] == [
        "row: not JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1)). "
        "Expected one object per line",
        "row: not an object. Expected an object",
    ]
    assert whys[3].startswith("sku: unknown key; known here: tenant, month")
    (kept,) = list_credits(accounts)
    assert (kept.credit.kind, kept.credit.author, kept.credit.evidence) == ("slo", "me", {"kept": "0.98"})


def test_a_file_that_is_no_table_of_credits_adds_nothing(accounts: Store, tmp_path: Path) -> None:
    for name, content, says in (
        ("a.csv", b"tenant,amount\nx,1\n", "has no column 'month'"),
        ("a.xlsx", b"PK", "neither CSV nor JSON lines"),
        ("a.csv", b"tenant,month,amount,reason,amount\nx,2026-10,1,y,2\n", "column amount appears twice"),
        ("a.csv.gz", b"no gzip", "cannot be read"),
        ("a.csv.gz", gzip.compress(TABLE.encode())[:12] + b"\xff" * 30, "cannot be read"),
        ("a.csv.gz", gzip.compress(TABLE.encode())[:-9], "cannot be read"),
        ("a.csv.gz", gzip.compress(TABLE.encode()) + b"more", "goes on after the end of its gzip data"),
        ("b.csv", b"\xff\xfe", "cannot be read"),
        ("d.csv", b'tenant,month,amount,reason\nx,2026-10,1,y\nx,2026-10,2,"y\n', "row 2: not CSV"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CreditError, match=says):
            import_credits(accounts, tmp_path / name, "me", NOW)
    assert list_credits(accounts) == []
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    assert import_credits(accounts, tmp_path / "c.csv.gz", "me", NOW).added == 3  # September is open here
