"""Simulated runs from a seed, to show that the suite's logic works on a machine without a GPU.

They say nothing about any platform, and no verdict on them counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from random import Random

from alerts.acceptance.plan import Plan
from alerts.acceptance.runs import Case, Run

STEP_SECONDS = 0.010
SPREAD = 0.02


@dataclass
class Simulated:
    """A simulated platform that keeps shares. slowdown: of the victim beside a companion, beyond its share."""

    plan: Plan
    slowdown: float = 1.05
    seed: int = 7
    source: str = "MADE UP: these numbers were measured nowhere and say nothing about any platform"

    def perform(self, case: Case) -> dict[str, Run]:
        shared = bool(case.companions)
        enough = self.plan.warmup + self.plan.steps
        crowd = self.slowdown / (self.plan.share / self.plan.exclusive_share) if shared else 1.0
        runs = {case.victim[0]: self._run(case, case.victim[0], enough, crowd)}
        long = sum(runs[case.victim[0]].seconds)
        for role, _ in case.companions:
            refused = role in ("hog", "faulty")
            crowd = self.slowdown / (self.plan.neighbour_share / self.plan.exclusive_share)
            steps = 0 if refused else max(1, int(long / STEP_SECONDS / crowd))
            run = self._run(case, role, steps, crowd)
            status, error = (1, "refused, as made up") if refused else (None, "")
            runs[role] = Run(**{**vars(run), "status": status, "error": error})
        return runs

    def _run(self, case: Case, role: str, steps: int, crowd: float) -> Run:
        random = Random(f"{self.seed}/{case.name}/{role}")  # noqa: S311
        half = steps // 2 if case.kills else steps
        seconds = [
            STEP_SECONDS * (crowd if n < half else 1.0) * random.uniform(1 - SPREAD, 1 + SPREAD) for n in range(steps)
        ]
        about = {"device": "none", "framework": "none: made up"}
        return Run(case.name, role, tuple(seconds), tuple(accumulate(seconds)), 0, "", False, about)
