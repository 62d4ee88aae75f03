"""`gpuledger up --demo`: a simulated fleet on the real path, from records to invoices and alerts.

It begins a month ago and continues while it is served. The reference scheduler places the jobs, except on Slurm's
nodes, where the simulation of Slurm does.

Repeating a step changes nothing, so a demo that was interrupted continues where it stopped.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from gpuledger.books_steps import close_books, prove_books
from gpuledger.steps import Steps, Stopped
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql
from warehouse.yaml_text import parse_yaml

if TYPE_CHECKING:
    import pyarrow as pa

    from access.settings import AccessSettings
    from alerts.rule import Rule
    from billing.invoicing.invoices import Invoice
    from billing.ledger_report import LedgerReport
    from billing.periods import Period
    from billing.verify import VerifyReport
    from collectors.simulated import FleetPlan
    from gpuledger.demo_fleet import Feed, Fleet
    from gpuledger.demo_scheduler import DemoScheduler

log = logging.getLogger(__name__)

ZONE = ZoneInfo("Europe/Berlin")
"""The billing time zone of the demo's rate card."""
PAST, BEFORE_THE_MONTH = timedelta(days=31), timedelta(days=10)
"""Minimum length of the past: in all, and within the previous month, which is invoiced."""
FLEET: Mapping[str, Any] = {"days": 52}
"""Options of the fleet's plan: enough days to continue for at least ten after the demo begins."""
OVERLAP = timedelta(minutes=15)
"""How much is written again when a demo continues: records are up to ten minutes late."""
PARTIES = Path(__file__).parent / "demo_parties.yaml"
OBJECTIVES = Path(__file__).parent / "demo_objectives.yaml"
ENERGY = Path(__file__).parent / "demo_energy.yaml"
SOURCE = re.compile(r"simulated fleet, seed (\d+), (\S+) to (\S+)")
FIRST_ALERTS = timedelta(minutes=10)
"""How long before its start alert rules are evaluated as often as they are while it is served; it takes most of that
step's time."""
ALERT_DAYS = 6
PAST_RULES = ("low-utilization", "long-queue", "queue-wait-burn", "budget-threshold", "spend-anomaly")
"""On how many days before that some of them are evaluated once, so that alerts have a history; all take three times as
long."""
ROUTING = "routing.yaml"
"""Name of the file, beside the invoices, that sends the demo's alerts into another one."""
SILENCED: Mapping[str, Any] = {"alertname": ["low-utilization"], "tenant": ["physics-lab"]}
SILENCED_FOR = timedelta(days=14)
DISTURBED = timedelta(days=3)
"""For how long before its start interference is measured; a day takes more than a second."""


@dataclass(frozen=True)
class Story:
    """Identifies a demo: its seed, its first instant, and when it was first served. Times are whole minutes, UTC."""

    seed: int
    start: datetime
    watched_from: datetime

    @property
    def source(self) -> str:
        return f"simulated fleet, seed {self.seed}, {_minute(self.start)} to {_minute(self.watched_from)}"

    @property
    def plan(self) -> FleetPlan:
        from collectors.simulated import FleetPlan

        return FleetPlan(seed=self.seed, start=self.start, watched_from=self.watched_from, **FLEET)


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%MZ}"


def new_story(seed: int, now: datetime) -> Story:
    """A new demo: its past begins at the start of a day, and includes some days of the previous month."""
    today = _closable(now).date()
    first = min(today - PAST, today.replace(day=1) - BEFORE_THE_MONTH)
    start = datetime.combine(first, time(), ZONE)
    return Story(seed, start.astimezone(UTC), now.astimezone(UTC).replace(second=0, microsecond=0))


def story_in(store: Store) -> Story | None:
    """The demo in the store, even if incomplete; None if there is none.   Errors: LedgerError if it is from an earlier
    version."""
    for row in store.rows(read_sql(__file__, "demo_sources")):
        if not (found := SOURCE.fullmatch(row["source"])):
            raise LedgerError(store.url, "holds the demo of an earlier gpuledger", "Take another --store, or remove it")
        start, watched = (datetime.strptime(found[n], "%Y-%m-%dT%H:%MZ").replace(tzinfo=UTC) for n in (2, 3))
        return Story(int(found[1]), start, watched)
    return None


@dataclass(frozen=True)
class Demo:
    """What the demo produced: the ledger of its whole time, its verification, the invoiced month, the issued invoices
    and the folder of their files.

    after: the credit note on one of them, and drafts that correct them.   emissions: the energy report's total of the
    month.
    routing: the file that says who is notified.   firing: alerts that fire.
    missed, promised: series of objectives, and how many of them are missed.
    feed: what the fleet does from then on; None where the store had its records already.
    """

    story: Story
    report: LedgerReport
    proof: VerifyReport
    month: str
    invoices: list[Invoice]
    after: list[Invoice]
    emissions: Mapping[str, Any]
    folder: Path
    routing: Path
    refused: int
    quarantined: int
    firing: int
    promised: int
    missed: int
    feed: Feed | Fleet | None = None


def build(
    store: Store,
    seed: int,
    folder: Path,
    steps: Steps,
    now: datetime,
    address: str = "",
    access: AccessSettings | None = None,
    fleet: Fleet | None = None,
) -> Demo:
    """Fills a migrated store with the demo, or with what is still missing, and writes the invoices into the folder.

    address: where its pages will be served, for the links of alerts; empty: they have none.   access: how people sign
    in there, and where they are stored.   fleet: a process for it; None: it is simulated here.
    Errors: LedgerError if the store holds the demo of another seed.
    """
    story = story_in(store)
    if story is not None and story.seed != seed:
        raise LedgerError(store.url, f"holds the demo of seed {story.seed}", "Take that --seed, or another --store")
    story = story or new_story(seed, now)
    feed: Feed | Fleet | None = None
    if not store.value("SELECT count() AS closes FROM close_runs"):
        feed = _ingest(store, story, steps, fleet)
        _price(store, story.plan, steps)
    close_books(store, steps)
    period = _month_before(story.watched_from)
    invoices = _invoice(store, period, folder, steps)
    after = _correct(store, story, period, folder, steps)
    proof = prove_books(store, steps)
    _plan(store, period, steps)
    _run_periodic_work(store, story, steps)
    _invite(store, period, access, steps)
    routing = _notify(store, folder, address, steps)
    made = _demo(store, story, period, proof, invoices, after, folder, routing)
    return replace(made, feed=feed)


def _closable(at: datetime) -> datetime:
    """Up to which local time hours can be closed at that instant."""
    from billing.close import GRACE

    return (at - GRACE).astimezone(ZONE)


def _month_before(at: datetime) -> Period:
    """The last month that was over and could be closed at that instant."""
    from billing.periods import parse_month

    this = _closable(at).date().replace(day=1)
    return parse_month(f"{this - timedelta(days=1):%Y-%m}", str(ZONE))


class Live:
    """Continues the demo: every few seconds, stores what has happened in the fleet since.

    scheduler: of the idle jobs; None: nobody reclaims them.   feed: what comes next; None: a fleet is begun first, in a
    process of its own, which takes half a minute."""

    SECONDS = 10
    PATIENCE_SECONDS = 300
    """How long a fleet whose jobs are placed may take to answer."""

    def __init__(self, story: Story, scheduler: DemoScheduler | None = None, feed: Feed | Fleet | None = None) -> None:
        self._story = story
        self._scheduler = scheduler
        self._feed = feed

    def __call__(self, store: Store, stop: threading.Event) -> None:
        def waiting(waited: float) -> None:
            if stop.is_set():
                raise Stopped
            if waited > self.PATIENCE_SECONDS:
                raise LedgerError("the simulated fleet", f"has not answered for {self.PATIENCE_SECONDS} s")

        try:
            if self._scheduler is not None:
                self._scheduler.look(store)
        except LedgerError as error:
            log.error("demo: %s; it is tried again", error)
            return
        try:
            if self._feed is None:
                self._feed = self._begun(store)
            elif self._feed.is_placed():
                keep = self._scheduler.without_stopped if self._scheduler is not None else None
                source = f"{self._story.source}, live"
                _store(store, self._feed, datetime.now(UTC), source, waiting=waiting, keep=keep)
        except Stopped:
            self.close()
        except LedgerError as error:
            log.error("demo: %s; it is tried again", error)
            self.close()

    def _begun(self, store: Store) -> Fleet:
        """A fleet that will go on where the store ends."""
        from gpuledger.demo_fleet import Fleet

        newest: datetime = store.value("SELECT max(ts) AS newest FROM samples")
        return Fleet.start().begin(self._story.plan, newest - OVERLAP)

    def close(self) -> None:
        if self._feed is not None:
            self._feed.close()
        self._feed = None


def _store(
    store: Store,
    feed: Feed | Fleet,
    until: datetime,
    source: str,
    progress: Callable[[int], None] | None = None,
    keep: Callable[[str, pa.Table], pa.Table] | None = None,
    *,
    waiting: Callable[[float], None],
) -> None:
    """Stores the new records up to that instant.   keep: what of a record type's table is stored.   waiting: as of
    `Fleet.until`."""
    from ingest.pipeline import ingest_tables
    from warehouse.records import RECORD_TYPES

    for name, group in groupby(feed.until(until, waiting), key=lambda pair: pair[0].name):
        tables = (table if keep is None else keep(name, table) for _, table in group)
        ingest_tables(store, RECORD_TYPES[name], source, tables, progress)


def _ingest(store: Store, story: Story, steps: Steps, fleet: Fleet | None) -> Feed | Fleet:
    """Stores the past. Returns the fleet's feed, which goes on from there."""
    from gpuledger.demo_fleet import Feed

    with steps.step("Ingest") as step:
        done = 0
        step.update(detail="placing the jobs of a simulated fleet")

        def progress(rows: int) -> None:
            nonlocal done
            done += rows
            step.update(detail=f"{done:,} records of a simulated fleet")

        feed = Feed(story.plan) if fleet is None else fleet.begin(story.plan)
        _store(store, feed, story.watched_from, story.source, progress, waiting=lambda _: step.update())
    return feed


def _price(store: Store, plan: FleetPlan, steps: Steps) -> None:
    from billing.energy.settings import apply_energy_settings, load_energy_settings
    from billing.parties.applied import apply_parties
    from billing.parties.details import load_parties
    from billing.rates import apply_rate_card, parse_rate_card
    from collectors.simulated import rate_card
    from gpuledger.demo_people import map_tenants

    with steps.step("Prices") as step:
        card = parse_rate_card(parse_yaml(rate_card(plan)), "the demo's rate card")
        now = datetime.now(UTC)
        version = apply_rate_card(store, card, author="demo", reason="the demo's prices", now=now)
        apply_parties(store, load_parties(PARTIES), author="demo", reason="the demo's addresses", now=now)
        apply_energy_settings(store, load_energy_settings(ENERGY), author="demo", reason="the demo's grid", now=now)
        map_tenants(store)
        step.update(detail=f"rate card {version}, {len(card.rates)} rates in {card.currency}")


def _invoice(store: Store, period: Period, folder: Path, steps: Steps) -> list[Invoice]:
    from billing.documents.invoice_files import write_invoice
    from billing.invoicing.invoices import issue_all

    with steps.step("Invoices") as step:
        step.update(detail="issuing")
        invoices = issue_all(store, period, now=datetime.now(UTC), actor="demo")
        for number, invoice in enumerate(invoices, 1):
            write_invoice(invoice, folder)
            step.update(number, len(invoices), f"{number:,} of {len(invoices):,}")
        step.update(detail=f"{len(invoices):,} issued, as PDF, HTML, JSON and CSV")
    return invoices


def _correct(store: Store, story: Story, period: Period, folder: Path, steps: Steps) -> list[Invoice]:
    """Issues a credit note, and drafts the corrections of the month for what was reported late."""
    from billing.close import close
    from billing.documents.invoice_files import write_invoice
    from gpuledger.demo_accounts import corrected, credit_note, report_outage

    with steps.step("Correct") as step:
        step.update(detail="closing again, with a late record")
        if report_outage(store, period, f"{story.source}, late"):
            close(store, now=datetime.now(UTC))
        note, drafts = credit_note(store, period), corrected(store, period)
        after = [*([note] if note else []), *drafts]
        for document in after:
            write_invoice(document, folder)
        named = ", ".join(draft.tenant for draft in drafts) or "none"
        step.update(detail=f"a late record corrects the invoices of {named}; {1 if note else 0} credit note issued")
    return after


def _plan(store: Store, period: Period, steps: Steps) -> None:
    from billing.accounts.budgets import State, budget_states
    from billing.periods import month_name
    from gpuledger.demo_accounts import set_budgets

    with steps.step("Budgets") as step:
        set_budgets(store, period)
        states = budget_states(store, month_name(period, str(ZONE)), datetime.now(UTC))
        over = [one.tenant for one in states if one.state is State.over]
        step.update(detail=f"{len(states)} tenants have one; exceeded by {', '.join(over) or 'nobody'}")


def _invite(store: Store, period: Period, access: AccessSettings | None, steps: Steps) -> None:
    from gpuledger.demo_people import PEOPLE, QUERIES, TOKENS, invite, push_late

    with steps.step("People") as step:
        invite(store, access)
        push_late(store, period)
        said = f"{len(PEOPLE)} people, {len(TOKENS)} tokens, {len(QUERIES)} saved queries"
        step.update(detail=f"{said}; a push waits for a decision")


def _run_periodic_work(store: Store, story: Story, steps: Steps) -> None:
    """Runs the server's minutely jobs for the last hours before the demo is served."""
    from alerts.evaluate import DELAY, evaluate
    from alerts.interference.measure import measure as measure_interference
    from alerts.interference.settings import Settings
    from alerts.rule_files import load_rules
    from alerts.slo.applied import apply_objectives
    from alerts.slo.measure import measure
    from alerts.slo.objectives import load_objectives

    with steps.step("Watch") as step:
        now = datetime.now(UTC)
        apply_objectives(store, load_objectives(OBJECTIVES), "demo", "the demo's promises", now)
        step.update(detail="measuring objectives")
        measure(store, story.watched_from, now)
        step.update(detail="measuring interference")
        measure_interference(store, story.watched_from, Settings(history=DISTURBED), now)
        step.update(detail="evaluating alert rules")
        rules = load_rules()
        _evaluate_past(store, rules, story)
        report = evaluate(store, rules, story.watched_from + DELAY, live=False)
        silence(store, now)
        problems = f", {len(report.problems)} cannot be evaluated" if report.problems else ""
        step.update(detail=f"{_firing(store):,} alerts fire{problems}")


def _evaluate_past(store: Store, rules: Sequence[Rule], story: Story) -> None:
    """Evaluates some rules once a day, and all of them once before they are evaluated every minute. What holds then
    fires."""
    from alerts.evaluate import DELAY, evaluate
    from alerts.journal import last_run

    if last_run(store) is not None:
        return
    last, day, hour = story.watched_from - FIRST_ALERTS, timedelta(days=1), timedelta(hours=1)
    midnight = last.replace(hour=0, minute=0)
    past = [rule for rule in rules if rule.name in PAST_RULES]
    for at in (midnight - n * day for n in reversed(range(ALERT_DAYS))):
        if at > story.start:
            evaluate(store, _seldom(past, day), at + DELAY, live=False)
    # Of the hours since, the last alone: what came and went meanwhile nobody has seen.
    evaluate(store, _seldom(past, 30 * day), last.replace(minute=0) - timedelta(seconds=1) + DELAY, live=False)
    evaluate(store, _seldom(rules, hour), last + DELAY, live=False)


def _seldom(rules: Sequence[Rule], interval: timedelta) -> list[Rule]:
    return [rule.model_copy(update={"interval": int(interval.total_seconds()), "for_": 0}) for rule in rules]


def silence(store: Store, now: datetime) -> None:
    """Silences what somebody knows of already; once, so that whoever ends it has ended it."""
    from alerts.silences import add_silence, silences

    if not silences(store, now, past=True):
        ends = (now + SILENCED_FOR).replace(second=0, microsecond=0)
        add_silence(store, SILENCED, ends, "demo", "Teaching cards rest between lessons", now)


def _notify(store: Store, folder: Path, address: str, steps: Steps) -> Path:
    """Sends the alerts that fire into a file. Returns the routing file, which somebody may have changed since it was
    written."""
    import yaml

    from alerts.deliver import deliver
    from alerts.routing import load_routing

    path = folder / ROUTING
    with steps.step("Notify") as step:
        if not path.exists():
            receivers = {"demo": {"file": {"path": str((folder / "notifications.jsonl").resolve())}}}
            named = {"address": address} if address else {}
            found = {**named, "receivers": receivers, "routes": [{"receivers": ["demo"]}]}
            text = yaml.safe_dump(found, sort_keys=False)
            path.write_text(f"# Who is notified of the demo's alerts: docs/alerts.md\n{text}", encoding="utf-8")
        sent = deliver(store, load_routing(path), datetime.now(UTC))
        step.update(detail=f"{len(sent):,} notifications, into notifications.jsonl")
    return path


def _firing(store: Store) -> int:
    return int(store.value("SELECT count() AS firing FROM alerts WHERE state = 'firing'"))


def _demo(
    store: Store,
    story: Story,
    period: Period,
    proof: VerifyReport,
    invoices: list[Invoice],
    after: list[Invoice],
    folder: Path,
    routing: Path,
) -> Demo:
    from alerts.slo.status import slo_status
    from billing.energy.report import energy_report
    from billing.ledger_report import ledger_report

    promised = slo_status(store, story.watched_from)
    (kept_out,) = store.rows(read_sql(__file__, "kept_out"))
    return Demo(
        story=story,
        report=ledger_report(store, None, ["tenant"]),
        proof=proof,
        month=f"{period.end.astimezone(ZONE) - timedelta(days=1):%B %Y}",
        invoices=invoices,
        after=after,
        emissions=energy_report(store, period, ["tenant"]).total,
        folder=folder,
        routing=routing,
        refused=kept_out["refused"],
        quarantined=kept_out["quarantined"],
        firing=_firing(store),
        promised=len(promised),
        missed=sum(one.state == "missed" for one in promised),
    )
