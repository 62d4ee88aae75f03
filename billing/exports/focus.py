"""The books of a month as a FOCUS file: usage from the ledger, everything else from the invoices' lines.

Slice by slice (about thirty thousand entries), so that memory does not grow with the month:

    ledger ─▶ usage.sql, platform.sql ─▶ facts [─▶ rolled.sql] [─▶ shares.sql] ─▶ focus.sql ─▶ file
    invoices, drafts ─▶ lines.py ─▶ facts ─────────────────────────────────────────┘
"""

from __future__ import annotations

import contextlib
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from billing.exact import NANO, rounded
from billing.exports.ascii import NOTHING, ascii_id, ascii_name
from billing.exports.columns import columns_of
from billing.exports.errors import ExportError
from billing.exports.files import FocusFile
from billing.exports.lines import GroupKey, Statement, money, statement_of, usage_row
from billing.invoicing.drafts import draft_all
from billing.invoicing.invoices import billed_later, standing
from billing.invoicing.month import Books, books_of
from billing.money import minor_digits
from billing.params import period_params
from billing.periods import Period, midnight, month_name
from warehouse.store import Store, read_sql

if TYPE_CHECKING:
    import pyarrow as pa

Grain = Literal["hour", "day", "month"]
Which = Literal["all", "invoiced", "draft"]
SLICE_ENTRIES = 64_000
LANES = 2
"""Slices that are computed at the same time, each by one thread of the engine, so that rows keep their order."""


@dataclass(frozen=True)
class FocusOptions:
    """What to export.

    which:          invoiced = issued invoices; draft = what the ledger says now; all = issued where there is one.
    version:        of FOCUS: 1.2, or 1.3 with the columns for parts of a device.
    platform:       with the platform's own time, and what nobody named held.
    skip_unpriced:  leave out time whose price is unknown, instead of refusing.
    """

    tenant: str | None = None
    which: Which = "all"
    version: str = "1.2"
    grain: Grain = "hour"
    platform: bool = False
    skip_unpriced: bool = False


@dataclass
class FocusReport:
    """What was written. Sums are exact. `billed` is by invoice number, None = what is on no invoice."""

    path: Path
    columns: Sequence[str]
    rows: int = 0
    billed: dict[str | None, Decimal] = field(default_factory=dict)
    usage_hours: Decimal = Decimal(0)
    ledger_hours: Fraction = Fraction(0)
    invoices: dict[str, Decimal] = field(default_factory=dict)
    unpriced_hours: Decimal = Decimal(0)
    by_line: list[str] = field(default_factory=list)
    """Tenants with usage exported by invoice line, because the ledger has changed since."""


def export_focus(store: Store, period: Period, path: Path, options: FocusOptions) -> FocusReport:
    """Writes the month into the file (.csv, .csv.gz or .parquet) and answers what it wrote.

    Errors: ExportError if there is nothing to export, if time has no price (unless skipped: an unknown cost is no
    zero), or if an invoice is not the sum of its lines.
    """
    books = books_of(store)
    columns = columns_of(options.version)
    statements = _statements(store, period, options, books)
    report = FocusReport(path, columns)
    entries = _groups(store, period, statements, report)
    _refuse_unpriced(store, period, options, statements, report)
    with _lanes(store) as lanes, FocusFile(path, columns) as file:
        export = _Export(store, period, options, books, lanes, file, report)
        store.insert(lanes[0].tables["groups"], _group_table(entries))
        export.usage(entries)
        export.statements(statements, entries)
        if options.platform:
            export.platform(statements)
        if not report.rows:
            raise ExportError(month_name(period, books.timezone), "there is nothing to export", "See: gpuledger ledger")
    return report


@dataclass
class _Export:
    store: Store
    period: Period
    options: FocusOptions
    books: Books
    lanes: Sequence[_Lane]
    file: FocusFile
    report: FocusReport

    def usage(self, entries: Iterable[tuple[Statement, GroupKey]]) -> None:
        """The rows that come from the ledger, a slice at a time."""
        if not list(entries):
            return
        self._write_slices("usage", {}, shares=self.options.version != "1.2")

    def statements(self, statements: Sequence[Statement], entries: Iterable[tuple[Statement, GroupKey]]) -> None:
        """The rows that come from invoices, and for each invoice one that makes up for its rounding."""
        from_ledger = {(id(statement), key) for statement, key in entries}
        rows = []
        for statement in statements:
            rows += statement.rows
            rows += [
                usage_row(statement, group)
                for key, group in statement.groups.items()
                if (id(statement), key) not in from_ledger
            ]
        self._write_rows(rows)
        self._write_rows([row for statement in statements for row in self._rounding(statement)])

    def platform(self, statements: Sequence[Statement]) -> None:
        """The platform's own time at list price, and what of it tenants bear."""
        card = self.books.card
        mine = {"issuer": card.issuer.name if card else "GPU platform", "rate_card": self.books.closed_with}
        self._write_slices("platform", mine, shares=False)
        shared: dict[str, Decimal] = {}
        for statement in statements:
            for row in statement.rows:
                if row["kind"] == "shared" and row["class"] is None:
                    shared[row["currency"]] = shared.get(row["currency"], Decimal(0)) + Decimal(row["billed_cost"])
        borne = [
            {
                "kind": "shared", "tenant": None, "issuer": mine["issuer"], "currency": currency,
                "category": "Adjustment",
                "frequency": "One-Time", "description": "Unallocated time that tenants bear",
                "period_start": self.period.start, "period_end": self.period.end,
                **dict.fromkeys(_COSTS, money(-Fraction(amount))),
            }
            for currency, amount in shared.items()
        ]  # fmt: skip
        self._write_rows(borne)

    def _rounding(self, statement: Statement) -> Iterator[dict[str, Any]]:
        """An Adjustment of what the rows of an invoice lack to its amount: less than a minor unit.

        Drafts have no number to sum by; their rows stay exact. Errors: ExportError if more is lacking.
        """
        number = statement.invoice.number
        if number is None:
            return
        amount = statement.invoice.amount
        self.report.invoices[number] = amount
        lacking = Fraction(amount) - Fraction(self.report.billed.get(number, Decimal(0)))
        if abs(lacking) > Fraction(1, 10 ** minor_digits(statement.invoice.currency)):
            raise ExportError(
                f"invoice {number}",
                f"its rows are {rounded(abs(lacking), 9)} {'less' if lacking > 0 else 'more'} than its amount {amount}",
                "Please report it with: gpuledger invoice show --format json",
            )
        if lacking:
            rounding = {"kind": "rounding", "description": f"Rounding of invoice {number}"}
            yield statement.row(
                rounding, category="Adjustment", frequency="One-Time", **dict.fromkeys(_COSTS, money(lacking))
            )

    def _slices(self) -> Iterator[dict[str, Any]]:
        """Parameters of slices of about so many entries: of time, cut where a charge period may end, or of devices."""
        span = {"start": self.period.start, "end": self.period.end}
        common = {
            **span,
            "billing_start": self.period.start,
            "billing_end": self.period.end,
            "timezone": self.books.timezone,
            "grain": self.options.grain,
            "by_device": int(self.options.version != "1.2"),
            "parts": 1,
            "part": 0,
        }
        hours = self.store.rows(read_sql(__file__, "entries_by_hour"), span)
        if self.options.grain == "month":
            parts = 1 + sum(row["entries"] for row in hours) // (4 * SLICE_ENTRIES)
            yield from ({**common, "parts": parts, "part": part} for part in range(parts))
            return
        zone = ZoneInfo(self.books.timezone)
        start, entries = self.period.start, 0
        for row in hours:
            local = row["hour"].astimezone(zone)
            end = row["hour"] if self.options.grain == "hour" else midnight(local.date(), zone)
            if (self.options.grain == "hour" or local.hour == 0) and entries >= SLICE_ENTRIES and end > start:
                yield {**common, "start": start, "end": end}
                start, entries = end, 0
            entries += row["entries"]
        yield {**common, "start": start}

    def _write_slices(self, name: str, more: Mapping[str, Any], shares: bool) -> None:
        """Computes slices in the lanes, by turns, and writes them in their order."""
        steps = [name] + ["rolled"] * (self.options.grain != "hour") + ["shares"] * shares
        waiting: deque[Future[pa.Table]] = deque()
        with contextlib.ExitStack() as stack:
            # A thread a lane: what one lane computes waits for what it computed before.
            pools = [stack.enter_context(ThreadPoolExecutor(1)) for _ in self.lanes]
            for number, params in enumerate(self._slices()):
                if len(waiting) == len(self.lanes):
                    self._write(waiting.popleft().result())
                lane = number % len(self.lanes)
                waiting.append(pools[lane].submit(self._slice, self.lanes[lane], steps, {**params, **more}))
            while waiting:
                self._write(waiting.popleft().result())

    def _slice(self, lane: _Lane, steps: Sequence[str], params: Mapping[str, Any]) -> pa.Table:
        lane.empty()
        params, table = {**params, **lane.tables}, "facts"
        for step in steps:
            lane.store.command(read_sql(__file__, step), {**params, "facts": lane.tables[table]})
            table = {"rolled": "rolled", "shares": "shared"}.get(step, "facts")
        return self._select(lane, table)

    def _write_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            lane = self.lanes[0]
            lane.empty()
            lane.store.insert(lane.tables["facts"], _fact_table(rows))
            self._write(self._select(lane, "facts"))

    def _select(self, lane: _Lane, table: str) -> pa.Table:
        facts = {"facts": lane.tables[table]}
        asked = {**facts, "nothing": list(NOTHING)}
        foreign = [row["text"] for row in lane.store.rows(read_sql(__file__, "foreign_texts"), asked)]
        lane.store.insert(lane.tables["names"], _name_table(foreign))
        sql = read_sql(__file__, "focus_rows", columns=self.file.selection, focus=read_sql(__file__, "focus"))
        params = {
            **facts,
            "names": lane.tables["names"],
            "billing_start": self.period.start,
            "billing_end": self.period.end,
        }
        return lane.store.arrow(sql, params)

    def _write(self, table: pa.Table) -> None:
        if table.num_rows:
            self.file.write(table)
            self._add_up(table)

    def _add_up(self, table: pa.Table) -> None:
        report = self.report
        report.rows += table.num_rows
        sums = table.group_by(["invoice", "kind"]).aggregate([("billed", "sum"), ("consumed", "sum")])
        for row in sums.to_pylist():
            number = row["invoice"]
            report.billed[number] = _plus(report.billed.get(number, Decimal(0)), row["billed_sum"])
            if row["kind"] == "usage":
                report.usage_hours = _plus(report.usage_hours, row["consumed_sum"] or Decimal(0))


_COSTS = ("list_cost", "contracted_cost", "billed_cost", "effective_cost")


def _statements(store: Store, period: Period, options: FocusOptions, books: Books) -> list[Statement]:
    """The invoices to export, and drafts of what is not invoiced; time of unknown holders is the platform's."""
    invoices = standing(store, period, options.tenant) if options.which != "draft" else []
    billed = {one.tenant for one in invoices if not one.is_credit_note}
    if options.which == "draft" or (options.which == "all" and not (options.tenant and billed)):
        billed |= set(billed_later(store, period, options.tenant))
        drafts = draft_all(store, period, options.tenant)
        invoices += [draft for draft in drafts if draft.tenant and draft.tenant not in billed]
    if not invoices and not options.platform:
        what = {"invoiced": "no invoice was issued", "draft": "nobody held anything", "all": "nobody held anything"}
        raise ExportError(
            month_name(period, books.timezone), what[options.which], "See: gpuledger invoice list, gpuledger ledger"
        )
    return [statement_of(invoice) for invoice in invoices]


def _groups(
    store: Store, period: Period, statements: Sequence[Statement], report: FocusReport
) -> list[tuple[Statement, GroupKey]]:
    """The groups whose rows come from the ledger: those of which it says what the invoice says, to nine digits."""
    hours: dict[tuple[Any, ...], Fraction] = {}
    for row in store.rows(read_sql(__file__, "usage_by_group"), period_params(period)):
        whose = (row["tenant"], row["project"], row["sku"], row["list_unit_price"], row["contracted_unit_price"])
        held = Fraction(row["held_micro_ms"], row["device_units"] * 3_600_000 * 1_000_000)
        hours[whose] = hours.get(whose, Fraction(0)) + held
    entries = []
    for statement in statements:
        for key in statement.groups:
            project, sku, listed, contracted = key
            held = hours.get(
                (statement.invoice.tenant, project, sku, Decimal(listed or 0), Decimal(contracted or 0)), Fraction(0)
            )
            if rounded(held) == Decimal(statement.groups[key].line["allocated_gpu_hours"]):
                entries.append((statement, key))
                report.ledger_hours += held
            else:
                report.by_line.append(statement.invoice.tenant)
                report.ledger_hours += Fraction(statement.groups[key].line["allocated_gpu_hours"])
    report.by_line = sorted(set(report.by_line))
    return entries


def _refuse_unpriced(
    store: Store, period: Period, options: FocusOptions, statements: Sequence[Statement], report: FocusReport
) -> None:
    unpriced = sum((one.invoice.unpriced_gpu_hours for one in statements), Decimal(0))
    if options.platform:
        row = store.rows(read_sql(__file__, "unpriced"), period_params(period))[0]
        unpriced += rounded(Fraction(row["unpriced_nano_hours"], NANO))
    report.unpriced_hours = unpriced
    if unpriced and not options.skip_unpriced:
        raise ExportError(
            "export focus",
            f"{unpriced:.2f} GPU-hours have no price, and FOCUS has no unknown cost",
            "Add a rate for them, then rates apply and close; or leave them out with --skip-unpriced",
        )


def _group_table(entries: Iterable[tuple[Statement, GroupKey]]) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, list[str | None]] = {name: [] for name in _GROUP_COLUMNS}
    for statement, key in entries:
        group = statement.groups[key]
        parts = [
            None if part is None else format(part, "f") for part in map(group.part, (group.billed, group.effective))
        ]
        document = statement.invoice.document
        values = (
            statement.invoice.tenant, *key, statement.invoice.number, statement.issuer,
            document.get("rate_card") or "", parts[0], parts[0] if group.effective == group.billed else parts[1],
        )  # fmt: skip
        for name, value in zip(_GROUP_COLUMNS, values, strict=True):
            columns[name].append(value)
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


_GROUP_COLUMNS = (
    "tenant", "project", "sku", "list_unit_price", "contracted_unit_price", "invoice_id", "issuer", "rate_card",
    "billed_part", "effective_part",
)  # fmt: skip


def _name_table(texts: Sequence[str]) -> pa.Table:
    """What stands for each in ids and names. Never without a row: the engine would not know the type of nothing."""
    import pyarrow as pa

    known = {text: (ascii_id(text), ascii_name(text)) for text in texts} or {"": ("", "")}
    ids, names = zip(*known.values(), strict=True)
    return pa.table({"text": list(known), "id": list(ids), "name": list(names)})


def _fact_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    import pyarrow as pa

    names = list(dict.fromkeys(name for row in rows for name in row))
    kinds = {"period_start": pa.timestamp("ms", "UTC"), "period_end": pa.timestamp("ms", "UTC"), "run": pa.uint64()}
    defaults = {"project": "", "sku": "", "meter": "", "rate_card": "", "run": 0}
    return pa.table(
        {
            name: pa.array([row.get(name, defaults.get(name)) for row in rows], kinds.get(name, pa.string()))
            for name in names
        }
    )


@dataclass(frozen=True)
class _Lane:
    """A connection and working tables of its own; `groups` is common to all lanes."""

    store: Store
    tables: Mapping[str, str]

    def empty(self) -> None:
        for name in _OWN:
            self.store.command("TRUNCATE TABLE {table:Identifier}", {"table": self.tables[name]})


_FACTS = ("facts", "rolled", "shared")
_OWN = (*_FACTS, "names")


@contextlib.contextmanager
def _lanes(store: Store) -> Iterator[list[_Lane]]:
    """Empty tables of this export alone, gone afterwards."""
    mark = uuid.uuid4().hex
    names = [
        {"groups": f"focus_groups_{mark}", **{name: f"focus_{name}_{mark}_{number}" for name in _OWN}}
        for number in range(LANES)
    ]
    with contextlib.ExitStack() as stack:
        try:
            store.command(read_sql(__file__, "focus_groups"), names[0])
            for tables in names:
                for name in _FACTS:
                    store.command(read_sql(__file__, "focus_facts"), {"facts": tables[name]})
                store.command(read_sql(__file__, "focus_names"), {"names": tables["names"]})
            yield [_Lane(stack.enter_context(store.another()), tables) for tables in names]
        finally:
            for table in {table for tables in names for table in tables.values()}:
                store.command("DROP TABLE IF EXISTS {table:Identifier}", {"table": table})


def _plus(one: Decimal, other: Decimal) -> Decimal:
    """Exact, whatever the context's precision."""
    return Context(prec=60).add(one, other)
