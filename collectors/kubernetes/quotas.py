"""Quotas of GPUs that Kueue's ClusterQueues and Volcano's Queues state, and what they say is used: service_levels.

    service      kueue/CLUSTERQUEUE or volcano/QUEUE
    metric       queue_guaranteed_gpus   nominalQuota; spec.guarantee.resource
                 queue_deserved_gpus     Volcano's spec.deserved
                 queue_limit_gpus        nominalQuota + borrowingLimit, or nominalQuota in no cohort; spec.capability.
                                         Absent where nothing bounds it
                 queue_lendable_gpus     lendingLimit, or all of nominalQuota, of a queue in a cohort
                 queue_held_gpus         status.flavorsUsage; status.allocated
                 queue_borrowed_gpus     status.flavorsUsage, of a queue in a cohort

These are sums over flavors and over resources that count accelerators; a partition is its share of a device. If a
part of a sum is unknown, the sum is left out: it is neither zero nor the rest.

Source: https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/, https://volcano.sh/en/docs/queue/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from collectors.kubernetes.objects import Object, child, name, text
from collectors.kubernetes.resources import Sum, gpus_of_each, strict_quantity
from collectors.kubernetes.settings import Settings
from collectors.readings import Row

INTERVAL_SECONDS = 60.0
"""Unchanged quotas are reported this often."""


@dataclass(frozen=True, slots=True)
class Quota:
    """service: whose it is.   gpus: metric -> GPUs; what is unknown or unbounded is absent.   problems: what could not
    be read, for people."""

    service: str
    gpus: Mapping[str, float] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def rows(self, settings: Settings, now: datetime) -> Iterator[Row]:
        for metric, value in sorted(self.gpus.items()):
            yield {
                "ts": now,
                "interval_seconds": INTERVAL_SECONDS,
                "cluster": settings.cluster,
                "service": self.service,
                "metric": metric,
                "value": value,
            }


def of_cluster_queue(queue: Object, settings: Settings) -> Quota:
    """What a ClusterQueue (kueue.x-k8s.io) states."""
    reading = _Reading(settings)
    spec = reading.objects(queue, "spec")
    shares = bool(text(spec, "cohort") or text(spec, "cohortName"))
    nominal, limit, lendable = Sum(), Sum(), Sum()
    for group in reading.lists(spec, "resourceGroups", "spec"):
        for flavor in reading.lists(group, "flavors", "spec.resourceGroups"):
            of_flavor = f"flavor {text(flavor, 'name') or '(without a name)'}"
            for resource in reading.lists(flavor, "resources", of_flavor):
                amounts = {
                    key: reading.amount(resource, key, f"{key} of {text(resource, 'name')} in {of_flavor}")
                    for key in ("nominalQuota", "borrowingLimit", "lendingLimit")
                    if resource.get(key) is not None
                }
                each = gpus_of_each(text(resource, "name"), settings.resources)
                if each is None:
                    continue
                own = reading.times(amounts.get("nominalQuota"), each, text(resource, "name"))
                nominal.add(own)
                if not shares:
                    limit.add(own)
                    continue
                if "borrowingLimit" not in amounts:
                    limit.add(None)  # nothing but its cohort bounds it
                else:
                    limit.add(_plus(own, reading.times(amounts["borrowingLimit"], each, "")))
                lends = amounts.get("lendingLimit") if "lendingLimit" in amounts else amounts.get("nominalQuota")
                lendable.add(reading.times(lends, each, ""))
    held, borrowed = Sum(), Sum()
    status = reading.objects(queue, "status")
    for flavor in reading.lists(status, "flavorsUsage", "status"):
        of_flavor = f"status.flavorsUsage of {text(flavor, 'name') or '(without a name)'}"
        for resource in reading.lists(flavor, "resources", of_flavor):
            each = gpus_of_each(text(resource, "name"), settings.resources)
            if each is None:
                continue
            for key, into in (("total", held), ("borrowed", borrowed)):
                if resource.get(key) is not None:
                    found = reading.amount(resource, key, f"{key} of {text(resource, 'name')} in {of_flavor}")
                    into.add(reading.times(found, each, text(resource, "name")))
    sums = {"guaranteed": nominal, "limit": limit, "lendable": lendable, "held": held}
    return reading.quota("kueue", queue, {**sums, "borrowed": borrowed} if shares else sums)


def of_volcano_queue(queue: Object, settings: Settings) -> Quota:
    """What a Queue (scheduling.volcano.sh) states."""
    reading = _Reading(settings)
    spec, status = reading.objects(queue, "spec"), reading.objects(queue, "status")
    weight = spec.get("weight")
    if weight is not None and (isinstance(weight, bool) or not isinstance(weight, int) or weight < 1):
        reading.problems.append(f"spec.weight is {_shown(weight)}, not a whole number from 1")
    given: tuple[tuple[str, Object, str, str], ...] = (
        ("guaranteed", reading.objects(spec, "guarantee"), "resource", "spec.guarantee.resource"),
        ("deserved", spec, "deserved", "spec.deserved"),
        ("limit", spec, "capability", "spec.capability"),
        ("held", status, "allocated", "status.allocated"),
    )
    sums = {}
    for metric, of, key, where in given:
        total = sums[metric] = Sum()
        for resource in sorted(amounts := reading.objects(of, key)):
            each = gpus_of_each(str(resource), settings.resources)
            if each is not None:
                total.add(reading.times(reading.amount(amounts, resource, f"{where} of {resource}"), each, resource))
    return reading.quota("volcano", queue, sums)


class _Reading:
    """Reads an object that may hold anything, and notes what it could not read."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.problems: list[str] = []

    def objects(self, of: Object, key: str) -> Mapping[str, Any]:
        if of.get(key) is not None and not isinstance(of[key], dict):
            self.problems.append(f"{key} is {_shown(of[key])}, not an object")
        return child(of, key)

    def lists(self, of: Object, key: str, where: str) -> Sequence[Mapping[str, Any]]:
        found = of.get(key)
        if found is None:
            return ()
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            self.problems.append(f"{key} of {where} is {_shown(found)}, not a list of objects")
            return ()
        return found

    def amount(self, of: Object, key: str, what: str) -> float | None:
        """None if it is no quantity from 0."""
        found = strict_quantity(of.get(key))
        if found is None or found < 0:
            self.problems.append(f"{what} is {_shown(of.get(key))}, not a quantity from 0")
            return None
        return found

    def times(self, amount: float | None, each: float, resource: str) -> float | None:
        """each: GPUs, 0 if that depends on the node."""
        if amount and not each and resource:
            self.problems.append(f"how many GPUs a {resource} is, depends on the node: its quota is not known in GPUs")
        return None if amount is None or (amount and not each) else amount * each

    def quota(self, scheduler: str, queue: Object, sums: Mapping[str, Sum]) -> Quota:
        gpus = {f"queue_{key}_gpus": value for key, one in sums.items() if (value := one.value) is not None}
        return Quota(f"{scheduler}/{name(queue)}", gpus, tuple(dict.fromkeys(self.problems)))


def _plus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _shown(value: Any) -> str:
    """As in a message: short, on one line."""
    written = repr(value)
    return written if len(written) <= 60 else f"{written[:57]}..."
