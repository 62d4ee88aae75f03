"""Random histories of the books: whatever is done in whatever order, the documents sum to what is owed.

Facts come late, doubled and corrected; cards change; credits are given and taken back; months are issued, all at once
or tenant by tenant, in any order; documents are credited, voided and issued again. After every few steps the documents
and the next draft must come to what `reckoning.py` makes of all that happened. A history is named by its seed:

    GPULEDGER_HISTORIES=1000 GPULEDGER_VERIFIED=99 make test PYTEST="-k history"   # seeds 0 to 999, all verified
    GPULEDGER_HISTORY=4711 make test PYTEST="-k history"                           # this one alone
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing.accounts.credits import Credit, CreditError, add_credit, reverse_credit
from billing.close import close
from billing.invoicing.documents import Invoice, InvoiceError
from billing.invoicing.invoices import credit, draft_all, issue_all, issued, standing, void
from billing.invoicing.rederive import rederive
from billing.periods import parse_month
from billing.rates import RateError, apply_rate_card, parse_rate_card
from tests.billing.facts import put
from tests.billing.hand_ledger import at
from tests.billing.reckoning import Books, Device, GivenCredit, Job, Owed, month_span, reckon
from tests.stores import fresh_store
from warehouse.store import Store

MONTHS = ("2026-02", "2026-03", "2026-04")
"""Berlin's clocks change in March, Lord Howe's in April, by half an hour."""
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe")
NEXT = "2026-05"
AFTER = at("2026-06-02 00:00")
TENANTS = ("chem", "kyoto", "late", "phys")
NOBODY = ""
"""Who pays was not told."""
RATES = {"2026-02": "160.5", "2026-03": "170.25", "2026-04": "155", "2026-05": "149.125", "2026-06": "151"}
SEEDS: list[int | None] = [None]
"""None: a new one each time."""
if "GPULEDGER_HISTORY" in os.environ:
    SEEDS = [int(os.environ["GPULEDGER_HISTORY"])]
elif "GPULEDGER_HISTORIES" in os.environ:
    SEEDS = list(range(int(os.environ["GPULEDGER_HISTORIES"])))
VERIFIED = int(os.environ.get("GPULEDGER_VERIFIED", "1"))
"""Documents of a history that are computed again from the raw facts: a close each."""
NOTHING = Owed(Decimal(0), Decimal(0))


@dataclass
class History:
    """A store, the reckoning's copy of what happened in it, and what was done, in words."""

    store: Store
    dice: random.Random
    books: Books
    clock: datetime = AFTER
    given: dict[str, GivenCredit] = field(default_factory=dict)
    taken_back: set[str] = field(default_factory=set)

    def now(self) -> datetime:
        self.clock += timedelta(minutes=1)
        return self.clock

    def issued_months(self) -> set[str]:
        """The months that some document is about."""
        found = set()
        for one in standing(self.store):
            if not one.is_credit_note:
                found |= {one.month, *(line["reference"]["month"] for line in one.lines if line["reference"])}
        return found

    # --- what may happen ---------------------------------------------------------------------------------------------

    def hold(self) -> str:
        """A job that was told of late, or that goes on over the end of a month or ends on it, or that is very short."""
        device = self.dice.choice(list(self.books.devices.values()))
        since, until = self.dice.choice(device.spans)
        start = since + timedelta(milliseconds=self.dice.randrange((until - since) // timedelta(milliseconds=1)))
        length = self.dice.choice([7, 40, 1_000, 4_000, 9_000]) + self.dice.random()
        end = min(start + timedelta(milliseconds=round(1000 * length)), until)
        ends = [month_span(month, self.books.zone)[1] for month in MONTHS]
        midnights = [over for over in ends if since < over <= until]
        if midnights and self.dice.random() < 0.3:
            end = self.dice.choice(midnights)
            start = max(since, end - timedelta(milliseconds=round(1000 * length)))
        there = [job for job in self.books.jobs.values() if job.device == device.name]
        if sum(job.start < end and start < job.end for job in there) >= device.shares:
            return "a job finds no place"
        tenant, project = self.dice.choice((*TENANTS, NOBODY)), self.dice.choice(("a", "b"))
        name = f"job-{len(self.books.jobs)}"
        self.books.jobs[name] = Job(name, tenant, project, device.name, start, end)
        about = {"allocation_id": name, "tenant": tenant, "project": project, "workload_id": name}
        started = {**about, "ts": start, "event": "started", "device_id": device.name, "units": 1}
        rows = [started, {**about, "ts": end, "event": "finished", "device_id": "", "units": None}]
        for _ in range(self.dice.choice((1, 1, 2))):  # delivered twice, now and then
            put(self.store, "events", rows)
        return f"{name} of {tenant}/{project} holds {device.name} {start:%m-%d %H:%M:%S} to {end:%m-%d %H:%M:%S}"

    def shorten(self) -> str:
        """An earlier end is told of a job."""
        if not self.books.jobs:
            return "no job to shorten"
        job = self.dice.choice(list(self.books.jobs.values()))
        job.end = job.start + (job.end - job.start) * self.dice.randrange(1, 9) // 10
        job.end = job.end.replace(microsecond=job.end.microsecond // 1000 * 1000)
        if job.end <= job.start:
            job.end = job.start + timedelta(milliseconds=1)
        about = {"allocation_id": job.name, "tenant": job.tenant, "project": job.project, "workload_id": job.name}
        put(self.store, "events", [{**about, "ts": job.end, "event": "finished", "device_id": "", "units": None}])
        return f"{job.name} ended at {job.end:%m-%d %H:%M:%S} already"

    def give(self) -> str:
        tenant, month = self.dice.choice(TENANTS), self.dice.choice(MONTHS)
        amount = Decimal(self.dice.randrange(1, 900)).scaleb(-2)
        name = f"credit-{self.dice.randrange(10**9)}"
        try:
            add_credit(self.store, Credit(tenant, month, amount, "EUR", "sorry", id=name), self.now())
        except CreditError as error:
            return f"{name} to {tenant} in {month} is refused: {error}"
        self.given[name] = GivenCredit(tenant, month, amount)
        self.books.credits.append(self.given[name])
        return f"{name} of {amount} to {tenant} in {month}"

    def take_back(self) -> str:
        if not self.given:
            return "no credit to take back"
        name = self.dice.choice(list(self.given))
        first = self.given[name]
        reverse_credit(self.store, name, "me", "wrong", self.now())
        if name not in self.taken_back:  # a second time changes nothing
            self.taken_back.add(name)
            self.books.credits.append(GivenCredit(first.tenant, first.month, -first.amount))
        return f"{name} is taken back"

    def issue(self) -> str:
        month = self.dice.choice(MONTHS)
        tenant = self.dice.choice((None, None, None, *TENANTS))
        self.close()
        try:
            done = issue_all(self.store, parse_month(month, self.zone), self.now(), tenant)
        except InvoiceError as error:
            return f"{month} of {tenant} is not issued: {error}"
        return f"{month} of {tenant or 'all'} is issued: {', '.join(str(one.number) for one in done)}"

    def give_note(self) -> str:
        there = [one for one in standing(self.store) if not one.is_credit_note]
        if not there:
            return "no invoice to credit"
        one = self.dice.choice(there)
        amount = Decimal(self.dice.randrange(1, 3000)).scaleb(-2)
        try:
            note = credit(self.store, str(one.number), amount, self.now(), "me", "goodwill")
        except InvoiceError as error:
            return f"{amount} on {one.number} is refused: {error}"
        return f"{note.number}: {amount} on {one.number}"

    def make_void(self) -> str:
        there = standing(self.store)
        if not there:
            return "no document to void"
        number = str(self.dice.choice(there).number)
        try:
            void(self.store, number, self.now(), "me", "wrong address")
        except InvoiceError as error:
            return f"{number} stays: {error}"
        return f"{number} is void"

    def change_card(self) -> str:
        card = deepcopy(self.books.card)
        kind, policy = policy_of(self.dice, len(card["commitments"]) + len(card["discounts"]))
        policy["effective_from"] = self.dice.choice(MONTHS)
        card[kind].append(policy)
        try:
            apply_rate_card(self.store, parse_rate_card(card), "me", "", self.now())
        except RateError as error:
            return f"{kind} {policy} is refused: {error}"
        self.books.card = card
        return f"{kind} {policy}"

    def close(self) -> str:
        close(self.store, AFTER - timedelta(days=1), AFTER)
        return "closed"

    # --- what must be true -------------------------------------------------------------------------------------------

    @property
    def zone(self) -> str:
        return str(self.books.card["timezone"])

    def owed(self, month: str) -> dict[str, Owed]:
        return reckon(self.books, month)

    def check(self, next_month: str = NEXT) -> None:
        """What was billed and the next draft come to what is owed, for every month that was issued."""
        self.close()
        drafts = draft_all(self.store, parse_month(next_month, self.zone))
        documents = [*(one for one in standing(self.store) if not one.is_credit_note), *drafts]
        billed: dict[tuple[str, str], list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
        for one in documents:
            check_document(self, one)
            for line in one.lines:
                month = line["reference"]["month"] if line["charge_class"] else one.month
                billed[one.tenant, month][line["kind"] == "tax"] += Decimal(line["amount"])
        for month in sorted(self.issued_months()):
            owed = self.owed(month)
            for tenant in TENANTS:
                due = owed.get(tenant, NOTHING)
                assert billed[tenant, month] == [due.net, due.tax], f"{month} of {tenant}"

    def finish(self) -> None:
        """All months are issued, then the next; nothing is left, and every document follows from the facts."""
        self.close()
        for month in (*MONTHS, NEXT):
            issue_all(self.store, parse_month(month, self.zone), self.now())
        self.check("2026-06")
        left = draft_all(self.store, parse_month("2026-06", self.zone))
        assert [line for one in left for line in one.lines if line["charge_class"]] == []
        documents = issued(self.store)
        assert [one.number for one in documents] == [f"GL-2026-{n:05d}" for n in range(1, len(documents) + 1)]
        self.close()
        issue_all(self.store, parse_month(self.dice.choice((*MONTHS, NEXT)), self.zone), self.now())
        assert issued(self.store) == documents, "doing it again changes nothing"
        billed = {one.tenant for one in documents}
        owing = {tenant for month in MONTHS for tenant, due in self.owed(month).items() if due != NOTHING}
        assert owing - {NOBODY} <= billed
        invoices = [one for one in documents if not one.is_credit_note]
        for one in self.dice.sample(invoices, min(VERIFIED, len(invoices))):
            assert rederive(self.store, str(one.number)).differences == (), one.number


def check_document(history: History, one: Invoice) -> None:
    """A document adds up in itself: lines, taxes, and what is to be paid in the tenant's currency."""
    taxes = [Decimal(line["amount"]) for line in one.lines if line["kind"] == "tax"]
    others = [Decimal(line["amount"]) for line in one.lines if line["kind"] != "tax"]
    sums = [sum(others, Decimal(0)), sum(taxes, Decimal(0))]
    assert [Decimal(one.totals[name]) for name in ("net", "tax")] == sums, one.number
    assert one.amount == sum(sums), one.number
    if one.tenant == "kyoto":
        yen = Fraction(0)
        for line in one.lines:
            month = line["reference"]["month"] if line["charge_class"] else one.month
            yen += Fraction(Decimal(line["amount"])) * Fraction(RATES[month])
        assert Decimal(one.document["payable"]["amount"]) == round(yen), one.number


# --- how a history begins --------------------------------------------------------------------------------------------


def policy_of(dice: random.Random, number: int) -> tuple[str, dict[str, Any]]:
    """A commitment or a discount. Which session a quota covers is a tie sometimes: phys alone has both or none."""
    if dice.random() < 0.5:
        tenant = dice.choice(("chem", "kyoto", "late"))
        quota = {
            "tenant": tenant,
            "sku": dice.choice(("*", "big", "small")),
            "gpus": dice.choice(("0.03", "0.5", "1.25")),
        }
        return "commitments", {"name": f"q{number}", **quota, "price_per_gpu_hour": dice.choice(("0.11", "0.37"))}
    discount: dict[str, Any] = {"name": f"d{number}"}
    shape = dice.randrange(3)
    if shape == 0:
        return "discounts", {
            **discount,
            "percent": dice.choice(("7", "33.3")),
            "match": {"sku": dice.choice(("big", "*"))},
        }
    tiers = [{"from": "0.5", "percent": "5"}, {"above": "1.5", "percent": "12.5"}]
    discount |= {"mode": dice.choice(("graduated", "whole")), "tiers": tiers}
    if shape == 1:
        return "discounts", {**discount, "match": {"tenant": dice.choice(TENANTS)}}
    measure = dice.choice(("hours", "gpu_hours"))
    return "discounts", {**discount, "per": "session", "measure": measure, "match": {"tenant": "phys"}}


def random_card(dice: random.Random) -> dict[str, Any]:
    card: dict[str, Any] = {
        "currency": "EUR",
        "timezone": dice.choice(ZONES),
        "minimum_seconds": dice.choice((0, 60, [{"seconds": 90, "effective_from": "2026-03"}])),
        "rates": [
            {"sku": "big", "match": {"model": "H100"}, "price_per_gpu_hour": "3.07"},
            {"sku": "small", "match": {"model": "L40S"}, "price_per_gpu_hour": "1.13"},
            {"sku": "own", "match": {"model": "H100", "tenant": "phys"}, "price_per_gpu_hour": "2.71"},
        ],
        "commitments": [],
        "discounts": [],
        "idle_policy": dice.choice(
            ("platform", *([{"share": share}] for share in ("allocated_cost", "evenly", "guaranteed")))
        ),
        "taxes": dice.choice(
            (
                [],
                [
                    {"name": "VAT", "percent": "19", "effective_to": "2026-03"},
                    {"name": "VAT", "percent": "16", "effective_from": "2026-03"},
                ],
                [
                    {"name": "VAT", "percent": "0", "tenant": "late"},
                    {"name": "VAT", "percent": "20"},
                    {"name": "levy", "percent": "1.5"},
                ],
            )
        ),
        "invoice_currencies": [{"tenant": "kyoto", "currency": "JPY"}],
        "exchange_rates": [{"month": month, "currency": "JPY", "rate": rate} for month, rate in RATES.items()],
    }
    for number in range(dice.randrange(4)):
        kind, policy = policy_of(dice, number)
        card[kind].append(policy)
    return card


def random_devices(zone: ZoneInfo) -> dict[str, Device]:
    """There around the months' ends, and for some hours within them: the fewer hours, the quicker the close."""
    spans = []
    for month in MONTHS:
        start, end = month_span(month, zone)
        spans += [(start + timedelta(days=9), start + timedelta(days=9, hours=3)), (end - timedelta(hours=2), end)]
    joined = [spans[0]]
    for start, end in spans[1:]:
        joined.append((start, end + timedelta(hours=2) if end.astimezone(zone).day == 1 else end))
    return {
        "gpu-0": Device("gpu-0", "H100", 1, joined),
        "gpu-1": Device("gpu-1", "H100", 1, joined[:4]),
        "gpu-2": Device("gpu-2", "L40S", 2, joined),
    }


def tell_devices(store: Store, devices: Sequence[Device]) -> None:
    rows = []
    for one in devices:
        about = {"device_id": one.name, "model": one.model, "node": "n1", "units": one.shares}
        for start, end in one.spans:
            rows += [{**about, "ts": start, "state": "available"}, {**about, "ts": end, "state": "removed"}]
    put(store, "devices", rows)


STEPS: Sequence[tuple[int, Callable[[History], str]]] = (
    (5, History.hold), (2, History.shorten), (2, History.give), (3, History.take_back), (5, History.issue),
    (2, History.give_note), (2, History.make_void), (2, History.change_card),
)  # fmt: skip


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("histories")) as opened:
        yield opened


TABLES = (
    "samples", "events", "devices", "ingest_batches", "touched_hours", "ledger_entries", "closed_hours", "close_runs",
    "rate_cards", "invoices", "voided_invoices", "credits", "audit", "allocations", "refused_claims", "quarantine",
)  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_the_documents_of_any_history_sum_to_what_is_owed(empty: Store, seed: int | None) -> None:
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    for table in TABLES:
        empty.command(f"TRUNCATE TABLE {table}")
    dice = random.Random(seed)
    card = random_card(dice)
    devices = random_devices(ZoneInfo(card["timezone"]))
    history = History(empty, dice, Books(card, devices))
    apply_rate_card(empty, parse_rate_card(card), "me", "", history.now())
    tell_devices(empty, list(devices.values()))
    print(f"seed {seed}: {card}")
    for _ in range(6):
        print(history.hold())
    steps = [step for weight, step in STEPS for _ in range(weight)]
    for _ in range(4):
        for _ in range(dice.randrange(1, 5)):
            print(dice.choice(steps)(history))
        history.check()
    history.finish()
