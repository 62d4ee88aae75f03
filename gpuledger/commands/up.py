"""`gpuledger up`: hold a store, close its books every hour, serve the dashboard; with `--demo`, fill it first."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gpuledger import options, remote
from gpuledger.output import console, say
from warehouse.errors import LedgerError
from warehouse.store import Store, migrate, open_store

if TYPE_CHECKING:
    from gpuledger.demo import Demo


def register(app: typer.Typer) -> None:
    app.command("up")(up)


def up(
    store: options.Store = "",
    demo: Annotated[
        bool, typer.Option("--demo", help="Fill the store with a month of a simulated fleet, and issue its invoices.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port.", show_default="the first free one from 8050 on")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the demo's invoices.", file_okay=False)] = Path(
        "demo/invoices"
    ),
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Prepare everything, serve nothing.")] = False,
    seed: Annotated[int, typer.Option(help="Of the demo's fleet; the same seed, the same month.")] = 7,
    sign_in: options.SignIn = None,
    trusted_proxy: options.TrustedProxies = None,
    rules: options.Rules = None,
    routing: options.Routing = None,
    reports: options.Reports = None,
    backups: options.Backups = None,
    insecure_no_sign_in: options.NoSignIn = False,
) -> None:
    """Open the store, close the books every hour, evaluate alerts and serve the dashboard, until Ctrl-C."""
    from alerts.periodic import AlertSettings
    from gpuledger.serve import access_settings, dashboard, listen, serve, url_of

    remote.refuse_served(store)
    if sign_in is None:
        _refuse_strangers(host, insecure_no_sign_in)
    url = store or (f"chdb://{Path.cwd() / 'demo' / 'store'}" if demo else "")
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(open_store(url, backups))
        listener = None if no_serve else stack.enter_context(listen(host, port))
        with _sigterm_as_interrupt():
            made = _prepare(opened, demo, seed, out)
        if made is not None:
            _print_summary(opened, made)
        if listener is not None:
            _say_where(opened, url_of(listener))
            # The demo's month is over: nothing is to be closed, and nobody to be notified that its data stopped.
            live = None if demo else AlertSettings(rules, routing)
            access = access_settings(sign_in, trusted_proxy)
            app = dashboard(opened, listener, access)
            serve(
                opened, listener, close_hourly=not demo, app=app, alerts=live, reports=None if demo else reports,
                trusted_proxies=access.trusted_proxies,
            )  # fmt: skip
            say("stopped; the store is closed and free")
    if made is not None and not made.proof.balanced:
        raise typer.Exit(1)


def _refuse_strangers(host: str, insecure: bool) -> None:
    from warehouse.hosts import is_loopback

    if is_loopback(host):
        return
    if not insecure:
        raise LedgerError(
            f"--host {host}",
            "others can reach that address, and would not have to sign in",
            "Give --sign-in FILE, or --insecure-no-sign-in if everybody who reaches it may see the books",
        )
    say(f"warning: no sign-in: everybody who reaches {host} sees these books")


def _prepare(store: Store, demo: bool, seed: int, out: Path) -> Demo | None:
    """Migrates the store and, if asked, makes the demo; on a worker thread, so that Ctrl-C is heard."""
    from gpuledger import demo as demonstration
    from gpuledger.steps import Steps, in_worker

    stop = threading.Event()

    def work() -> Demo | None:
        migrate(store)
        if not demo:
            return None
        with Steps(console(stderr=True), stop).shown() as steps:
            return demonstration.build(store, seed, out, steps)

    try:
        return in_worker(work, stop)
    except KeyboardInterrupt:
        say("interrupted; the store is whole, and running the same command again carries on")
        raise


@contextlib.contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """While something is prepared, SIGTERM ends it as Ctrl-C does."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_summary(store: Store, made: Demo) -> None:
    total, platform, capacity = made.report.total, made.report.platform, made.report.capacity
    currency = made.report.currency or ""
    idle = total["idle_gpu_hours"]
    rows = [
        ("Capacity", _hours(capacity["gpu_hours"]), "GPU-hours"),
        ("  allocated", _hours(total["allocated_gpu_hours"]), f"{len(made.report.rows)} tenants"),
        ("    used", _hours(total["used_gpu_hours"]), ""),
        ("    idle", _hours(idle), "held, but did nothing"),
        ("    unmetered", _hours(total["unmetered_gpu_hours"]), "held, use unknown"),
        ("  unallocated", _hours(platform["unallocated_gpu_hours"]), ""),
        ("  unavailable", _hours(platform["unavailable_gpu_hours"]), "down or drained"),
        ("Billed", _hours(total["billed_cost"]), f"{currency}, on {len(made.invoices)} invoices"),
    ]
    say("")
    for label, value, note in rows:
        say(f"  {label:<18}{value:>12}  {note}".rstrip())
    say(f"  {'Books balanced':<18}{'yes' if made.proof.balanced else 'NO':>12}  {made.proof.device_hours:,} checked")
    say(f"  {'Kept out':<18}{made.refused + made.quarantined:>12,}  claims and records (gpuledger doctor)")
    say(f"  {'Alerts':<18}{made.firing:>12,}  fire at the month's end")
    say(f"  {'Objectives':<18}{made.missed:>12,}  of {made.promised} missed, by tenant and queue")
    say(f"  Invoices          {made.folder.resolve()}")


def _hours(value: Decimal | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"


def _say_where(store: Store, url: str) -> None:
    say(f"  Store             {store.url}")
    say(f"  Dashboard         {url}   (Ctrl-C ends it)")
