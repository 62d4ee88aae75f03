"""Random histories of the books: whatever is done in whatever order, the documents sum to what is owed.

Facts come late, doubled and corrected: jobs on one device or two, with an end or none, that pause, are resized, go on
and get in each other's way; devices of two clusters that break and change their pool; samples with use, energy and
memory. They come in files, and by senders: some are held at once, some by the close that finds that they would change
an issued month; what is shown beside them is what a yes does. Cards (prices, policies, minimums, taxes), mappings, idle
power, parties, grants and budgets change; credits are given and taken back; months are issued, all at once or tenant by
tenant, in any order, by two at once; documents are credited, voided and issued again; a close ends anywhere. Any
command may be killed at any of its writes, and is run again. After every few steps the documents and the next draft
must come to what `reckoning.py` makes of all that happened. A history is named by its seed:

    GPULEDGER_HISTORIES=0-999 GPULEDGER_VERIFIED=99 make check PYTEST="-k history"  # these seeds, all verified
    GPULEDGER_HISTORY=4711 make check PYTEST="-k history"                           # this one alone
"""

from __future__ import annotations

import os
import random
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
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
from billing.held import Effect, accept, effect, refuse
from billing.invoicing.documents import Invoice, InvoiceError
from billing.invoicing.explain import explain
from billing.invoicing.invoices import credit, draft_all, issue_all, issued, standing, void
from billing.invoicing.rederive import rederive
from billing.ledger_report import ledger_report
from billing.parties.applied import apply_parties
from billing.parties.details import parse_parties
from billing.periods import parse_month
from billing.rates import RateError, apply_rate_card, parse_rate_card
from billing.tenants import TenantError, apply_mapping, parse_mapping
from billing.verify import verify
from billing.verify.tables import NOT_VOUCHED, VOUCHED
from ingest.held import hash_of, held_pushes, hold
from ingest.permissions import Doubt
from tests.billing.dying import dying
from tests.billing.facts import put
from tests.billing.hand_ledger import at
from tests.billing.reckoning import (
    OPEN,
    Books,
    Device,
    GivenCredit,
    GivenGrant,
    Job,
    Owed,
    Place,
    Reckoning,
    Sample,
    Stretch,
    month_span,
    ms,
)
from tests.billing.tampering import changed, columns_of, replaced, some_row
from tests.billing.whole_close import check_as_whole
from tests.draws import drawn_seed, seeds
from tests.stores import emptied
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
REPORTED = ("chem", "kyoto", "late", "phys", NOBODY)
"""bio has something by the mapping alone."""
PROJECTS = ("a", "b")
CLUSTERS = ("east", "west")
RATES = {"2026-02": "160.5", "2026-03": "170.25", "2026-04": "155", "2026-05": "149.125", "2026-06": "151"}
SEEDS = seeds("GPULEDGER_HISTORY" if "GPULEDGER_HISTORY" in os.environ else "GPULEDGER_HISTORIES")
VERIFIED = int(os.environ.get("GPULEDGER_VERIFIED", "1"))
"""Documents of a history that are computed again from the raw facts: a close each."""
NOTHING = Owed(Decimal(0), Decimal(0))
HOUR = timedelta(hours=1) // timedelta(milliseconds=1)
DAY = 24 * HOUR
STAMPS = {60: 0, 300: 300, 1200: 700}
"""At which ms of a second samples end, by how many seconds they are long: those of one key are equally long."""
STATES = ("ok",) * 16 + ("idle", "unsupported", "blank", "stale")


NOWHERE: dict[str, Any] = dict.fromkeys(("device_id", "partition_id", "partition_profile"), "") | {"units": None}
"""An event that is about all that an allocation holds."""


@dataclass(frozen=True)
class Fact:
    """What a source tells of one job or device. says: to the books of the reckoning."""

    record: str
    rows: Sequence[dict[str, Any]]
    says: Callable[[Books], None]
    words: str


@dataclass
class History:
    """A store, the reckoning's copy of what happened in it, and what was done, in words.

    spans: when devices are there.   killed: how often a command died.   all_closed: a close came to the end.
    """

    store: Store
    dice: random.Random
    books: Books
    spans: Sequence[tuple[int, int]]
    clock: datetime = AFTER
    given: dict[str, GivenCredit] = field(default_factory=dict)
    taken_back: set[str] = field(default_factory=set)
    killed: int = 0
    all_closed: bool = False
    parties: dict[str, Any] = field(default_factory=dict)

    @property
    def until(self) -> datetime:
        return instant(self.books.until)

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

    def standing_months(self) -> set[str]:
        """The months of which documents stand."""
        return {one.month for one in standing(self.store)}

    def issued_months(self) -> set[str]:
        """The months that some document is about."""
        found = set()
        for one in standing(self.store):
            if not one.is_credit_note:
                found |= {one.month, *(line["reference"]["month"] for line in one.lines if line["reference"])}
        return found

    # --- what a cluster does -----------------------------------------------------------------------------------------

    def report(self, fact: Fact | str) -> str:
        """By a file, twice now and then; or by a sender, whose push waits if it would change an issued month."""
        if isinstance(fact, str):
            return fact
        if self.dice.random() < 0.08 and self.standing_months():
            return self.push(fact)
        for _ in range(self.dice.choice((1, 1, 2))):
            self.do(lambda: put(self.store, fact.record, fact.rows))
        fact.says(self.books)
        return fact.words

    def push(self, fact: Fact) -> str:
        """By a sender; the next close asks whether it changes what the books say of an issued month."""
        after, months = self.books_with(fact), self.standing_months()
        moves = Reckoning(self.books).said(months) != Reckoning(after).said(months)
        self.do(lambda: put(self.store, fact.record, fact.rows, sender="node", source="push:node"))
        self.close()
        waits = held_pushes(self.store)
        assert waits or not moves, f"{fact.words} would change {months}"
        # Of samples, the books also say what was measured, where that was nothing.
        assert moves or not waits or fact.record == "samples", f"{fact.words} changes nothing of {months}"
        if waits:
            return self.decide(fact)
        fact.says(self.books)
        return f"pushed: {fact.words}"

    def report_past(self) -> str:
        """Something is told by a sender that may not change issued months."""
        fact = self.dice.choice(FACTS)(self)
        if isinstance(fact, str):
            return fact
        doubt = Doubt("issued_month", "reaches into a month that is issued")
        rows = [{name: value for name, value in row.items() if value is not None} for row in fact.rows]
        hold(self.store, "all", RECORD_TYPES[fact.record], "push:all", {hash_of(row): (row, doubt) for row in rows})
        return self.decide(fact)

    def decide(self, fact: Fact) -> str:
        """A person sees what a yes would do, and says yes or no."""
        yes, now = self.dice.random() < 0.8, self.now()
        (push,) = held_pushes(self.store)
        if self.all_closed and self.dice.random() < 0.4:
            self.check_effect(effect(self.store, push), Reckoning(self.books_with(fact)))
        self.do(lambda: (accept if yes else refuse)(self.store, push.id, now, "ann", "seen"))
        assert held_pushes(self.store) == []
        if not yes:
            return f"refused: {fact.words}"
        fact.says(self.books)
        return f"accepted: {fact.words}"

    def books_with(self, fact: Fact) -> Books:
        books = deepcopy(self.books)
        fact.says(books)
        return books

    def hold(self) -> Fact | str:
        """A job that is told late, or that goes on over the end of a month or ends on it, or that is very short, or
        that has no end."""
        since, until = self.dice.choice(self.spans)
        start = since + self.dice.randrange(until - since)
        length = round(1000 * (self.dice.choice([7, 40, 1_000, 4_000, 9_000]) + self.dice.random()))
        end = min(start + length, until)
        midnights = [over for over in self.midnights if since < over <= until]
        if midnights and self.dice.random() < 0.3:
            end = self.dice.choice(midnights)
            start = max(since, end - length)
        elif self.dice.random() < 0.07:
            end = OPEN
        cluster = self.dice.choice(CLUSTERS)
        name = f"job-{sum(job.cluster == cluster for job in self.books.jobs.values())}"
        job = Job(cluster, name, self.dice.choice(REPORTED), self.dice.choice(PROJECTS), [])
        job.queue, job.preemptible = self.dice.choice(("", "night", "day")), self.dice.random() < 0.3
        places = self.some_places(job, (start, end))
        if not places:
            return "a job finds no place"
        job.stretches.append(Stretch(start, end, places))

        def says(books: Books) -> None:
            books.jobs[job.key] = deepcopy(job)

        return Fact("events", rows_of(job, *job.stretches), says, words(job))

    @property
    def midnights(self) -> list[int]:
        """At which months end."""
        return [month_span(month, self.books.zone)[1] for month in MONTHS]

    def some_places(self, job: Job, span: tuple[int, int]) -> tuple[Place, ...]:
        """On one device, or on two; mostly none where there is no room."""
        there = [one for one in self.books.devices.values() if one.cluster == job.cluster]
        places = []
        for device in self.dice.sample(there, self.dice.choice((1, 1, 1, 2))):
            shares = self.dice.randrange(1, device.shares + 1)
            if self.held(job, span, device.key) + shares > device.shares and self.dice.random() < 0.8:
                return ()
            partition = ("", "")
            if device.shares > 2 and self.dice.random() < 0.7:
                partition = (f"part-{job.name}", f"{shares}g")
            places.append(Place(device.name, shares, *partition))
        return tuple(places)

    def held(self, job: Job, span: tuple[int, int], device: tuple[str, str]) -> int:
        """Shares of a device that other jobs than this hold at most during a span."""
        others = [other for key, other in self.books.jobs.items() if key != job.key]
        return sum(place.shares for other in others for place in other.on(device, span))

    def some_job(self) -> Job:
        return self.dice.choice(list(self.books.jobs.values()))

    def some_instants(self, stretch: Stretch, count: int) -> list[int]:
        """Of a stretch, in order; fewer where it is too short. Of one without an end, while devices are there."""
        spans = [stretch] if stretch.end < OPEN else [Stretch(*span, ()) for span in self.spans]
        one = self.dice.choice(spans)
        since, until = max(one.start, stretch.start) + 1, min(one.end, stretch.end)
        return sorted({self.dice.randrange(since, until) for _ in range(count)}) if since < until else []

    def shorten(self) -> Fact | str:
        """An earlier end is told of a job."""
        if not self.books.jobs:
            return "no job to shorten"
        job = self.some_job()
        number = self.dice.randrange(len(job.stretches))
        old = job.stretches[number]
        ends = [over for over in self.midnights if old.start < over < old.end]
        if not ends or self.dice.random() < 0.5:
            ends = self.some_instants(old, 1)
        if not ends:
            return f"{job.name} cannot be shorter"
        new = replace(old, end=ends[0], ended=old.ended or "finished")

        def says(books: Books) -> None:
            mine = books.jobs[job.key]
            mine.stretches[number] = new
            mine.last_reported = max(mine.last_reported, old.end if old.end < OPEN else 0)

        return Fact("events", rows_of(job, new)[-1:], says, f"{job.key} {new.ended} at {shown(new.end)} already")

    def go_on(self) -> Fact | str:
        """A job goes on after its end, on the same devices or others, which is told late."""
        if not self.books.jobs:
            return "no job to go on"
        jobs = sorted(self.books.jobs.values(), key=lambda job: job.end - job.start)
        job = self.dice.choice(jobs[: self.dice.choice((1, 3, len(jobs)))])
        last = max(job.end, job.last_reported)
        until = self.dice.choice([until for _, until in self.spans if until > last] or [0])
        since = max(last + 1, next((start for start, end in self.spans if end == until), 0))
        if since >= until:
            return f"{job.name} cannot go on"
        start = since + self.dice.randrange(until - since)
        end = min(until, start + round(1000 * (self.dice.choice((3, 20, 900)) + self.dice.random())))
        places = self.some_places(job, (start, end))
        if not places:
            return f"{job.name} finds no place"
        new = Stretch(start, end, places, self.dice.choice(("started", "resumed")))
        return Fact("events", rows_of(job, new), then(job, len(job.stretches), new), words(job, new))

    def suspend(self) -> Fact | str:
        """A job paused for a while, which is told late; that it holds what it held is told again, or not."""
        if not self.books.jobs:
            return "no job to suspend"
        job = self.some_job()
        number = self.dice.randrange(len(job.stretches))
        old = job.stretches[number]
        instants = self.some_instants(old, 2)
        if len(instants) < 2:
            return f"{job.name} is too short to pause"
        parts = (
            replace(old, end=instants[0], ended="suspended"),
            replace(old, start=instants[1], begun="resumed"),
        )
        pause, *resumed = [*rows_of(job, parts[0])[-1:], *rows_of(job, parts[1])]
        resumed = [row for row in resumed if row["event"] == "resumed"]
        if self.dice.random() < 0.5:
            resumed = [{**resumed[0], **NOWHERE}]
        what = f"{job.key} pauses from {shown(instants[0])} to {shown(instants[1])}"
        return Fact("events", [pause, *resumed], then(job, number, *parts), what)

    def resize(self) -> Fact | str:
        """A job holds other shares, or other devices, from some instant on, which is told late."""
        if not self.books.jobs:
            return "no job to resize"
        job = self.some_job()
        old, instants = job.stretches[-1], self.some_instants(job.stretches[-1], 1)
        places = self.some_places(job, (instants[0], old.end)) if instants else ()
        if not places:
            return f"{job.name} cannot be resized"
        new = Stretch(instants[0], old.end, places, "resized", old.ended)
        rows = [row for row in rows_of(job, new) if row["event"] == "resized"]
        parts = replace(old, end=instants[0], ended=""), new
        return Fact("events", rows, then(job, len(job.stretches) - 1, *parts), f"resized: {words(job, new)}")

    def fail(self) -> Fact | str:
        """A device was away for a while, or in another pool, which is told late."""
        device = self.dice.choice(list(self.books.devices.values()))
        since, until = self.dice.choice(self.spans)
        start = since + self.dice.randrange(1, until - since)
        pool = device.at(since)[1]
        rows = {start: (self.dice.choice(("unavailable", "available")), self.dice.choice((pool, pool, "flex", "new")))}
        if self.dice.random() < 0.7:
            rows[min(start + self.dice.randrange(1, HOUR), until - 1)] = ("available", pool)
        rows = {instant: row for instant, row in rows.items() if instant not in device.rows}
        if not rows:
            return f"{device.key} is as it is"

        def says(books: Books) -> None:
            books.devices[device.key].rows.update(rows)

        what = ", ".join(f"{' in '.join(row)} from {shown(instant)}" for instant, row in rows.items())
        return Fact("devices", rows_of_device(device, rows), says, f"{device.key} is {what}")

    def measure(self) -> Fact | str:
        """Samples of a job, of everybody on its device, or of its partition: regular or not, and some of them twice,
        or corrected."""
        if not self.books.jobs:
            return "nothing to measure"
        job = self.some_job()
        stretch = self.dice.choice(job.stretches)
        place = self.dice.choice(stretch.places)
        streams = [("", job.name), ("", "")]
        streams += [(place.partition, job.name), (place.partition, "")] if place.partition else []
        partition, workload = self.dice.choice(streams)
        lasts = min(stretch.end - stretch.start, 3 * HOUR)
        seconds = self.dice.choice([one for one in STAMPS if one == 60 or 1000 * one < lasts])
        step = 1000 * seconds
        first = (stretch.start // 1000 + self.dice.randrange(-60, 2 * seconds)) * 1000 + STAMPS[seconds]
        jitter = self.dice.choice((0, 0, seconds * 2 // 5))
        count = self.dice.randrange(1, 3 + min(60, lasts // step))
        watts = self.dice.randrange(1, 900)
        samples: list[Sample] = []
        for number in range(count):
            if self.dice.random() < 0.05 and samples:
                continue  # lost
            instant = first + number * step + 1000 * self.dice.randint(-jitter, jitter)
            for _ in range(2 if self.dice.random() < 0.04 else 1):
                state = self.dice.choice(STATES)
                use = {"ok": self.dice.randrange(0, 10**6, 1000), "idle": 0}.get(state)
                size = self.dice.choice((None, 2**30 * self.dice.randrange(1, 40)))
                power = self.dice.choice((None, *(watts + self.dice.randrange(100) for _ in range(6)), 0))
                of = (job.cluster, place.device, partition, workload)
                samples.append(Sample(*of, instant, step, state, use, power, size))
        self.dice.shuffle(samples)
        by_energy = self.dice.random() < 0.4

        def says(books: Books) -> None:
            books.samples += samples

        of_whom = f"{partition}/{workload or 'everybody'} on {job.cluster}/{place.device}"
        what = f"{len(samples)} samples of {of_whom} from {shown(first)}, {seconds} s"
        return Fact("samples", [sample_row(one, by_energy) for one in samples], says, what)

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
        fresh = [one for one in done if one.number not in known]
        self.check_draws(fresh, before)
        for one in fresh:
            self.check_parties(one)
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
            reason = f"goodwill after {len(issued(self.store))}"
            note = credit(self.store, str(one.number), amount, self.now(), "me", reason)
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
        """Another policy, or another price from some instant on; or another minimum, tax or bearer from some month
        on."""
        card, now = deepcopy(self.books.card), self.now()
        if self.dice.random() < 0.25:
            kind, policy = "rates", self.next_price(card)
        elif self.dice.random() < 0.35:
            kind, policy = self.follow(card)
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

    def follow(self, card: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Ends what the card says where it says something else of the same."""
        kind = self.dice.choice(("minimum_seconds", "taxes", "taxes", "idle_policy"))
        month = self.dice.choice((*MONTHS, NEXT))
        policy: dict[str, Any] = {"effective_from": month}
        if kind == "minimum_seconds":
            policy |= {"seconds": self.dice.choice((0, 30, 120, 1200))}
        elif kind == "taxes":
            policy |= {"name": self.dice.choice(("VAT", "levy")), "percent": self.dice.choice(("0", "7", "21.5"))}
            policy |= self.dice.choice(({}, {"tenant": self.dice.choice(TENANTS)}))
        else:
            policy |= {"share": self.dice.choice(("platform", "allocated_cost", "evenly", "guaranteed"))}
            policy |= self.dice.choice(({}, {"pool": self.dice.choice(("train", "fl*"))}))
        before = card[kind]
        if isinstance(before, int):
            before = [{"seconds": before}]
        elif before == "platform":
            before = []
        # What is of one tenant or pool goes before what is of all.
        card[kind] = [policy] if policy.keys() & {"tenant", "pool"} else []
        for one in before:
            if any(one.get(key) != policy.get(key) for key in ("name", "tenant", "pool")):
                card[kind].append(one)
            elif one.get("effective_from", "") < month:
                card[kind].append({**one, "effective_to": min(month, one.get("effective_to", month))})
        card[kind] += [] if policy in card[kind] else [policy]
        return kind, policy

    def name_parties(self) -> str:
        """Who sends invoices and who pays them, and until when."""
        parties: dict[str, Any] = {"seller": [{"name": "us", "address": ["Here"], "payment_days": 14}], "buyers": []}
        for tenant in self.dice.sample(TENANTS, 2):
            buyer = {"tenant": tenant, "name": f"{tenant} Ltd", "payment_days": self.dice.randrange(60)}
            dates: Sequence[dict[str, str]] = (
                {},
                {"effective_from": self.dice.choice(("2026-05-01", "2026-06-02", "2026-06-03"))},
            )
            parties["buyers"].append(buyer | self.dice.choice(dates))
        file, now = parse_parties(parties), self.now()
        self.do(lambda: apply_parties(self.store, file, "ann", "moved", now))
        self.parties = parties
        return f"parties {parties}"

    def check_parties(self, one: Invoice) -> None:
        """An invoice is to be paid by the details of the day on which it is issued."""
        if not self.parties:
            assert "parties" not in one.document
            return
        today = f"{self.clock.astimezone(self.books.zone):%Y-%m-%d}"
        buyer: dict[str, Any] = {}
        for given in self.parties["buyers"]:
            if given["tenant"] == one.tenant and given.get("effective_from", today) <= today:
                buyer = given
        days = buyer.get("payment_days", self.parties["seller"][0]["payment_days"])
        due = f"{date.fromisoformat(today) + timedelta(days=days)}" if Decimal(one.totals["due"]) > 0 else None
        found = one.document["parties"]
        assert (found["payment_days"], found["due_date"]) == (days, due), one.number
        assert (found["buyer"] or {}).get("name") == buyer.get("name"), one.number

    def map_tenants(self) -> str:
        """From some instant on somebody else pays for what is told as a tenant's project."""
        mapping, now = deepcopy(self.books.mapping), self.now()
        match = {"tenant": self.dice.choice(REPORTED), "project": self.dice.choice(PROJECTS)}
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
        self.do(lambda: close(self.store, self.until, AFTER))
        check_as_whole(self.store)
        self.all_closed = True
        return "closed"

    def close_some(self) -> str:
        """A close that ends somewhere."""
        since, until = self.dice.choice(self.spans)
        limit = min(self.until, instant(since + self.dice.randrange(until - since)))
        self.do(lambda: close(self.store, limit, AFTER))
        check_as_whole(self.store)
        return f"closed until {limit}"

    def close_together(self) -> str:
        self.at_once(lambda store: close(store, self.until, AFTER), ())
        check_as_whole(self.store)
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

    def in_yen(self, tenant: str, month: str) -> bool:
        (given,) = self.books.card["invoice_currencies"]
        in_force = given.get("effective_from", month) <= month < given.get("effective_to", "9999")
        return bool(tenant == given["tenant"] and in_force)

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

    def check_effect(self, shown: Effect, after: Reckoning) -> None:
        """What is shown beside a push that waits is what a yes makes of each tenant's months, and of what nobody
        held."""
        assert shown.known
        before = self.reckoning()
        due: dict[tuple[str, str | None], list[Fraction]] = {}
        for month in (*MONTHS, NEXT):
            was, will = before.in_all(month), after.in_all(month)
            nothing = [Fraction(0)] * 3
            for tenant in was.keys() | will.keys():
                pairs = zip(was.get(tenant, nothing), will.get(tenant, nothing), strict=True)
                due[month, tenant] = [now - then for then, now in pairs]
        found = {
            (one.month, one.tenant): [
                Fraction(one.difference),
                Fraction(one.gpu_hours_after - one.gpu_hours_before),
                Fraction(one.used_gpu_hours_after - one.used_gpu_hours_before),
            ]
            for one in shown.changes
            if one.month <= NEXT  # of the next there are only some hours
        }
        for key in due.keys() | found.keys():
            pairs = zip(due.get(key, [Fraction(0)] * 3), found.get(key, [Fraction(0)] * 3), strict=True)
            for part, value in pairs:
                assert abs(part - value) < Fraction(1, 10**6), f"{key}: {float(value)} is shown, {float(part)} is due"
        numbers = {(one.month, one.tenant): one.number for one in standing(self.store) if not one.is_credit_note}
        for change in shown.changes:
            assert change.issued == (numbers.get((change.month, change.tenant or "")) or ""), change
            if self.in_yen(change.tenant or "", change.month):
                assert change.payable_difference == round(Fraction(change.difference) * Fraction(RATES[change.month]))

    def check_draws(self, fresh: Sequence[Invoice], before: Sequence[Invoice]) -> None:
        """What grants pay of new documents, and that none pays more than it has."""
        taken: dict[str, Decimal] = defaultdict(Decimal)
        for one in before:
            for draw in one.document.get("prepaid_draws", ()):
                taken[draw["grant"]] += Decimal(draw["amount"])
        reckoning = self.reckoning() if fresh and self.books.grants else None
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
        again = close(self.store, self.until, AFTER)
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
        self.check_explained(self.dice.choice(invoices))

    def check_explained(self, one: Invoice) -> None:
        """The usage of its own month is explained by what it was computed from, whatever came later."""
        for line in one.lines:
            if line["kind"] == "usage" and not line["charge_class"]:
                rows = explain(self.store, one, line["line"], by_hour=self.dice.random() < 0.3).rows
                for name in ("allocated_gpu_hours", "used_gpu_hours", "billed_cost"):
                    off = sum((row[name] for row in rows), Decimal(0)) - Decimal(line[name])
                    assert abs(off) <= len(rows) * Decimal("1e-9"), f"{one.number}, line {line['line']}: {name}"

    def check_balances(self) -> None:
        """granted = drawn + expired + balance; all of that is available to whoever holds nothing in an open month."""
        now = self.now()
        drawn: dict[str, Decimal] = defaultdict(Decimal)
        for one in standing(self.store):
            for draw in one.document.get("prepaid_draws", ()):
                drawn[draw["grant"]] += Decimal(draw["amount"])
        found = {one.tenant: one for one in balances(self.store, now)}
        holds_after = self.reckoning().measures("2026-06")
        for tenant in {one.tenant for one in self.books.grants.values()}:
            mine = [one for one in self.books.grants.values() if one.tenant == tenant and one.start <= ms(now)]
            granted = sum((one.amount for one in mine), Decimal(0))
            paid = sum((drawn[one.name] for one in mine), Decimal(0))
            lost = sum((one.amount - drawn[one.name] for one in mine if one.end <= ms(now)), Decimal(0))
            state = found[tenant]
            assert (state.granted, state.drawn) == (granted, paid), state
            assert state.balance == granted - paid - state.expired, state
            # Of the month after the last some hours are closed, and no invoice bears them yet: what a grant that has
            # ended since is to pay of them is not lost.
            spared = state.running if tenant in holds_after else Decimal(0)
            assert lost - spared <= state.expired <= lost, state
            assert state.available == state.balance or tenant in holds_after, state
            assert state.available >= 0, state

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
    assert not [name for name, total in one.totals.items() if total and total.startswith("-") and not Decimal(total)]
    if not history.in_yen(one.tenant, one.month):
        assert one.document["payable"] is None, one.number
    else:
        yen = Fraction(0)
        for line in one.lines:
            month = line["reference"]["month"] if line["charge_class"] else one.month
            yen += Fraction(Decimal(line["amount"])) * Fraction(
                RATES[month if history.in_yen(one.tenant, month) else one.month]
            )
        yen = yen * Fraction(due) / Fraction(one.amount) if due != one.amount else yen
        assert Decimal(one.document["payable"]["amount"]) == round(yen), one.number


# --- how a history begins --------------------------------------------------------------------------------------------

POLICIES = ("commitments", "discounts", "components")


def policy_of(dice: random.Random, number: int) -> tuple[str, dict[str, Any]]:
    """A commitment, a discount or a component. Which session a quota covers is a tie sometimes: phys alone has both or
    none."""
    kind = dice.random()
    if kind < 0.4:
        tenant = dice.choice(("bio", "chem", "chem", "kyoto", "late"))
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
        some = {"sku": "*"}, {"sku": "big"}, {"project": "a"}, {"tenant": "bio"}, {"queue": "n*"}, {"preemptible": True}
        return "discounts", {**discount, "percent": dice.choice(("7", "33.3")), "match": dice.choice(some)}
    tiers = [{"from": "0.5", "percent": "5"}, {"above": "1.5", "percent": "12.5"}]
    discount |= {"mode": dice.choice(("graduated", "whole")), "tiers": tiers}
    if shape == 1:
        return "discounts", {**discount, "match": {"tenant": dice.choice(TENANTS)}}
    measure = dice.choice(("hours", "gpu_hours"))
    return "discounts", {**discount, "per": "session", "measure": measure, "match": {"tenant": "phys"}}


JPY_SINCE: Sequence[dict[str, str]] = ({}, {}, {"effective_from": "2026-03"}, {"effective_to": "2026-04"})
RATES_OF_SOME: Sequence[dict[str, Any]] = (
    {"sku": "spot", "match": {"model": "H100", "preemptible": True}, "price_per_gpu_hour": "0.97"},
    {"sku": "queued", "match": {"model": "L40S", "queue": "day"}, "price_per_gpu_hour": "1.21"},
    {
        "sku": "dark",
        "match": {"model": "H100", "tenant": "chem"},
        "windows": [{"days": ["tue", "wed", "sun"], "from": "22:30", "to": "01:30"}],
        "price_per_gpu_hour": "1.87",
    },
    {
        "sku": "small",
        "match": {"model": "L40S"},
        "windows": [{"days": ["sat", "sun"]}, {"from": "00:30", "to": "01:45"}],
        "price_per_gpu_hour": "0.89",
    },
    {"sku": "east", "match": {"model": "H100", "cluster": "east"}, "price_per_gpu_hour": "2.47"},
    {
        "sku": "remote",
        "match": {"model": "L40S", "cluster": "e*t"},
        "windows": [{"days": ["sat", "sun"]}, {"from": "05:00", "to": "07:15"}],
        "timezone": "America/St_Johns",
        "effective_from": "2026-02-10",
        "price_per_gpu_hour": "1.31",
    },
    {"sku": "yen", "match": {"model": "A30", "cluster": "west"}, "currency": "JPY", "price_per_gpu_hour": "251"},
)


def random_card(dice: random.Random) -> dict[str, Any]:
    card: dict[str, Any] = {
        "currency": "EUR",
        "timezone": dice.choice(ZONES),
        "minimum_seconds": dice.choice((0, 60, [{"seconds": 90, "effective_from": "2026-03"}])),
        "rates": [
            {"sku": "big", "match": {"model": "H100"}, "price_per_gpu_hour": "3.07"},
            {"sku": "small", "match": {"model": "L40S"}, "price_per_gpu_hour": "1.13"},
            {"sku": "own", "match": {"model": "H100", "tenant": "phys"}, "price_per_gpu_hour": "2.71"},
            {"sku": "big", "match": {"model": "H100", "pool": "flex"}, "price_per_gpu_hour": "2.93"},
            {"sku": "slice", "match": {"model": "A30"}, "price_per_gpu_hour": "1.49"},
            {"sku": "slice", "match": {"model": "A30", "partition_profile": "1g"}, "price_per_gpu_hour": "1.77"},
        ],
        "commitments": [],
        "discounts": [],
        "components": [],
        "idle_policy": dice.choice(
            (
                "platform",
                *([{"share": share}] for share in ("allocated_cost", "evenly", "guaranteed")),
                [{"pool": "fl*", "share": "evenly"}, {"share": "allocated_cost"}],
                [{"pool": "train", "share": "platform"}, {"share": "guaranteed"}],
            )
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
        "invoice_currencies": [{"tenant": "kyoto", "currency": "JPY", **dice.choice(JPY_SINCE)}],
        "exchange_rates": [{"month": month, "currency": "JPY", "rate": rate} for month, rate in RATES.items()],
    }
    card["rates"] += dice.sample(RATES_OF_SOME, dice.randrange(len(RATES_OF_SOME) + 1))
    for number in range(dice.randrange(1, 6)):
        kind, policy = policy_of(dice, number)
        dates: Sequence[dict[str, str]] = ({}, {}, {"effective_from": "2026-03"}, {"effective_to": "2026-04"})
        card[kind].append(policy | dice.choice(dates))
    return card


def random_spans(zone: ZoneInfo) -> list[tuple[int, int]]:
    """Around the months' ends, and some hours within them: the fewer hours, the quicker the close. The last is not over
    when the last close is."""
    spans: list[tuple[int, int]] = []
    for month in MONTHS:
        start, end = month_span(month, zone)
        spans += [(start + 9 * DAY, start + 9 * DAY + 3 * HOUR), (end - 2 * HOUR, end + 2 * HOUR)]
    spans[-1] = (spans[-1][0], spans[-1][1] - 2 * HOUR)
    end = month_span(NEXT, zone)[1]
    return [*spans, (end - 2 * HOUR, (-(-end // HOUR) + 3) * HOUR)]


def random_devices(spans: Sequence[tuple[int, int]]) -> dict[tuple[str, str], Device]:
    """Whole ones, one of two shares, one of partitions; two clusters have one of the same name."""
    there = {instant: state for span in spans for instant, state in zip(span, ("available", "removed"), strict=True)}
    del there[spans[-1][1]]
    devices = {}
    for cluster, name, model, pool, shares in (
        ("east", "gpu-0", "H100", "train", 1),
        ("east", "gpu-1", "L40S", "train", 2),
        ("west", "gpu-0", "H100", "flex", 1),
        ("west", "gpu-2", "A30", "flex", 3),
    ):
        rows = {instant: (state, pool) for instant, state in there.items()}
        devices[cluster, name] = Device(cluster, name, model, shares, rows)
    return devices


# --- facts as a source tells them ------------------------------------------------------------------------------------


def rows_of_device(one: Device, rows: Mapping[int, tuple[str, str]]) -> list[dict[str, Any]]:
    about = {"cluster": one.cluster, "device_id": one.name, "model": one.model, "node": "n1", "units": one.shares}
    return [{**about, "ts": instant(since), "state": state, "pool": pool} for since, (state, pool) in rows.items()]


def rows_of(job: Job, *stretches: Stretch) -> list[dict[str, Any]]:
    """What begins each of some stretches, a row for each place, and what ends it."""
    about: dict[str, Any] = {"cluster": job.cluster, "allocation_id": job.name, "workload_id": job.name}
    about |= {"tenant": job.tenant, "project": job.project}
    about |= {"queue": job.queue, "preemptible": job.preemptible}
    rows = []
    for one in stretches:
        for place in one.places:
            where: dict[str, Any] = {"device_id": place.device, "units": place.shares}
            where |= {"partition_id": place.partition, "partition_profile": place.profile}
            rows.append({**about, "ts": instant(one.start), "event": one.begun, **where})
        if one.ended and one.end < OPEN:
            rows.append({**about, "ts": instant(one.end), "event": one.ended, **NOWHERE})
    return rows


def then(job: Job, number: int, *stretches: Stretch) -> Callable[[Books], None]:
    """The books have these in place of the job's stretch of that number, or after the last."""

    def says(books: Books) -> None:
        books.jobs[job.key].stretches[number : number + 1] = stretches

    return says


def sample_row(one: Sample, by_energy: bool) -> dict[str, Any]:
    """Power as watts, or as what it comes to in the interval."""
    power = {"power_watts": None if one.watts is None else float(one.watts)}
    if by_energy:
        power = {"energy_joules": None if one.watts is None else one.watts * one.length / 1000}
    return {
        "ts": instant(one.at),
        "interval_seconds": one.length / 1000,
        "cluster": one.cluster,
        "device_id": one.device,
        "partition_id": one.partition,
        "workload_id": one.workload,
        "state": one.state,
        "utilization": None if one.use is None else one.use / 10**6,
        "memory_used_bytes": one.bytes,
        **power,
    }


def words(job: Job, stretch: Stretch | None = None) -> str:
    one = stretch or job.stretches[-1]
    what = " and ".join(f"{place.shares} of {place.device} {place.profile}".strip() for place in one.places)
    until = shown(one.end) if one.end < OPEN else "further notice"
    return f"{job.key} of {job.tenant}/{job.project} holds {what} {shown(one.start)} to {until}"


def instant(at_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)


def shown(at_ms: int) -> str:
    return f"{instant(at_ms):%m-%d %H:%M:%S.%f}"[:-3]


FACTS = (History.hold, History.shorten, History.go_on, History.suspend, History.resize, History.fail, History.measure)
STEPS: Sequence[tuple[int, Callable[[History], Fact | str]]] = (
    (5, History.hold), (3, History.shorten), (3, History.go_on), (2, History.suspend), (2, History.resize),
    (2, History.fail), (5, History.measure), (2, History.report_past), (2, History.give), (3, History.take_back),
    (3, History.grant), (1, History.revoke), (6, History.issue), (1, History.issue_together), (2, History.give_note),
    (3, History.make_void), (3, History.change_card), (3, History.map_tenants), (1, History.state_idle_power),
    (1, History.name_parties), (1, History.plan), (1, History.close_some), (1, History.close_together),
)  # fmt: skip
TABLES = {*VOUCHED, *NOT_VOUCHED}


@pytest.mark.parametrize("seed", SEEDS)
def test_the_documents_of_any_history_sum_to_what_is_owed(empty: Store, seed: int | None) -> None:
    seed = drawn_seed() % 1_000_000 if seed is None else seed
    for row in empty.rows("SHOW TABLES LIKE 'close\\_%'"):
        if row["name"] not in TABLES:
            empty.command(f"DROP TABLE {identifier(row['name'])}")  # of the dead: a close waits a day
    emptied(empty)
    dice = random.Random(seed)
    card = random_card(dice)
    spans = random_spans(ZoneInfo(card["timezone"]))
    devices = random_devices(spans)
    until = spans[-1][1] - 2 * HOUR
    history = History(empty, dice, Books(card, devices, until), spans)
    apply_rate_card(empty, parse_rate_card(card), "me", "", history.now())
    put(empty, "devices", [row for one in devices.values() for row in rows_of_device(one, one.rows)])
    print(f"seed {seed}: {card}")
    paid_before = dice.choice(((), (History.grant, History.grant), (History.map_tenants,)))
    for step in (*[History.hold] * 7, *[History.measure] * 3, *paid_before, History.issue):
        print(history.report(step(history)))
    steps = [step for weight, step in STEPS for _ in range(weight)]
    for _ in range(2):
        for _ in range(dice.randrange(3, 9)):
            step = dice.choice(steps)
            for one in (step, dice.choice(FACTS)) if step in FACTS else (step,):  # of facts there are more
                print(history.report(one(history)))
        history.check()
    history.finish()
    history.tamper()
    print(f"{history.killed} commands were killed")
