"""Who works with the demo: people with their tokens and saved queries, cost centers for what tenants are charged, and a
push that waits for somebody's decision.

Nobody can sign in as any of them: nobody knows their passwords. Each of these functions does nothing where it has done
its part before.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from access.opening import open_access
from access.people import add_person, list_people
from access.principal import OPEN, Principal
from access.roles import Role
from access.tokens import create_token, revoke_token
from api.sql.saved import save_query
from billing.tenants import apply_mapping, current_mapping, parse_mapping
from gpuledger.demo_accounts import device_rows, outage
from ingest.held import held_pushes, raw_of
from ingest.json_files import lines_piece
from ingest.judge import Judge
from ingest.normalise import normalise
from ingest.permissions import Permissions
from ingest.senders import Sender
from ingest.tally import Tally
from warehouse.records import DEVICES
from warehouse.sql import read_sql

if TYPE_CHECKING:
    from access.settings import AccessSettings
    from billing.periods import Period
    from warehouse.store import Store

DEMO = Principal("demo", frozenset({Role.admin}), how="open", issuer=OPEN)
"""Whoever fills the demo."""
PEOPLE: Sequence[tuple[str, Role, Sequence[str]]] = (
    ("amara", Role.admin, ()),
    ("noor", Role.finance, ()),
    ("lena", Role.tenant, ("vision",)),
)
TOKENS: Sequence[tuple[str, Role, Sequence[str], Sequence[str], int]] = (
    ("grafana", Role.analyst, (), ("read", "sql"), 90),
    ("focus-export", Role.finance, (), ("read",), 366),
    ("vision-notebooks", Role.tenant, ("vision",), ("read",), 30),
    ("old-dashboard", Role.analyst, (), ("read",), 30),
)
"""Name, role, tenants, scopes and days. Each is a service account's."""
REVOKED = "old-dashboard"
QUERIES: Sequence[tuple[str, str, str, str]] = (
    ("noor", "Cost by cost center", "for the monthly posting", "demo_cost_centers"),
    ("noor", "What each document is made of", "by kind of line, credit notes included", "demo_documents"),
    ("lena", "Longest idle notebooks of vision", "before the Monday meeting", "demo_idle_notebooks"),
)
"""Owner, name, description and statement; all are shared."""
COST_CENTERS: Mapping[str, str] = {
    "physics": "K-1200", "physics-lab": "K-1210", "vision": "K-2300", "nlp": "K-2400", "o'brien": "K-9077",
    "研发一部": "K-9088",
}  # fmt: skip
"""Of all tenants but the platform itself, whose allocations no rule matches."""
LATE_HOURS = 2
"""How long the device was down that the held push is about."""


def map_tenants(store: Store) -> None:
    """Applies the mapping: who pays stays as reported, under a cost center."""
    if current_mapping(store) is not None:
        return
    rules: list[dict[str, Any]] = [
        {"match": {"tenant": tenant}, "cost_center": center} for tenant, center in COST_CENTERS.items()
    ]
    mapping = parse_mapping({"timezone": "Europe/Berlin", "unmapped_owner": "platform", "rules": rules}, "the demo's")
    apply_mapping(store, mapping, "demo", "the demo's cost centers", datetime.now(UTC))


def invite(store: Store, settings: AccessSettings | None = None) -> None:
    """Adds the people, their tokens and their saved queries.   settings: as for `open_access`."""
    access = open_access(store, settings)
    try:
        if list_people(access):
            return
        now = datetime.now(UTC)
        people = {
            name: add_person(access, DEMO.actor, now, name, secrets.token_urlsafe(), [role], tenants)
            for name, role, tenants in PEOPLE
        }
        for name, role, tenants, scopes, days in TOKENS:
            token, _ = create_token(
                access, DEMO, now, name, timedelta(days=days), name, [role], tenants, scopes, issuer=""
            )
            if name == REVOKED:
                revoke_token(access, DEMO, now, token.id, "the dashboard was replaced")
        for owner, name, description, statement in QUERIES:
            text = read_sql(__file__, statement)
            save_query(access, people[owner].principal(), now, name, text, description, shared=True)
    finally:
        access.close()


def push_late(store: Store, invoiced: Period) -> None:
    """Pushes, as a node's agent, that a device of it was down for some hours of the invoiced month. It reaches back
    further than an agent may write by itself, and is held."""
    if held_pushes(store, ""):
        return
    found = outage(store, invoiced, LATE_HOURS)
    if not found:
        return
    cluster, node, now = found[0]["cluster"], found[0]["node"], datetime.now(UTC)
    sender = Sender(f"agent-{node}", Permissions(("samples", "metrics", "findings", "devices"), (cluster,), (node,)))
    lines = [raw_of(row).encode() for row in device_rows(found[:1])]
    clean = normalise(DEVICES, lines_piece(DEVICES, lines)[0], now)
    judged = Judge(store).judge(sender, DEVICES, f"push:{sender.name}", clean, now)
    tally = Tally(store)
    for reason, rows in judged.held.items():
        tally.add(now, sender.name, DEVICES.name, "held", reason, rows)
    tally.write()
