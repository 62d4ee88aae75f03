"""Keeps the scheduler's settings to what ComputePools, Queues and Tenants declare, and tells them what became of it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from collectors.kubernetes.objects import Object, child
from scheduler.kubernetes import inventory as places
from scheduler.kubernetes.declared import (
    FILE,
    INVALID,
    PATHS,
    TOO_MUCH,
    Key,
    Kind,
    Promise,
    Refused,
    accepted,
    check_file,
    in_force,
    promise_of,
    promise_of_file,
    says_resources,
    shortfall_of,
)
from scheduler.kubernetes.declared_status import (
    CONFLICT,
    NO_NODES,
    Counts,
    Ready,
    counted_status,
    counts,
    pool_status,
    some,
)
from scheduler.kubernetes.executor import PodExecutor, Seen
from scheduler.kubernetes.pods import is_leaving, node_of
from scheduler.kubernetes.status import patch_of
from scheduler.live.service import Service
from scheduler.pools import PoolLine
from scheduler.settings import Settings, SettingsError

log = logging.getLogger(__name__)

LAST_GOOD = "; what it promised before stays in force"


def first_settings(last: Settings | None, file: Settings, where: str) -> Settings:
    """With which a scheduler begins, before anything of the cluster is known: the last ones in its log.

    Errors: SettingsError if these named their pools in a file: nodes of a log stay as they were.
    """
    check_file(file, where)
    if last is None:
        return file.model_copy(update={"nodes_vary": True})
    if not last.nodes_vary:
        what = "was written with pools of a settings file, and its nodes stay as they were"
        raise SettingsError("--pools-from cluster: the log", what, "Give another --data, once its jobs are over")
    return last


class Declarations:
    """file: what its settings say besides."""

    def __init__(self, service: Service, executor: PodExecutor, file: Settings) -> None:
        self._service, self._executor = service, executor
        self._file = promise_of_file(file)
        self._refused: dict[Key, Refused] = {}
        self._conflicts: Mapping[str, Sequence[str]] = {}
        self._to_be: Mapping[str, places.Offer] = {}
        self._there = places.Inventory({}, frozenset(), {})
        self._done: Any = None
        self._logged: dict[Key, str] = {}
        settings = service.restored.settings
        executor.left = frozenset(places.hosts_of(settings)) - places.open_hosts(settings)

    def read_file(self, file: Settings, where: str) -> None:
        """Errors: SettingsError if the file says what resources are to say."""
        check_file(file, where)
        self._file = promise_of_file(file)

    def configure(self, seen: Seen) -> None:
        """Other settings, where resources or nodes have changed. `patches` reports what cannot be kept."""
        settings, held = self._service.measured(_settings_and_held)
        declared = _declared(seen)
        wanted, unreadable = _promises(declared)
        wanted[FILE] = self._file
        known, open_ = places.hosts_of(settings), places.open_hosts(settings)
        now_in = {node_of(host): known[host] for host in known if host in open_}
        frozen = [called for called, of in declared["ComputePool"].items() if not says_resources(of)]
        self._to_be, self._conflicts = places.offers(declared["ComputePool"], seen.nodes, now_in, frozen)
        there = places.inventory(self._to_be, known, held)
        done = (there, wanted, unreadable, settings)
        if done == self._done:
            return
        before = in_force(settings)
        wanted |= {key: before[key] for key in unreadable if key in before}
        found, refused = accepted(there, before, wanted)
        self._there, self._refused = there, refused | unreadable
        self._executor.left = frozenset(there.hosts) - there.open
        self._service.configure(found)
        self._done = (*done[:3], self._service.measured(lambda service: service.restored.settings))
        self._log_what_no_status_says(declared)

    def _log_what_no_status_says(self, declared: Mapping[Kind, Mapping[str, Object]]) -> None:
        for key, refused in self._refused.items():
            kind, called = key
            gone = kind != "file" and called not in declared[kind]
            if (gone or kind == "file") and self._logged.get(key) != refused.message:
                what = f"{kind} {called} is deleted, and stays in force" if gone else "the settings file"
                log.error("%s: %s", what, refused.message)
                self._logged[key] = refused.message
        self._logged = {key: message for key, message in self._logged.items() if key in self._refused}

    # Statuses

    def patches(self, seen: Seen, now: datetime) -> list[tuple[str, dict[str, Any]]]:
        """Paths of statuses that are to change, and how."""
        settings, lines, by_queue, by_tenant = self._service.measured(_numbers)
        short = settings.shortfalls()
        guaranteed = {
            "ComputePool": (),
            "Queue": [queue.name for queue in settings.queues if queue.guaranteed],
            "Tenant": [tenant.name for tenant in settings.tenants if tenant.guaranteed and not tenant.pool],
        }
        found: list[tuple[str, dict[str, Any]]] = []
        for kind, objects in _declared(seen).items():
            for called, of in objects.items():
                ready = self._ready(kind, called, shortfall_of(kind, called, short, called in guaranteed[kind]))
                if kind == "ComputePool":
                    own = [line for line in lines if line.pool == called]
                    nodes = sum(host in self._there.open for host in self._there.of_pool(called))
                    wanted = pool_status(of, ready, nodes, own, now, _drift(of, seen))
                else:
                    one = (by_queue if kind == "Queue" else by_tenant).get(called, Counts())
                    wanted = counted_status(of, ready, one, now)
                patch = patch_of(wanted, child(of, "status"))
                if patch:
                    found.append((f"{PATHS[kind]}/{called}/status", patch))
        return found

    def _ready(self, kind: Kind, called: str, short: str) -> Ready:
        refused = self._refused.get((kind, called))
        if refused is not None:
            return Ready(False, refused.reason, refused.message + LAST_GOOD)
        if kind == "ComputePool":
            own = self._there.of_pool(called)
            conflicts = self._conflicts.get(called, ())
            if conflicts:
                return Ready(False, CONFLICT, some(sorted(conflicts)))
            waits = self._waiting(called)
            if not any(host in self._there.open for host in own):
                return Ready(False, NO_NODES, waits or "no node has its labels and offers its devices")
            if not short and waits:
                return Ready(True, message=waits)
        if short:
            return Ready(False, TOO_MUCH, short)
        return Ready(True)

    def _waiting(self, pool: str) -> str:
        """Nodes that it gets when jobs of before have left them."""
        waits = [
            f"node {node} is still used by jobs of pool {self._there.hosts[host].pool}"
            for node, host in sorted(self._there.waits.items())
            if self._to_be[node].pool == pool
        ]
        return some(waits)


def _declared(seen: Seen) -> dict[Kind, Mapping[str, Object]]:
    """Without those that are being deleted."""
    found: dict[Kind, Mapping[str, Object]] = {"ComputePool": seen.pools, "Queue": seen.queues, "Tenant": seen.tenants}
    return {kind: {key: of for key, of in objects.items() if not is_leaving(of)} for kind, objects in found.items()}


def _promises(declared: Mapping[Kind, Mapping[str, Object]]) -> tuple[dict[Key, Promise], dict[Key, Refused]]:
    found: dict[Key, Promise] = {}
    unreadable: dict[Key, Refused] = {}
    for kind, objects in declared.items():
        for called, of in objects.items():
            try:
                found[kind, called] = promise_of(kind, of)
            except SettingsError as error:
                unreadable[kind, called] = Refused(INVALID, str(error))
    return found, unreadable


def _drift(pool: Object, seen: Seen) -> list[str]:
    """Nodes that it selects and that are not as it says."""
    return [
        f"node {called} {what}"
        for called, node in sorted(seen.nodes.items())
        if not is_leaving(node)
        for what in places.differs(node, pool)
    ]


def _settings_and_held(service: Service) -> tuple[Settings, set[str]]:
    """And the hosts on which jobs are."""
    nodes = service.restored.setup.nodes
    held = {nodes[grant.node].name for live in service.book.jobs.values() for grant in live.grants}
    return service.restored.settings, held


def _numbers(
    service: Service,
) -> tuple[Settings, Sequence[PoolLine], Mapping[str, Counts], Mapping[str, Counts]]:
    settings, nodes, jobs = service.restored.settings, service.restored.setup.nodes, list(service.book.jobs.values())
    queues = {queue.name: queue.parent for queue in settings.queues}
    tenants = {tenant.name: tenant.parent for tenant in settings.tenants if not tenant.pool}
    by_queue, by_tenant = counts(jobs, nodes, queues, "queue"), counts(jobs, nodes, tenants, "tenant")
    return settings, service.pool_lines(), by_queue, by_tenant
