"""`gpuledger up --demo`: a month of a simulated fleet on the real path, from records to invoices and alerts.

The reference scheduler places the jobs, except on Slurm's nodes, where the simulation of Slurm does.

Repeating a step changes nothing, so a demo that was interrupted continues where it stopped.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

from gpuledger.books_steps import close_books, prove_books
from gpuledger.steps import Steps
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql
from warehouse.yaml_text import parse_yaml

if TYPE_CHECKING:
    import pyarrow as pa

    from billing.invoicing.invoices import Invoice
    from billing.ledger_report import LedgerReport
    from billing.periods import Period
    from billing.verify import VerifyReport
    from collectors.simulated import FleetPlan

MONTH = "2026-10"
START = datetime(2026, 9, 30, 22, tzinfo=UTC)
"""The month's first instant in the billing zone of the demo's rate card (Europe/Berlin)."""
END = datetime(2026, 10, 31, 23, tzinfo=UTC)
"""Its end: an hour more than 31 days, because the clocks go back. Nothing later is recorded."""
DAYS = 32
PARTIES = Path(__file__).parent / "demo_parties.yaml"
OBJECTIVES = Path(__file__).parent / "demo_objectives.yaml"
SOURCE = "simulated fleet, seed {seed}"


@dataclass(frozen=True)
class Demo:
    """What the demo produced: the month's ledger, its verification, the issued invoices and the folder of their files.

    firing: alerts at the month's end.   missed, promised: series of objectives, and how many of them are missed.
    """

    report: LedgerReport
    proof: VerifyReport
    invoices: list[Invoice]
    folder: Path
    refused: int
    quarantined: int
    firing: int
    promised: int
    missed: int


def fleet_plan(seed: int) -> FleetPlan:
    from collectors.simulated import FleetPlan

    return FleetPlan(seed=seed, start=START, days=DAYS)


def build(store: Store, seed: int, folder: Path, steps: Steps) -> Demo:
    """Fills a migrated store with the demo, or with what is still missing, and writes the invoices into the folder.

    Errors: LedgerError if the store holds the demo of another seed.
    """
    from billing.invoicing.invoices import issued
    from billing.ledger_report import billing_timezone
    from billing.periods import parse_month

    _refuse_another(store, seed)
    plan = fleet_plan(seed)
    if not issued(store, parse_month(MONTH, billing_timezone(store))):
        _ingest(store, plan, seed, steps)
        _price(store, plan, steps)
        close_books(store, steps, END)
    proof = prove_books(store, steps)
    period = parse_month(MONTH, billing_timezone(store))
    invoices = _invoice(store, period, folder, steps)
    _watch(store, steps)
    return _summed(store, period, proof, invoices, folder)


def _refuse_another(store: Store, seed: int) -> None:
    ours = SOURCE.format(seed=seed)
    for row in store.rows(read_sql(__file__, "demo_sources")):
        if row["source"] != ours:
            raise LedgerError(store.url, f"holds the {row['source']}", "Take that --seed, or another --store")


def _ingest(store: Store, plan: FleetPlan, seed: int, steps: Steps) -> None:
    from collectors.simulated import simulate
    from ingest.pipeline import ingest_tables
    from scheduler.records.events import SOURCE as SCHEDULER
    from scheduler.simulate.fleet import FleetScheduler

    with steps.step("Ingest") as step:
        done = 0

        def progress(rows: int) -> None:
            nonlocal done
            done += rows
            step.update(detail=f"{done:,} records of a simulated fleet")

        records = simulate(plan, FleetScheduler, SCHEDULER)
        for _, group in groupby(records, key=lambda pair: pair[0].name):
            record, first = next(group)
            tables = (_within_the_month(table) for table in chain([first], (table for _, table in group)))
            ingest_tables(store, record, SOURCE.format(seed=seed), tables, progress)


def _within_the_month(table: pa.Table) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    return table.filter(pc.less_equal(table["ts"], pa.scalar(END, pa.timestamp("ms", "UTC"))))


def _price(store: Store, plan: FleetPlan, steps: Steps) -> None:
    from billing.parties.applied import apply_parties
    from billing.parties.details import load_parties
    from billing.rates import apply_rate_card, parse_rate_card
    from collectors.simulated import rate_card

    with steps.step("Prices") as step:
        card = parse_rate_card(parse_yaml(rate_card(plan)), "the demo's rate card")
        now = datetime.now(UTC)
        version = apply_rate_card(store, card, author="demo", reason="the demo's prices", now=now)
        apply_parties(store, load_parties(PARTIES), author="demo", reason="the demo's addresses", now=now)
        step.update(detail=f"rate card {version}, {len(card.rates)} rates in {card.currency}")


def _invoice(store: Store, period: Period, folder: Path, steps: Steps) -> list[Invoice]:
    from billing.documents.invoice_files import write_invoice
    from billing.invoicing.invoices import issue_all

    with steps.step("Invoices") as step:
        step.update(detail="issuing")
        invoices = issue_all(store, period, now=datetime.now(UTC))
        for number, invoice in enumerate(invoices, 1):
            write_invoice(invoice, folder)
            step.update(number, len(invoices), f"{number:,} of {len(invoices):,}")
        step.update(detail=f"{len(invoices):,} issued, as PDF, HTML, JSON and CSV")
    return invoices


def _watch(store: Store, steps: Steps) -> None:
    """The server's minutely jobs, once, as of the month's end; later, alerts would fire because the data stopped."""
    from alerts.evaluate import DELAY, evaluate
    from alerts.rule_files import load_rules
    from alerts.slo.applied import apply_objectives
    from alerts.slo.measure import measure
    from alerts.slo.objectives import load_objectives

    with steps.step("Watch") as step:
        now = datetime.now(UTC)
        apply_objectives(store, load_objectives(OBJECTIVES), "demo", "the demo's promises", now)
        step.update(detail="measuring objectives")
        measure(store, END, now)
        step.update(detail="evaluating alert rules")
        report = evaluate(store, load_rules(), END + DELAY, live=False)
        problems = f", {len(report.problems)} cannot be evaluated" if report.problems else ""
        step.update(detail=f"{_firing(store):,} alerts fire{problems}")


def _firing(store: Store) -> int:
    return int(store.value("SELECT count() AS firing FROM alerts WHERE state = 'firing'"))


def _summed(store: Store, period: Period, proof: VerifyReport, invoices: list[Invoice], folder: Path) -> Demo:
    from alerts.slo.status import slo_status
    from billing.ledger_report import ledger_report

    promised = slo_status(store, END)
    (kept_out,) = store.rows(read_sql(__file__, "kept_out"))
    return Demo(
        report=ledger_report(store, period, ["tenant"]),
        proof=proof,
        invoices=invoices,
        folder=folder,
        refused=kept_out["refused"],
        quarantined=kept_out["quarantined"],
        firing=_firing(store),
        promised=len(promised),
        missed=sum(one.state == "missed" for one in promised),
    )
