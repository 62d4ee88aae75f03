"""Random histories of the books: whatever is done in whatever order, the documents sum to what is owed.

Facts come late, doubled and corrected: jobs, their ends, devices that break, samples with use, energy and memory. Some
are held, and accepted after the issue. Cards, mappings, idle power, grants and budgets change; credits are given and
taken back; months are issued, all at once or tenant by tenant, in any order, by two at once; documents are credited,
voided and issued again; a close ends anywhere. Any command may be killed at any of its writes, and is run again. After
every few steps the documents and the next draft must come to what `reckoning.py` makes of all that happened. A history
is named by its seed:

    GPULEDGER_HISTORIES=0-999 GPULEDGER_VERIFIED=99 make test PYTEST="-k history"  # these seeds, all verified
    GPULEDGER_HISTORY=4711 make test PYTEST="-k history"                           # this one alone
"""

from __future__ import annotations

import os
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing.accounts.budget_file import apply_budgets, parse_budgets
from billing.accounts.budgets import budget_states
from billing.accounts.credits import Credit, CreditError, add_credit, reverse_credit
from billing.accounts.prepaid import Grant, add_grant, balances, revoke_grant
from billing.close import close
from billing.energy.settings import apply_energy_settings, parse_energy_settings
from billing.held import accept, refuse
from billing.invoicing.documents import Invoice, InvoiceError
from billing.invoicing.invoices import credit, draft_all, issue_all, issued, standing, void
from billing.invoicing.rederive import rederive
from billing.ledger_report import ledger_report
from billing.periods import parse_month
from billing.rates import RateError, apply_rate_card, parse_rate_card
from billing.tenants import TenantError, apply_mapping, parse_mapping
from billing.verify import verify
from billing.verify.tables import NOT_VOUCHED, VOUCHED
from ingest.held import hash_of, held_pushes, hold
from ingest.place import Doubt
from tests.billing.dying import dying
from tests.billing.facts import put
from tests.billing.hand_ledger import at
from tests.billing.reckoning import (
    Books,
    Device,
    GivenCredit,
    GivenGrant,
    Job,
    Owed,
    Reckoning,
    Sample,
    month_span,
    ms,
)
from tests.billing.tampering import changed, columns_of, replaced, some_row
from tests.stores import emptied, fresh_store
from warehouse.chain import TakenError
from warehouse.records import RECORD_TYPES
from warehouse.store import Store, identifier

MONTHS = ("2026-02", "2026-03", "2026-04")
"""Berlin's clocks change in March, Lord Howe's in April, by half an hour."""
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe")
NEXT = "2026-05"
AFTER = at("2026-06-02 00:00")
TENANTS = ("bio", "chem", "kyoto", "late", "phys")
NOBODY = ""
"""Who pays was not told."""
TOLD = ("chem", "kyoto", "late", "phys", NOBODY)
"""bio has something by the mapping alone."""
PROJECTS = ("a", "b")
RATES = {"2026-02": "160.5", "2026-03": "170.25", "2026-04": "155", "2026-05": "149.125", "2026-06": "151"}
SEEDS: list[int | None] = [None]
"""None: a new one each time."""
if "GPULEDGER_HISTORY" in os.environ:
    SEEDS = [int(os.environ["GPULEDGER_HISTORY"])]
elif "GPULEDGER_HISTORIES" in os.environ:
    first, last = map(int, os.environ["GPULEDGER_HISTORIES"].split("-"))
    SEEDS = list(range(first, last + 1))
VERIFIED = int(os.environ.get("GPULEDGER_VERIFIED", "1"))
"""Documents of a history that are computed again from the raw facts: a close each."""
NOTHING = Owed(Decimal(0), Decimal(0))
HOUR = timedelta(hours=1) // timedelta(milliseconds=1)
DAY = 24 * HOUR
STAMPS = {60: 0, 300: 300, 1200: 700}
"""At which ms of a second samples end, by how many seconds they are long: those of one key are equally long."""
STATES = ("ok",) * 16 + ("idle", "unsupported", "blank", "stale")


@dataclass
class History:
    """A store, the reckoning's copy of what happened in it, and what was done, in words.

    spans: when devices are there.   killed: how often a command died.   told_ends: the last that was told of each job.
    """

    store: Store
    dice: random.Random
    books: Books
    spans: Sequence[tuple[int, int]]
    clock: datetime = AFTER
    given: dict[str, GivenCredit] = field(default_factory=dict)
    taken_back: set[str] = field(default_factory=set)
    killed: int = 0
    told_ends: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def now(self) -> datetime:
        self.clock += timedelta(minutes=1)
        return self.clock

    def do(self, command: Callable[[], Any]) -> Any:
        """Runs a command that may be run again; sometimes it is killed before."""
        if self.dice.random() < 0.25:
            with dying(
                self.store, self.dice.randrange(1, self.dice.choice((4, 12, 90))), self.dice.random() < 0.5
            ) as death:
                command()
            self.killed += death.came
        return command()

    def issued_months(self) -> set[str]:
        """The months that some document is about."""
        found = set()
        for one in standing(self.store):
            if not one.is_credit_note:
                found |= {one.month, *(line["reference"]["month"] for line in one.lines if line["reference"])}
        return found

    # --- what a cluster does -----------------------------------------------------------------------------------------

    def hold(self) -> str:
        """A job that is told late, or that goes on over the end of a month or ends on it, or that is very short."""
        job = self.some_job()
        if job is None:
            return "a job finds no place"
        rows = rows_of(job)
        self.books.jobs[job.name] = job
        for _ in range(self.dice.choice((1, 1, 2))):  # delivered twice, now and then
            self.do(lambda: put(self.store, "events", rows))
        return words(job)

    def some_job(self) -> Job | None:
        device = self.dice.choice(list(self.books.devices.values()))
        since, until = self.dice.choice(self.spans)
        start = since + self.dice.randrange(until - since)
        length = round(1000 * (self.dice.choice([7, 40, 1_000, 4_000, 9_000]) + self.dice.random()))
        end = min(start + length, until)
        ends = [month_span(month, self.books.zone)[1] for month in MONTHS]
        midnights = [over for over in ends if since < over <= until]
        if midnights and self.dice.random() < 0.3:
            end = self.dice.choice(midnights)
            start = max(since, end - length)
        shares = self.dice.randrange(1, device.shares + 1)
        if self.held((start, end), device.name) + shares > device.shares:
            return None
        tenant, project = self.dice.choice(TOLD), self.dice.choice(PROJECTS)
        name = f"job-{len(self.books.jobs)}"
        job = Job(name, tenant, project, device.name, [(start, end)], shares)
        if device.shares > 2 and self.dice.random() < 0.7:
            job.partition, job.profile = f"part-{name}", f"{shares}g"
        return job

    def held(self, span: tuple[int, int], device: str) -> int:
        """Shares of a device that jobs hold at most during a span."""
        there = [job for job in self.books.jobs.values() if job.device == device]
        return sum(job.shares for job in there if job.holds(span))

    def shorten(self) -> str:
        """An earlier end is told of a job."""
        if not self.books.jobs:
            return "no job to shorten"
        job = self.dice.choice(list(self.books.jobs.values()))
        place = self.dice.randrange(len(job.stretches))
        start, end = job.stretches[place]
        self.told_ends[job.name] = max(self.told_ends[job.name], job.end)
        ends = [month_span(month, self.books.zone)[1] for month in MONTHS]
        ends = [over for over in ends if start < over < end]
        if not ends or self.dice.random() < 0.5:
            ends = [max(start + 1, start + (end - start) * self.dice.randrange(1, 9) // 10)]
        job.stretches[place] = (start, ends[0])
        self.do(lambda: put(self.store, "events", rows_of(job)[2 * place + 1 : 2 * place + 2]))
        return f"{job.name} ended at {shown(ends[0])} already"

    def resume(self) -> str:
        """A job goes on after its end, which is told late."""
        if not self.books.jobs:
            return "no job to resume"
        jobs = sorted(self.books.jobs.values(), key=lambda job: job.end - job.start)
        job = self.dice.choice(jobs[: self.dice.choice((1, 3, len(jobs)))])
        last = max(job.end, self.told_ends[job.name])
        until = self.dice.choice([until for _, until in self.spans if until > last] or [0])
        since = max(last + 1, next((start for start, end in self.spans if end == until), 0))
        if since >= until:
            return f"{job.name} cannot go on"
        start = since + self.dice.randrange(until - since)
        end = min(until, start + round(1000 * (self.dice.choice((3, 20, 900)) + self.dice.random())))
        if self.held((start, end), job.device) + job.shares > self.books.devices[job.device].shares:
            return f"{job.name} finds no place"
        job.stretches.append((start, end))
        self.do(lambda: put(self.store, "events", rows_of(job)[-2:]))
        return f"{job.name} goes on from {shown(start)} to {shown(end)}"

    def fail(self) -> str:
        """A device was away for a while, which is told late."""
        device = self.dice.choice(list(self.books.devices.values()))
        since, until = self.dice.choice(self.spans)
        start = since + self.dice.randrange(1, until - since)
        rows = {start: self.dice.choice(("unavailable", "available"))}
        if self.dice.random() < 0.7:
            rows[min(start + self.dice.randrange(1, HOUR), until - 1)] = "available"
        rows = {instant: state for instant, state in rows.items() if instant not in device.rows}
        device.rows.update(rows)
        self.do(lambda: tell_devices(self.store, [Device(device.name, device.model, device.shares, rows)]))
        return f"{device.name} is {', '.join(f'{state} from {shown(instant)}' for instant, state in rows.items())}"

    def measure(self) -> str:
        """Samples of a job, of everybody on its device, or of its partition: regular or not, and some of them twice,
        or corrected."""
        if not self.books.jobs:
            return "nothing to measure"
        job = self.dice.choice(list(self.books.jobs.values()))
        streams = [("", job.name), ("", "")]
        streams += [(job.partition, job.name), (job.partition, "")] if job.partition else []
        partition, workload = self.dice.choice(streams)
        seconds = self.dice.choice([one for one in STAMPS if one == 60 or 1000 * one < job.end - job.start])
        step = 1000 * seconds
        first = (job.start // 1000 + self.dice.randrange(-60, 2 * seconds)) * 1000 + STAMPS[seconds]
        jitter = self.dice.choice((0, 0, seconds * 2 // 5))
        count = self.dice.randrange(1, 3 + min(60, (job.end - job.start) // step))
        watts = self.dice.randrange(1, 900)
        samples = []
        for number in range(count):
            if self.dice.random() < 0.05:
                continue  # lost
            instant = first + number * step + 1000 * self.dice.randint(-jitter, jitter)
            for _ in range(2 if self.dice.random() < 0.04 else 1):
                state = self.dice.choice(STATES)
                use = {"ok": self.dice.randrange(0, 10**6, 1000), "idle": 0}.get(state)
                size = self.dice.choice((None, 2**30 * self.dice.randrange(1, 40)))
                power = self.dice.choice((None, *(watts + self.dice.randrange(100) for _ in range(6)), 0))
                samples.append(Sample(job.device, partition, workload, instant, step, state, use, power, size))
        self.dice.shuffle(samples)
        self.books.samples += samples
        by_energy = self.dice.random() < 0.4
        for _ in range(self.dice.choice((1, 1, 2))):
            self.do(lambda: put(self.store, "samples", [sample_row(one, by_energy) for one in samples]))
        of = f"{partition}/{workload or 'everybody'} on {job.device}"
        return f"{len(samples)} samples of {of}, {seconds} s +- {jitter}, from {shown(first)}"

    def tell_past(self) -> str:
        """A job is told by a sender that may not change issued months; a person says yes or no."""
        job = self.some_job()
        if job is None:
            return "a job finds no place"
        doubt = Doubt("issued_month", "reaches into a month that is issued")
        rows = [{name: value for name, value in row.items() if value is not None} for row in rows_of(job)]
        hold(self.store, "all", RECORD_TYPES["events"], "push:all", {hash_of(row): (row, doubt) for row in rows})
        yes, now = self.dice.random() < 0.8, self.now()
        (push,) = held_pushes(self.store)
        self.do(lambda: (accept if yes else refuse)(self.store, push.id, now, "ann", "seen"))
        assert held_pushes(self.store) == []
        if not yes:
            return f"refused: {words(job)}"
        self.books.jobs[job.name] = job
        return f"accepted: {words(job)}"

    # --- what a finance team does ------------------------------------------------------------------------------------

    def give(self) -> str:
        tenant, month = self.dice.choice(TENANTS), self.dice.choice(MONTHS)
        amount = Decimal(self.dice.randrange(1, 900)).scaleb(-2)
        name = f"credit-{self.dice.randrange(10**9)}"
        one, now = Credit(tenant, month, amount, "EUR", "sorry", id=name), self.now()
        try:
            self.do(lambda: add_credit(self.store, one, now))
        except CreditError as error:
            return f"{name} to {tenant} in {month} is refused: {error}"
        self.given[name] = GivenCredit(tenant, month, amount)
        self.books.credits.append(self.given[name])
        return f"{name} of {amount} to {tenant} in {month}"

    def take_back(self) -> str:
        if not self.given:
            return "no credit to take back"
        name = self.dice.choice(list(self.given))
        first, now = self.given[name], self.now()
        self.do(lambda: reverse_credit(self.store, name, "me", "wrong", now))
        if name not in self.taken_back:  # a second time changes nothing
            self.taken_back.add(name)
            self.books.credits.append(GivenCredit(first.tenant, first.month, -first.amount))
        return f"{name} is taken back"

    def grant(self) -> str:
        """Paid in advance, for whole days of the zone."""
        tenant, name = self.dice.choice(TENANTS), f"grant-{len(self.books.grants)}"
        first = month_span(self.dice.choice(MONTHS), self.books.zone)[0]
        days = [
            datetime.fromtimestamp(first / 1000, self.books.zone).date() + timedelta(days=n) for n in (0, 9, 10, 28)
        ]
        since = self.dice.choice(days)
        until = since + timedelta(days=self.dice.choice((1, 10, 31, 300)))
        spans = [
            datetime(day.year, day.month, day.day, tzinfo=self.books.zone).astimezone(UTC) for day in (since, until)
        ]
        amount = Decimal(self.dice.choice((self.dice.randrange(1, 300), self.dice.randrange(1, 9000)))).scaleb(-2)
        now = self.now()
        given = Grant(name, tenant, amount, "EUR", spans[0], spans[1], author="ann", reason="order")
        self.do(lambda: add_grant(self.store, given, now))
        self.books.grants[name] = GivenGrant(name, tenant, amount, ms(spans[0]), ms(spans[1]))
        return f"{name} of {amount} to {tenant} from {since} to {until}"

    def revoke(self) -> str:
        if not self.books.grants:
            return "no grant to revoke"
        name, now = self.dice.choice(list(self.books.grants)), self.now()
        self.do(lambda: revoke_grant(self.store, name, "ann", "sent back", now))
        one = self.books.grants[name]
        one.end = min(one.end, max(ms(now), one.start))
        return f"{name} is revoked"

    def issue(self) -> str:
        month = self.dice.choice(MONTHS)
        tenant = self.dice.choice((None, None, None, *TENANTS))
        if self.dice.random() < 0.8:
            self.close()
        try:
            done = self.issue_now(month, tenant)
        except InvoiceError as error:
            return f"{month} of {tenant} is not issued: {error}"
        return f"{month} of {tenant or 'all'} is issued: {', '.join(str(one.number) for one in done)}"

    def issue_now(self, month: str, tenant: str | None = None, twice: bool = False) -> list[Invoice]:
        """Issues a month, and looks at what grants paid of the new invoices."""
        before = standing(self.store)
        period, now = parse_month(month, self.zone), self.now()
        if twice:
            self.at_once(lambda store: issue_all(store, period, now, tenant), (InvoiceError, TakenError))
        done: list[Invoice] = self.do(lambda: issue_all(self.store, period, now, tenant))
        known = {one.number for one in before}
        self.check_draws([one for one in done if one.number not in known], before)
        return done

    def issue_together(self) -> str:
        """Two people issue the same month at once."""
        month = self.dice.choice(MONTHS)
        self.close()
        done = self.issue_now(month, twice=True)
        return f"{month} is issued by two at once: {', '.join(str(one.number) for one in done)}"

    def give_note(self) -> str:
        there = [one for one in standing(self.store) if not one.is_credit_note]
        if not there:
            return "no invoice to credit"
        one = self.dice.choice(there)
        net, tax = self.left_of(one)
        amount = Decimal(self.dice.randrange(1, 3000)).scaleb(-2)
        if net > 0 and self.dice.random() < 0.3:
            amount = net
        try:
            note = credit(self.store, str(one.number), amount, self.now(), "me", "goodwill")
        except InvoiceError as error:
            assert amount > net, f"{one.number}: {error}, {net} are left"
            return f"{amount} on {one.number} is refused: {error}"
        assert amount <= net, f"{one.number}: {amount} of {net}"
        given = -Decimal(note.totals["net"]), -Decimal(note.totals["tax"])
        assert given[0] == amount, note.number
        if amount == net:
            assert given[1] == tax, f"{note.number}: the tax of all that is left"
        return f"{note.number}: {amount} on {one.number}"

    def left_of(self, invoice: Invoice) -> tuple[Decimal, Decimal]:
        """Net and tax of the invoice's month, and of those without an invoice that it was the first to bill, after
        their corrections and its credit notes."""
        documents = standing(self.store, None, invoice.tenant)
        months = {invoice.month}
        for month in MONTHS:
            lines = [(one.number, line) for one in documents for line in one.lines if line["charge_class"]]
            first = [of for of, line in lines if line["reference"] == {"invoice": None, "month": month}][:1]
            months |= {month} if first == [invoice.number] else set()
        parts = [Decimal(0), Decimal(0)]
        for one in documents:
            for line in one.lines:
                corrects = line["charge_class"] and line["reference"]["month"] in months
                notes = one.is_credit_note and line["reference"]["invoice"] == invoice.number
                if corrects or notes or (one.number == invoice.number and not line["charge_class"]):
                    parts[line["kind"] == "tax"] += Decimal(line["amount"])
        return parts[0], parts[1]

    def make_void(self) -> str:
        there = standing(self.store)
        if not there:
            return "no document to void"
        number, now = str(self.dice.choice(there).number), self.now()
        try:
            self.do(lambda: void(self.store, number, now, "me", "wrong address"))
        except InvoiceError as error:
            return f"{number} stays: {error}"
        return f"{number} is void"

    def change_card(self) -> str:
        """Another policy, or another price from some instant on."""
        card, now = deepcopy(self.books.card), self.now()
        if self.dice.random() < 0.25:
            kind, policy = "rates", self.next_price(card)
        else:
            kind, policy = policy_of(self.dice, sum(len(card[kind]) for kind in POLICIES))
            policy["effective_from"] = self.dice.choice(MONTHS)
            card[kind].append(policy)
        try:
            self.do(lambda: apply_rate_card(self.store, parse_rate_card(card), "me", "", now))
        except RateError as error:
            return f"{kind} {policy} is refused: {error}"
        self.books.card = card
        return f"{kind} {policy}"

    def next_price(self, card: dict[str, Any]) -> dict[str, Any]:
        """Ends the last price of something where another begins."""
        last = self.dice.choice([one for one in card["rates"] if "effective_to" not in one])
        since = max(self.some_instant(), last.get("effective_from", ""))
        policy = {**last, "effective_from": since, "price_per_gpu_hour": f"{self.dice.randrange(50, 400) / 100:.2f}"}
        if last.get("effective_from") == since:
            last.update(policy)
        else:
            last["effective_to"] = since
            card["rates"].append(policy)
        return policy

    def map_tenants(self) -> str:
        """From some instant on somebody else pays for what is told as a tenant's project."""
        mapping, now = deepcopy(self.books.mapping), self.now()
        match = {"tenant": self.dice.choice(TOLD), "project": self.dice.choice(PROJECTS)}
        since, rules = self.some_instant(), []
        if self.dice.random() < 0.3:
            match = {"tenant": match["tenant"]}
        for rule in mapping["rules"]:
            if rule["match"] != match or rule.get("effective_to", "9") <= since:
                rules.append(rule)
            elif rule["effective_from"] < since:
                rules.append({**rule, "effective_to": since})
        become = self.dice.choice(({"tenant": "bio"}, {"tenant": "phys", "project": "b"}, {"project": "c"}))
        rules.append({"match": match, **become, "effective_from": since})
        mapping["rules"] = rules
        if self.dice.random() < 0.1:
            mapping["unmapped_owner"] = self.dice.choice(("late", "bio"))
        try:
            self.do(lambda: apply_mapping(self.store, parse_mapping(mapping), "ann", "split up", now))
        except TenantError as error:
            return f"{rules[-1]} is refused: {error}"
        self.books.mapping = mapping
        return f"mapping {mapping}"

    def state_idle_power(self) -> str:
        idle = [
            {"model": model, "watts": str(self.dice.randrange(300))} for model in self.dice.sample(("H100", "L40S"), 2)
        ]
        settings, now = parse_energy_settings({"idle_power": idle}), self.now()
        self.do(lambda: apply_energy_settings(self.store, settings, "ann", "measured", now))
        self.books.idle_power = idle
        return f"idle power {idle}"

    def plan(self) -> str:
        """A budget, which changes nothing; what it says is looked at."""
        tenant, now = self.dice.choice(TENANTS), self.now()
        one = {"tenant": tenant, "amount": f"{self.dice.randrange(1, 2000) / 100:.2f}"}
        file = parse_budgets({"currency": "EUR", "budgets": [one]})
        self.do(lambda: apply_budgets(self.store, file, "ann", "plan", now))
        self.close()
        for month in MONTHS:
            (state,) = budget_states(self.store, month, now)
            due = self.reckoning().measures(month)[tenant][3]
            assert state.actual is not None and abs(Fraction(state.actual) - due) < Fraction(1, 10**8), (
                f"{month}: {state}"
            )
            assert (state.state == "over") == (due > Fraction(state.amount)), f"{month}: {state}, {due}"
        return f"budget {one}"

    def some_instant(self) -> str:
        """A month's first day, or an instant within the time that devices are there."""
        if self.dice.random() < 0.5:
            first = month_span(self.dice.choice(MONTHS), self.books.zone)[0]
        else:
            since, until = self.dice.choice(self.spans)
            first = since + self.dice.randrange(until - since) // 1000 * 1000
        return instant(first).isoformat()

    def close(self) -> str:
        self.do(lambda: close(self.store, AFTER - timedelta(days=1), AFTER))
        return "closed"

    def close_some(self) -> str:
        """A close that ends somewhere."""
        since, until = self.dice.choice(self.spans)
        limit = instant(since + self.dice.randrange(until - since))
        self.do(lambda: close(self.store, limit, AFTER))
        return f"closed until {limit}"

    def close_together(self) -> str:
        self.at_once(lambda store: close(store, AFTER - timedelta(days=1), AFTER), ())
        return "closed by two at once"

    def at_once(self, command: Callable[[Store], Any], expected: tuple[type[Exception], ...]) -> None:
        """Two do the same, each over a connection of its own."""
        unexpected: list[BaseException] = []

        def one() -> None:
            try:
                with self.store.another() as own:
                    command(own)
            except expected:
                pass  # the other was first
            except Exception as error:  # noqa: BLE001 (the thread that asked raises it)
                unexpected.append(error)

        threads = [threading.Thread(target=one) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not unexpected, unexpected

    # --- what must be true -------------------------------------------------------------------------------------------

    @property
    def zone(self) -> str:
        return str(self.books.card["timezone"])

    def reckoning(self) -> Reckoning:
        return Reckoning(self.books)

    def check(self, next_month: str = NEXT) -> list[Invoice]:
        """What was billed and the next draft come to what is owed, for every month that was issued. Answers the
        draft."""
        self.close()
        reckoning = self.reckoning()
        there = standing(self.store)
        drafts = draft_all(self.store, parse_month(next_month, self.zone))
        self.check_draws(drafts, there)
        documents = [*(one for one in there if not one.is_credit_note), *drafts]
        billed: dict[tuple[str, str], list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
        for one in documents:
            check_document(self, one)
            for line in one.lines:
                month = line["reference"]["month"] if line["charge_class"] else one.month
                billed[one.tenant, month][line["kind"] == "tax"] += Decimal(line["amount"])
        for month in sorted(self.issued_months()):
            owed = reckoning.owed(month)
            for tenant in TENANTS:
                due = owed.get(tenant, NOTHING)
                assert billed[tenant, month] == [due.net, due.tax], f"{month} of {tenant}"
        self.check_ledger(reckoning)
        numbers = [one.number for one in issued(self.store)]
        assert numbers == [f"GL-2026-{n:05d}" for n in range(1, len(numbers) + 1)]
        assert [str(one) for one in verify(self.store).failures] == []
        return drafts

    def check_ledger(self, reckoning: Reckoning) -> None:
        """Used, idle and unmetered time of each month, and what it costs before policies."""
        names = ("used_gpu_hours", "idle_gpu_hours", "unmetered_gpu_hours", "billed_cost")
        for month in MONTHS:
            report = ledger_report(self.store, parse_month(month, self.zone), ("tenant",))
            found = {row["tenant"]: [Fraction(row[name]) for name in names] for row in report.rows}
            due = reckoning.measures(month)
            assert found.keys() == due.keys(), month
            for tenant, parts in due.items():
                for name, part, value in zip(names, parts, found[tenant], strict=True):
                    assert abs(part - value) < Fraction(1, 10**6), f"{name} of {tenant!r} in {month}: {float(part)}"

    def check_draws(self, fresh: Sequence[Invoice], before: Sequence[Invoice]) -> None:
        """What grants pay of new documents, and that none pays more than it has."""
        taken: dict[str, Decimal] = defaultdict(Decimal)
        for one in before:
            for draw in one.document.get("prepaid_draws", ()):
                taken[draw["grant"]] += Decimal(draw["amount"])
        reckoning = self.reckoning() if self.books.grants else None
        for one in fresh:
            drawn = {draw["grant"]: Decimal(draw["amount"]) for draw in one.document["prepaid_draws"]}
            due = reckoning.draws(one.tenant, one.month, one.amount, taken) if reckoning else {}
            assert drawn == due, f"{one.month} of {one.tenant}: {one.amount}"
            assert Decimal(one.totals["prepaid"]) == sum(drawn.values()), one.month

    def finish(self) -> None:
        """All months are issued, then the next; nothing is left, and every document follows from the facts."""
        self.close()
        for month in (*MONTHS, NEXT):
            self.issue_now(month)
        left = self.check("2026-06")
        assert [line for one in left for line in one.lines if line["charge_class"]] == []
        documents = issued(self.store)
        again = close(self.store, AFTER - timedelta(days=1), AFTER)
        issue_all(self.store, parse_month(self.dice.choice((*MONTHS, NEXT)), self.zone), self.now())
        assert (again.checked, issued(self.store)) == (0, documents), "doing it again changes nothing"
        billed = {one.tenant for one in documents}
        reckoning = self.reckoning()
        owing = {tenant for month in MONTHS for tenant, due in reckoning.owed(month).items() if due != NOTHING}
        assert owing - {NOBODY} <= billed
        self.check_balances()
        invoices = [one for one in documents if not one.is_credit_note]
        for one in self.dice.sample(invoices, min(VERIFIED, len(invoices))):
            assert rederive(self.store, str(one.number)).differences == (), one.number

    def check_balances(self) -> None:
        """granted = drawn + expired + balance, where no month is open any more."""
        now = self.now()
        drawn: dict[str, Decimal] = defaultdict(Decimal)
        for one in standing(self.store):
            for draw in one.document.get("prepaid_draws", ()):
                drawn[draw["grant"]] += Decimal(draw["amount"])
        found = {one.tenant: one for one in balances(self.store, now)}
        for tenant in {one.tenant for one in self.books.grants.values()}:
            mine = [one for one in self.books.grants.values() if one.tenant == tenant and one.start <= ms(now)]
            granted = sum((one.amount for one in mine), Decimal(0))
            paid = sum((drawn[one.name] for one in mine), Decimal(0))
            lost = sum((one.amount - drawn[one.name] for one in mine if one.end <= ms(now)), Decimal(0))
            state = found[tenant]
            assert (state.granted, state.drawn, state.expired) == (granted, paid, lost), state
            assert (state.balance, state.available) == (granted - paid - lost, granted - paid - lost), state

    def tamper(self) -> None:
        """One cell of what `verify` vouches for is another, and it says so."""
        table = self.dice.choice([name for name, which in VOUCHED.items() if count(self.store, name, which)])
        self.store.command(f"OPTIMIZE TABLE {identifier(table)} FINAL")
        column, kind = self.dice.choice(columns_of(self.store, table))
        row, value = some_row(self.store, table, self.dice), changed(kind, self.dice)
        name = identifier(column)
        cell = f"if(row_hash = {row}, {value.format(name)}, {name}) AS {name}"
        with replaced(self.store, table, f"* EXCEPT (row_hash) REPLACE ({cell})"):
            assert not verify(self.store).balanced, f"{table}.{column} ({kind}, {value})"


def count(store: Store, table: str, which: str) -> int:
    return int(store.value(f"SELECT count() AS n FROM {identifier(table)} WHERE {which or '1'}"))


def check_document(history: History, one: Invoice) -> None:
    """A document adds up in itself: lines, taxes, and what is to be paid in the tenant's currency."""
    taxes = [Decimal(line["amount"]) for line in one.lines if line["kind"] == "tax"]
    others = [Decimal(line["amount"]) for line in one.lines if line["kind"] != "tax"]
    sums = [sum(others, Decimal(0)), sum(taxes, Decimal(0))]
    assert [Decimal(one.totals[name]) for name in ("net", "tax")] == sums, one.number
    assert one.amount == sum(sums), one.number
    due = one.amount - Decimal(one.totals["prepaid"])
    assert Decimal(one.totals["due"]) == due, one.number
    if one.tenant == "kyoto":
        yen = Fraction(0)
        for line in one.lines:
            month = line["reference"]["month"] if line["charge_class"] else one.month
            yen += Fraction(Decimal(line["amount"])) * Fraction(RATES[month])
        yen = yen * Fraction(due) / Fraction(one.amount) if due != one.amount else yen
        assert Decimal(one.document["payable"]["amount"]) == round(yen), one.number


# --- how a history begins --------------------------------------------------------------------------------------------

POLICIES = ("commitments", "discounts", "components")


def policy_of(dice: random.Random, number: int) -> tuple[str, dict[str, Any]]:
    """A commitment, a discount or a component. Which session a quota covers is a tie sometimes: phys alone has both or
    none."""
    kind = dice.random()
    if kind < 0.4:
        tenant = dice.choice(("bio", "chem", "kyoto", "late"))
        quota = {
            "tenant": tenant,
            "sku": dice.choice(("*", "big", "small", "slice")),
            "gpus": dice.choice(("0.03", "0.5", "1.25")),
        }
        return "commitments", {"name": f"q{number}", **quota, "price_per_gpu_hour": dice.choice(("0.11", "0.37"))}
    if kind < 0.6:
        match = dice.choice(({}, {"tenant": dice.choice(TENANTS)}, {"project": dice.choice(PROJECTS)}))
        component: dict[str, Any] = {"sku": f"c{number}", "match": match, "price": dice.choice(("1.70", "0.33"))}
        if dice.random() < 0.6:
            return "components", {**component, "kind": "energy", "pue": dice.choice(("1", "1.25"))}
        return "components", {**component, "kind": "memory", "price": "0.021"}
    discount: dict[str, Any] = {"name": f"d{number}"}
    shape = dice.randrange(3)
    if shape == 0:
        match = dice.choice(({"sku": "big"}, {"sku": "*"}, {"project": "a"}, {"tenant": "bio"}))
        return "discounts", {**discount, "percent": dice.choice(("7", "33.3")), "match": match}
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
            {"sku": "slice", "match": {"model": "A30"}, "price_per_gpu_hour": "1.49"},
            {"sku": "slice", "match": {"model": "A30", "partition_profile": "1g"}, "price_per_gpu_hour": "1.77"},
        ],
        "commitments": [],
        "discounts": [],
        "components": [],
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
    for number in range(dice.randrange(1, 6)):
        kind, policy = policy_of(dice, number)
        card[kind].append(policy)
    return card


def random_spans(zone: ZoneInfo) -> list[tuple[int, int]]:
    """Around the months' ends, and some hours within them: the fewer hours, the quicker the close."""
    spans: list[tuple[int, int]] = []
    for month in MONTHS:
        start, end = month_span(month, zone)
        spans += [(start + 9 * DAY, start + 9 * DAY + 3 * HOUR), (end - 2 * HOUR, end + 2 * HOUR)]
    spans[-1] = (spans[-1][0], spans[-1][1] - 2 * HOUR)
    return spans


def random_devices(spans: Sequence[tuple[int, int]]) -> dict[str, Device]:
    """Whole ones, one of two shares, one of partitions."""

    def there(spans: Sequence[tuple[int, int]]) -> dict[int, str]:
        return {instant: state for span in spans for instant, state in zip(span, ("available", "removed"), strict=True)}

    return {
        "gpu-0": Device("gpu-0", "H100", 1, there(spans)),
        "gpu-1": Device("gpu-1", "L40S", 2, there(spans)),
        "gpu-2": Device("gpu-2", "A30", 3, there(spans)),
    }


# --- facts as a source tells them ------------------------------------------------------------------------------------


def tell_devices(store: Store, devices: Sequence[Device]) -> None:
    rows = []
    for one in devices:
        about = {"device_id": one.name, "model": one.model, "node": "n1", "units": one.shares}
        rows += [{**about, "ts": instant(since), "state": state} for since, state in one.rows.items()]
    put(store, "devices", rows)


def rows_of(job: Job) -> list[dict[str, Any]]:
    """A start and an end of each stretch."""
    about = {"allocation_id": job.name, "tenant": job.tenant, "project": job.project, "workload_id": job.name}
    place = {"device_id": job.device, "units": job.shares}
    place |= {"partition_id": job.partition, "partition_profile": job.profile}
    rows = []
    for start, end in job.stretches:
        rows.append({**about, "ts": instant(start), "event": "started", **place})
        rows.append({**about, "ts": instant(end), "event": "finished", "device_id": "", "units": None})
    return rows


def sample_row(one: Sample, by_energy: bool) -> dict[str, Any]:
    """Power as watts, or as what it comes to in the interval."""
    power = {"power_watts": None if one.watts is None else float(one.watts)}
    if by_energy:
        power = {"energy_joules": None if one.watts is None else one.watts * one.length / 1000}
    return {
        "ts": instant(one.at),
        "interval_seconds": one.length / 1000,
        "device_id": one.device,
        "partition_id": one.partition,
        "workload_id": one.workload,
        "state": one.state,
        "utilization": None if one.use is None else one.use / 10**6,
        "memory_used_bytes": one.bytes,
        **power,
    }


def words(job: Job) -> str:
    what = f"{job.shares} of {job.device} {job.profile}".strip()
    return f"{job.name} of {job.tenant}/{job.project} holds {what} {shown(job.start)} to {shown(job.end)}"


def instant(at_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)


def shown(at_ms: int) -> str:
    return f"{instant(at_ms):%m-%d %H:%M:%S.%f}"[:-3]


STEPS: Sequence[tuple[int, Callable[[History], str]]] = (
    (5, History.hold), (3, History.shorten), (3, History.resume), (2, History.fail), (5, History.measure),
    (2, History.tell_past), (2, History.give), (3, History.take_back), (3, History.grant), (1, History.revoke),
    (6, History.issue), (1, History.issue_together), (2, History.give_note), (3, History.make_void),
    (3, History.change_card), (3, History.map_tenants), (1, History.state_idle_power), (1, History.plan),
    (1, History.close_some), (1, History.close_together),
)  # fmt: skip
TABLES = {*VOUCHED, *NOT_VOUCHED}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("histories")) as opened:
        opened.command("SET max_threads = 1")  # the tables are small, and threads cost more than they gain
        yield opened


@pytest.mark.parametrize("seed", SEEDS)
def test_the_documents_of_any_history_sum_to_what_is_owed(empty: Store, seed: int | None) -> None:
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    for row in empty.rows("SHOW TABLES LIKE 'close\\_%'"):
        if row["name"] not in TABLES:
            empty.command(f"DROP TABLE {identifier(row['name'])}")  # of the dead: a close waits a day
    emptied(empty)
    dice = random.Random(seed)
    card = random_card(dice)
    spans = random_spans(ZoneInfo(card["timezone"]))
    devices = random_devices(spans)
    history = History(empty, dice, Books(card, devices), spans)
    apply_rate_card(empty, parse_rate_card(card), "me", "", history.now())
    tell_devices(empty, list(devices.values()))
    print(f"seed {seed}: {card}")
    paid_before = dice.choice(((), (History.grant, History.grant), (History.map_tenants,)))
    for step in (*[History.hold] * 7, *[History.measure] * 3, *paid_before, History.issue):
        print(step(history))
    steps = [step for weight, step in STEPS for _ in range(weight)]
    for _ in range(2):
        for _ in range(dice.randrange(3, 11)):
            print(dice.choice(steps)(history))
        history.check()
    history.finish()
    history.tamper()
    print(f"{history.killed} commands were killed")
