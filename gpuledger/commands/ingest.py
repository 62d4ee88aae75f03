"""`gpuledger ingest`: reads files of records into the store."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import recording_store
from gpuledger.output import print_json, print_rows, say
from gpuledger.progress import bar
from warehouse.errors import LedgerError
from warehouse.records import RECORD_TYPES

if TYPE_CHECKING:
    from ingest import IngestReport


class Records(StrEnum):
    samples = "samples"
    events = "events"
    devices = "devices"
    service_levels = "service-levels"
    metrics = "metrics"
    findings = "findings"


def register(app: typer.Typer) -> None:
    app.command("ingest")(ingest)


def ingest(
    records: Annotated[Records, typer.Argument(help="What the files hold.", show_default=False)],
    files: Annotated[
        list[Path], typer.Argument(help="Parquet, CSV or JSON lines; CSV and JSON lines also .gz.", show_default=False)
    ],
    store: options.Store = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Read files into the store; bad rows go to quarantine, duplicates change nothing."""
    from billing.audit import whoever
    from ingest import IngestReport, ingest_file
    from ingest.files import estimated_rows, suffix

    record = RECORD_TYPES[records.value.replace("-", "_")]
    for path in files:
        suffix(path)
    report = IngestReport()
    with recording_store(store) as opened, bar("rows") as show:
        for path in files:
            task = show.add_task(path.name, total=estimated_rows(path) or None)
            try:
                report += ingest_file(opened, record, path, partial(show.advance, task), sender=whoever())
            except LedgerError:
                if report.read:
                    say(closing_line(records.value, report) + " (the files before this one)")
                raise
            show.update(task, total=show.tasks[task].completed)
    _print(records.value, report, fmt)


def _print(records: str, report: IngestReport, fmt: options.Format) -> None:
    document: dict[str, Any] = {
        "records": records,
        "read": report.read,
        "written": report.written,
        "duplicate": report.duplicate,
        "differing": report.differing,
        "quarantined": report.quarantined,
        "ignored_columns": report.ignored_columns,
    }
    if fmt is options.Format.json:
        print_json(document)
        return
    if fmt is options.Format.csv:
        document["quarantined"] = sum(report.quarantined.values())
        del document["ignored_columns"]
        print_rows([document], list(document), fmt)
        return
    say(closing_line(records, report))


def closing_line(records: str, report: IngestReport) -> str:
    """The result of a run, in one line."""
    line = (
        f"{records}: read {report.read:,} · written {report.written:,} · duplicate {report.duplicate:,}"
        f" · quarantined {sum(report.quarantined.values()):,}"
    )
    if report.quarantined:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(report.quarantined.items()))
        line += f" ({reasons}; gpuledger doctor shows them)"
    if report.differing:
        line += f" · {report.differing:,} of the duplicates differ from what is stored (docs/contracts.md: what counts)"
    if report.ignored_columns:
        line += f" · ignored columns: {', '.join(_named(name, report) for name in report.ignored_columns)}"
    return line


def _named(column: str, report: IngestReport) -> str:
    meant = report.misspelt.get(column)
    return f"{column} (did you mean {meant}?)" if meant else column
