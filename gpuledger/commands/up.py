"""`gpuledger up`: opens a store, closes its books every hour and serves the dashboard.

First, `--demo` fills the store with a simulated month, or `--prometheus` with a Prometheus's history.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuledger import options
from gpuledger.books import refuse_served
from gpuledger.output import say
from warehouse.errors import LedgerError
from warehouse.printable import grouped
from warehouse.store import Store, migrate, open_store

if TYPE_CHECKING:
    from access.settings import AccessSettings
    from billing.ledger_report import LedgerReport
    from collectors.prometheus.history import Asked, History
    from gpuledger.demo import Demo
    from gpuledger.demo_fleet import Fleet
    from gpuledger.demo_scheduler import DemoScheduler
    from gpuledger.from_prometheus import Found
    from gpuledger.steps import Steps

IN_MEMORY = "chdb://memory"
"""A store that its own process alone has."""


def register(app: typer.Typer) -> None:
    app.command("up")(up)


def up(
    store: options.Store = "",
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Fill the store with a month of a simulated fleet, invoice it, and keep it going."),
    ] = False,
    host: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port.", show_default="the first free one from 8050 on")
    ] = None,
    prometheus: Annotated[
        str,
        typer.Option(
            "--prometheus",
            metavar="URL",
            callback=options.checked_address,
            help="First read a Prometheus's history, then follow it (docs/prometheus.md).",
        ),
    ] = "",
    since: Annotated[
        str,
        typer.Option(help="Where that history begins: a day, an instant or so many days (14d).", show_default="30d"),
    ] = "",
    cluster: Annotated[str, typer.Option(envvar="GPULEDGER_CLUSTER", help="The name of the cluster it scrapes.")] = "",
    prometheus_selector: Annotated[
        str, typer.Option(help='More matchers for each query, where it has several clusters: cluster="a".')
    ] = "",
    prometheus_token_file: Annotated[
        Path | None, typer.Option(help="File with the bearer token that it asks for.", dir_okay=False)
    ] = None,
    prometheus_login_file: Annotated[
        Path | None, typer.Option(help="File with USER:PASSWORD for basic authentication.", dir_okay=False)
    ] = None,
    prometheus_ca_file: Annotated[
        Path | None, typer.Option(help="CA of its certificate, PEM.", show_default="the system's", dir_okay=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder of the demo's invoices, or of the drafts from a Prometheus.",
            file_okay=False,
            writable=True,
            show_default="demo/invoices, drafts",
        ),
    ] = None,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Prepare everything, serve nothing.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the demo's fleet: the same seed and day, the same fleet.")] = 7,
    sign_in: options.SignIn = None,
    trusted_proxy: options.TrustedProxies = None,
    rules: options.Rules = None,
    routing: options.Routing = None,
    scheduler: options.SchedulerAt = "",
    scheduler_token_file: options.SchedulerTokenFile = None,
    no_interference: options.NoInterference = False,
    reports: options.Reports = None,
    backups: options.Backups = None,
    backups_bucket: options.BackupsBucket = "",
    backups_keep: options.BackupsKeep = 0,
    insecure_no_sign_in: options.NoSignIn = False,
    insecure_plain_http: options.PlainHttp = False,
) -> None:
    """Open the store, close the books every hour, evaluate alerts and serve the dashboard, until Ctrl-C."""
    from access.leader import leading
    from alerts.periodic import AlertSettings
    from gpuledger.demo_fleet import Fleet
    from gpuledger.making import made_apart
    from gpuledger.serve import (
        FOLLOW_SECONDS,
        access_settings,
        check_files,
        dashboard,
        listen,
        refuse_open,
        serve,
        url_of,
    )
    from gpuledger.steps import prepared, sigterm_as_interrupt
    from warehouse.bucket import bucket_beside

    refuse_served(store, "and serves it already", "Open that address, or give another store")
    asked = _source(prometheus, since, cluster, prometheus_selector, prometheus_token_file, prometheus_login_file,
                    prometheus_ca_file)  # fmt: skip
    if demo and asked is not None:
        raise LedgerError("--demo, --prometheus", "a store has one of them", "Leave one out")
    if sign_in is None:
        refuse_open(
            host, insecure_no_sign_in, "would not have to sign in",
            "Give --sign-in FILE, or --insecure-no-sign-in if everybody who reaches it may see the books",
            f"no sign-in: everybody who reaches {host} sees these books",
        )  # fmt: skip
    access = access_settings(sign_in, trusted_proxy)
    if sign_in is not None and not access.trusted_proxies:
        refuse_open(
            host, insecure_plain_http, "passwords and tokens would travel in the clear",
            "Put a proxy with TLS before it and name it with --trusted-proxy, use `gpuledger server`, or give "
            "--insecure-plain-http",
            f"no TLS: passwords and tokens travel to {host} in the clear",
        )  # fmt: skip
    if not no_serve:
        check_files(AlertSettings(rules, routing), reports, scheduler_token_file)
    url = store or (f"chdb://{Path.cwd() / 'demo' / 'store'}" if demo else "")
    folder = out or Path("demo/invoices" if demo else "drafts")
    if demo or asked is not None:
        options.refuse_impossible("--out", folder)
    with contextlib.ExitStack() as stack:
        stack.enter_context(sigterm_as_interrupt())
        bucket = bucket_beside(backups, backups_bucket)
        listener = None if no_serve else stack.enter_context(listen(host, port))
        made: Demo | None = None
        found: Found | None = None
        fleet = stack.enter_context(contextlib.closing(Fleet.start())) if demo else None
        if listener is not None and url.rstrip("/") != IN_MEMORY:
            if fleet is not None:
                from gpuledger.demo_making import make

                made = make(url, seed, folder, url_of(listener), access, fleet)
            elif asked is not None:
                found = made_apart(url, partial(_imported_apart, asked, folder))
        opened = stack.enter_context(open_store(url, backups, bucket, backups_keep))
        following: Callable[[Store, threading.Event], None] | None = None
        follow_seconds = FOLLOW_SECONDS
        if fleet is not None:
            made = made or prepared(opened, partial(_made_here, seed, folder, access, fleet))
            if made.feed is None:
                fleet.close()
        elif asked is not None:
            history = stack.enter_context(_history(opened, asked))
            found = found or prepared(opened, partial(_imported, history, asked, folder))
            following = partial(_follow, history)
        else:
            prepared(opened, _nothing)
        if made is not None and listener is not None:
            from gpuledger.demo import Live

            idle = None
            if not scheduler:
                scheduler, idle = stack.enter_context(_demo_scheduler(made))
            live = stack.enter_context(contextlib.closing(Live(made.story, idle, made.feed)))
            following, follow_seconds = live, Live.SECONDS
        if made is not None:
            _print_summary(opened, made)
            routing = routing or made.routing
        if found is not None:
            _print_found(found)
        if listener is not None:
            leads = stack.enter_context(leading(opened, access))
            app = dashboard(opened, listener, access, leads, routing, scheduler, scheduler_token_file, rules)
            alerts = AlertSettings(rules, routing, not no_interference)
            _print_address(opened, url_of(listener), has_tour=made is not None)
            serve(
                opened, listener, close_hourly=True, app=app, alerts=alerts, reports=reports,
                trusted_proxies=access.trusted_proxies, following=following, follow_seconds=follow_seconds,
                leads=leads,
            )  # fmt: skip
            say("stopped; the store is closed and free")
    if any(one is not None and not one.proof.balanced for one in (made, found)):
        raise typer.Exit(1)


def _source(
    url: str, since: str, cluster: str, selector: str, token: Path | None, login: Path | None, ca: Path | None
) -> Asked | None:
    """Errors: LedgerError for options that conflict; it never repeats what may be a password."""
    if not url:
        if since or selector or token or login or ca:
            raise LedgerError("--since, --prometheus-...", "say how a Prometheus is read", "Add --prometheus URL")
        return None
    from urllib.parse import urlsplit

    from collectors.exporters.fetching import Access
    from collectors.prometheus.history import MOST_BYTES, TIMEOUT_SECONDS, Asked

    if "@" in urlsplit(url).netloc:
        raise LedgerError("--prometheus", "holds a login, which others can read here", "Use --prometheus-login-file")
    if token and login:
        raise LedgerError("--prometheus-login-file", "a token is given as well", "Leave one out")
    access = Access(TIMEOUT_SECONDS, MOST_BYTES, token_file=token, login_file=login, ca_file=ca)
    return Asked(url.rstrip("/"), cluster, selector, _since(since), access)


def _since(text: str) -> datetime | None:
    if not text:
        return None
    if days := re.fullmatch(r"(\d{1,4})d", text):
        return datetime.now(UTC) - timedelta(days=int(days[1]))
    return options.parse_instant("--since", text, "like 2026-10-05, 2026-10-05T12:00Z or 14d")


def _history(store: Store, asked: Asked) -> contextlib.closing[History]:
    from gpuledger.from_prometheus import open_history

    migrate(store)
    return contextlib.closing(open_history(store, asked, datetime.now(UTC)))


def _made_here(seed: int, out: Path, access: AccessSettings, fleet: Fleet, store: Store, steps: Steps) -> Demo:
    from gpuledger import demo as demonstration

    return demonstration.build(store, seed, out, steps, datetime.now(UTC), access=access, fleet=fleet)


@contextlib.contextmanager
def _demo_scheduler(made: Demo) -> Iterator[tuple[str, DemoScheduler]]:
    """Serves the scheduler of the demo's idle jobs, to this machine alone."""
    from gpuledger.demo_scheduler import DemoScheduler
    from gpuledger.serve import listen, serving, url_of
    from scheduler.live.http import build_app

    file = made.folder / f"scheduler-{made.story.seed}-{made.story.watched_from:%Y%m%dT%H%MZ}.sqlite"
    with (
        DemoScheduler(file, made.story.plan.cluster) as scheduler,
        listen("127.0.0.1", 0) as listener,
        serving(build_app(scheduler.service, allowed_hosts=("127.0.0.1",)), listener),
    ):
        yield url_of(listener), scheduler


def _nothing(store: Store, steps: Steps) -> None:
    """What fills a store that is served as it is."""


def _imported_apart(asked: Asked, out: Path, store: Store, steps: Steps) -> Found:
    with _history(store, asked) as history:
        return _imported(history, asked, out, store, steps)


def _imported(history: History, asked: Asked, out: Path, store: Store, steps: Steps) -> Found:
    from gpuledger import from_prometheus

    if asked.since is not None and asked.since + timedelta(days=1) < history.since:
        begins = f"--since: the history begins at {history.since:%Y-%m-%d %H:%M}Z"
        if history.is_resumed:
            say(f"{begins}, where this store's first run began; to begin earlier, take another --store")
        else:
            say(f"{begins}: the Prometheus has nothing of a GPU exporter before")
    return from_prometheus.build(store, history, out, steps, datetime.now(UTC))


def _follow(history: History, store: Store, stop: threading.Event) -> None:
    from gpuledger.from_prometheus import follow

    follow(store, history, stop)


def _print_summary(store: Store, made: Demo) -> None:
    from gpuledger.demo import ZONE

    since = made.story.start.astimezone(ZONE)
    say("")
    say(f"  Simulated         {since:%-d %B %Y} until now; it goes on while it is served")
    _print_hours(made.report, f"since {since:%-d %B}")
    say(f"  {'Invoiced':<18}{len(made.invoices):>12,}  tenants, {made.month}")
    notes = sum(one.is_credit_note for one in made.after)
    emitted = f"kWh with cooling, {made.month}: {_whole(made.emissions['kgco2e'])} kg CO2e"
    say(f"  {'Energy':<18}{_whole(made.emissions['kwh_with_pue']):>12}  {emitted}")
    say(f"  {'Corrected':<18}{len(made.after) - notes:>12,}  of them, on the next drafts")
    say(f"  {'Credited':<18}{notes:>12,}  of them, by a credit note")
    say(f"  {'Books balanced':<18}{'yes' if made.proof.balanced else 'NO':>12}  {made.proof.device_hours:,} checked")
    say(f"  {'Kept out':<18}{made.refused + made.quarantined:>12,}  claims and records (gpuledger doctor)")
    say(f"  {'Alerts':<18}{made.firing:>12,}  fire now")
    say(f"  {'Objectives':<18}{made.missed:>12,}  of {made.promised} missed, by tenant and queue")
    say(f"  Invoices          {made.folder.resolve()}")


def _print_found(found: Found) -> None:
    say("")
    say(f"  History           {found.since:%Y-%m-%d %H:%M}Z to {found.until:%Y-%m-%d %H:%M}Z")
    if found.every_seconds:
        say(f"                    read on a grid of {found.every_seconds} s, because it is long; what is new, in full")
    if len(found.clusters) > 1:
        say(f"  {'Clusters':<18}{len(found.clusters):>12,}  taken as one: {', '.join(found.clusters[:5])}")
        example = f"--cluster {found.clusters[0]} --prometheus-selector 'cluster=\"{found.clusters[0]}\"'"
        say(f"                    Read each by itself into a new --store (docs/prometheus.md): {example}")
    for model, count in found.devices.items():
        say(f"  {'Devices':<18}{count:>12,}  {model}")
    if not found.has_holders:
        say("  Holders           unknown: no kube_pod_container_resource_requests of GPUs (kube-state-metrics)")
    if found.report is None:
        say("  No hour is closed yet; the first is, once it is over and its grace has passed")
        return
    _print_hours(found.report, f"on {grouped(len(found.drafts), 'draft')}")
    say(f"  {'Books balanced':<18}{'yes' if found.proof.balanced else 'NO':>12}  {found.proof.device_hours:,} checked")
    if found.dropped:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(found.dropped.items()))
        say(f"  {'Series not used':<18}{found.dropped.total():>12,}  {reasons}")
    if found.drafts:
        say(f"  Drafts            {found.folder.resolve()}")
    if found.example:
        say(f"  Prices            an example, not yours: {found.example}")
        say("                    Your own, from the start: gpuledger rates apply FILE (docs/rates.md)")


def _print_hours(report: LedgerReport, documents: str) -> None:
    total, platform = report.total, report.platform
    rows = [
        ("Capacity", _whole(report.capacity["gpu_hours"]), "GPU-hours"),
        ("  allocated", _whole(total["allocated_gpu_hours"]), grouped(len(report.rows), "tenant")),
        ("    used", _whole(total["used_gpu_hours"]), ""),
        ("    idle", _whole(total["idle_gpu_hours"]), "held, but did nothing"),
        ("    unmetered", _whole(total["unmetered_gpu_hours"]), "held, use unknown"),
        ("  unallocated", _whole(platform["unallocated_gpu_hours"]), ""),
        ("  unavailable", _whole(platform["unavailable_gpu_hours"]), "down or drained"),
        ("Billed", _whole(total["billed_cost"]), f"{report.currency or ''}, {documents}"),
    ]
    say("")
    for label, value, note in rows:
        say(f"  {label:<18}{value:>12}  {note}".rstrip())


def _whole(value: Decimal | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"


def _print_address(store: Store, url: str, has_tour: bool) -> None:
    say(f"  Store             {store.url}")
    say(f"  Dashboard         {url}   (Ctrl-C ends it)")
    if has_tour:
        say(f"  Tour              {url}#tour   (five stops)")
