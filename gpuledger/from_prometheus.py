"""`gpuledger up --prometheus`: fills the books of a cluster from its Prometheus's history, then follows it.

Repeating a step changes nothing, so an import that was interrupted continues where it stopped.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gpuledger.books_steps import close_books, prove_books
from gpuledger.destinations import mark, state_home, storing
from gpuledger.steps import Step, Steps
from warehouse.errors import LedgerError
from warehouse.store import EmbeddedStore, Store, read_sql

if TYPE_CHECKING:
    from billing.invoicing.invoices import Invoice
    from billing.ledger_report import LedgerReport
    from billing.verify import VerifyReport
    from collectors.prometheus.history import Asked, History

log = logging.getLogger(__name__)

SOURCE = "prometheus"
ROWS_AT_ONCE = 50_000
"""Rows read before they are written and the position is saved."""
EXAMPLE_RATES = Path(__file__).parent / "example_rates.yaml"
DRAFT_FORMATS = ("html", "csv", "json")


@dataclass(frozen=True)
class Found:
    """What was made of the history. every_seconds, clusters: as in `History`.   devices: by model.   dropped: unused
    series, by reason.   report: None if no hour is closed yet.   drafts: of the months that the history covers.
    example: the example rate card that they are priced with; empty if a rate card was applied."""

    since: datetime
    until: datetime
    every_seconds: int
    devices: dict[str, int]
    has_holders: bool
    clusters: Sequence[str]
    dropped: Counter[str]
    report: LedgerReport | None
    proof: VerifyReport
    drafts: list[Invoice]
    folder: Path
    example: str


def folder_of(store: Store, asked: Asked) -> Path | None:
    """The folder with the position in this history: beside an embedded store, so that it is deleted with the store."""
    name = f"prometheus-{mark(asked.url, asked.cluster, asked.selector)}"
    if not isinstance(store, EmbeddedStore):
        return state_home() / f"{name}-{mark(store.url)}"
    return None if store.path is None else store.path / name


def open_history(store: Store, asked: Asked, now: datetime) -> History:
    """Errors: CollectorError."""
    from collectors.prometheus.history import History

    return History(asked, folder_of(store, asked), now)


def build(store: Store, history: History, folder: Path, steps: Steps, now: datetime) -> Found:
    """Reads the history up to now into a migrated store, closes and verifies the books, and writes drafts."""
    from billing.ledger_report import ledger_report
    from billing.rates import example_prices

    dropped = _read(store, history, steps, now)
    _price(store, steps, now)
    close_books(store, steps)
    proof = prove_books(store, steps)
    drafts = _draft(store, folder, steps)
    report = ledger_report(store, None, ["tenant"])
    return Found(
        since=history.since,
        until=history.until,
        every_seconds=history.every_seconds,
        devices=_devices(store),
        has_holders=history.has_holders,
        clusters=history.clusters,
        dropped=dropped,
        report=report if report.closed else None,
        proof=proof,
        drafts=drafts,
        folder=folder,
        example=example_prices(store),
    )


def follow(store: Store, history: History, stop: threading.Event) -> None:
    """Reads what is new since the last call; a Prometheus that does not answer is asked again at the next call."""
    try:
        while not stop.is_set() and (collected := history.next(datetime.now(UTC))) is not None:
            storing(store, SOURCE)(collected)
            history.keep()
    except (LedgerError, OSError) as error:
        log.error("prometheus: %s; it is asked again in a minute", error)


def _read(store: Store, history: History, steps: Steps, now: datetime) -> Counter[str]:
    from collectors.readings import Collected

    put = storing(store, SOURCE)
    with steps.step("History") as step:
        start, rows, unwritten, dropped = history.until, 0, Collected(), Counter[str]()
        _show_progress(step, history, start, now, rows)
        while (collected := history.next(now)) is not None:
            unwritten += collected
            rows += sum(map(len, collected.rows.values()))
            dropped += collected.dropped
            if sum(map(len, unwritten.rows.values())) >= ROWS_AT_ONCE:
                put(unwritten)
                history.keep()
                unwritten = Collected()
            _show_progress(step, history, start, now, rows)
        put(unwritten)
        history.keep()
    return dropped


def _show_progress(step: Step, history: History, start: datetime, now: datetime, rows: int) -> None:
    done, total = (history.until - start).total_seconds(), (now - start).total_seconds()
    step.update(int(done), int(total), f"{rows:,} records until {history.until:%Y-%m-%d %H:%M}Z")


def _price(store: Store, steps: Steps, now: datetime) -> None:
    """Applies the example rate card if none was ever applied."""
    from billing.rates import apply_rate_card, current_rate_card, load_rate_card

    with steps.step("Prices") as step:
        current = current_rate_card(store)
        if current is not None:
            step.update(detail=f"rate card {current.version}, applied by {current.author}")
            return
        card = load_rate_card(EXAMPLE_RATES)
        apply_rate_card(store, card, author="gpuledger", reason="an example, until a card is applied", now=now)
        step.update(detail=f"an example, not yours: {card.example}")


def _draft(store: Store, folder: Path, steps: Steps) -> list[Invoice]:
    from billing.closed import closed_period
    from billing.documents.invoice_files import write_invoice
    from billing.invoicing.drafts import draft_all
    from billing.ledger_report import billing_timezone
    from billing.periods import Period, month_name, parse_month

    with steps.step("Drafts") as step:
        zone, books = billing_timezone(store), closed_period(store)
        drafts: list[Invoice] = []
        month = parse_month(month_name(books, zone), zone) if books is not None else None
        while books is not None and month is not None and month.start < books.end:
            drafts += draft_all(store, month)
            month = parse_month(month_name(Period(month.end, books.end), zone), zone)
        for number, draft in enumerate(drafts, 1):
            write_invoice(draft, folder, DRAFT_FORMATS)
            step.update(number, len(drafts), f"{number:,} of {len(drafts):,}")
        step.update(detail=f"{len(drafts):,} in {folder}" if drafts else "none: nobody held a device in a closed hour")
    return drafts


def _devices(store: Store) -> dict[str, int]:
    return {row["model"]: row["devices"] for row in store.rows(read_sql(__file__, "devices_by_model"))}
