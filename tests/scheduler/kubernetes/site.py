"""An operator over a log, on a clock of the test's own, and the cluster that it acts on."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from collectors.kubernetes.objects import child, condition, written
from scheduler.kubernetes import pods
from scheduler.kubernetes.admission import Admission
from scheduler.kubernetes.declarations import Declarations, first_settings
from scheduler.kubernetes.executor import PodExecutor
from scheduler.kubernetes.gates import GatedPodExecutor
from scheduler.kubernetes.operator import Operator
from scheduler.live.service import Service
from scheduler.records.log import Log
from scheduler.settings import parse_settings
from tests.scheduler.kubernetes.standin import (
    SPACE,
    Killed,
    StandIn,
    Thing,
    declared,
    elastic_job,
    gated_pod,
    gpu_node,
    gpus_of,
    node,
    node_of,
    space,
)

NODES, DEVICES = 3, 4
SETTINGS = {
    "pools": [{"name": "p", "nodes": NODES, "devices": DEVICES, "model": "A100", "launcher": "kubernetes"}],
    "tenants": [{"name": "vision", "guaranteed": 6}, {"name": "chem", "guaranteed": 4}],
    "queues": [{"name": "batch", "policy": "priority"}],
    "policies": {"elastic_hold": 5},
}


def histories() -> range:
    """Numbers of drawn histories of an operator."""
    return range(int(os.environ.get("GPULEDGER_OPERATORS", "12")))


class Site:
    """An operator over a log, on a clock of the test's own, and the cluster that it acts on."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.now = folder, 1_790_000_000.0
        self.settings = SETTINGS | settings
        self.cluster = StandIn()
        self.furnish()
        self.start()

    def furnish(self) -> None:
        for number in range(NODES):
            self.cluster.put("nodes", node(f"p-{number}"))
        self.cluster.put("namespaces", space("chem,vision"))

    def start(self) -> None:
        self.log = Log(self.folder / "log")
        executor = PodExecutor(lambda: self.now)
        self.service = Service(self.log, parse_settings(self.settings), "c", executor, lambda: self.now)
        self.operator = Operator(self.service, executor, self.cluster, lambda: self.now)

    def restart(self) -> None:
        """As after a kill: the first lists take a round."""
        self.log.close()
        self.cluster.unlisted = 1
        self.start()

    def kill(self, calls: int) -> None:
        """The operator, in the middle of a round, after so many of its calls; nothing starts again."""
        left = calls

        def answer(_: object) -> str:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return "done"

        self.cluster.answer = answer
        with contextlib.suppress(Killed):
            self.operator.step()
        self.cluster.answer = lambda _: "done"

    def settle(self) -> None:
        for _ in range(60):
            lists = self.cluster.unlisted
            if not self.operator.step() and not lists:
                return
        raise AssertionError("the operator does not come to rest")

    def create(self, name: str, **more: Any) -> Thing:
        job = elastic_job(name, f"uid-{name}-{self.cluster.number}", **more)
        self.cluster.put("elasticjobs", job, SPACE)
        return job

    def pods_of(self, job: Thing) -> list[Thing]:
        found = [one for one in self.cluster.pods() if pods.job_uid(one) == job["metadata"]["uid"]]
        return sorted(found, key=lambda one: one["metadata"]["name"])

    def run(self, chance: Callable[[], bool] = lambda: True) -> None:
        """Kubernetes' scheduler binds what fits, and kubelets start what is bound and end what leaves."""
        for pod in self.cluster.pods():
            if pod["metadata"]["namespace"] != SPACE:
                continue
            if pods.is_leaving(pod) and chance():
                self.cluster.forget(pod["metadata"]["name"])
            if pods.is_leaving(pod) or pods.is_over(pod):
                continue
            if pod["spec"].get("schedulingGates"):
                continue
            if not pod["spec"].get("nodeName") and chance():
                on = [one for one in self.cluster.alive() if one["spec"].get("nodeName") == node_of(pod)]
                found = self.cluster.objects.get(("nodes", "", node_of(pod)), {})
                ready = condition(found, "Ready").get("status") == "True" and not found["spec"]["unschedulable"]
                offered = int(child(found, "status", "allocatable").get("nvidia.com/gpu", DEVICES))
                if ready and sum(map(gpus_of, on)) + gpus_of(pod) <= offered:
                    self.cluster.bind(pod)
            if pod["spec"].get("nodeName") and pods.phase(pod) == "Pending" and chance():
                self.cluster.says(pod, "Running", startTime=written(datetime.fromtimestamp(self.now, UTC)))


class GatedSite(Site):
    """One that admits gated pods too."""

    def start(self) -> None:
        self.log = Log(self.folder / "log")
        executor = PodExecutor(lambda: self.now)
        gates = GatedPodExecutor(executor, lambda: self.now)
        self.service = Service(self.log, parse_settings(self.settings), "c", gates, lambda: self.now)
        admission = Admission(self.service, gates, labelled=False)
        self.operator = Operator(self.service, executor, self.cluster, lambda: self.now, admission=admission)

    def submit(self, name: str, **more: Any) -> Thing:
        """Somebody creates a gated pod."""
        pod = gated_pod(name, f"uid-{name}-{self.cluster.number}", **more)
        self.cluster.put("pods", pod, SPACE)
        return pod


class DeclaredSite(Site):
    """One whose pools, queues and tenants are resources of the cluster."""

    file: ClassVar[Thing] = {"policies": {"elastic_hold": 5}}

    def furnish(self) -> None:
        for number in range(NODES):
            self.cluster.put("nodes", gpu_node(f"p-{number}", DEVICES, pool="p"))
        self.cluster.put("namespaces", space("chem,vision"))
        self.declare("computepools", "p", nodeSelector={"pool": "p"}, model="A100")
        self.declare("queues", "batch", policy="priority")

    def start(self) -> None:
        self.log = Log(self.folder / "log")
        executor, file = PodExecutor(lambda: self.now), parse_settings(self.file)
        last = self.log.of_kind("configured")
        first = first_settings(parse_settings(last[-1].body["settings"]) if last else None, file, "file")
        self.service = Service(self.log, first, "c", executor, lambda: self.now)
        self.declarations = Declarations(self.service, executor, file)
        self.operator = Operator(self.service, executor, self.cluster, lambda: self.now, self.declarations)

    def remove(self, plural: str, name: str) -> None:
        del self.cluster.objects[plural, "", name]
        self.cluster.number += 1

    def declare(self, plural: str, name: str, **spec: Any) -> Thing:
        """Creates it, or changes its spec."""
        found = self.cluster.objects.get((plural, "", name)) or declared(name)
        found["spec"] = spec
        found["metadata"]["generation"] += 1
        self.cluster.put(plural, found)
        return found


class DeclaredGatedSite(DeclaredSite, GatedSite):
    """One of both kinds."""

    def start(self) -> None:
        self.log = Log(self.folder / "log")
        executor, file = PodExecutor(lambda: self.now), parse_settings(self.file)
        gates = GatedPodExecutor(executor, lambda: self.now)
        self.service = Service(self.log, first_settings(None, file, "file"), "c", gates, lambda: self.now)
        self.declarations = Declarations(self.service, executor, file)
        admission = Admission(self.service, gates, labelled=True)
        self.operator = Operator(
            self.service, executor, self.cluster, lambda: self.now, self.declarations, admission=admission
        )
