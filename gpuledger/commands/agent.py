"""`gpuledger agent`: on a node, measures its GPUs and who uses them, and delivers the samples."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuledger import options
from gpuledger.output import say


def register(app: typer.Typer) -> None:
    app.command("agent")(agent)


def agent(
    config: Annotated[
        Path | None, typer.Option("--config", help="Settings (docs/agent.md); flags override them.", dir_okay=False)
    ] = None,
    cluster: Annotated[str | None, typer.Option(envvar="GPULEDGER_CLUSTER", help="Name of the cluster.")] = None,
    node: Annotated[
        str | None, typer.Option(envvar="GPULEDGER_NODE", help="Name of this node.", show_default="its host name")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="GPULEDGER_URL",
            help="Where to deliver: https://server:8443 or clickhouse://user@host:8123/db.",
            callback=options.checked_address,
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", envvar="GPULEDGER_TOKEN_FILE", help="File with the token for it.")
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option("--ca-file", envvar="GPULEDGER_CA_FILE", help="CA of its certificate, PEM.")
    ] = None,
    spool: Annotated[
        Path | None, typer.Option(envvar="GPULEDGER_SPOOL", help="Folder of the spool.", file_okay=False)
    ] = None,
    interval: Annotated[
        float | None, typer.Option(envvar="GPULEDGER_INTERVAL_SECONDS", help="Seconds between readings of the GPUs.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(envvar="GPULEDGER_METRICS_PORT", help="Port of /metrics, on loopback only.")
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Read once, print the rows as JSON lines, deliver nothing; exit 2 if a source failed."
        ),
    ] = False,
    show: Annotated[bool, typer.Option("--print", help="Also print all rows.")] = False,
) -> None:
    """Read this node's GPUs every few seconds, spool the rows on disk and deliver them, until Ctrl-C."""
    from collectors.agent.settings import read_settings

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else it logs a line for each scrape
    settings = read_settings(
        config,
        {
            "cluster": cluster,
            "node": node,
            "deliver.url": url,
            "deliver.token_file": token_file,
            "deliver.ca_file": ca_file,
            "spool.folder": spool,
            "sources.nvml.interval_seconds": interval,
            "metrics.port": port,
        },
    )
    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: _stop(stop))
    signal.signal(signal.SIGTERM, lambda *_: _stop(stop))
    if once:
        from collectors.agent.agent import once as look_once

        problems = []
        for looked in look_once(settings, stop):
            _print(looked.collected.rows)
            source = f"{looked.source}: "
            problems += [source + problem.removeprefix(source) for problem in looked.problems]
        for problem in problems:
            say(f"agent: {problem}")
        if problems:
            raise typer.Exit(2)
        return
    from collectors.agent.agent import run

    run(settings, stop, on_rows=_print if show else None)
    say("stopped; what was not delivered is in the spool")


def _stop(stop: threading.Event) -> None:
    """The first signal ends the agent, a second one at once."""
    if stop.is_set():
        os._exit(130)
    stop.set()


def _print(rows: dict[str, list[dict[str, Any]]]) -> None:
    """Prints JSON lines; `record` names the type of each."""
    from ingest.wire import plain

    for record, found in rows.items():
        for row in found:
            sys.stdout.write(json.dumps({"record": record, **plain(row)}, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()
