"""`gpuledger simulate TRACE`: compares configurations on a trace; `simulate capacity TRACE`: the fewest GPUs for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from gpuledger import options
from gpuledger.books import recording_store, refuse_records
from gpuledger.output import print_json, print_rows, say
from gpuledger.progress import bar
from warehouse.errors import LedgerError
from warehouse.printable import grouped
from warehouse.private_files import naming, users_file, users_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.progress import Progress, TaskID

    from collectors.readings import Row
    from scheduler.model import Node
    from scheduler.setup import Setup
    from scheduler.simulate.traces import Trace

TABLE_ROWS = 100_000
"""Rows that are buffered before they become a table."""

TracePath = Annotated[
    Path, typer.Argument(metavar="TRACE", help="Philly's or openb's job list, or a CSV of jobs (docs/simulate.md).")
]
Machines = Annotated[
    str, typer.Option("--machines", help="The trace's list of machines, or NODESxGPUS[:MODEL], e.g. 776x8:V100.")
]
LimitFactor = Annotated[
    float,
    typer.Option("--limit-factor", min=1.0, help="Time limit of a job without one, as a multiple of its run time."),
]
First = Annotated[int, typer.Option("--first", min=0, help="At most this many jobs; 0 = all.")]


class TraceGroup(TyperGroup):
    """Takes an argument that names no command for a trace: `simulate TRACE` is `simulate trace TRACE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["trace", *args]
        return super().parse_args(ctx, args)


def trace(
    path: TracePath,
    config: Annotated[
        list[Path] | None,
        typer.Option("--config", help="Configuration of the scheduler; several are compared.", dir_okay=False),
    ] = None,
    machines: Machines = "",
    limit_factor: LimitFactor = 2.0,
    first: First = 0,
    spacing: Annotated[
        float, typer.Option("--cycle-seconds", min=0.0, help="Minimum virtual seconds between cycles; 0 = none.")
    ] = 0.0,
    rates: Annotated[
        Path | None, typer.Option("--rates", help="Rate card for costs (YAML), at list prices.", dir_okay=False)
    ] = None,
    price_at: Annotated[str, typer.Option("--price-at", help="The time of the prices.", show_default="now")] = "",
    plot: Annotated[Path | None, typer.Option("--plot", help="Write curves (HTML).", dir_okay=False)] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Write the first run's devices and events as Parquet into this folder.",
            file_okay=False,
            writable=True,
        ),
    ] = None,
    into_store: Annotated[
        bool, typer.Option("--into-store", help="Put the first run's devices and events into the store.")
    ] = False,
    store: options.Store = "",
    output: options.OutputFormat = options.Format.table,
) -> None:
    """Run a trace through the scheduler under each configuration: waits, fairness, preemptions, cost by tenant."""
    from scheduler.simulate.report import plot as draw
    from scheduler.simulate.report import side_by_side
    from scheduler.simulate.run import simulate

    if into_store:
        refuse_records(store)
    read = _trace(path, machines, limit_factor, first, [] if machines else config or [])
    setups = _setups(config or [], read)
    prices, priced = _prices(rates, [node for setup in setups for node in setup.nodes], price_at)
    notes = [*read.notes, *priced]
    reports = []
    for number, setup in enumerate(setups):
        tables = _Tables() if number == 0 and (out is not None or into_store) else None
        add_rows = tables.add if tables else None
        with bar("jobs") as show:
            ended = partial(_show, show, show.add_task(setup.name, total=len(read.jobs)))
            found = simulate(
                read.jobs, setup, prices, add_rows, read.name, spacing, pauses=read.pauses, on_progress=ended
            )
        reports.append(found)
        if tables is not None and out is not None:
            _write_files(tables.tables(), out)
        if tables is not None and into_store:
            _into_store(tables.tables(), store, f"simulated:{read.name}:{setup.name}")
        say(f"{setup.name}: {grouped(len(read.jobs), 'job')} in {found.measures['wall_seconds']:.1f} s")
    for note in notes:
        say(f"{read.name}: {note}")
    if plot is not None:
        draw(reports, plot, f"{read.name}: {len(read.jobs):,} jobs", notes)
        say(f"{plot}: curves")
    if output is options.Format.json:
        print_json({"trace": read.name, "notes": notes, "runs": [run.document() for run in reports]})
        return
    rows = side_by_side(reports)
    if output is options.Format.table:
        rows = [{key: _rounded(value) for key, value in row.items()} for row in rows]
    print_rows(rows, [*rows[0]], output)


def capacity(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[TRACE]", help="A list of jobs (docs/simulate.md).", show_default="the books"),
    ] = None,
    wait_bound: Annotated[
        float | None, typer.Option("--wait-bound", min=0.0, help="Find the fewest GPUs with such waits: seconds.")
    ] = None,
    model: Annotated[str, typer.Option("--model", help="Of the GPUs that are counted.", show_default="")] = "",
    gpus_per_node: Annotated[int, typer.Option("--gpus-per-node", min=1, help="With a trace.")] = 8,
    quantile: Annotated[float, typer.Option("--quantile", min=0.0, max=1.0, help="Of the waits.")] = 0.95,
    config: Annotated[
        Path | None, typer.Option("--config", help="With a trace: tenants, queues, policies.", dir_okay=False)
    ] = None,
    limit_factor: LimitFactor = 2.0,
    first: First = 0,
    store: options.Store = "",
    period: Annotated[
        str,
        typer.Option(
            "--period",
            help="With the books: a month (2026-10), a day or START..END, in the billing time zone.",
            show_default="all that is closed",
        ),
    ] = "",
    pool: Annotated[str, typer.Option("--pool", help="With the books: GPUs of this pool.")] = "",
    cluster: Annotated[str, typer.Option("--cluster", help="With the books: GPUs of this cluster.")] = "",
    gpus: Annotated[
        int, typer.Option("--gpus", help="With the books: what so many more, or fewer (-8), would change.")
    ] = 0,
    shares: Annotated[
        int,
        typer.Option("--shares", min=1, max=16, help="With the books: so many jobs that use little share a GPU."),
    ] = 1,
    output: options.OutputFormat = options.Format.table,
) -> None:
    """What more, fewer or shared GPUs would have changed for the jobs in the books; or how few keep waits short."""
    if path is None:
        from gpuledger.commands.simulate_books import from_books
        from scheduler.simulate.books.workload import Change, Group

        if config is not None:
            raise LedgerError("--config", "is for traces", "The books are simulated as docs/simulate.md says")
        bound = None if wait_bound is None else (quantile, wait_bound)
        from_books(store, period, Group(cluster, pool, model), Change(gpus, shares), bound, output)
        return
    asked = {"--period": period, "--pool": pool, "--cluster": cluster, "--gpus": gpus, "--shares": shares - 1}
    if meant := [name for name, value in asked.items() if value]:
        raise LedgerError(meant[0], "is for the books of a store", "Leave the trace out, or this")
    if wait_bound is None:
        raise LedgerError("--wait-bound", "is missing", "Say how long the jobs of the trace may wait, in seconds")
    _of_trace(path, wait_bound, model or "GPU", gpus_per_node, quantile, config, limit_factor, first, output)


def _of_trace(
    path: Path,
    wait_bound: float,
    model: str,
    gpus_per_node: int,
    quantile: float,
    config: Path | None,
    limit_factor: float,
    first: int,
    output: options.Format,
) -> None:
    """Finds and prints the fewest nodes of a model with which a trace keeps a bound on waits, and every size tried."""
    from scheduler.settings import Settings, load_settings
    from scheduler.setup import setup_of
    from scheduler.simulate.capacity import fewest_nodes
    from scheduler.simulate.run import simulate
    from scheduler.simulate.traces import read, regular_nodes

    found = read(path, f"1x{gpus_per_node}:{model}", limit_factor)
    jobs = [replace(job, request=replace(job.request, models=frozenset())) for job in _first(found.jobs, first)]
    settings = load_settings(config) if config else Settings()

    def wait_with(nodes: int) -> float | None:
        setup = setup_of("capacity", settings, regular_nodes(nodes, gpus_per_node, model))
        with bar("jobs") as show:
            ended = partial(_show, show, show.add_task(f"{nodes:,} nodes", total=len(jobs)))
            run = simulate(jobs, setup, curves=False, on_progress=ended)
        wait = run.waits.at(quantile)
        say(
            f"{grouped(nodes, 'node')}: wait p{quantile * 100:g} "
            + (f"{wait:,.0f} s" if wait is not None else "unbounded")
        )
        return None if run.measures["never_started"] else wait

    largest = max(job.request.devices * job.min_replicas for job in jobs)
    answer = fewest_nodes(wait_with, wait_bound, max(1, -(-largest // gpus_per_node)))
    rows = [
        {
            "nodes": tried.nodes,
            "gpus": tried.nodes * gpus_per_node,
            "model": model,
            "wait_seconds": None if tried.wait is None else round(tried.wait, 1),  # known within 1 %
            "keeps_bound": tried.wait is not None and tried.wait <= wait_bound,
            "answer": tried.nodes == answer.nodes,
        }
        for tried in sorted(answer.tried, key=lambda tried: tried.nodes)
    ]
    print_rows(rows, [*rows[0]], output)


def _show(progress: Progress, task: TaskID, ended: int) -> None:
    progress.update(task, completed=ended)


def _first(jobs: Sequence[Any], first: int) -> Sequence[Any]:
    return jobs[:first] if first else jobs


def _trace(path: Path, machines: str, limit_factor: float, first: int, configs: Sequence[Path]) -> Trace:
    """configs: with the nodes of the runs; a job is split into a gang that fits on those of each. Empty: machines."""
    from scheduler.settings import load_settings
    from scheduler.setup import setup_of
    from scheduler.simulate.traces import LARGEST, read

    nodes = [setup_of(one.stem, load_settings(one)).nodes for one in configs]
    largest = [max(len(node.devices) for node in some) for some in nodes if some]
    found = read(path, machines, limit_factor, min(largest, default=LARGEST))
    return replace(found, jobs=_first(found.jobs, first))


def _setups(configs: Sequence[Path], read: Trace) -> list[Setup]:
    """One for each configuration, named after its file; without any, one without tenants and queues."""
    from scheduler.settings import Settings, load_settings
    from scheduler.setup import setup_of

    names = [path.stem for path in configs]
    if len(set(names)) != len(names):
        raise LedgerError("--config", f"two files are named {names[-1]}", "Their names tell the runs apart")
    if not configs:
        return [setup_of("default", Settings(), read.nodes)]
    return [setup_of(path.stem, load_settings(path), read.nodes) for path in configs]


def _prices(path: Path | None, nodes: Sequence[Node], at: str) -> tuple[Mapping[str, Decimal] | None, list[str]]:
    """List price of a GPU-hour of a whole device at that instant, by model; a model without one is absent. And what
    readers of costs must know: their currency, and models without a price."""
    if path is None:
        return None, []
    from billing.rates.prices import PriceBook, Subject
    from billing.rates.rate_card import load_rate_card

    when = options.parse_instant("--price-at", at) if at else datetime.now(UTC)
    card = load_rate_card(path)
    book = PriceBook(card, when, when + timedelta(seconds=1))
    models = {(device.model, node.pool) for node in nodes for device in node.devices}
    found = {model: book.schedule(Subject(model, pool, "", "")) for model, pool in sorted(models)}
    notes = [f"costs: in {card.currency}, at list prices of {when.astimezone(UTC):%Y-%m-%d %H:%M}Z"]
    if unknown := [model or "GPUs without a model" for model, periods in found.items() if not periods]:
        notes.append(f"costs: unknown of who holds {', '.join(unknown)}, which {path.name} has no price for")
    return {model: periods[0].price.list_unit_price for model, periods in found.items() if periods}, notes


class _Tables:
    """Buffers rows for files or the store, and makes a table of every TABLE_ROWS."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Row]] = {"devices": [], "events": []}
        self._tables: dict[str, list[pa.Table]] = {"devices": [], "events": []}

    def add(self, record: str, rows: Sequence[Row]) -> None:
        self._rows[record] += rows
        if len(self._rows[record]) >= TABLE_ROWS:
            self._make(record)

    def tables(self) -> Mapping[str, Sequence[pa.Table]]:
        for record in self._rows:
            self._make(record)
        return self._tables

    def _make(self, record: str) -> None:
        import pyarrow as pa

        from collectors.tables import schema
        from warehouse.records import RECORD_TYPES

        if self._rows[record]:
            self._tables[record].append(pa.Table.from_pylist(self._rows[record], schema(RECORD_TYPES[record])))
            self._rows[record] = []


def _write_files(tables: Mapping[str, Sequence[pa.Table]], folder: Path) -> None:
    from pyarrow.parquet import ParquetWriter

    users_folder(folder)
    for record, found in tables.items():
        path = folder / f"{record}.parquet"
        with (
            naming(path),
            open(path, "wb", opener=users_file) as file,
            ParquetWriter(file, found[0].schema, compression="zstd") as writer,
        ):
            for table in found:
                writer.write_table(table)
        say(f"{path}: {sum(table.num_rows for table in found):,} {record}")


def _into_store(tables: Mapping[str, Sequence[pa.Table]], url: str, source: str) -> None:
    from ingest.pipeline import ingest_tables
    from warehouse.records import RECORD_TYPES

    with recording_store(url) as opened:
        for record, found in tables.items():
            report = ingest_tables(opened, RECORD_TYPES[record], source, found)
            refused = sum(report.quarantined.values())
            say(f"{record}: {report.written:,} written, {report.duplicate:,} duplicate, {refused:,} quarantined")


def _rounded(value: Any) -> Any:
    """A number for people: four significant digits, or all digits before the point."""
    if isinstance(value, Decimal):
        return round(value, 2)
    if isinstance(value, float):
        return round(value) if abs(value) >= 1000 else float(f"{value:.4g}")
    return value
