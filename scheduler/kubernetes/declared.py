"""ComputePools, Queues and Tenants as the scheduler's settings: what they promise, and which of it can be kept. Pure.

What is there (which nodes are in which pool) is a fact, and in force at once. What a resource promises is in force once
the settings with it are valid; until then what it promised before stays. Either is in the settings in the log, so that
nothing else has to be remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from collectors.kubernetes.objects import Object, child, items, name, text
from scheduler.kubernetes.elastic_jobs import API_VERSION, LAUNCHER, LEVEL, RESOURCE
from scheduler.kubernetes.inventory import Inventory, Offer, resources_of
from scheduler.kubernetes.virtual import virtualization_of
from scheduler.settings import (
    Part,
    PoolPart,
    QueuePart,
    ReservedForPart,
    Settings,
    SettingsError,
    Shortfall,
    TenantPart,
    parse_settings,
)

Kind = Literal["ComputePool", "Queue", "Tenant", "file"]
Key = tuple[Kind, str]
"""Who promises: a resource by its name, or the settings file, which has none."""
Promise = Mapping[str, Any]
"""Parts of settings, by their key there."""
FILE: Key = ("file", "")
PATHS: Mapping[Kind, str] = {
    "ComputePool": f"/apis/{API_VERSION}/computepools",
    "Queue": f"/apis/{API_VERSION}/queues",
    "Tenant": f"/apis/{API_VERSION}/tenants",
}
OF_FILE = ("reservations", "services", "callbacks", "idle", "policies")
KEPT = ("reserved", "reserved_for", "dedicated")
"""What a pool's settings have besides its nodes."""
INVALID, TOO_MUCH = "Invalid", "GuaranteesExceedCapacity"
_QUOTA = {"limit": "limit", "borrowing_limit": "borrowingLimit", "lending_limit": "lendingLimit"}
_QUEUE = {"maximum": "maximum", "wait_bound": "waitBound", "min_run_time": "minRunTime", "half_life": "halfLife"}
_ALIKE = ("guaranteed", "weight", "parent")


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a promise is not in force. reason: of a condition."""

    reason: str
    message: str


def check_file(settings: Settings, where: str) -> None:
    """Errors: SettingsError if the file says what resources are to say."""
    for key in ("pools", "tenants", "queues"):
        if getattr(settings, key):
            kinds = {"pools": "ComputePools", "tenants": "Tenants", "queues": "Queues"}[key]
            raise SettingsError(f"{where}: {key}", f"come from {kinds} in the cluster", "Take the key out of the file")


def promise_of_file(settings: Settings) -> Promise:
    found = settings.model_dump(mode="json")
    return {key: found[key] for key in OF_FILE}


def promise_of(kind: Kind, of: Object) -> Promise:
    """What a resource promises.   Errors: SettingsError if it cannot be read."""
    return {"ComputePool": _of_pool, "Queue": _of_queue, "Tenant": _of_tenant}[kind](of)


def _of_pool(of: Object) -> Promise:
    spec, where = child(of, "spec"), f"ComputePool {name(of)}"
    _check_resources(of)
    capacity, quotas = child(spec, "capacity"), items(spec, "quotas")
    whom = child(capacity, "reservedFor")
    kept: dict[str, Any] = {"reserved": capacity.get("reserved", 0)}
    if isinstance(kept["reserved"], str) and kept["reserved"].isdigit():
        kept["reserved"] = int(kept["reserved"])
    kept["reserved_for"] = _normal(ReservedForPart, dict(whom))
    if text(spec, "isolation") == "dedicated":
        if capacity.get("reserved") or whom:
            raise SettingsError(f"{where}: capacity", "a dedicated pool is kept whole for its quotas", "Leave it out")
        if not quotas:
            raise SettingsError(f"{where}: quotas", "are empty, and a dedicated pool is for them alone", "Name tenants")
        kept["reserved_for"] = _normal(ReservedForPart, {"tenants": [text(one, "tenant") for one in quotas]})
    kept["dedicated"] = text(spec, "isolation") == "dedicated"
    tenants = [_normal(TenantPart, {"name": text(one, "tenant"), "pool": name(of), **_quota(one)}) for one in quotas]
    return {"pool": kept, "tenants": tenants}


def says_resources(of: Object) -> bool:
    """Whether it can be known which nodes are a ComputePool's."""
    try:
        _check_resources(of)
    except SettingsError:
        return False
    return True


def _check_resources(of: Object) -> None:
    kind, resources = text(child(of, "spec"), "poolType") or "gpu", resources_of(of)
    where = f"ComputePool {name(of)}: resourceNames"
    virtualization_of(of)
    if not resources:
        raise SettingsError(where, f"a pool of type {kind} names them", "Say what its nodes offer")
    if len(resources) > 1 and kind != "mixed":
        raise SettingsError(where, f"several are for mixed pools, and it is {kind}", "Name one")


def _of_tenant(of: Object) -> Promise:
    return {"tenants": [_normal(TenantPart, {"name": name(of), **_quota(child(of, "spec"))})]}


def _of_queue(of: Object) -> Promise:
    spec = child(of, "spec")
    found = {ours: spec[ours] for ours in ("policy", "priority", *_ALIKE) if ours in spec}
    found |= {ours: spec[theirs] for ours, theirs in _QUEUE.items() if theirs in spec}
    preempts = child(spec, "preempts")
    if "scope" in preempts and "queues" in preempts:
        raise SettingsError(f"Queue {name(of)}: preempts", "has a scope and queues", "Say one of them")
    if preempts:
        found["preempts"] = preempts.get("scope", preempts.get("queues"))
    return {"queues": [_normal(QueuePart, {"name": name(of), **found})]}


def _quota(spec: Object) -> dict[str, Any]:
    found = {ours: spec[ours] for ours in _ALIKE if ours in spec}
    return found | {ours: spec[theirs] for ours, theirs in _QUOTA.items() if theirs in spec}


def _normal(part: type[Part], found: dict[str, Any]) -> dict[str, Any]:
    """As the settings in the log have it; what is not valid as it is, for the settings' validation to say so."""
    try:
        return part.model_validate(found).model_dump(mode="json")
    except ValidationError:
        return found


def in_force(settings: Settings) -> dict[Key, Promise]:
    """Who promised what in these settings."""
    found: dict[Key, Promise] = {FILE: promise_of_file(settings)}
    plain = settings.model_dump(mode="json")
    for pool in plain["pools"]:
        own = [tenant for tenant in plain["tenants"] if tenant["pool"] == pool["name"]]
        kept = {key: pool[key] for key in KEPT}
        if own or kept != _NOTHING:
            found["ComputePool", pool["name"]] = {"pool": kept, "tenants": own}
    found |= {("Tenant", one["name"]): {"tenants": [one]} for one in plain["tenants"] if not one["pool"]}
    found |= {("Queue", one["name"]): {"queues": [one]} for one in plain["queues"]}
    return found


_NOTHING = {key: PoolPart(name="x", nodes=1).model_dump(mode="json")[key] for key in KEPT}


def built(there: Inventory, promises: Mapping[Key, Promise]) -> Settings:
    """Errors: SettingsError."""
    pools = dict.fromkeys(offer.pool for offer in there.hosts.values())
    document: dict[str, Any] = {
        **promises.get(FILE, {}),
        "nodes_vary": True,
        "pools": [_pool(there, pool, promises.get(("ComputePool", pool), {})) for pool in pools],
        "tenants": [],
        "queues": [],
    }
    for (kind, called), promise in sorted(promises.items(), key=lambda one: one[0]):
        if kind != "ComputePool" or called in pools:
            document["tenants"] += promise.get("tenants", [])
            document["queues"] += promise.get("queues", [])
    settings = parse_settings(document, "settings")
    settings.check(settings.nodes())
    return settings


def _pool(there: Inventory, pool: str, promise: Promise) -> dict[str, Any]:
    own = there.of_pool(pool)
    return {
        "name": pool,
        "launcher": LAUNCHER,
        "hosts": {host: [f"{host}/{index}" for index in range(there.hosts[host].devices)] for host in own},
        "host_models": {host: there.hosts[host].model for host in own},
        "host_labels": {host: _labels(there.hosts[host]) for host in own},
        "left": [host for host in own if host not in there.open],
        **promise.get("pool", {}),
    }


def _labels(offer: Offer) -> dict[str, str]:
    return {RESOURCE: offer.resource} | ({LEVEL: offer.level} if offer.level else {})


def accepted(
    there: Inventory, before: Mapping[Key, Promise], wanted: Mapping[Key, Promise]
) -> tuple[Settings, dict[Key, Refused]]:
    """Settings with as much of what is wanted as can be kept: everything, or else what can be added one by one.

    before: what is in force.   Errors: SettingsError if not even that can be.
    """
    settings = built(there, before)
    wanted = {key: promise for key, promise in wanted.items() if promise != {"pool": _NOTHING, "tenants": []}}
    changed = sorted(key for key in before.keys() | wanted.keys() if before.get(key) != wanted.get(key))
    if not changed:
        return settings, {}
    short: dict[tuple[str, str], int] = {(one.kind, one.pool): one.units for one in settings.shortfalls()}
    whole = _tried(there, dict(wanted), short)
    if isinstance(whole, Settings):
        return whole, {}
    promises, refused, goes_on = dict(before), dict[Key, Refused](), True
    while changed and goes_on:
        goes_on = False
        for key in list(changed):
            trial = {one: promise for one, promise in promises.items() if one != key}
            if key in wanted:
                trial[key] = wanted[key]
            found = _tried(there, trial, short)
            if isinstance(found, Refused):
                refused[key] = found
            else:
                settings, promises, goes_on = found, trial, True
                refused.pop(key, None)
                changed.remove(key)
    return settings, refused


def _tried(
    there: Inventory, promises: Mapping[Key, Promise], short: Mapping[tuple[str, str], int]
) -> Settings | Refused:
    """short: what could not be kept before, for nodes have left. No change may make it more."""
    try:
        settings = built(there, promises)
    except SettingsError as error:
        field = error.where.rpartition(".")[2] if "." in error.where else ""
        return Refused(INVALID, f"{field}: {error.what}" if field else error.what)
    for one in settings.shortfalls():
        if one.units > short.get((one.kind, one.pool), 0):
            return Refused(TOO_MUCH, one.text)
    return settings


def shortfall_of(kind: Kind, called: str, shortfalls: Sequence[Shortfall], guaranteed: bool) -> str:
    """Which promise of a resource cannot be kept, though it is in force; '': none. guaranteed: it promises any."""
    for one in shortfalls:
        if kind == "ComputePool" and one.pool == called:
            return one.text
        if guaranteed and ((kind == "Tenant" and one.kind == "tenants" and not one.pool) or
                           (kind == "Queue" and one.kind == "queues")):  # fmt: skip
            return one.text
    return ""
