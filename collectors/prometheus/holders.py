"""Who held the accelerators, from kube-state-metrics over time: the events of their allocations.

The timestamps of creation, binding and completion are the pod's own, to the second. Anything else is only known to
within a scrape, and marked estimated: a pod whose series ended was last there at their last sample.

A pod is gone once its target was scraped GONE_SCRAPES times without it. If the target itself is gone, as after
kube-state-metrics moved, other targets of its job count instead after MOVED_SECONDS. A target that cannot be scraped
says nothing, and ends nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from collectors.exporters.prometheus import Result
from collectors.kubernetes.pods import Around, Heard, Known, observe, vanished
from collectors.kubernetes.settings import Settings
from collectors.prometheus.pods import (
    FACTS,
    REQUESTS,
    RESOURCES,
    PodReport,
    pod_object,
    pod_reports,
    sanitized_marks,
    target_of,
)
from collectors.readings import Collected

GONE_SCRAPES = 3
MOVED_SECONDS = 600.0
LEAST_SECONDS = 300.0
"""What a query looks back at least: kube-state-metrics is scraped less often than exporters."""
MOST_UIDS = 50
"""In one query."""
ENDED = "Succeeded|Failed"

Ask = Callable[[str, float], Result]
"""(query, instant in seconds) -> what the Prometheus answers; a selector for all queries is in it already."""
Target = tuple[str, str]


@dataclass
class _Pod:
    """known: what was reported of it.   last: when it was seen last.   missed: scrapes without it since, and when the
    first of them was.   since: from when its name is its own."""

    known: Known
    namespace: str
    name: str
    since: float
    last: float
    target: Target
    missed: int = 0
    missed_at: float = 0.0

    def plain(self) -> dict[str, Any]:
        return {**self.__dict__, "known": self.known.plain(), "target": list(self.target)}

    @staticmethod
    def of(plain: Mapping[str, Any]) -> _Pod:
        job, instance = plain["target"]
        return _Pod(**{**plain, "known": Known.of(plain["known"]), "target": (job, instance)})


@dataclass(frozen=True)
class Answers:
    """What was asked of the time since `start`. scraped: target -> instants at which it answered.   alive: UID -> when
    a pod that is over was last seen before it was; absent if never."""

    start: float
    reports: Mapping[str, PodReport]
    scraped: Mapping[Target, list[float]]
    alive: Mapping[str, float]


@dataclass
class Holders:
    """not_before: where the history begins; what came to be earlier counts from then.   selector: more matchers."""

    settings: Settings
    not_before: float
    selector: str = ""
    seen_any: bool = False
    _pods: dict[str, _Pod] = field(default_factory=dict)
    _names: dict[tuple[str, str], list[tuple[float, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.settings = sanitized_marks(self.settings)

    def ask(self, ask: Ask, start: float, end: float) -> Answers:
        """Errors: SourceError. Nothing is remembered yet."""
        since = min(start, end - LEAST_SECONDS)
        span = f"[{max(1, round(end - since))}s]"
        wanted = self._series(f'__name__=~"{"|".join(REQUESTS)}",resource=~"{RESOURCES}"')
        requests = ask(f"{wanted}{span}", end)
        samples = [(at, one) for at in sorted(requests.at) for one in requests.at[at]]
        if not samples and not self._pods:
            return Answers(start, {}, {}, {})
        facts = self._series(f'__name__=~"{"|".join(FACTS)}"')
        answer = ask(f"last_over_time({facts}{span}) and on (uid) last_over_time({wanted}{span})", end)
        reports = pod_reports(samples, [one for some in answer.at.values() for one in some])
        targets = {one.target for one in reports.values()} | {pod.target for pod in self._pods.values()}
        jobs = sorted({job for job, _ in targets})
        scraped: dict[Target, set[float]] = defaultdict(set)
        up = ask(f"{self._series(_one_of('up', 'job', jobs))}{span}", end)
        for at, some in up.at.items():
            for series in some:
                scraped[target_of(series)] |= {at} if series.value == 1 else set()
        for at, one in samples:
            scraped[target_of(one)].add(at)
        over = [uid for uid, one in reports.items() if one.phase in ENDED.split("|") and not self._is_over(uid)]
        alive = self._alive(ask, over, span, end)
        return Answers(start, reports, {target: sorted(some) for target, some in scraped.items()}, alive)

    def _series(self, matchers: str) -> str:
        return f"{{{matchers}{',' if self.selector else ''}{self.selector}}}"

    def _is_over(self, uid: str) -> bool:
        return uid in self._pods and self._pods[uid].known.ended

    def _alive(self, ask: Ask, over: list[str], span: str, end: float) -> dict[str, float]:
        """When those pods that are over now were last seen in another phase."""
        found: dict[str, float] = {}
        for first in range(0, len(over), MOST_UIDS):
            uids = _one_of("kube_pod_status_phase", "uid", sorted(over)[first : first + MOST_UIDS])
            asked = self._series(f'{uids},phase!~"{ENDED}"')
            result = ask(f"{asked}{span}", end)
            for at in sorted(result.at):
                found |= {one.labels.get("uid", ""): at for one in result.at[at] if one.value == 1}
        return found

    def take(self, answers: Answers) -> Collected:
        """The events that these answers add; pieces are to be taken in the order of time."""
        collected = Collected()
        for uid, report in sorted(answers.reports.items()):
            self.seen_any = True
            pod = self._pods.get(uid)
            if pod is not None and report.last <= pod.last:
                continue
            known = self._observe(pod, report, answers, collected)
            if known is None:
                continue
            namespace, name = report.label("namespace"), report.label("pod")
            if pod is None:
                since = report.stamp("kube_pod_created") or report.first
                pod = self._pods[uid] = _Pod(known, namespace, name, since, report.last, report.target)
            pod.known, pod.last, pod.target, pod.missed = known, report.last, report.target, 0
        self._names = {}
        for uid, pod in self._pods.items():
            self._names.setdefault((pod.namespace, pod.name), []).append((pod.since, uid))
        for uid, pod in sorted(self._pods.items()):
            if self._is_gone(pod, answers):
                missed = datetime.fromtimestamp(pod.missed_at, UTC)
                observed = vanished(pod.known, datetime.fromtimestamp(pod.last, UTC), missed)
                for row in observed.rows:
                    collected.add("events", row)
                del self._pods[uid]
        return collected

    def _observe(self, pod: _Pod | None, report: PodReport, answers: Answers, collected: Collected) -> Known | None:
        heard, since = datetime.fromtimestamp(report.last, UTC), None
        if report.phase in ENDED.split("|"):
            completed = report.stamp("kube_pod_completion_time")
            if pod is None and completed is not None and completed <= self.not_before:
                return None  # it was over before the history began
            before = pod.last if pod is not None else self.not_before
            since = datetime.fromtimestamp(max(answers.alive.get(report.uid, before), before), UTC)
        known = pod.known if pod is not None else None
        found = pod_object(report, self.not_before)
        observed = observe(known, found, Around(), self.settings, Heard(heard, since))
        for row in observed.rows:
            collected.add("events", row)
        if observed.dropped:
            collected.dropped[observed.dropped] += 1
        return observed.known

    def _is_gone(self, pod: _Pod, answers: Answers) -> bool:
        """Whether its series ended while their target went on answering."""
        mine = answers.scraped.get(pod.target)
        if mine:
            without = mine[bisect_right(mine, max(pod.last, answers.start)) :]
            if without and not pod.missed:
                pod.missed_at = without[0]
            pod.missed += len(without)
            return pod.missed >= GONE_SCRAPES
        others = [at for (job, _), some in answers.scraped.items() if job == pod.target[0] for at in some]
        heard = max(others, default=pod.last)
        if pod.target in answers.scraped or heard - pod.last < MOVED_SECONDS:
            return False
        pod.missed_at = min(at for at in others if at > pod.last)
        return True

    def uid_at(self, namespace: str, pod: str, at: float) -> str:
        """Whose name it was then, in what was taken last: names come back, UIDs do not."""
        some = sorted(self._names.get((namespace, pod), ()))
        place = bisect_right(some, at, key=lambda one: one[0])
        return some[place - 1][1] if place else ""

    def plain(self) -> dict[str, Any]:
        """What a restart needs, as JSON has it."""
        return {
            "pods": {uid: pod.plain() for uid, pod in self._pods.items()},
            "seen_any": self.seen_any,
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Errors: KeyError, TypeError, ValueError if it is not what `plain` gives."""
        self._pods = {str(uid): _Pod.of(one) for uid, one in plain["pods"].items()}
        self.seen_any = bool(plain["seen_any"])


def _one_of(metric: str, label: str, texts: Iterable[str]) -> str:
    """Matchers of a metric whose label is one of these texts. In a matcher's quotes a backslash is written twice."""
    escaped = [re.sub(r'([\\.+*?()\[\]{}|^$"])', r"\\\\\1", text).replace('\\\\"', '\\"') for text in texts]
    return f'__name__="{metric}",{label}=~"{"|".join(escaped)}"'
