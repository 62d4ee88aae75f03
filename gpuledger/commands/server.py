"""`gpuledger server`: `gpuledger up` that also receives what agents and other senders push."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import refuse_served
from gpuledger.output import say
from warehouse.errors import LedgerError
from warehouse.store import Store, migrate, open_store

if TYPE_CHECKING:
    from starlette.routing import Route
    from starlette.types import ASGIApp

    from collectors.exporters.profile import Profile
    from gpuledger.serve import Tls
    from ingest.reviews import Reviewer
    from ingest.senders import Kubernetes, Senders
    from warehouse.leads import Leads


def register(app: typer.Typer) -> None:
    app.command("server")(server)


def server(
    tokens: Annotated[
        Path, typer.Option("--tokens", help="Who may push what: a YAML file (docs/agent.md).", dir_okay=False)
    ],
    store: options.Store = "",
    host: Annotated[str, typer.Option(help="Address to serve on.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port.", show_default="the first free one from 8050 on")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", help="Certificate with its chain, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="Its key, PEM.")] = None,
    profile: Annotated[
        list[str] | None,
        typer.Option("--profile", help="A profile of your own for pushed metrics; may be repeated."),
    ] = None,
    no_dashboard: Annotated[
        bool, typer.Option("--no-dashboard", help="Ingest records only: no pages, API, SQL and backups.")
    ] = False,
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
    """Open the store, ingest what agents push, close the books every hour, evaluate alerts, serve the dashboard."""
    from access.leader import leading
    from alerts.periodic import AlertSettings
    from gpuledger.serve import access_settings, check_files, dashboard, listen, refuse_open, serve, url_of
    from ingest.senders import Senders
    from warehouse.bucket import bucket_beside

    refuse_served(store, "and serves it already", "Open that address, or give another store")
    tls = _tls(tls_cert, tls_key)
    if sign_in is None and not no_dashboard:
        refuse_open(
            host, insecure_no_sign_in, "would see the dashboard without signing in",
            "Give --sign-in FILE or --no-dashboard, or --insecure-no-sign-in if everybody may see the books",
            f"no sign-in: everybody who reaches {host} sees these books",
        )  # fmt: skip
    if tls is None:
        refuse_open(
            host, insecure_plain_http, "tokens would travel in the clear",
            "Give --tls-cert and --tls-key, or --insecure-plain-http if something before it does TLS",
            f"no TLS: tokens travel to {host} in the clear, unless something before it does TLS",
        )  # fmt: skip
    bucket = bucket_beside(backups, backups_bucket)
    senders = Senders(tokens, _reviewer)
    profiles = _profiles(profile or ())
    access, alerts = access_settings(sign_in, trusted_proxy), AlertSettings(rules, routing, not no_interference)
    check_files(alerts, reports, scheduler_token_file)
    with open_store(store, backups, bucket, backups_keep) as opened, listen(host, port) as listener:
        migrate(opened)
        with _receiving(opened, senders, profiles) as routes, leading(opened, access) as leads:
            pages = None
            if not no_dashboard:
                pages = dashboard(opened, listener, access, leads, routing, scheduler, scheduler_token_file, rules)
            app = _app(opened, routes, pages, access.trusted_proxies, leads)
            url = url_of(listener, tls is not None)
            say(f"  Store             {opened.url}")
            say(f"  Records           {url}api/v1/records/   (Ctrl-C ends it)")
            say(f"  Metrics           {url}api/v1/write (Prometheus), {url}v1/metrics (OpenTelemetry)")
            if not no_dashboard:
                say(f"  Dashboard         {url}")
            serve(
                opened, listener, close_hourly=True, app=app, tls=tls, alerts=alerts, reports=reports,
                trusted_proxies=access.trusted_proxies, leads=leads,
            )  # fmt: skip
    say("stopped; the store is closed and free")


def _tls(certificate: Path | None, key: Path | None) -> Tls | None:
    from gpuledger.serve import Tls

    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise LedgerError("--tls-cert, --tls-key", "one without the other", "Give both")
    return Tls(certificate, key)


def _profiles(given: Sequence[str]) -> Sequence[Profile]:
    """The shipped profiles and the given ones, which replace shipped ones of the same name."""
    from collectors.exporters.profile import FILES, profile_of

    own = [profile_of(one) for one in given]
    names = {one.name for one in own}
    return (*own, *(one for one in FILES.built_in if one.name not in names))


@contextlib.contextmanager
def _receiving(store: Store, senders: Senders, profiles: Sequence[Profile]) -> Iterator[list[Route]]:
    """Routes for pushed records. They have connections and threads of their own, so that pushes do not delay pages and
    closes, nor reads delay writes."""
    from collectors.receivers.assembler import EVERY_SECONDS, Assembler
    from collectors.receivers.endpoint import MetricsEndpoint
    from collectors.receivers.log import PointLog
    from ingest.coalesce import Coalescer
    from ingest.known_devices import known_devices_route
    from ingest.receive import Receiver
    from warehouse.background import repeating

    with store.another() as own, store.another() as judging, store.another() as logging:
        coalescer = Coalescer(own)
        receiver = Receiver(coalescer, senders, judging)
        pushed = PointLog(logging)
        metrics = MetricsEndpoint(receiver.admission, receiver.tally, pushed, profiles=profiles)
        assembler = Assembler(receiver, pushed, profiles=profiles)

        def work(repeated: Store, stop: threading.Event) -> None:
            if receiver.tally.due:  # also where nobody pushes any more
                receiver.tally.write()
            assembler.run(repeated, stop)

        try:
            with repeating(store, work, seconds=EVERY_SECONDS):
                devices = known_devices_route(store, receiver.admission.sender)
                yield [receiver.route(), devices, *metrics.routes()]
        finally:
            pushed.close()
            coalescer.close()
            receiver.tally.write()


def _reviewer(settings: Kubernetes) -> Reviewer:
    """A client that asks the API server for the owner of a service account's token."""
    from collectors.kubernetes.connection import find
    from collectors.kubernetes.token_review import TokenReviews

    return TokenReviews(find(settings.kubeconfig, settings.context), settings.audience)


def _app(
    store: Store, routes: Sequence[Route], pages: ASGIApp | None, trusted_proxies: Sequence[str], leads: Leads
) -> ASGIApp:
    """Sends pushes to their routes, and everything else, lifespan events included, to the dashboard.

    routes: for pushed records.   trusted_proxies: that report a sender's address; the dashboard has its own list.
    """
    from starlette.applications import Starlette

    from access.proxies import Proxies
    from collectors.receivers.endpoint import PATHS
    from ingest.wire import PATH

    records: ASGIApp = Starlette(routes=routes)
    if trusted_proxies:
        records = Proxies(records, trusted_proxies)
    others = pages or _healthz(store, leads)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        pushed = scope["type"] == "http" and (scope["path"].startswith(PATH + "/") or scope["path"] in PATHS)
        await (records if pushed else others)(scope, receive, send)

    return app


def _healthz(store: Store, leads: Leads) -> ASGIApp:
    """The application without a dashboard: /healthz and /readyz."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    from gpuledger import __version__
    from warehouse.health import Health

    health = Health(store)

    async def healthz(_: Request) -> JSONResponse:
        await health.check()
        return JSONResponse({"status": "ok", "version": __version__})

    async def readyz(_: Request) -> JSONResponse:
        await health.check()
        return JSONResponse({"status": "ok", "leader": leads.leading()})

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz)])
