"""The server process: the web application on one socket, the hourly close and minutely jobs, and a clean shutdown."""

from __future__ import annotations

import contextlib
import errno
import gc
import ipaddress
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from gpuledger import __version__
from gpuledger.output import say
from gpuledger.resident import give_back
from warehouse.background import repeating
from warehouse.errors import LedgerError
from warehouse.hosts import is_loopback
from warehouse.leads import ALONE, Leads
from warehouse.store import Store

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI
    from starlette.types import ASGIApp

    from access.settings import AccessSettings
    from alerts.periodic import AlertSettings

log = logging.getLogger(__name__)

FIRST_PORT = 8050
PORTS_TRIED = 20
FOLLOW_SECONDS = 60
CLOSE_MINUTE = 20
"""Minute of every hour at which the previous hour is closed: its grace is over by then."""
GIVE_BACK_SECONDS = 10


def refuse_open(host: str, insecure: bool, danger: str, advice: str, warning: str) -> None:
    """Warns of an address that others reach where that was asked for.   Errors: LedgerError where it was not.

    danger: what those who reach it would do or learn.
    """
    if is_loopback(host):
        return
    if not insecure:
        raise LedgerError(f"--host {host}", f"others can reach that address, and {danger}", advice)
    say(f"warning: {warning}")


def listen(host: str, port: int | None) -> socket.socket:
    """A listening socket.   port: None: the first free one from 8050 on; 0: the system chooses.

    Errors: LedgerError if the port is in use or the address is not this machine's.
    """
    ports = range(FIRST_PORT, FIRST_PORT + PORTS_TRIED + 1) if port is None else (port,)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in ports:
        try:
            return socket.create_server((host, candidate), family=family)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise LedgerError(f"{host}:{candidate}", f"cannot listen there ({error.strerror})") from error
    taken = f"port {port}" if port is not None else f"ports {ports[0]} to {ports[-1]}"
    raise LedgerError(f"{host}", f"{taken} in use", "Choose another --port")


def url_of(listener: socket.socket, tls: bool = False) -> str:
    host, port = listener.getsockname()[:2]
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"


def access_settings(sign_in: Path | None, trusted_proxies: Sequence[str] | None = None) -> AccessSettings:
    """How people sign in, from a file (docs/access.md); None: no sign-in.

    trusted_proxies: addresses and networks to trust in addition to the file's.   Errors: AccessError.
    """
    from access.settings import AccessSettings, load_access, with_trusted_proxies

    return with_trusted_proxies(load_access(sign_in) if sign_in else AccessSettings(), trusted_proxies or ())


def dashboard(
    store: Store,
    listener: socket.socket,
    access: AccessSettings,
    leads: Leads = ALONE,
    routing: Path | None = None,
    scheduler: str = "",
    scheduler_token_file: Path | None = None,
    rules: Path | None = None,
) -> FastAPI:
    """The dashboard with the API and SQL, under the listener's address.

    routing: whom people may tell of an alert.   rules: the site's own, of alerts.
      scheduler: address of the one whose idle jobs they may reclaim.
    Errors: LedgerError if the token's file cannot be used.
    """
    from api.reach import Reach
    from dashboards.app import DashboardSettings, build_app
    from scheduler.live.client import read_token

    read_token(scheduler_token_file)
    reach = Reach(routing, scheduler, scheduler_token_file, rules)

    own_machine = listener.getsockname()[0] == "127.0.0.1" and not access.sign_in
    allowed = ("localhost", "127.0.0.1") if own_machine else ("*",)
    settings = DashboardSettings(version=__version__, allowed_hosts=allowed, access=access, leads=leads, reach=reach)
    return build_app(store, settings)


@dataclass(frozen=True)
class Tls:
    """A certificate (with its chain) and its key, as PEM files."""

    certificate: Path
    key: Path


def check_files(alerts: AlertSettings, reports: Path | None, scheduler_token_file: Path | None) -> None:
    """Reads the files that are read again while the store is served, before anything takes long or an address is
    printed.   Errors: LedgerError for one that is of no use."""
    from alerts.periodic import Alerting
    from dashboards.reports.schedule import load_schedule
    from scheduler.live.client import read_token

    Alerting(alerts)
    if reports is not None:
        load_schedule(reports)
    read_token(scheduler_token_file)


def serve(
    store: Store,
    listener: socket.socket,
    close_hourly: bool,
    app: ASGIApp,
    tls: Tls | None = None,
    alerts: AlertSettings | None = None,
    reports: Path | None = None,
    trusted_proxies: Sequence[str] = (),
    following: Callable[[Store, threading.Event], None] | None = None,
    follow_seconds: int = FOLLOW_SECONDS,
    leads: Leads = ALONE,
) -> None:
    """Serves the store until SIGINT or SIGTERM, then returns; a second signal ends the process at once.

    alerts: evaluated and notified of every minute; None: never.
    reports: a file that names who gets which report by mail; None: nobody.
    following: called every `follow_seconds` with a connection of its own, to read what is new from a source.
    leads: whether this one of several servers does the background work.
    trusted_proxies: exempt from the limit on connections per address, because many clients share them.
    Errors: LedgerError if the certificate, the alert rules, their routing or the reports file cannot be used.
    """
    from gpuledger.http.limits import limits_here
    from gpuledger.http.server import Server

    certificate, key = (str(tls.certificate), str(tls.key)) if tls is not None else (None, None)
    try:
        server = Server(app, limits_here([ipaddress.ip_network(one) for one in trusted_proxies]), certificate, key)
    except OSError as error:  # ssl.SSLError is one
        raise LedgerError(
            f"--tls-cert {certificate}", f"cannot be used ({error})", "Give a certificate and its key as PEM files"
        ) from error
    with contextlib.ExitStack() as stack:
        stack.enter_context(_signals(server))
        if following is not None:
            stack.enter_context(repeating(store, following, leads, seconds=follow_seconds))
        if close_hourly:
            stack.enter_context(repeating(store, _close, leads, minute=CLOSE_MINUTE))
        from dashboards.days import summing

        stack.enter_context(summing(store, leads))
        if alerts is not None:
            from alerts.periodic import alerting

            stack.enter_context(alerting(store, alerts, leads=leads))
        if reports is not None:
            from dashboards.reports.periodic import reporting

            stack.enter_context(reporting(store, reports, leads=leads))
        collect_seldom()
        stack.enter_context(repeating(store, lambda *_: give_back(), seconds=GIVE_BACK_SECONDS))
        server.run(sockets=[listener])


@contextlib.contextmanager
def serving(app: Any, listener: socket.socket) -> Iterator[None]:
    """Serves a scheduler on a thread of its own; the main thread handles signals."""
    from gpuledger.http.limits import limits_here
    from gpuledger.http.server import Server
    from scheduler.live.http import AGENTS, MOST_AGENT_BYTES

    server = Server(app, replace(limits_here(), own_body_bytes={AGENTS: MOST_AGENT_BYTES}))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="http", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(10)


def collect_seldom() -> None:
    """Exempts everything loaded so far from garbage collection, and collects less often.

    A full collection over it stops every page for 0.2 seconds and a scheduler cycle for 0.1; a page allocates some ten
    thousand objects, so the default of a collection every 700 is too frequent.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@contextlib.contextmanager
def _signals(server: uvicorn.Server) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        if server.should_exit:
            os._exit(130)
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Ending(Exception):  # noqa: N818 (no error)
    """The server ends or no longer leads; the next close continues where this one stopped."""


def _close(store: Store, stop: threading.Event) -> None:
    from billing.close import close

    def progress(what: str, done: int, total: int) -> None:
        if stop.is_set():
            raise _Ending

    try:
        report = close(store, now=datetime.now(UTC), on_progress=progress)
    except _Ending:
        return
    except LedgerError as error:
        log.error("the hourly close failed: %s", error)
    else:
        if report.changed:
            log.info("closed until %s: %s hours changed", report.closed_until, report.changed)
