"""`gpuledger exporter`: which metrics of a device exporter are used, in which unit, and which are missing."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuledger import options
from gpuledger.output import print_json, print_rows, say

COLUMNS = ("metric", "source", "unit", "values", "of", "why")


def register(app: typer.Typer) -> None:
    app.command("exporter")(exporter)


def exporter(
    url: Annotated[
        str,
        typer.Argument(help="Of its metrics, such as http://localhost:9400/metrics.", callback=options.checked_address),
    ],
    profile: Annotated[
        str | None, typer.Option(help="A profile or its file.", show_default="by the names of its metrics")
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(min=0, max=600, help="Seconds between the readings."),
    ] = 5.0,
    token_file: Annotated[Path | None, typer.Option("--token-file", help="File with the token for it.")] = None,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", help="CA of its certificate, PEM.")] = None,
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Read an exporter twice and show for each metric how many devices have a value, in which unit, and why others
    have none. Exit 1: an expected metric is missing."""
    from collectors.exporters.fetching import Access
    from collectors.exporters.scorecard import look

    access = Access(token_file=token_file, ca_file=ca_file)
    card = look(url, lambda: time.sleep(seconds), profile=profile, access=access, seconds=max(seconds, 0.001))
    rows: list[dict[str, Any]] = [
        {name: getattr(line, name) for name in COLUMNS[:-1]} | {"why": _words(line.why)} for line in card.lines
    ]
    if fmt is options.Format.json:
        about = {"exporter": card.exporter, "version": card.version, "devices": card.devices}
        print_json(about | {"metrics": rows, "lost": card.lost, "dropped": card.dropped})
    else:
        print_rows(rows, COLUMNS, fmt)
        devices = "1 device" if card.devices == 1 else f"{card.devices} devices"
        say(f"{card.exporter} {card.version or '(no version reported)'}: {devices}")
        say(f"series not used: {_words(card.dropped) or 'none'}")
    if card.lost:
        say(f"lost: {', '.join(card.lost)}. Next: docs/exporters.md, Known gaps of exporters")
        raise typer.Exit(1)


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
