"""Random lives of ElasticJobs, as `gpuledger watch kubernetes` reports their pods, and what idle policies took of them.

A job is placed with so many replicas, each a pod; whatever changes its size ends all of its pods, and makes others.
What ends the counting of what was taken is written down as it happens, not found in the events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from random import Random
from typing import Any

from collectors.kubernetes.reclaims import Reclaimed

MINUTE = timedelta(minutes=1)


@dataclass
class Taken:
    """What was taken back: from each device its model and part.   act: what became of the workload."""

    when: datetime
    parts: Sequence[tuple[str, Fraction]]
    limit: datetime | None
    act: str


@dataclass
class PodTaken(Taken):
    """Of a pod.   ends: what ended the counting, besides the limit and the month; None: nothing that the books hear
    of."""

    ends: datetime | None = None


@dataclass
class ElasticLife:
    cluster: str
    name: str
    tenant: str
    models: Sequence[str]
    dice: Random
    limit: timedelta | None = None
    uid: int = 0
    attempt: int = 1
    world: int = 0
    pods: list[str] = field(default_factory=list)
    began: datetime | None = None
    size_of: dict[str, int] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    taken: list[PodTaken] = field(default_factory=list)
    open: list[PodTaken] = field(default_factory=list)

    @property
    def job(self) -> str:
        return f"ml/{self.name}"

    @property
    def allocation(self) -> str:
        return f"{self.job}@{self.uid}" + (f"/{self.attempt}" if self.attempt > 1 else "")

    @property
    def devices(self) -> list[tuple[str, str, Fraction]]:
        return [(self.device(rank), model, Fraction(1)) for rank, model in enumerate(self.models)]

    def device(self, rank: int) -> str:
        return f"{self.cluster}-{self.name}-{rank}"

    def tell(self, when: datetime, pod: str, event: str, **more: Any) -> None:
        self.events.append(
            {
                "ts": when, "cluster": self.cluster, "workload_id": pod, "allocation_id": pod, "event": event,
                "tenant": self.tenant, "project": "ml", "gpus": 1.0, "device_id": "", "node": "", "units": None, **more,
            }
        )  # fmt: skip

    def place(self, when: datetime, size: int) -> None:
        """All of its pods, made one after another."""
        self.world += self.dice.randint(1, 5)
        self.pods = [f"{self.cluster}:{self.name}:{self.uid}:{self.world}:{rank}" for rank in range(size)]
        self.began = when if self.began is None else self.began
        for rank, pod in enumerate(self.pods):
            what = f"pod {self.job}-{self.world}-{rank} of ElasticJob/{self.name}: rank {rank} of {size}"
            made = when + (MINUTE if rank else 0 * MINUTE)
            self.tell(made, pod, "submitted", message=f"{what} in placement {self.world}, {self.allocation}")
            if self.dice.random() < 0.2:
                self.tell(made + MINUTE, pod, "submitted", reason="Unschedulable", message="0/3 nodes are available")
            self.tell(made + MINUTE, pod, "started", device_id=self.device(rank), node="n", units=1)

    def end(self, when: datetime, event: str, reason: str, marked: Reclaimed | None = None, among: int = 0) -> datetime:
        """Of all its pods, one after another; marked: what those from rank `among` say. Returns when the last has
        ended."""
        last = when
        for rank, pod in enumerate(self.pods):
            at = when + self.dice.choice((0, 0, 1, 2)) * MINUTE
            last = max(last, at)
            if marked is None or rank < among:
                self.tell(at, pod, event, reason=reason)
                continue
            why = marked.reason + (", end estimated" if self.dice.random() < 0.2 else "")
            self.tell(at, pod, "cancelled", reason=why, message=marked.message(), actor=marked.actor)
            if marked.reason == "IdleReclaimed":
                limit = self.began + self.limit if self.began and self.limit else None
                one = PodTaken(at, [(self.models[rank], Fraction(1))], limit, marked.act)
                self.taken.append(one)
                self.open.append(one)
        self.pods = []
        return last

    def mark(self, act: str, left: int = 0, reason: str = "IdleReclaimed") -> Reclaimed:
        limit = ""
        if self.began and self.limit:
            limit = f"{self.began + self.limit:%Y-%m-%dT%H:%M:%S.000Z}"
        text = "idle for 2h, as measured at 2026-10-20T12:28:00.000Z; so it is done (policy queue batch: after 2h)"
        return Reclaimed(reason, act, "idle policy", self.job, self.allocation, self.world, left, text, limit)

    def counts_no_longer(self, when: datetime) -> None:
        """Whatever was taken until now."""
        for one in self.open:
            one.ends = max(one.when, when)
        self.open = []

    def next_attempt(self) -> None:
        self.attempt += 1
        self.began = None


def lived(cluster: str, name: str, tenant: str, dice: Random, begin: datetime, end: datetime) -> ElasticLife:
    """A life of some weeks, in whole minutes. No change is under way when a month ends."""
    models = [dice.choice(("H100", "H100", "A100", "UNKNOWN")) for _ in range(5)]
    life = ElasticLife(cluster, name, tenant, models, dice, uid=dice.randrange(1000))
    now = begin + dice.randrange(3 * 1440) * MINUTE

    def later(least: int = 30) -> datetime:
        nonlocal now
        now += (least + dice.choice((0, 60, dice.randrange(4000)))) * MINUTE
        if (now + 30 * MINUTE).day == 1 or now.day == 1:
            now += timedelta(days=1, hours=1)
        return now

    def gap() -> datetime:
        """Until the next placement of a job that is resized."""
        nonlocal now
        now += dice.choice((0, 1, 5)) * MINUTE
        return now

    if dice.random() < 0.4:
        life.limit = dice.randrange(600, 15000) * MINUTE
    life.place(now, dice.randint(2, 5))
    while (later()) < end - timedelta(hours=2):
        size = len(life.pods)
        ways = ["suspend", "suspend", "cancel", "pause", "finish", "lost", "deleted"]
        ways += ["shrink"] * 5 + ["rescale", "quota"] if size > 1 else []
        ways += ["grow"] * 2 if size < 5 else []
        way = dice.choice(ways)
        if way in ("shrink", "rescale", "quota", "grow"):
            left = dice.randint(size + 1, 5) if way == "grow" else dice.randint(1, size - 1)
            marked = {
                "shrink": life.mark("shrunk", left), "rescale": life.mark("shrunk", left, "Rescaled"),
            }.get(way)  # fmt: skip
            before = now
            now = life.end(now, "cancelled", "Deleted", marked, left)
            if way == "shrink" and dice.random() < 0.1:  # it is deleted before it is placed again
                life.open, mine = life.open[: left - size], life.open[left - size :]
                life.counts_no_longer(now)
                for one in mine:
                    one.ends = one.when
                break
            if way == "shrink" and dice.random() < 0.2 and left < 4:  # it grew again, before it was placed
                left = dice.randint(left + 1, 5)
                life.place(gap(), left)
                life.counts_no_longer(now)
                continue
            if way == "rescale":
                mine = [
                    row["ts"] for row in life.events
                    if row.get("reason", "").startswith("Rescaled") and row["ts"] >= before
                ]  # fmt: skip
                life.counts_no_longer(min(mine))
            life.place(gap(), left)
            if way == "grow":
                life.counts_no_longer(now)
        elif way == "suspend":
            now = life.end(now, "cancelled", "Deleted", life.mark("suspended"))
            if dice.random() < 0.2:
                break  # nobody resumes it; that it is deleted then, the books do not hear
            later(0)
            life.next_attempt()
            life.place(now, dice.randint(1, 5))
            life.counts_no_longer(now)
        elif way == "cancel":
            now = life.end(now, "cancelled", "Deleted", life.mark("cancelled"))
            if dice.random() < 0.5:
                break
            later(0)  # another job of that name
            life.uid, life.attempt, life.began = life.uid + 1, 1, None
            life.place(now, dice.randint(1, 5))
            life.counts_no_longer(now)
        elif way in ("pause", "lost"):
            now = life.end(now, *(("cancelled", "Deleted") if way == "pause" else ("failed", "NodeLost")))
            life.counts_no_longer(now)
            later(1)
            life.next_attempt()
            life.place(now, dice.randint(1, 5))
        else:
            now = life.end(now, *(("finished", "") if way == "finish" else ("cancelled", "Deleted")))
            life.counts_no_longer(now)
            break
    return life
