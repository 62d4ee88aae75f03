"""`gpuledger replay`: writes a public cluster trace to the store, or to files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuledger import options
from gpuledger.books import recording_store, refuse_records
from gpuledger.output import say
from gpuledger.progress import bar
from warehouse.private_files import naming, users_file, users_folder

if TYPE_CHECKING:
    import pyarrow as pa

    from collectors.tables import Records
    from collectors.traces.schedule import Schedule
    from collectors.traces.telemetry import Telemetry
    from ingest.report import IngestReport
    from warehouse.records import RecordType

group = typer.Typer(
    no_args_is_help=True, help="Replay a public cluster trace: its real schedule, and telemetry drawn for it on demand."
)

Out = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Write Parquet files into this folder instead of the store.", file_okay=False, writable=True
    ),
]
Cdfs = Annotated[
    Path | None,
    typer.Option("--telemetry", help="Draw samples from these distributions (acme_2023_util_cdfs.csv.gz)."),
]
Interval = Annotated[
    int,
    typer.Option("--interval", help="Seconds between samples, at most 3600; 0 = 300 or as long as the rows stay few."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Of the telemetry; the same seed draws the same samples.")]


def register(app: typer.Typer) -> None:
    group.command("philly")(philly)
    group.command("openb")(openb)
    app.add_typer(group, name="replay")


def philly(
    jobs: Annotated[Path, typer.Argument(help="Job list: timestamp, duration, num_gpus, cluster.")],
    machines: Annotated[
        Path, typer.Option("--machines", help="Machine list: machineId, number_of_GPUs, single_GPU_mem.")
    ],
    telemetry: Cdfs = None,
    interval: Interval = 0,
    seed: Seed = 7,
    out: Out = None,
    store: options.Store = "",
) -> None:
    """Microsoft's Philly, 2017: jobs queue first come, first served for whole GPUs; virtual clusters are tenants."""
    from collectors.traces.philly import read

    _check(out, store)
    _replay(read(jobs, machines), _telemetry(telemetry, "philly", interval, seed), out, store)


def openb(
    pods: Annotated[Path, typer.Argument(help="Pod list: name, num_gpu, gpu_milli, qos, times, ...")],
    nodes: Annotated[Path, typer.Option("--nodes", help="Node list: sn, gpu, model.")],
    telemetry: Cdfs = None,
    interval: Interval = 0,
    seed: Seed = 7,
    origin: Annotated[str, typer.Option("--origin", help="When the trace's second zero was.")] = "2023-01-01T00:00:00Z",
    out: Out = None,
    store: options.Store = "",
) -> None:
    """Alibaba's openb, 2023: Kubernetes pods with fractions of GPUs, at the times at which they ran."""
    from collectors.traces.openb import read

    _check(out, store)
    _replay(
        read(pods, nodes, options.parse_instant("--origin", origin)),
        _telemetry(telemetry, "pai", interval, seed),
        out,
        store,
    )


def _check(out: Path | None, store: str) -> None:
    """Errors: LedgerError if the destination cannot be written; called before the trace is read."""
    if out is None:
        refuse_records(store)


def _telemetry(cdfs: Path | None, utilization_of: str, interval: int, seed: int) -> Telemetry | None:
    from collectors.traces.telemetry import Telemetry, read_distributions

    if cdfs is None:
        return None
    return Telemetry(read_distributions(cdfs), utilization_of, interval_seconds=interval, seed=seed)


def _replay(schedule: Schedule, telemetry: Telemetry | None, out: Path | None, store: str) -> None:
    facts = schedule.summary()
    if telemetry is not None:
        facts.append(telemetry.note(schedule))
    if out is not None:
        _write_files(_records(schedule, telemetry), out)
    else:
        _ingest(schedule, telemetry, store)
    for fact in facts:
        say(f"{schedule.cluster}: {fact}")


def _records(schedule: Schedule, telemetry: Telemetry | None) -> Records:
    yield from schedule.records()
    if telemetry is not None:
        yield from telemetry.samples(schedule)


def _ingest(schedule: Schedule, telemetry: Telemetry | None, store: str) -> None:
    from ingest.pipeline import ingest_tables

    with recording_store(store) as opened, bar("rows") as progress:
        for record, tables in by_record(_records(schedule, telemetry)):
            total = telemetry.rows(schedule) if telemetry is not None and record.name == "samples" else None
            task = progress.add_task(record.name, total=total)
            report = ingest_tables(opened, record, schedule.source, tables, partial(progress.advance, task))
            progress.update(task, total=report.read)
            say(f"{record.name}: {_counts(report)}")


def _counts(report: IngestReport) -> str:
    refused = sum(report.quarantined.values())
    reasons = ", ".join(f"{reason} {rows:,}" for reason, rows in report.quarantined.items())
    return (
        f"{report.read:,} read, {report.written:,} written, {report.duplicate:,} duplicate, {refused:,} quarantined"
        + (f" ({reasons})" if reasons else "")
    )


def by_record(records: Records) -> Iterator[tuple[RecordType, Iterator[pa.Table]]]:
    """The tables of each record type in turn; consume each group before asking for the next."""
    pending = next(records, None)

    def of(record: RecordType, table: pa.Table) -> Iterator[pa.Table]:
        nonlocal pending
        yield table
        for later in records:
            if later[0].name != record.name:
                pending = later
                return
            yield later[1]

    while pending is not None:
        (record, table), pending = pending, None
        yield record, of(record, table)


def _prepend(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from rest


def _write_files(records: Records, out: Path) -> None:
    from pyarrow.parquet import ParquetWriter

    users_folder(out)
    for record, tables in by_record(records):
        path, rows = out / f"{record.name}.parquet", 0
        first = next(tables)
        with (
            naming(path),
            open(path, "wb", opener=users_file) as file,
            ParquetWriter(file, first.schema, compression="zstd") as writer,
        ):
            for table in _prepend(first, tables):
                writer.write_table(table)
                rows += table.num_rows
        say(f"{path}: {rows:,} {record.name}")
