"""A server that asks for sign-in, over two tenants' books, with a token for every role."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import httpx
import yaml
from starlette.types import ASGIApp

from access.opening import open_access
from access.people import Kind, add_person, new_person, person_at, write_new
from access.principal import ANYBODY, LOCAL
from access.roles import Scope, roles_of
from access.settings import AccessSettings
from access.store import AccessStore
from access.tokens import create_token
from alerts import journal
from alerts.journal import Run
from alerts.slo.applied import apply_objectives
from alerts.slo.measure import measure
from alerts.slo.objectives import parse_objectives
from alerts.state import Alert, State, fingerprint
from billing.accounts.budget_file import apply_budgets, parse_budgets
from billing.accounts.credits import Credit, add_credit
from billing.accounts.prepaid import Grant, add_grant
from billing.close import close
from billing.invoicing.invoices import issue_all
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from billing.tenants import apply_mapping, parse_mapping
from dashboards.app import DashboardSettings, build_app
from gpuledger.http.limits import HttpLimits
from gpuledger.http.server import Server
from gpuledger.serve import listen, url_of
from tests.patience import until
from tests.stores import fresh_store
from warehouse.store import Store

NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
START = datetime(2026, 10, 1, tzinfo=UTC)
DAY = timedelta(days=1)
_ONE = Decimal("1.00")
PASSWORD = "correct horse battery"
SPARE = "spare"
"""An admin who is there while another is disabled."""
ROLES = ("admin", "finance", "operator", "analyst", "vision", "speech")
"""The last two are tokens of the role tenant, each of the tenant of its name."""
CARD = """
currency: EUR
rates:
  - {sku: h100, match: {model: H100}, price_per_gpu_hour: "2.00"}
  - {sku: h100-speech, match: {model: H100, tenant: speech}, price_per_gpu_hour: "1.50"}
"""
BUDGETS = """
currency: EUR
budgets:
  - {tenant: vision, amount: "100.00"}
  - {tenant: speech, amount: "200.00"}
"""


@dataclass(frozen=True)
class Site:
    """url: of the server.   tokens: by name of ROLES, each with all scopes, of a local user of that name.
    store: what it serves.   access: who may ask it."""

    url: str
    tokens: dict[str, str]
    store: Store
    access: AccessStore

    def client(self, role: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.tokens[role]}"} if role else {}
        return httpx.Client(base_url=self.url, headers=headers)


def fill(store: Store) -> None:
    """Two days of three devices: `vision` holds one and `speech` another, the third is nobody's; all of it closed, the
    month invoiced. A record of each kind that has a tenant."""
    devices = ", ".join(
        f"('2026-10-01 00:00:00', 'c1', 'n1', 'GPU-{name}', 'NVIDIA', 'H100', 1, 'train', 'available')"
        for name in "abc"
    )
    store.command(
        f"INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, pool, state) VALUES {devices}"
    )
    events = []
    for number, (tenant, device) in enumerate((("vision", "a"), ("speech", "b")), 1):
        what = f"'c1', '{number}', 'w-{tenant}', '{{event}}', '{tenant}', 'p-{tenant}', 'main', 1"
        for event, at, place in (
            ("submitted", "2026-09-30 23:50:00", "'', ''"),
            ("started", "2026-10-01 00:00:00", f"'n1', 'GPU-{device}'"),
            ("finished", "2026-10-03 00:00:00", "'', ''"),
        ):
            events.append(f"('{at}', {what.format(event=event)}, {place})")
        events.append(f"('2026-10-02 12:00:00', 'c1', 'waiting-{tenant}', 'w2-{tenant}', 'submitted', '{tenant}', "
                      f"'p-{tenant}', 'main', 8, '', '')")  # fmt: skip
    store.command(
        "INSERT INTO events (ts, cluster, allocation_id, workload_id, event, tenant, project, queue, gpus, node, "
        f"device_id) VALUES {', '.join(events)}"
    )
    store.command(
        "INSERT INTO samples (ts, interval_seconds, cluster, node, device_id, state, utilization, power_watts) "
        "SELECT toDateTime64('2026-10-01 00:00:00', 3, 'UTC') + INTERVAL number * 10 + 10 MINUTE, 600, 'c1', 'n1', "
        "'GPU-' || letter, 'ok', 0.5, 400 FROM (SELECT number, arrayJoin(['a', 'b', 'c']) AS letter FROM numbers(288))"
    )
    store.command(
        "INSERT INTO quarantine (record_type, source, row, reason, detail, raw) "
        "VALUES ('events', 'secret-source', 1, 'no_time', 'ts is missing', 'raw of speech')"
    )
    apply_rate_card(store, parse_rate_card(yaml.safe_load(CARD), "card"), "test", "", NOW)
    mapping = {"rules": [{"match": {"tenant": "speech"}, "cost_center": "K-4711"}]}
    apply_mapping(store, parse_mapping(mapping), "test", "", NOW)
    apply_budgets(store, parse_budgets(yaml.safe_load(BUDGETS)), "test", "", NOW)
    for tenant in ("vision", "speech"):
        kept = Grant(f"g-{tenant}", tenant, 10 * _ONE, "EUR", START, NOW, "test", "a gift")
        add_grant(store, kept, START)
        add_credit(store, Credit(tenant, "2026-11", _ONE, "EUR", f"sorry {tenant}", author="test"), NOW)
    journal.write(store, Run(1, NOW, NOW, NOW, 1, 0, 2, "test"), [_idle(tenant) for tenant in ("vision", "speech")])
    close(store, until=datetime(2026, 11, 1, tzinfo=UTC), now=NOW)
    issue_all(store, parse_month("2026-10", "UTC"), NOW, actor="test")


PROMISES = (
    {"name": "main-wait", "kind": "queue_wait", "match": {"queue": "main"}, "within": "5m", "target": "0.9"},
    {"name": "vision-chat", "kind": "error_rate", "match": {"tenant": "vision"}, "target": "0.9"},
    {"name": "speech-success", "kind": "job_success", "match": {"tenant": "speech"}, "target": "0.9"},
    {"name": "speech-chat", "kind": "error_rate", "match": {"tenant": "spee*"}, "owner": "K-4711", "target": "0.9"},
    {"name": "elsewhere", "kind": "queue_wait", "match": {"queue": "K-4711"}, "within": "5m", "target": "0.9"},
)
"""For whoever waits in `main`; for each tenant one of which nothing is known; and one for a queue that nobody uses."""


def promise(store: Store) -> None:
    """Objectives in force, measured; on the 2nd each tenant's workload disturbs the other's for seven minutes."""
    apply_objectives(store, parse_objectives({"objectives": list(PROMISES)}), "test", "", NOW)
    measure(store, datetime(2026, 10, 4, tzinfo=UTC), NOW)
    columns = (
        "run, hour, at, window_seconds, cluster, workload_id, service, tenant, identity, gpus, state, neighbours, "
        "neighbour_identities, slowdown, disturbed"
    )
    rows = [
        f"(1, '2026-10-02 05:00:00', '2026-10-02 05:{minute}:00', 60, 'c1', 'w-{tenant}', 'chat', '{tenant}', "
        f"'{tenant}-train', 1, "
        + (f"'shared', ['w-{other}'], ['{other}-train'], 2, 1)" if minute < 27 else "'exclusive', [], [], 1, 0)")
        for tenant, other in (("vision", "speech"), ("speech", "vision"))
        for minute in range(20, 45)
    ]
    store.command(f"INSERT INTO interference_samples ({columns}) VALUES {', '.join(rows)}")
    store.command("INSERT INTO interference_hours (hour, run) VALUES ('2026-10-02 05:00:00', 1)")


def _idle(tenant: str) -> journal.Transition:
    labels = {"alertname": "idle-holder", "severity": "warning", "tenant": tenant, "workload_id": f"w-{tenant}"}
    key = fingerprint("idle-holder", [("of", tenant)])
    alert = Alert("idle-holder", key, State.firing, NOW, NOW, labels, 3600.0, {"nodes": f"n of {tenant}"}, NOW)
    return journal.Transition(alert, "warning", labels, {"summary": f"w-{tenant} is idle"})


@contextlib.contextmanager
def site(folder: Path, access: AccessSettings | None = None) -> Iterator[Site]:
    """The server, in a thread; sign-in is asked for unless `access` says otherwise."""
    with fresh_store(folder / "store", fill, promise) as store, open_access(store) as people:
        tokens = {role: token_of(people, role) for role in ROLES}
        for name, roles, tenants in (("ada", ["finance"], ()), ("vera", ["tenant"], ("vision",))):
            add_person(people, "test", NOW, name, PASSWORD, roles, tenants)
        with serving(store, access or AccessSettings(sign_in=True)) as url:
            yield Site(url, tokens, store, people)


def token_of(people: AccessStore, name: str, scopes: Iterable[str] = tuple(Scope)) -> str:
    """A token of a local user of that name, who has no password; both may what ROLES says, SPARE what an admin may."""
    roles, tenants = ([name], ()) if name not in ("vision", "speech") else (["tenant"], (name,))
    roles = ["admin"] if name == SPARE else roles
    with people.writing() as connection:
        if person_at(connection, (LOCAL, name)) is None:
            write_new(connection, new_person("test", NOW, name, roles_of(roles), frozenset(tenants), Kind.local))
    return create_token(people, ANYBODY, datetime.now(UTC), name, DAY, name, roles, tenants, scopes)[1]


@contextlib.contextmanager
def serving(store: Store, access: AccessSettings) -> Iterator[str]:
    with running(build_app(store, DashboardSettings(version="9", access=access))) as url:
        yield url


@contextlib.contextmanager
def running(app: ASGIApp) -> Iterator[str]:
    """An application, served from a thread as the server process serves it."""
    listener = listen("127.0.0.1", 0)
    server = Server(app, HttpLimits())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    until(lambda: server.started)
    try:
        yield url_of(listener).rstrip("/")
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
