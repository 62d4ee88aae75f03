"""What-if questions about capacity, for the API, the pages and the command line: the books' workload, the simulator's
outcomes, and what the devices cost a month at the rate card's list price.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from billing.closed import closed_part
from billing.insights.outlook import MONTH_HOURS
from billing.periods import Period
from billing.rates import current_rate_card
from billing.rates.prices import PriceBook, Subject, price_at
from gpuledger import documents
from scheduler.simulate.books.apart import SIMULATIONS
from scheduler.simulate.books.reading import STATEMENTS, read_workloads
from scheduler.simulate.books.workload import MOST_JOBS, MOST_SHARES, Change, Group, Outcome, Workload, latest
from warehouse.errors import LedgerError
from warehouse.store import Store

READS = "\n".join((*STATEMENTS, "rate_cards", "closed_hours"))
"""Names the tables that a question reads, for callers that cache answers."""
CENT = Decimal("0.01")
MOST_DAYS = timedelta(days=62)
"""Of a longer period, only the end is simulated."""
SECONDS = 300
"""The longest wait for an answer, including those queued before it."""


@dataclass(frozen=True)
class Priced:
    """list_price: of a GPU-hour of the group at the period's end; None: the card has none, or there is no card."""

    list_price: Decimal | None
    currency: str

    def month(self, gpus: int) -> Decimal | None:
        """The cost of so many GPUs for a month of 730.5 hours, allocated or not."""
        if self.list_price is None:
            return None
        hours = Decimal(MONTH_HOURS.numerator) / MONTH_HOURS.denominator
        return (self.list_price * hours * gpus).quantize(CENT)


@dataclass(frozen=True)
class WhatIf:
    """A question and its inputs. workload: the jobs and GPUs to simulate.   simulated: number of its jobs.   is_cut:
    whether it is only the last part of the period, which was too large."""

    workload: Workload
    simulated: int
    is_cut: bool
    change: Change
    price: Priced


def what_if(store: Store, period: Period | None, group: Group, change: Change, most: int = MOST_JOBS) -> WhatIf:
    """The simulation of a period (None: all that is closed). The store must be unscoped. Names of the group may be
    empty, if the others identify it.

    Errors: LedgerError if nothing of the period is closed, the group is unknown or ambiguous, or the change is
    impossible.
    """
    if not 1 <= change.shares <= MOST_SHARES:
        raise LedgerError("shares", f"found {change.shares}", f"Choose between 1 (none) and {MOST_SHARES}")
    chosen = _chosen(workloads_of(store, period), group)
    if len(chosen.devices) + change.gpus < 1:
        raise LedgerError("gpus", f"{change.gpus:+,} of {len(chosen.devices):,} leaves none", "Take away fewer")
    end = datetime.fromtimestamp(chosen.end, UTC)
    work = latest(chosen, most)
    is_cut = work.start > _span(store, period)[0].timestamp()
    return WhatIf(work, min(most, len(chosen.jobs)), is_cut, change, priced(store, chosen.group, end))


def workloads_of(store: Store, period: Period | None) -> list[Workload]:
    """The workload of each group of GPUs without MIG, the largest group first, in the last MOST_DAYS of a period's
    closed part (None: of all that is closed).

    Errors: LedgerError if nothing is closed.
    """
    start, end, until = _span(store, period)
    start = max(start, end - MOST_DAYS)
    return [one for one in read_workloads(store, start, end, until) if one.devices]


def _span(store: Store, period: Period | None) -> tuple[datetime, datetime, datetime]:
    """Start and end of the period's closed part, and the end of the books."""
    closed = closed_part(store, period)
    if closed is None or not closed.closed_hours:
        raise LedgerError("period", "has no closed hours", "Run gpuledger close, or ask for another period")
    books = closed.books
    return max(closed.period.start, books.start), min(closed.period.end, books.end), books.end


def start_simulations(asked: WhatIf) -> Future[tuple[Outcome, ...]]:
    """Starts the simulations in another process: the actual outcome, the same simulated, and the change simulated.

    Errors: LedgerError if too many wait already.
    """
    return SIMULATIONS.submit(asked.workload, (Change(), asked.change))


def simulation_document(asked: WhatIf, outcomes: Sequence[Outcome]) -> documents.CapacitySimulation:
    """outcomes: the actual one, the same simulated, and the change simulated."""
    work = asked.workload
    return documents.CapacitySimulation(
        cluster=work.group.cluster, pool=work.group.pool, model=work.group.model,
        start=datetime.fromtimestamp(work.start, UTC), end=datetime.fromtimestamp(work.end, UTC),
        gpus=asked.change.gpus, shares=asked.change.shares,
        currency=asked.price.currency or None, list_price=asked.price.list_price,
        as_it_was=_outcome(outcomes[0], asked.price), simulated=_outcome(outcomes[1], asked.price),
        changed=_outcome(outcomes[2], asked.price),
        jobs_simulated=asked.simulated, cut=asked.is_cut,
        left_out=dict(work.left_out), left_out_gpu_hours=work.left_out_hours, mig_devices=work.mig_devices,
        assumed=dict(work.assumed),
        reasons=dict(work.reasons), waiting=work.waiting, gave_up=work.gone, partly_there=work.partly,
        down_gpu_hours=work.down_hours,
    )  # fmt: skip


MOST_REASONS = 6
LEFT_OUT = {
    "mig": "held MIG instances",
    "several": "held GPUs of several models or pools",
    "uneven": "held unequal shares of GPUs",
}
ASSUMED = {
    "unsubmitted": "nobody reported when they were submitted: taken as submitted when they started, and in no wait",
    "open": "still run as the books end: taken as over then",
    "resized": "changed their size: taken as of the size that they began with",
    "restarted": "started more than once: taken as one run",
    "preempted": "were preempted, which is not simulated: what ran again counts as another job, with a wait of its own",
    "priority": "nobody reported their priority: taken as 0",
}


def notes(document: documents.CapacitySimulation) -> list[str]:
    """What the figures leave out and assume, in sentences for people."""
    found = []
    if document.cut:
        since, most = documents.instant(document.start), f"{MOST_DAYS.days} days and {MOST_JOBS:,} jobs of a model"
        found.append(
            f"simulated: the period from {since} on alone, {document.jobs_simulated:,} jobs: at most {most} are"
        )
    found += [f"left out: {count:,} jobs that {LEFT_OUT[why]}" for why, count in document.left_out.items()]
    if document.left_out:
        found.append(f"left out: {document.left_out_gpu_hours:,.0f} GPU-hours that these jobs held")
    if document.mig_devices:
        found.append(f"left out: {document.mig_devices:,} GPUs under MIG")
    found += [f"assumed: {count:,} jobs, {ASSUMED[what]}" for what, count in document.assumed.items()]
    if document.reasons:
        named = sorted(document.reasons.items(), key=lambda one: (-one[1], one[0]))[:MOST_REASONS]
        found.append("real waits, as reported: " + ", ".join(f"{why} {count:,} jobs" for why, count in named))
    if document.waiting or document.gave_up:
        never = f"{document.waiting:,} wait at the end, {document.gave_up:,} gave up"
        found.append(f"left out: jobs of the cluster that never started, of unknown length: {never}")
    if document.partly_there:
        found.append(f"assumed: {document.partly_there:,} GPUs were there all the time, and were for a part of it")
    if document.down_gpu_hours >= 0.05:
        found.append(f"assumed: GPUs were up in the {document.down_gpu_hours:,.1f} GPU-hours that they were down")
    if document.shares > 1:
        found.append("assumed: jobs that share a GPU run as fast as alone, and their memory fits")
    return found


def _outcome(outcome: Outcome, price: Priced) -> documents.SimulatedOutcome:
    return documents.SimulatedOutcome(**asdict(outcome), month_cost=price.month(outcome.gpus))


def priced(store: Store, group: Group, at: datetime) -> Priced:
    """The list price of a whole device of the group, just before an instant."""
    applied = current_rate_card(store)
    if applied is None:
        return Priced(None, "")
    just_before = at.astimezone(UTC) - timedelta(milliseconds=1)
    book = PriceBook(applied.card, just_before, at.astimezone(UTC) + timedelta(seconds=1))
    found = price_at(book.schedule(Subject(group.model, group.pool, "", "", cluster=group.cluster)), just_before)
    return Priced(found.list_unit_price if found else None, applied.card.currency)


def _chosen(workloads: Sequence[Workload], group: Group) -> Workload:
    fits = [one for one in workloads if all(want in ("", has) for want, has in zip(group, one.group, strict=True))]
    if len(fits) == 1:
        return fits[0]
    named = " / ".join(filter(None, (group.model, group.pool, group.cluster))) or "no model"
    if not fits:
        there = ", ".join(dict.fromkeys(one.group.model for one in workloads)) or "none"
        raise LedgerError(named, "no such GPUs in the period, MIG aside", f"Models that are there: {there}")
    choices = "; ".join(f"{one.group.model} in pool {one.group.pool} of {one.group.cluster}" for one in fits[:8])
    raise LedgerError(named, f"could be {len(fits)} kinds of GPUs", f"Name model, pool and cluster: {choices}")
