"""Histories of jobs that are idle and used, with a server that fails in all ways, restarts, and people who ask: each
step is taken when it is due and no other, nothing is done on what is not so, and the books have what was held."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from collectors.readings import Row
from scheduler.live.idle import ANSWER_SECONDS, FRESH_SECONDS, Feed, Reading
from scheduler.live.service import RefusedError
from scheduler.records.restore import replays
from tests.draws import drawn_seed
from tests.scheduler.live.idling import MINUTE, Idling
from tests.scheduler.live.test_service import picture

LEAST_IDLE, LONGEST_IDLE = 15 * MINUTE, 180 * MINUTE
"""Of what the server's alert tells."""


@dataclass
class Spell:
    """What the reckoning knows of a running attempt."""

    attempt: int
    began: float
    said: list[tuple[str, float, float]] = field(default_factory=list)
    """(step, when, evidence as of), of this spell."""
    warned_under: Any = None
    seen_at: float = 0.0
    kept: bool = False
    small: bool = False


class Reckoning:
    """Which steps must be taken when, from the answers that came, the requests, and the restarts."""

    def __init__(self) -> None:
        self.spells: dict[str, Spell] = {}
        self.answer: Feed | None = None

    def known(self, job_id: str, now: float) -> tuple[str, float, float]:
        """("idle", seconds, as of), ("used", ...) or ("unknown", ...)."""
        spell, answer = self.spells[job_id], self.answer
        if answer is None or answer.problem or now - answer.heard_at > ANSWER_SECONDS:
            return "unknown", 0, 0
        row = answer.readings.get(job_id if spell.attempt == 1 else f"{job_id}/{spell.attempt}")
        if row is None:
            return "used" if now - spell.began >= 35 * MINUTE else "unknown", 0, 0
        is_fresh = -FRESH_SECONDS <= now - row.at <= FRESH_SECONDS
        if row.seconds is None or not is_fresh or row.at - row.seconds < spell.began - 60:
            return "unknown", 0, 0
        return "idle", row.seconds, row.at

    def forget(self) -> None:
        """A restart: what was heard is gone, and what the log has stays."""
        self.answer = None
        for spell in self.spells.values():
            spell.seen_at = max((at for *_, at in spell.said), default=0.0)

    def round(self, job_id: str, now: float, policy: dict[str, Any] | None, surplus: bool) -> list[str]:
        """The steps that are due for a job that runs."""
        spell = self.spells[job_id]
        state, seconds, as_of = self.known(job_id, now)
        if state == "unknown":
            return []
        if state == "used":
            had, spell.said, spell.small = bool(spell.said), [], False
            return ["busy"] if had and not spell.kept else []
        gap = as_of - seconds > max(spell.seen_at, *(at for *_, at in [*spell.said, ("", 0.0, 0.0)]))
        spell.seen_at = as_of
        if spell.kept or spell.small:
            return []
        found = []
        if spell.said and gap:
            spell.said = []
            found.append("busy")
        if policy is None:
            return found
        if not spell.said:
            found.append("noticed")
            spell.said.append(("noticed", now, as_of))
        warned = [when for step, when, _ in spell.said if step == "warned"]
        if not warned or spell.warned_under != policy:
            if seconds >= policy["warn"]:
                spell.said.append(("warned", now, as_of))
                spell.warned_under = policy
                found.append("warned")
            return found
        ready = seconds >= policy["after"] and now - warned[-1] >= policy["after"] - policy["warn"]
        if not ready or (policy["then"] == "shrink" and not surplus):
            return found
        if not policy["approval"]:
            return [*found, self.act(job_id, now, policy, as_of)]
        if spell.said[-1][0] != "proposed":
            spell.said.append(("proposed", now, as_of))
            found.append("proposed")
        return found

    def act(self, job_id: str, now: float, policy: dict[str, Any], as_of: float) -> str:
        if policy["then"] != "shrink":
            del self.spells[job_id]
            return {"suspend": "suspend", "cancel": "stop"}[policy["then"]]
        self.spells[job_id].said.append(("shrink", now, as_of))
        self.spells[job_id].small = True
        return "shrink"


class History:
    """A plain job and an elastic one, each followed by another; what becomes of them, and what is heard of it."""

    def __init__(self, folder: Path, random_: random.Random) -> None:
        self.random = random_
        self.living = Idling(folder)
        self.reckoning = Reckoning()
        self.policy: dict[str, Any] | None = None
        self.uses: dict[str, list[float]] = defaultdict(list)
        self.is_used: dict[str, bool] = {}
        self.rows: dict[str, Reading] = {}
        self.read = 0
        self.held: dict[str, float] = defaultdict(float)
        self.jobs: list[str] = []
        self.counts: dict[str, int] = defaultdict(int)

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def run(self, ticks: int) -> None:
        self.draw_policy()
        for _ in range(ticks):
            self.tick()
        living = self.living
        before = picture(living)
        living.restart()
        assert picture(living) == before
        entries = list(living.log.entries())
        assert all(one.same for one in replays(entries, living.log.of_kind("plan")))
        self.check_hours()

    def draw_policy(self) -> None:
        minutes = self.random.choice
        warn = minutes((15, 20, 30, 45, 60)) * MINUTE
        self.policy = {
            "warn": warn,
            "after": warn + minutes((5, 20, 40, 90)) * MINUTE,
            "then": self.random.choice(["shrink", "suspend", "suspend", "cancel"]),
            "approval": self.chance(0.3),
        }
        self.policy = None if self.chance(0.1) else self.policy
        self.living.set_policies(*([self.policy] if self.policy else []))

    def tick(self) -> None:
        seconds = self.random.choice((1, 3, 5, 5, 10, 20)) * MINUTE + self.random.randrange(60)
        for job_id, live in self.living.service.book.jobs.items():
            if live.started_at is not None:
                self.held[job_id] += seconds * sum(len(grant.devices) for grant in live.grants)
        self.living.now += seconds
        self.live_on()
        if self.chance(0.06):
            self.living.restart()
            self.reckoning.forget()
        if self.chance(0.03):
            self.draw_policy()
        if self.chance(0.9):
            self.measure()
        self.settle()
        if self.chance(0.1):
            self.ask(self.random.choice(self.jobs))
            self.settle()
        for job_id, live in list(self.living.service.book.jobs.items()):
            if live.status == "stopping" and self.chance(0.7):
                assert hasattr(self.living.executor, "over")
                self.living.executor.over(job_id, live.attempt)
        self.settle()

    def live_on(self) -> None:
        """Jobs begin to be used and cease to be; others come where they end."""
        there = self.living.service.book.jobs
        if sum(name.startswith("plain") for name in there) == 0:
            self.submit(f"plain-{len(self.jobs)}", gpus=2)
        if sum(name.startswith("elastic") for name in there) == 0:
            self.submit(f"elastic-{len(self.jobs)}", gpus=1, tenant="speech", min_replicas=1, max_replicas=4)
        for job_id in there:
            used = self.is_used.get(job_id, False)
            if used or self.chance(0.005):  # or for a moment that nobody notices
                self.uses[job_id].append(self.living.now)
            self.is_used[job_id] = not used if self.chance(0.4 if used else 0.03) else used

    def submit(self, job_id: str, **more: Any) -> None:
        self.living.submit(job_id, **more)
        self.jobs.append(job_id)

    def measure(self) -> None:
        """What the server answers: what is, or an error, or what was, or nonsense."""
        living, now = self.living, self.living.now
        if self.chance(0.05):
            self.hear(Feed(now, problem="no answer"))
            return
        rows: dict[str, Reading] = {}
        as_of = now - self.random.randrange(0, 420)
        for job_id, live in living.service.book.jobs.items():
            if live.started_at is None:
                continue
            name = job_id if live.attempt == 1 else f"{job_id}/{live.attempt}"
            idle = min(LONGEST_IDLE, as_of - max([live.started_at + 10 * MINUTE, *self.uses[job_id][-1:]]))
            if self.chance(0.1):
                rows[f"{job_id}/{live.attempt + 1}"] = Reading.of(LONGEST_IDLE, as_of)
            if self.is_used.get(job_id) or idle < LEAST_IDLE or self.chance(0.02):
                continue
            rows[name] = Reading.of(idle, as_of)
            if self.chance(0.05):
                rows[name] = Reading.of(None, as_of)
            elif self.chance(0.05):
                rows[name] = replace(rows[name], at=now - 901 - self.random.randrange(3600))
            elif self.chance(0.03):
                rows[name] = Reading.of(as_of - live.started_at + 3600, as_of)
        self.rows = self.rows if self.chance(0.1) else rows
        self.hear(Feed(now, self.rows))

    def hear(self, feed: Feed) -> None:
        self.living.service.hear_idle(feed)
        self.reckoning.answer = feed

    def ask(self, job_id: str) -> None:
        """Somebody resumes, suspends, keeps or reclaims a job."""
        service, spell = self.living.service, self.reckoning.spells.get(job_id)
        live = service.book.jobs.get(job_id)
        if live is None:
            with pytest.raises(RefusedError):
                service.reclaim(job_id, "ada")
        elif live.status == "suspended":
            service.resume(job_id, "ada")
        elif live.status != "running" or spell is None:
            with pytest.raises(RefusedError):
                service.keep(job_id, "ada")
        elif self.chance(0.2):
            service.suspend(job_id, "ada")
            del self.reckoning.spells[job_id]
        elif self.chance(0.3):
            self.expect(job_id, [] if spell.kept else ["kept"], lambda: service.keep(job_id, "ada"))
            spell.kept, spell.small, spell.said = True, False, []
        else:
            state, _, as_of = self.reckoning.known(job_id, self.living.now)
            steps = []
            nothing = self.policy is None or (self.policy["then"] == "shrink" and not self.has_surplus(job_id))
            if self.policy is not None and not nothing and state == "idle" and not spell.kept:
                steps = [self.reckoning.act(job_id, self.living.now, self.policy, as_of)]
            self.expect(job_id, steps, lambda: service.reclaim(job_id, "ada"))

    def expect(self, job_id: str, steps: list[str], request: Callable[[], Any]) -> None:
        if steps:
            request()
        else:
            with pytest.raises(RefusedError):
                request()
        assert self.taken() == ({job_id: steps} if steps else {})

    def has_surplus(self, job_id: str) -> bool:
        live = self.living.service.book.jobs[job_id]
        return len(live.grants) > live.job.min_replicas

    def settle(self) -> None:
        """Rounds until nothing is left to do, each with the steps that it should take."""
        service, spells = self.living.service, self.reckoning.spells
        for _ in range(20):
            expected: dict[str, list[str]] = {}
            for job_id, live in service.book.jobs.items():
                if live.status == "running" and live.started_at is not None:
                    if job_id not in spells or spells[job_id].attempt != live.attempt:
                        spells[job_id] = Spell(live.attempt, live.started_at)
                    surplus = self.has_surplus(job_id)
                    if steps := self.reckoning.round(job_id, self.living.now, self.policy, surplus):
                        expected[job_id] = steps
            did = service.step()
            assert self.taken() == expected
            if not did:
                break
        for job_id in [name for name in spells if name not in service.book.jobs]:
            del spells[job_id]
        assert all(self.living.size(job_id) == 1 for job_id, spell in spells.items() if spell.small)

    def taken(self) -> dict[str, list[str]]:
        """The steps since the last call, each checked by itself."""
        found: dict[str, list[str]] = {}
        for entry in self.living.log.entries(self.read):
            self.read = entry.sequence
            cause = entry.body.get("cause", {}) if entry.kind in ("suspend", "stop", "shrink") else {}
            if entry.kind == "idle":
                found.setdefault(entry.job_id, []).append(entry.body["step"])
                self.counts[entry.body["step"]] += 1
            elif cause.get("reason") == "IdleReclaimed":
                found.setdefault(entry.job_id, []).append(entry.kind)
                self.counts[entry.kind] += 1
                self.check_truth(entry.job_id, cause["actor"])
        return found

    def check_truth(self, job_id: str, actor: str) -> None:
        """Whatever the server answered: a policy acts only on a job that was unused for as long as it says, until now
        or until a moment that the last measurement could not know."""
        if actor == "ada":
            return
        assert self.policy is not None
        assert not self.policy["approval"]
        now, began = self.living.now, self.living.service.book.jobs[job_id].started_at
        assert began is not None
        used = [began, *(at for at in self.uses[job_id] if at >= began), now]
        unused = [later - before for before, later in pairwise(used) if now - later <= FRESH_SECONDS]
        assert max(unused) >= self.policy["after"]

    def check_hours(self) -> None:
        """GPU-seconds by the events that the books get are those that were held."""
        found: dict[str, float] = defaultdict(float)
        sets: dict[tuple[float, str, str, str], list[Row]] = {}
        for record, row in self.living.rows:
            if record == "events" and row["event"] != "submitted":
                key = (row["ts"].timestamp(), row["workload_id"], row["allocation_id"], row["event"])
                sets.setdefault(key, []).append(row)
        held: dict[str, tuple[float, int]] = {}
        for (ts, job_id, _, event), rows in sets.items():
            since, devices = held.pop(job_id, (ts, 0))
            found[job_id] += (ts - since) * devices
            if event in ("started", "resized"):
                held[job_id] = ts, len({row["device_id"] for row in rows})
        for job_id, (since, devices) in held.items():
            found[job_id] += (self.living.now - since) * devices
        assert found.keys() >= {name for name, seconds in self.held.items() if seconds}
        assert dict(found) == pytest.approx({name: self.held[name] for name in found}, abs=1.0)


@pytest.mark.parametrize("number", range(int(os.environ.get("GPULEDGER_IDLE_HISTORIES", "3"))))
def test_each_step_is_taken_when_it_is_due_and_no_other(tmp_path: Path, number: int) -> None:
    seed = drawn_seed()
    history = History(tmp_path, random.Random(seed))
    print(f"GPULEDGER_SEED={seed}")
    history.run(400)
    assert history.counts["noticed"] > 0
