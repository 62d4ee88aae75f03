"""The demand: training gangs, sweeps, notebooks, services, and a few jobs with a special story."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from collectors.simulated.fleet import A100, DAY, H100, HOUR, L4, L40S, L40S_SHARED, MI300X, MIG, MINUTE, FleetPlan

T = TypeVar("T")

TENANTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "physics": (("lattice", "collider"), ("wei", "amara")),
    "physics-lab": (("teaching", "detector"), ("jonas", "petra")),
    "vision": (("segmentation", "robotics", "video"), ("lena", "tomas", "aiko")),
    "nlp": (("foundation", "translation", "evals", "serving"), ("maria", "dev", "sam")),
    "o'brien": (("seismic", "default"), ("niamh", "cian")),
    "研发一部": (("推荐", "语音"), ("李雷", "韩梅梅")),
    "platform": (("ci", "rerank"), ("root", "kim")),
}
"""Tenant: its projects and its users."""


@dataclass(frozen=True)
class JobKind:
    """A kind of demand.

    slot: which slots it queues for.   load: share of those slots' time that is asked for.
    sizes: slots and their weights.    median_hours, sigma: a lognormal duration, at most longest_hours.
    activity: how it uses what it holds (see samples).   tenants: weights by tenant.
    """

    name: str
    slot: str
    queue: str
    load: float
    sizes: tuple[tuple[int, float], ...]
    median_hours: float
    sigma: float
    activity: str
    tenants: tuple[tuple[str, float], ...]
    priority: int = 50
    preemptible: bool = False
    longest_hours: float = 120


_LABS = (("physics", 3.0), ("physics-lab", 1.0), ("vision", 3.0), ("nlp", 4.0), ("o'brien", 2.0), ("研发一部", 2.0))
_SMALL = ((1, 5.0), (2, 2.0), (4, 2.0))
KINDS = (
    JobKind("gang", H100.name, "train", 0.62, ((8, 6), (16, 3), (32, 0.3)), 18, 0.7, "training", _LABS, 100),
    JobKind("finetune", H100.name, "train-low", 0.22, _SMALL, 3, 0.9, "training", _LABS, 10, True),
    JobKind("sweep", A100.name, "batch", 0.38, _SMALL, 1.5, 1.0, "batch", _LABS, 30, True),
    JobKind("research", A100.name, "research", 0.26, ((4, 3), (8, 1)), 10, 0.6, "training", _LABS),
    JobKind("notebook-large", A100.name, "interactive", 0.12, ((1, 1),), 14, 0.8, "notebook", _LABS, 60, False, 72),
    JobKind(
        "amd", MI300X.name, "train", 0.62, ((2, 1), (4, 2), (8, 1)), 9, 0.7, "training", (("nlp", 1), ("研发一部", 3))
    ),
    JobKind("notebook", L4.name, "interactive", 0.55, ((1, 1),), 9, 0.8, "notebook", (*_LABS, ("platform", 2)), 60),
    JobKind("ci", L4.name, "ci", 0.04, ((1, 3), (2, 1)), 0.4, 0.6, "batch", (("platform", 1),), 40),
    JobKind("mig-train", f"{MIG.name}/3g.40gb", "research", 0.6, ((1, 1),), 8, 0.8, "training", _LABS),
    JobKind("mig-batch", f"{MIG.name}/2g.20gb", "batch", 0.55, ((1, 1),), 3, 0.8, "batch", _LABS),
    JobKind("mig-notebook", f"{MIG.name}/1g.10gb", "interactive", 0.6, ((1, 1),), 11, 0.8, "notebook", _LABS, 60),
)
SERVICE = JobKind("service", L40S.name, "inference", 0, (), 0, 0, "inference", (), 200)
SHARED_SERVICE = JobKind("shared", L40S_SHARED.name, "inference", 0, (), 0, 0, "inference", (), 200)
HUNG = JobKind("gang", H100.name, "train", 0, (), 0, 0, "hung", (), 100)
SERVICES = (("nlp", "serving", 4), ("nlp", "translation", 2), ("vision", "video", 3), ("platform", "rerank", 1))
"""Tenant, project and GPUs of services that hold whole L40S all the time."""
SHARES = (
    ("physics-lab", "teaching", 3, "tutor"),
    ("o'brien", "default", 2, "map-tiles"),
    ("研发一部", "语音", 4, "transcription"),
)
"""Tenant, project, units (of ten) and name of services that share each L40S of the shared node; of its last one, the
first service has the device for itself, except when the last comes for a while."""
COMES_EVERY, COMES_FOR = 5 * HOUR, 40 * MINUTE
"""Of the service that comes for a while; whole service-level intervals."""

WIDE_BEFORE, WIDE_EVERY, WIDE_RUNS = 2 * HOUR, 8 * HOUR, 5 * HOUR
"""Of jobs that ask for a whole node: the first so long before somebody watches, then the others; their run time."""

_FAILURES = (
    ("OOMKilled", "CUDA out of memory: tried to allocate 2.50 GiB"),
    ("Error", "exit code 1: loss is NaN"),
    ("NCCLTimeout", "watchdog: collective ALLREDUCE timed out after 1800 s"),
)


@dataclass(frozen=True)
class Job:
    """A request, and how it ends if nothing interferes."""

    name: str
    kind: JobKind
    tenant: str
    project: str
    actor: str
    submit_ms: int
    duration_ms: int | None
    size: int
    ending: str = "finished"
    reason: str = ""
    message: str = ""
    patience_ms: int | None = None
    pause_ms: tuple[int, int] | None = None
    sizes_later: tuple[tuple[int, int], ...] = field(default=())
    end_is_lost: bool = False
    rejected: bool = False
    units: int = 0


def jobs(plan: FleetPlan, slots_of: dict[str, int]) -> list[Job]:
    """All requests in the order of submission. slots_of: how many slots of each kind there are."""
    found = [] if plan.clean else [*_services(plan), *_stories(plan)]
    for number, kind in enumerate(KINDS):
        if plan.clean:
            if kind.activity != "training":
                continue
            kind = replace(kind, load=kind.load / 8, sizes=((1, 1.0),))
        found += _demand(plan, kind, slots_of[kind.slot], np.random.default_rng([plan.seed, 1, number]))
    return sorted(found, key=lambda job: (job.submit_ms, job.name))


def _demand(plan: FleetPlan, kind: JobKind, slots: int, random: np.random.Generator) -> Iterator[Job]:
    """Jobs until their slot-time is the kind's load; times of day and week as people work."""
    wanted = kind.load * slots * (plan.end_ms - plan.start_ms)
    sizes = [(size, weight) for size, weight in kind.sizes if size <= slots] or [(slots, 1.0)]
    number = 0
    while wanted > 0:
        size = _choose(random, sizes)
        hours = min(kind.longest_hours, kind.median_hours * float(np.exp(kind.sigma * random.standard_normal())))
        duration = max(2 * MINUTE, int(hours * HOUR))
        wanted -= duration * size
        number += 1
        yield _job(plan, kind, f"{kind.name}-{number}", size, duration, random)


def _job(plan: FleetPlan, kind: JobKind, name: str, size: int, duration: int, random: np.random.Generator) -> Job:
    tenant = _choose(random, kind.tenants)
    projects, users = TENANTS[tenant]
    ending, reason, message = "finished", "Completed", ""
    luck = random.random()
    if luck < 0.08:
        ending = "failed"
        reason, message = _FAILURES[int(random.integers(len(_FAILURES)))]
        duration = max(MINUTE, int(duration * random.random()))
    elif luck < 0.15:
        ending, reason = "cancelled", "user"
        duration = max(MINUTE, int(duration * random.random()))
    return Job(
        name=name,
        kind=kind,
        tenant=tenant,
        project=projects[int(random.integers(len(projects)))],
        actor=users[int(random.integers(len(users)))],
        submit_ms=_submission(plan, random),
        duration_ms=duration,
        size=size,
        ending=ending,
        reason=reason,
        message=message,
        patience_ms=int(random.integers(2, 12)) * HOUR if random.random() < 0.15 else None,
        rejected=random.random() < 0.01,
    )


def _submission(plan: FleetPlan, random: np.random.Generator) -> int:
    """A time of submission: by day more than by night, on weekdays more than at weekends."""
    while True:
        at = plan.start_ms + int(random.random() * (plan.end_ms - plan.start_ms))
        hour, weekday = at / HOUR % 24, (at // DAY + 3) % 7
        busy = (0.25 + 0.75 * max(0.0, float(np.sin((hour - 5) / 16 * np.pi)))) * (0.4 if weekday >= 5 else 1.0)
        if random.random() < busy:
            return at


def _choose(random: np.random.Generator, weighted: Sequence[tuple[T, float]]) -> T:
    weights = np.cumsum([weight for _, weight in weighted])
    return weighted[int(np.searchsorted(weights, random.random() * weights[-1], side="right"))][0]


def _services(plan: FleetPlan) -> Iterator[Job]:
    for copy in range(max(1, int(plan.scale))):
        for number, (tenant, project, gpus) in enumerate(SERVICES):
            name = f"service-{tenant}-{project}-{copy}"
            submit = plan.start_ms + (4 + 3 * number) * MINUTE + 17_000
            yield Job(name, SERVICE, tenant, project, TENANTS[tenant][1][0], submit, None, gpus)


def _stories(plan: FleetPlan) -> Iterator[Job]:
    """One job for each rare case that is worth seeing."""
    day = min(HOUR * 24, (plan.end_ms - plan.start_ms) // 10)
    research = next(kind for kind in KINDS if kind.name == "research")
    notebook = next(kind for kind in KINDS if kind.name == "notebook")
    yield Job("hung", HUNG, "vision", "robotics", "tomas", plan.at(0.2), 2 * day + day // 2, 8, "cancelled", "user")
    yield Job("suspended", research, "physics", "lattice", "wei", plan.at(0.08), day, 4, pause_ms=(day // 4, day // 8))
    yield Job(
        "elastic", research, "nlp", "evals", "sam", plan.at(0.02), day, 4, sizes_later=((day // 5, 8), (day // 2, 2))
    )
    yield Job("lost-end", notebook, "o'brien", "seismic", "cian", plan.at(0.55), day // 3, 1, end_is_lost=True)
    if plan.watched_from is not None:
        yield from _wide(plan)


def _wide(plan: FleetPlan) -> Iterator[Job]:
    """Jobs that ask for a whole node of eight, so that somebody waits for room whenever the fleet is watched: the
    second waits for the first, if for nothing else."""
    amd = next(kind for kind in KINDS if kind.name == "amd")
    first = plan.seen_ms - WIDE_BEFORE
    for number, at in enumerate((first, *range(first + HOUR, plan.end_ms, WIDE_EVERY))):
        name = f"pretrain-wide-{number}"
        yield Job(name, amd, "nlp", "evals", "sam", at, WIDE_RUNS, 8, patience_ms=24 * HOUR)
