"""The executor of jobs on nodes with agents: what each node should run, what it reports, and its lease.

Agents poll; nothing is sent to them. What a node should run follows from the log alone, so a scheduler that was killed
answers the same again. A node without contact for a lease has stopped its ranks by itself (collectors.jobs), so its
jobs may start elsewhere.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from collectors.jobs.wire import Answer, Assignment, RankOf, Rendezvous, Report, RunOf
from scheduler.live.executors import Attempt, AttemptName, Completing, Launch, Over, Result
from scheduler.live.payload import unfit, unstartable
from scheduler.model import Job, Node, NodeState
from warehouse.errors import LedgerError

log = logging.getLogger(__name__)

LEASE_SECONDS = 60.0
MOST_RANKS, MOST_BYTES = 5_000, 32 << 20
"""Limits per node: an agent reads at most 64 MiB, and the state of all its ranks must fit into a report."""
OUTPUT_CHARACTERS = 2048
"""Last characters of a rank's output, stored with the job's end."""


class AgentError(LedgerError):
    """A report that is refused."""


@dataclass
class _AgentAttempt(Attempt):
    """nodes: that may have ranks of it.   runs: reported ranks, by node.   worlds: by number, each rank's node.
    ports: each world's master port.   output: the last of the output of the rank that ended it.   asked: by node, the
    number of the first answer without it.   gone: nodes that confirmed that it has ended.   given: nodes that were
    asked to run it."""

    nodes: set[str] = field(default_factory=set)
    runs: dict[str, tuple[RunOf, ...]] = field(default_factory=dict)
    worlds: dict[int, dict[int, str]] = field(default_factory=dict)
    ports: dict[int, Rendezvous] = field(default_factory=dict)
    began_at: float | None = None
    output: str = ""
    failed_at: float = 0.0
    asked: dict[str, int] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    given: set[str] = field(default_factory=set)

    @cached_property
    def payload_bytes(self) -> int:
        return len(json.dumps(dict(self.launch.payload), ensure_ascii=False).encode())

    def ranks_on(self, node: str) -> int:
        return sum(rank.node == node for rank in self.launch.ranks)

    def is_of(self, run: RunOf, node: str) -> bool:
        """Whether a node may report this rank. Worlds from before a restart are unknown, and accepted."""
        return run.world not in self.worlds or self.worlds[run.world].get(run.rank) == node

    def finished_ranks(self) -> list[int]:
        """Of the current world."""
        runs = [run for of_node in self.runs.values() for run in of_node if run.world == self.launch.world]
        return sorted({run.rank for run in runs if run.code == 0 and not run.stopped})

    def judges(self, run: RunOf, node: str) -> None:
        """Ends the attempt if this rank's end is its end. The first failure makes others fail, so it is the one
        reported."""
        if run.alive or run.world != self.launch.world or self.result not in (None, "failed"):
            return
        if run.stopped == "lease":
            self.result = None
            self.ends("lost", f"rank {run.rank} on {node} was stopped when its lease was over")
        elif run.code != 0 or run.error or run.stopped:
            ended_at = run.ended_at or 0.0
            if self.result is None or (ended_at < self.failed_at and not run.stopped):
                self.result, self.failed_at = None, ended_at
                why = run.error or ("killed" if run.code is None else f"exit status {run.code}")
                self.ends("failed", f"rank {run.rank} on {node}: {why}", run.tail)

    def ends(self, result: Result, text: str = "", output: str = "") -> None:
        if self.result is None:
            self.output = output[-OUTPUT_CHARACTERS:]
        super().ends(result, text)


class Agents:
    """lease_seconds: how long a node's ranks run without contact; None: without limit.   state: a file with leases and
    agents, for restarts; None: none.   clock: monotonic seconds."""

    def __init__(
        self,
        lease_seconds: float | None = LEASE_SECONDS,
        state: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lease_seconds = lease_seconds
        self._clock, self._state = clock, state
        self._boot = secrets.token_hex(8)
        self._number = 0
        self._attempts: dict[AttemptName, _AgentAttempt] = {}
        self._of_node: dict[str, dict[AttemptName, _AgentAttempt]] = {}
        self._heard: dict[str, float] = {}
        self._granted: set[str] = set()
        self._addresses: dict[str, str] = {}
        granted, self._instances = _read_state(state)
        # Ranks under leases of an earlier scheduler may still run on nodes that have not reported since.
        self._began, self._first_lease = clock(), max(lease_seconds or 0.0, granted)
        self._save(self._instances)

    # As an executor

    def refusal(self, job: Job, payload: Mapping[str, object], nodes: Sequence[Node]) -> str:
        return unfit(payload) or unstartable(job, nodes)

    def start(self, launch: Launch) -> float | None:
        found = self._attempts.get((launch.job.job_id, launch.attempt))
        if found is not None and found.launch.world == launch.world:
            return found.began_at
        problem = unfit(launch.payload) or next(
            (f"rank {rank.number} has devices whose names nobody said" for rank in launch.ranks if rank.made_up), ""
        )
        if problem:
            raise LedgerError(f"job {launch.job.job_id}", problem)
        trial = _AgentAttempt(launch)
        try:
            for node in {rank.node for rank in launch.ranks}:
                _assignment(trial, node)
        except ValidationError as error:  # must not block the node's other jobs
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(str(step) for step in first["loc"])
            raise LedgerError(
                f"job {launch.job.job_id}", f"cannot be sent to agents: {where}: {first['msg']}"
            ) from None
        return self._know(launch).began_at

    def stop(self, launch: Launch) -> None:
        self._know(launch).ends("stopped")

    def poll(self, node: str = "") -> list[Over]:
        """Ended attempts that are not confirmed.   node: only of those with ranks there."""
        if self._first_lease != (self.lease_seconds or 0.0) and self._clock() - self._began > self._first_lease:
            self._first_lease = self.lease_seconds or 0.0  # earlier leases have expired
            self._save(self._instances)
        attempts = self._of_node.get(node, {}) if node else self._attempts
        return [over for attempt in list(attempts.values()) if (over := self._over(attempt)) is not None]

    def jobs_on(self, node: str) -> list[str]:
        return [job_id for job_id, _ in self._of_node.get(node, {})]

    def completing(self) -> list[Completing]:
        found = [(one, one.finished_ranks()) for one in self._attempts.values() if one.result is None]
        return [Completing(*one.name, one.launch.world, ranks) for one, ranks in found if ranks]

    def unheard(self) -> dict[AttemptName, list[str]]:
        found: dict[AttemptName, list[str]] = {}
        for node in sorted(self._of_node.keys() - self._heard.keys()):
            for name, attempt in self._of_node[node].items():
                if attempt.result is None and attempt.ranks_on(node):
                    found.setdefault(name, []).append(node)
        return found

    def confirm(self, over: Over) -> None:
        attempt = self._attempts.pop((over.job_id, over.attempt), None)
        for node in attempt.nodes if attempt is not None else ():
            self._of_node[node].pop((over.job_id, over.attempt), None)

    def is_lost(self, node: str) -> bool:
        """Whether a node had no contact for a lease, so that nothing runs there any more."""
        if self.lease_seconds is None:
            return False
        now = self._clock()
        if node in self._heard and now - self._heard[node] <= self.lease_seconds:
            return False
        # Until it has our answer, it continues under the lease of an earlier scheduler.
        return node in self._granted or now - self._began > self._first_lease

    def outage(self, node: str) -> NodeState:
        return "failed" if self.is_lost(node) else "available"

    # For agents

    def take(self, node: str, report: Report) -> None:
        """Takes an agent's report.   Errors: AgentError if another agent reports for that node."""
        known = self._instances.get(node)
        if known != report.instance:
            if known is not None and not self.is_lost(node):
                raise AgentError(
                    f"node {node}",
                    "another agent reports for it",
                    "Stop that one; this one is accepted one lease later",
                )
            for attempt in self._of_node.get(node, {}).values() if known is not None else ():
                attempt.ends("lost", f"node {node} has a new agent")
                attempt.gone.add(node)
            self._save({**self._instances, node: report.instance})
        self._heard[node], self._addresses[node] = self._clock(), report.address
        runs: dict[AttemptName, list[RunOf]] = {}
        for run in report.runs:
            runs.setdefault((run.job, run.attempt), []).append(run)
        seen = report.seen if report.seen_boot == self._boot else 0
        if seen:
            self._granted.add(node)
        for name, attempt in self._of_node.get(node, {}).items():
            self._look(attempt, node, tuple(runs.get(name, ())), seen)
        for one in report.ports:
            known_attempt = self._of_node.get(node, {}).get((one.job, one.attempt))
            if known_attempt is not None and known_attempt.worlds.get(one.world, {}).get(0) == node:
                known_attempt.ports[one.world] = Rendezvous(address=report.address, port=one.port)

    def answer(self, node: str) -> Answer:
        """Everything that a node should run now; ranks beyond the limits start when others have ended."""
        self._number += 1
        run: list[Assignment] = []
        stop: list[AttemptName] = []
        of_node = self._of_node.get(node, {})
        wanted = [one for one in of_node.values() if one.result is None and one.ranks_on(node)]
        ranks = size = 0
        for attempt in sorted(wanted, key=lambda one: not (node in one.given or one.runs.get(node))):
            ranks, size = ranks + attempt.ranks_on(node), size + attempt.payload_bytes
            begun = node in attempt.given or attempt.runs.get(node)
            if begun or not run or (ranks <= MOST_RANKS and size <= MOST_BYTES):
                attempt.given.add(node)
                run.append(_assignment(attempt, node))
        for name, attempt in of_node.items():
            if attempt.result is not None:
                attempt.asked.setdefault(node, self._number)
                stop.append(name)
        return Answer(
            number=self._number,
            boot=self._boot,
            lease_seconds=self.lease_seconds,
            run=tuple(run),
            stop=tuple(stop),
        )

    def _know(self, launch: Launch) -> _AgentAttempt:
        name = (launch.job.job_id, launch.attempt)
        attempt = self._attempts.setdefault(name, _AgentAttempt(launch))
        attempt.launch = launch
        attempt.worlds[launch.world] = {rank.number: rank.node for rank in launch.ranks}
        for rank in launch.ranks:
            attempt.nodes.add(rank.node)
            self._of_node.setdefault(rank.node, {})[name] = attempt
        return attempt

    def _look(self, attempt: _AgentAttempt, node: str, runs: tuple[RunOf, ...], seen: int) -> None:
        """Updates an attempt from a node's report."""
        before, world = attempt.runs.get(node, ()), attempt.launch.world
        is_empty = not any(run.alive for run in runs)
        runs = attempt.runs[node] = tuple(run for run in runs if attempt.is_of(run, node))
        began = [run.began_at for run in runs if run.began_at is not None]
        if began:
            attempt.began_at = min([*began, *([attempt.began_at] if attempt.began_at is not None else [])])
        for run in runs:
            attempt.judges(run, node)
        if attempt.result is not None:
            if is_empty and seen >= attempt.asked.get(node, seen + 1):
                attempt.gone.add(node)
            return
        there = {(run.world, run.rank) for run in runs}
        for run in before:
            if run.world == world and (run.world, run.rank) not in there:
                attempt.ends("failed", f"rank {run.rank}: the agent of {node} no longer knows of it")
        # A world is done when all its ranks are, even if it was to be replaced by another.
        done = [run for of_node in attempt.runs.values() for run in of_node if run.code == 0 and not run.stopped]
        for number, places in attempt.worlds.items():
            ranks = {run.rank: run for run in done if run.world == number}
            if len(ranks) == len(places):
                attempt.ends("finished", "", ranks[0].tail)

    def _over(self, attempt: _AgentAttempt) -> Over | None:
        """The attempt's end; None while any of it may still run."""
        left = attempt.nodes - attempt.gone
        away = {node for node in left if self.is_lost(node)}
        lost = [rank.node for rank in attempt.launch.ranks if rank.node in away]
        if lost:
            attempt.ends("lost", f"node {lost[0]} was not heard of for its lease")
        if attempt.result is None or left - away:
            return None
        result = attempt.result
        if lost and result == "failed":
            # A rank fails when a peer is gone; only now is the lost node known to be the cause.
            result, attempt.text = "lost", f"node {lost[0]} was not heard of for its lease; {attempt.text}"
        ended = [run.ended_at for runs in attempt.runs.values() for run in runs if run.ended_at is not None]
        ended_at = max(ended) if ended and not lost else None
        return Over(*attempt.name, result, attempt.text, attempt.began_at, ended_at, attempt.output)

    def _save(self, instances: dict[str, str]) -> None:
        """Saves the nodes' agents and the lease, before any answer.   Errors: LedgerError; nothing has changed then."""
        if self._state is not None:
            draft = self._state.with_name(f"{self._state.name}.new")
            try:
                draft.write_text(json.dumps({"lease_seconds": self._first_lease, "instances": instances}))
                draft.replace(self._state)
            except OSError as error:
                raise LedgerError(str(self._state), f"cannot be written ({error})", "Make room") from error
        self._instances = instances


def _assignment(attempt: _AgentAttempt, node: str) -> Assignment:
    launch = attempt.launch
    nodes = list(dict.fromkeys(rank.node for rank in launch.ranks))
    payload = launch.payload
    return Assignment(
        job=launch.job.job_id,
        attempt=launch.attempt,
        world=launch.world,
        size=len(launch.ranks),
        node_rank=nodes.index(node),
        nodes=len(nodes),
        ranks=tuple(RankOf(rank=rank.number, devices=rank.devices) for rank in launch.ranks if rank.node == node),
        command=tuple(payload["command"]),
        env=payload.get("env") or {},
        directory=payload.get("directory") or "",
        resize=payload.get("resize", "restart"),
        rendezvous=attempt.ports.get(launch.world),
    )


def _read_state(path: Path | None) -> tuple[float, dict[str, str]]:
    """The longest lease that may still be valid, and the agents by node.   Errors: LedgerError if the file is
    damaged."""
    if path is None or not path.exists():
        return 0.0, {}
    try:
        found = json.loads(path.read_text())
        return float(found["lease_seconds"]), dict(found["instances"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LedgerError(
            str(path), f"cannot be read ({error})", "Remove it a lease after the last scheduler"
        ) from None
