"""The loop that makes a node's ranks match what its scheduler wants, and reports them to the scheduler."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from collectors.errors import CollectorError
from collectors.jobs import keeper
from collectors.jobs.processes import Processes, RankId, Run
from collectors.jobs.wire import Answer, Assignment, PortOf, RankOf, Rendezvous, Report, RunOf
from warehouse.connection_errors import INTERNAL, reason
from warehouse.elapsed import elapsed
from warehouse.errors import LedgerError

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
"""Of the agent's own environment, ranks get these; the rest is the agent's alone."""
MARGIN = 0.1
"""Of a lease: so much earlier than the scheduler counts a node as lost, nothing of it runs any more."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MOST_TAILS = 64
"""In one report."""
Exchange = Callable[[Report], Answer]
"""Tells the scheduler and hears what it wants.   Errors: LedgerError, OSError if that failed; it is tried again."""


@dataclass(frozen=True)
class RankEnvironment:
    """How ranks of this node are met and what they see. address: for ranks of other nodes.   ports: the first and last
    that may be used; None: whichever is free.   visible: the variable that names a rank's devices to its driver.
    devices: all that this node has; None: nobody knows."""

    address: str
    ports: tuple[int, int] | None = None
    visible: str = "CUDA_VISIBLE_DEVICES"
    devices: frozenset[str] | None = None


@dataclass
class State:
    """How it does, for /metrics and /readyz. heard_at: of CLOCK_BOOTTIME.   problem: of the last exchange, ''."""

    heard_at: float | None = None
    problem: str = ""
    seen: int = 0
    seen_boot: str = ""
    lease_seconds: float | None = None
    reported: object = field(default=None, repr=False)


class Worker:
    """One node's worker. Ranks outlive it; the next worker on the same folder finds them."""

    def __init__(
        self,
        processes: Processes,
        place: RankEnvironment,
        exchange: Exchange,
        every_seconds: float = 2.0,
        grace_seconds: float = 10.0,
    ) -> None:
        self.processes, self.place, self.every_seconds = processes, place, every_seconds
        self.state = State()
        self._exchange, self._grace = exchange, grace_seconds
        self._last_port = 0
        self._instance = _instance(processes.folder / "instance")

    def run(self, stop: threading.Event) -> None:
        """Runs until stopped; ranks then go on for as long as their lease."""
        at = 0.0
        while not stop.is_set():
            changed = self.state.reported != self._reported(self.processes.look())
            if changed or time.monotonic() >= at:
                at = time.monotonic() + self.every_seconds
                try:
                    self.round()
                except Exception:  # what one answer brings must not end it for good
                    log.exception("jobs: failed with an internal error")
                    self.state.problem = INTERNAL
                if self.state.problem:
                    stop.wait(min(1.0, self.every_seconds))
            stop.wait(LOOK_SECONDS)

    def round(self) -> bool:
        """Tells, hears and does, once; whether the scheduler answered."""
        runs = self.processes.look()
        report = self._report(runs)
        asked_at = elapsed()
        try:
            answer = self._exchange(report)
        except (LedgerError, OSError) as error:
            if self.state.problem != (problem := reason(error)):
                log.warning("jobs: %s", problem)
            self.state.problem = problem
            return False
        if self.state.problem:
            log.info("jobs: the scheduler answers again")
        self.state.problem = ""
        self.state.reported, self.state.heard_at = self._reported(runs), asked_at
        if not self._renew(answer, asked_at):
            return False
        self._do(answer)
        self.state.seen, self.state.seen_boot = answer.number, answer.boot
        return True

    def _renew(self, answer: Answer, asked_at: float) -> bool:
        """The lease goes on from when the report was sent: the scheduler counts from when it came, which is later."""
        self.state.lease_seconds = answer.lease_seconds
        if self.processes.lease is None:
            return True
        if answer.lease_seconds is None:
            stop_at = float("inf")
        else:
            stop_at = asked_at + answer.lease_seconds * (1 - MARGIN) - self._grace
            if stop_at - asked_at < 2 * self.every_seconds:
                self.state.problem = (
                    f"the scheduler's lease of {answer.lease_seconds:g} s leaves no time to stop ranks in"
                    f" {self._grace:g} s; lengthen it (--lease), or shorten grace_seconds and every_seconds"
                )
                log.error("jobs: %s", self.state.problem)
                return False
        _write_lease(self.processes.lease, stop_at)
        return True

    def _report(self, runs: Sequence[Run]) -> Report:
        found, ports, tails = [], [], 0
        for run in runs:
            one, end = run.id, run.end
            tails += end is not None
            found.append(
                RunOf(
                    job=one.job,
                    attempt=one.attempt,
                    world=run.world,
                    rank=one.rank,
                    alive=run.alive,
                    began_at=run.began_at,
                    ended_at=None if end is None else end.at,
                    code=None if end is None else end.code,
                    stopped="" if end is None else end.stopped,
                    error="" if end is None else end.error,
                    tail="" if end is None or tails > MOST_TAILS else self.processes.tail(run),
                )
            )
            if run.port is not None:  # of one that is over too: a scheduler that is new asks the others to join it
                ports.append(PortOf(job=one.job, attempt=one.attempt, world=run.world, port=run.port))
        return Report(
            instance=self._instance,
            at=time.time(),
            seen=self.state.seen,
            seen_boot=self.state.seen_boot,
            address=self.place.address,
            runs=tuple(found),
            ports=tuple(ports),
        )

    def _reported(self, runs: Sequence[Run]) -> object:
        """What is worth telling at once when it changes."""
        return [(run.id, run.world, run.began_at is None, run.alive) for run in runs]

    def _do(self, answer: Answer) -> None:
        wanted = {one.key: one for one in answer.run}
        keep = set(answer.stop)
        for run in self.processes.look():
            key = (run.id.job, run.id.attempt)
            one = wanted.get(key)
            if one is not None and _belongs(run, one):
                continue
            if run.alive:
                self.processes.stop(run.id)
            elif one is None and key not in keep:
                self.processes.forget(run.id)
            elif one is not None and run.stopping:
                self.processes.forget(run.id)  # of an earlier world, ended because it was told to
        for one in answer.run:
            try:
                self._bring_about(one, wanted)
            except OSError as error:
                log.error("jobs: %s attempt %d: %s", one.job, one.attempt, error)
                self.state.problem = f"{one.job}: {error}"

    def _bring_about(self, one: Assignment, wanted: Mapping[tuple[str, int], Assignment]) -> None:
        """Starts an attempt's missing ranks on this node, and passes the current world to running ones."""
        runs = self.processes.look()
        mine = {run.id.rank: run for run in runs if (run.id.job, run.id.attempt) == one.key and _belongs(run, one)}
        for run in mine.values():
            self.processes.ensure(run.id)
        missing = [rank for rank in one.ranks if rank.rank not in mine]
        behind = [run for run in mine.values() if run.world != one.world]
        if not missing and not behind:
            return
        leaving = [run for run in runs if run.alive and not _wanted(run, wanted)]
        if one.resize == "restart" and any((run.id.job, run.id.attempt) == one.key for run in leaving):
            return  # one world after the other
        meet = one.rendezvous
        if one.ranks[0].rank == 0:
            meet = self._own_meeting(one, mine.get(0))
        if meet is None:
            return  # rank 0 is on another node, and its agent has not said yet
        for run in sorted(behind, key=lambda run: run.id.rank):
            self.processes.tell(run.id, self._world(one, _rank_of(one, run), meet))
        for rank in missing:
            if any(set(rank.devices) & set(run.devices) for run in leaving):
                if rank.rank == 0:
                    return  # the others learn where it is met
                continue
            self._start(one, rank, meet)

    def _own_meeting(self, one: Assignment, first: Run | None) -> Rendezvous:
        """Where rank 0, which is here, is met in this world. It learns first, so all learn the same."""
        if first is not None and first.world == one.world and first.port is not None:
            return Rendezvous(address=self.place.address, port=first.port)
        taken = {run.port for run in self.processes.look() if run.alive}
        self._last_port = _free_port(self.place.ports, taken, self._last_port)
        return Rendezvous(address=self.place.address, port=self._last_port)

    def _start(self, one: Assignment, rank: RankOf, meet: Rendezvous) -> None:
        name = RankId(one.job, one.attempt, one.world, rank.rank)
        if self.processes.known(name):
            self.processes.recall(name)
            return
        world = self._world(one, rank, meet)
        strange = [] if self.place.devices is None else [d for d in rank.devices if d not in self.place.devices]
        if strange:
            self.processes.refuse(name, rank.devices, world, f"device {strange[0]} is not on this node")
            return
        self.processes.start(name, one.command, self._environment(one, rank, world), one.directory, rank.devices, world)

    def _world(self, one: Assignment, rank: RankOf, meet: Rendezvous) -> dict[str, Any]:
        local = [other.rank for other in one.ranks]
        return {
            "job": one.job,
            "attempt": one.attempt,
            "world": one.world,
            "rank": rank.rank,
            "world_size": one.size,
            "local_rank": local.index(rank.rank),
            "local_world_size": len(local),
            "node_rank": one.node_rank,
            "nodes": one.nodes,
            "master_addr": meet.address,
            "master_port": meet.port,
            "devices": list(rank.devices),
        }

    def _environment(self, one: Assignment, rank: RankOf, world: Mapping[str, Any]) -> dict[str, str]:
        user = self.processes.user
        own = {name: os.environ[name] for name in INHERITED if name in os.environ}
        if user is not None:
            own |= {"HOME": user.home, "USER": user.name, "LOGNAME": user.name}
        else:
            own |= {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME") if name in os.environ}
        names = ("rank", "world_size", "local_rank", "local_world_size", "node_rank", "master_addr", "master_port")
        return {
            **own,
            **one.env,
            **{name.upper(): str(world[name]) for name in names},
            "GROUP_RANK": str(world["node_rank"]),
            "GROUP_WORLD_SIZE": str(world["nodes"]),
            self.place.visible: ",".join(rank.devices),
            "GPULEDGER_JOB": one.job,
            "GPULEDGER_ATTEMPT": str(one.attempt),
            "GPULEDGER_WORLD_NUMBER": str(one.world),
        }


def _belongs(run: Run, one: Assignment) -> bool:
    """Whether a running rank is one that the assignment wants."""
    if one.resize == "restart":
        return run.world == one.world
    return not run.stopping and any(rank.rank == run.id.rank and rank.devices == run.devices for rank in one.ranks)


def _wanted(run: Run, wanted: Mapping[tuple[str, int], Assignment]) -> bool:
    one = wanted.get((run.id.job, run.id.attempt))
    return one is not None and _belongs(run, one)


def _rank_of(one: Assignment, run: Run) -> RankOf:
    return next(rank for rank in one.ranks if rank.rank == run.id.rank)


def _free_port(among: tuple[int, int] | None, taken: Collection[int | None], last: int) -> int:
    """A port that nobody listens on now, or was told to; not the last one, where ranks of an earlier world may still
    look for theirs.   Errors: OSError."""
    ports = list(range(among[0], among[1] + 1)) if among else [0]
    for port in sorted(ports, key=lambda port: (port <= last, port)) if among else ports:
        if port in taken:
            continue
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            return int(probe.getsockname()[1])
    raise OSError(f"no port of {among} is free")


def _write_lease(path: Path, stop_at: float) -> None:
    """Overwrites the lease in place, with constant length: a full disk must not end what runs."""
    with path.open("r+b" if path.exists() else "wb", buffering=0) as file:
        file.write(f"{stop_at:>20.3f}\n".encode())


def _instance(path: Path) -> str:
    """The id of this folder, the same after every start."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        keeper.write(path, secrets.token_hex(16))
        return path.read_text()
    except OSError as error:
        raise CollectorError(str(path), f"cannot be read ({error})") from error


def over_http(url: str, node: str, token_file: Path, ca_file: Path | None, timeout_seconds: float) -> Exchange:
    """Exchanges messages with a scheduler. Its answers are commands that run here, so it must be on this machine or use
    TLS."""
    from urllib.parse import quote, urlsplit

    from collectors.jobs.wire import read_answer
    from ingest.http_post import Poster
    from ingest.targets import secret

    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise CollectorError(url, "its answers are run here, and http:// can be tampered with", "Use https://")
    poster = Poster(url, ca_file, timeout_seconds, answer_bytes=64 << 20)

    def exchange(report: Report) -> Answer:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret(token_file)}"}
        try:
            body = report.model_dump_json().encode()
            response = poster.post(f"/api/v1/agents/{quote(node, safe='')}", body, headers)
            document = json.loads(response.text)
        except OSError as error:
            raise CollectorError(url, reason(error)) from error
        except Exception as error:  # whatever the other side or something before it says
            poster.close()
            raise CollectorError(url, f"does not answer as a scheduler ({reason(error)})") from error
        if response.status != 200:
            what = document.get("detail", "") if isinstance(document, dict) else ""
            raise CollectorError(url, f"status {response.status}: {str(what)[:300]}")
        return read_answer(document)

    return exchange
