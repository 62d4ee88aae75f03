"""The cases of the suite, and the checks on each."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from alerts.acceptance.measures import Measures, measure, of_seconds, rate_between
from alerts.acceptance.plan import Plan
from alerts.acceptance.runs import Case, Run

Verdict = Literal["passed", "failed", "unknown", "skipped"]
COMPARE: Mapping[str, Callable[[float, float], bool]] = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}
Runs = Mapping[str, Mapping[str, Run]]
"""By case and role."""


@dataclass(frozen=True)
class Check:
    """value: None: it could not be measured.   why: the reason for that, or what the check means."""

    phase: str
    name: str
    value: float | None
    compare: str
    limit: float
    unit: str
    verdict: Verdict
    why: str = ""


def cases(plan: Plan) -> list[Case]:
    """The cases to run, in order."""
    loads = plan.loads
    victim = ("victim", loads.victim)
    found = [Case("alone-1", victim), Case("alone-2", victim)]
    for name, load in loads.neighbours.items():
        neighbour = (f"neighbour-{name}", load)
        found += [Case(f"alone-{name}", neighbour), Case(f"beside-{name}", victim, (neighbour,))]
    first = next(iter(loads.neighbours.items()))
    companion = (f"neighbour-{first[0]}", first[1])
    for role, other in (("filler", loads.filler), ("hog", loads.hog), ("faulty", loads.faulty)):
        if other is not None:
            found.append(Case(f"beside-{role}", victim, ((role, other),)))
    found += [Case("neighbour-killed", victim, (companion,), kills=True), Case("after", victim)]
    return found


def judge(plan: Plan, runs: Runs, earlier: Mapping[str, float] | None = None) -> list[Check]:
    """The checks of all phases. earlier: throughputs of an earlier report, by case."""
    return [*_Judge(plan, runs).all(), *_regression(plan, runs, earlier)]


def accepted(checks: list[Check]) -> bool:
    """Whether nothing failed and nothing that was requested is unknown."""
    return all(check.verdict in ("passed", "skipped") for check in checks)


class _Judge:
    def __init__(self, plan: Plan, runs: Runs) -> None:
        self.plan, self.runs, self.limits = plan, runs, plan.thresholds
        self.baseline = self.of("alone-1")
        self.share = plan.share / plan.exclusive_share

    def of(self, case: str, role: str = "victim") -> Measures | None:
        """The measures of a run that completed all its steps; None: it did not."""
        run = self.runs[case][role]
        return measure(run, self.plan.warmup) if run.status == 0 else None

    def all(self) -> Iterator[Check]:
        yield from self.exclusive()
        for name in self.plan.loads.neighbours:
            yield from self.beside(name)
            yield from self.quota(name)
        yield from self.memory()
        yield from self.breach()
        yield from self.failures()

    def slowdown(self, case: str) -> float | None:
        """The slowdown beyond what the share explains: 1 is as fast as the victim's share of the device allows."""
        shared = self.of(case)
        if shared is None or self.baseline is None:
            return None
        return shared.p50 / self.baseline.p50 * self.share

    def exclusive(self) -> Iterator[Check]:
        again = self.of("alone-2")
        spread = None
        if self.baseline is not None and again is not None:
            spread = abs(again.p50 / self.baseline.p50 - 1)
        why = "two runs alone differ by this; more, and nothing after it means anything"
        yield _check("exclusive", "repeatability", spread, "<=", self.limits.repeatability, "part of P50", why)
        jitter = None if self.baseline is None else self.baseline.jitter
        yield _check("exclusive", "jitter alone", jitter, "<=", self.limits.baseline_jitter, "P99/P50")

    def beside(self, name: str) -> Iterator[Check]:
        case = f"beside-{name}"
        neighbour = self.runs[case][f"neighbour-{name}"]
        there = neighbour.status is None and bool(neighbour.seconds)
        missing = "" if there else f"the neighbour was not at work throughout ({neighbour.error or 'it ended'})"
        slow = self.slowdown(case) if there else None
        why = missing or "S, of the speed that its share of the device has; interference is S - 1"
        yield _check("shared", f"slowdown beside {name}", slow, "<=", self.limits.slowdown, "S", why)
        shared, alone = self.of(case), self.baseline
        jitter = None
        if there and shared and alone and shared.jitter and alone.jitter:
            jitter = shared.jitter / alone.jitter
        why = missing or "J, P99/P50 here to P99/P50 alone"
        yield _check("shared", f"jitter beside {name}", jitter, "<=", self.limits.jitter, "J", why)

    def quota(self, name: str) -> Iterator[Check]:
        case, role = f"beside-{name}", f"neighbour-{name}"
        shared = self.of(case)
        kept = None
        if shared is not None and self.baseline is not None:
            kept = shared.throughput / self.baseline.throughput / self.share
        why = "throughput beside it, of what the share alone is worth"
        yield _check("quota", f"share redeemed beside {name}", kept, ">=", self.limits.quota, "of its share", why)
        if not self.plan.hard_limit:
            yield _skipped("quota", f"{name} stays within its share", "the plan names no hard limit")
            return
        alone, run = self.of(f"alone-{name}", role), self.runs[case][role]
        ends = self.runs[case]["victim"].ends
        rate = rate_between(run, ends[0], ends[-1]) if len(ends) > 1 else None
        got = None
        if rate is not None and alone is not None:
            got = rate / alone.throughput / (self.plan.neighbour_share / self.plan.exclusive_share)
        yield _check("quota", f"{name} stays within its share", got, "<=", self.limits.over_quota, "of its share")

    def memory(self) -> Iterator[Check]:
        name = "guaranteed memory is given"
        if self.plan.loads.filler is None:
            yield _skipped("memory", name, "the plan names no filler")
            return
        run = self.runs["beside-filler"]["filler"]
        done = float(bool(run.seconds) and run.status in (None, 0))
        yield _check("memory", name, done, "==", 1.0, "1 = yes", run.error or "while the victim works")

    def breach(self) -> Iterator[Check]:
        if self.plan.loads.hog is None:
            yield _skipped("breach", "memory beyond the limit is refused", "the plan names no hog")
            return
        run = self.runs["beside-hog"]["hog"]
        refused = float(not run.seconds and run.status not in (None, 0))
        why = run.error or "it got what it asked for"
        yield _check("breach", "memory beyond the limit is refused", refused, "==", 1.0, "1 = yes", why)
        yield from self.unharmed("breach", "beside-hog", "while a neighbour tries")

    def failures(self) -> Iterator[Check]:
        if self.plan.loads.faulty is None:
            yield _skipped("failure", "a neighbour's device error stays its own", "the plan names no faulty load")
        else:
            run = self.runs["beside-faulty"]["faulty"]
            broke = float(run.status not in (None, 0))
            yield _check("failure", "the faulty neighbour broke", broke, "==", 1.0, "1 = yes", run.error)
            yield from self.unharmed("failure", "beside-faulty", "while a neighbour breaks")
        yield from self.unharmed("failure", "neighbour-killed", "while a neighbour is killed")
        half = self.runs["neighbour-killed"]["victim"].seconds[self.plan.warmup + self.plan.steps * 3 // 4 :]
        freed, alone = of_seconds(half), self.baseline
        recovered = None if freed is None or alone is None else freed.p50 / alone.p50
        name, why = "speed after a neighbour was killed", "S of the last quarter of the run"
        yield _check("failure", name, recovered, "<=", self.limits.recovered, "S", why)
        last = self.of("after")
        again = None if last is None or alone is None else last.p50 / alone.p50
        why = "alone again, after all that"
        yield _check("failure", "speed after everything", again, "<=", self.limits.recovered, "S", why)

    def unharmed(self, phase: str, case: str, when: str) -> Iterator[Check]:
        run = self.runs[case]["victim"]
        whole = float(run.status == 0 and len(run.seconds) >= self.plan.warmup + self.plan.steps)
        why = run.error or ("the time limit passed" if run.timed_out else "")
        yield _check(phase, f"the victim does all its steps {when}", whole, "==", 1.0, "1 = yes", why)
        slow = self.slowdown(case)
        yield _check(phase, f"slowdown {when}", slow, "<=", self.limits.breach_slowdown, "S")


def _regression(plan: Plan, runs: Runs, earlier: Mapping[str, float] | None) -> Iterator[Check]:
    now = throughputs(plan, runs)
    if earlier is None:
        yield _skipped("regression", "throughput of an earlier report", "none was given (--against)")
        return
    for case, before in sorted(earlier.items()):
        part = now[case] / before if case in now and before > 0 else None
        why = "throughput now, of the earlier report's" if part is not None else "not measured now"
        yield _check("regression", f"throughput {case}", part, ">=", plan.thresholds.regression, "of before", why)


def throughputs(plan: Plan, runs: Runs) -> dict[str, float]:
    """The victim's steps per second, by case, for later reports to compare with."""
    found = {}
    for case, of_case in runs.items():
        run = of_case.get("victim")
        measured = measure(run, plan.warmup) if run is not None and run.status == 0 else None
        if measured is not None:
            found[case] = measured.throughput
    return found


def _check(phase: str, name: str, value: float | None, compare: str, limit: float, unit: str, why: str = "") -> Check:
    verdict: Verdict = "unknown" if value is None else "passed" if COMPARE[compare](value, limit) else "failed"
    return Check(phase, name, value, compare, limit, unit, verdict, why)


def _skipped(phase: str, name: str, why: str) -> Check:
    return Check(phase, name, None, "", 0.0, "", "skipped", why)
