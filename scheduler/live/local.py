"""Jobs as processes of this machine: the agents' executor with one node, whose agent is in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from collectors.jobs.processes import Processes, User
from collectors.jobs.wire import Answer, Report
from collectors.jobs.worker import RankEnvironment, Worker
from scheduler.live.agents import Agents
from scheduler.live.executors import AttemptName, Completing, Launch, Over
from scheduler.live.payload import candidates
from scheduler.model import Job, Node
from warehouse.errors import LedgerError


class LocalProcesses:
    """node: this machine's name in the settings.   devices: that its driver reports; None: unknown.

    The processes outlive the scheduler. They need no lease, since nothing else starts jobs here.
    """

    def __init__(
        self,
        folder: Path,
        node: str,
        grace_seconds: float = 10.0,
        user: User | None = None,
        devices: frozenset[str] | None = None,
    ) -> None:
        self.node, self.devices = node, devices
        self._agents = Agents(lease_seconds=None)
        self.processes = Processes(folder, grace_seconds, user)
        self._worker = Worker(self.processes, RankEnvironment("127.0.0.1", devices=devices), self._exchange)

    def refusal(self, job: Job, payload: Mapping[str, Any], nodes: Sequence[Node]) -> str:
        possible = candidates(job, nodes)
        elsewhere = [node.name for node in possible if node.name != self.node]
        if elsewhere:
            return (
                f"may be placed on {elsewhere[0]}, and --executor local runs on this machine alone"
                f" ({self.node}): ask for a pool or labels of its own, or use --executor agents"
            )
        here = next((node for node in possible if node.name == self.node), None)
        if here is None:
            return f"cannot be placed on this machine ({self.node}), and --executor local runs on it alone"
        problem = self._agents.refusal(job, payload, nodes)
        if problem or not job.request.devices:
            return problem
        whole = not (job.request.units or job.request.profile or job.request.memory_bytes)
        if whole and job.min_replicas * job.request.devices > len(here.devices):
            return (
                f"needs {job.min_replicas} x {job.request.devices} devices together, and --executor local runs on this"
                f" machine alone, which has {len(here.devices)}"
            )
        known = {name for device in here.devices for name in (device.device_id, *(i for _, i in device.instances))}
        strange = sorted(known - self.devices) if self.devices is not None else []
        return f"may be placed on device {strange[0]}, which this machine does not have" if strange else ""

    def start(self, launch: Launch) -> float | None:
        strange = [rank.node for rank in launch.ranks if rank.node != self.node]
        if strange:
            raise LedgerError(f"job {launch.job.job_id}", f"was placed on {strange[0]}, which is not this machine")
        return self._agents.start(launch)

    def stop(self, launch: Launch) -> None:
        self._agents.stop(launch)

    def poll(self) -> list[Over]:
        self._worker.round()
        return self._agents.poll()

    def completing(self) -> list[Completing]:
        return self._agents.completing()

    def unheard(self) -> dict[AttemptName, list[str]]:
        return self._agents.unheard()

    def confirm(self, over: Over) -> None:
        self._agents.confirm(over)

    def close(self) -> None:
        self.processes.close()

    def _exchange(self, report: Report) -> Answer:
        self._agents.take(self.node, report)
        return self._agents.answer(self.node)
