"""`gpuledger interference`: victims and aggressors on shared GPUs, and baselines of workloads that ran alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import open_books, opened_store, refuse_served
from gpuledger.output import print_rows, say
from warehouse.store import ServedStore, Store

interference = typer.Typer(no_args_is_help=True)

EPISODE_COLUMNS = (
    "cluster", "workload_id", "service", "tenant", "raised_at", "ended_at", "disturbed_windows", "mean_slowdown",
    "max_slowdown", "lost_gpu_seconds", "grade", "channels", "neighbours",
)  # fmt: skip
VICTIM_COLUMNS = (
    "cluster", "identity", "tenant", "episodes", "open_episodes", "mean_slowdown", "max_slowdown", "jitter",
    "lost_gpu_seconds", "grade", "channels", "neighbours",
)  # fmt: skip
AGGRESSOR_COLUMNS = (
    "cluster", "victim", "aggressor", "verdict", "arrivals", "rose", "effect", "windows", "disturbed",
    "disturbed_without",
)  # fmt: skip
SPEED_COLUMNS = ("class", "beside", "speed", "interference", "windows", "pairs")
BASELINE_COLUMNS = (
    "cluster", "identity", "version", "model", "partition_profile", "metric", "load", "windows", "since", "until",
    "value", "value_low", "value_high", "p99_to_p50",
)  # fmt: skip

At = Annotated[str, typer.Option(help="The instant, like 2026-10-06T12:00Z.", show_default="now")]
Days = Annotated[float, typer.Option(min=0.01, max=3660, help="How far back from it.")]


def register(app: typer.Typer) -> None:
    app.add_typer(interference, name="interference", help="Interference on shared GPUs: victims and aggressors.")


@interference.command("status")
def status(
    store: options.Store = "",
    at: At = "",
    days: Days = 1,
    check: Annotated[bool, typer.Option("--check", help="Exit 1 if an episode is ongoing.")] = False,
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Measure interference and list episodes, ongoing ones first."""
    from alerts.interference.episodes import episodes

    with _measured(store, at) as (opened, moment):
        found = episodes(opened, moment - timedelta(days=days), moment)
    _print([asdict(one) for one in found], EPISODE_COLUMNS, fmt, "nobody was disturbed, as far as is known")
    if check and any(one.ended_at is None for one in found):
        raise typer.Exit(1)


@interference.command("victims")
def victims(
    store: options.Store = "", at: At = "", days: Days = 7, fmt: options.OutputFormat = options.Format.table
) -> None:
    """Victims: how much slower they ran, through which channels, and the GPU time lost."""
    from alerts.interference.ranking import victims as ranked

    with _measured(store, at) as (opened, moment):
        found = ranked(opened, moment - timedelta(days=days), moment)
    _print([asdict(one) for one in found], VICTIM_COLUMNS, fmt, "nobody was disturbed, as far as is known")


@interference.command("aggressors")
def aggressors(
    store: options.Store = "", at: At = "", days: Days = 7, fmt: options.OutputFormat = options.Format.table
) -> None:
    """Aggressors: workloads whose start slowed others down at least three times."""
    from alerts.interference.ranking import aggressors as ranked

    with _measured(store, at) as (opened, moment):
        found = ranked(opened, moment - timedelta(days=days), moment)
    _print([asdict(one) for one in found], AGGRESSOR_COLUMNS, fmt, "nobody was measured beside anybody")


@interference.command("speeds")
def speeds(
    store: options.Store = "",
    at: At = "",
    days: Days = 14,
    model: Annotated[str, typer.Option(help="Glob of device models.")] = "*",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Speed of each class beside another (1: as alone), as input of the scheduler's anti-interference score."""
    from alerts.interference.factors import colocation_factors

    with _measured(store, at) as (opened, moment):
        found = colocation_factors(opened, moment - timedelta(days=days), moment, model)
    rows = [
        {
            "class": pair[0],
            "beside": pair[1],
            "speed": one.speed,
            "interference": one.interference,
            "windows": one.n,
            "pairs": one.pairs,
        }
        for pair, one in sorted(found.items())
    ]
    _print(rows, SPEED_COLUMNS, fmt, "no pair was measured")


@interference.command("baselines")
def baselines(store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """Baselines of everything running alone, as last measured."""
    from alerts.interference.measure import newest_baselines

    with opened_store(store) as opened:
        rows = newest_baselines(opened)
    _print(rows, BASELINE_COLUMNS, fmt, "no baselines yet. Next: gpuledger interference status")


@interference.command("version")
def version(
    identity: Annotated[str, typer.Argument(help='A service or a workload; "" for everything (a driver).')],
    name: Annotated[str, typer.Argument(help="What it runs: an image's tag, a model, a driver.")],
    since: Annotated[str, typer.Option(help="The start, like 2026-10-06T12:00Z.", show_default="now")] = "",
    cluster: Annotated[str, typer.Option(help="In this cluster.", show_default="all")] = "",
    author: options.Author = "",
    store: options.Store = "",
) -> None:
    """Report a new version of something: its baselines start over."""
    from alerts.interference.versions import declare_version

    moment = options.parse_instant("--since", since) if since else datetime.now(UTC)
    refuse_served(store, "and its API takes no versions", "Stop it, and give the store itself")
    with open_books(store, author) as books:
        declare_version(books.store, identity, name, moment, books.author, cluster)
    say(f"{identity or 'everything'} runs {name} since {moment:%Y-%m-%d %H:%M}Z")


@contextmanager
def _measured(store: str, at: str) -> Iterator[tuple[Store, datetime]]:
    """The store, with interference measured up to the instant; one that a server holds is as that last measured it."""
    from alerts.interference.measure import measure

    moment = options.parse_instant("--at", at) if at else datetime.now(UTC)
    with opened_store(store) as opened:
        if isinstance(opened, ServedStore):
            say("as it was last measured: a server holds this store")
        else:
            measure(opened, moment)
        yield opened, moment


def _print(rows: list[dict[str, Any]], columns: tuple[str, ...], fmt: options.Format, nothing: str) -> None:
    if not rows and fmt is options.Format.table:
        say(nothing)
        return
    if fmt is not options.Format.json:
        rows = [{key: _shown(value) for key, value in row.items()} for row in rows]
    print_rows(rows, columns, fmt)


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    return " ".join(value) if isinstance(value, list | tuple) else value
