"""Drawn histories of ElasticJobs on a real API server, with an operator in a process of its own that is killed.

Users create, change, suspend and delete jobs; pods fail, are evicted or taken away; nodes are lost, cordoned and come
back; calls get lost before or after they were done; etcd forgets; the API server and the operator are killed. Then all
that stops, and what is there is compared with what the log has, and the hours there with the lives of the pods.

    python -m tests.scheduler.kubernetes --histories 1000 --seed 7
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

import httpx
import yaml

from collectors.kubernetes.api import Absent, Interrupted
from collectors.kubernetes.connection import find
from collectors.kubernetes.objects import child, written
from collectors.readings import Row
from scheduler.kubernetes import pods
from scheduler.kubernetes.calls import Call
from scheduler.kubernetes.cluster import ApiCluster
from scheduler.kubernetes.elastic_jobs import API_VERSION, ENDED, KIND, job_id
from scheduler.kubernetes.executor import PodExecutor
from scheduler.kubernetes.operator import Operator, Outcome
from scheduler.live.ranks import ranks_of
from scheduler.live.service import Service
from scheduler.records.log import Log
from scheduler.records.restore import Restored, restore
from scheduler.settings import parse_settings
from tests.collectors.kubernetes.control_plane import DEPLOY, ControlPlane, control_plane
from tests.patience import PATIENCE_SECONDS
from tests.scheduler.kubernetes.hours import TERMINAL
from tests.scheduler.kubernetes.standin import Thing, elastic_job, gpus_of, node_of
from warehouse.errors import LedgerError

SPACE = "default"
JOBS = f"/apis/{API_VERSION}/namespaces/{SPACE}/elasticjobs"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
MERGED = {"Content-Type": "application/merge-patch+json"}
NODES = ("n1", "n2", "n3")
GPUS = 4
SETTINGS = {
    "pools": [{"name": "p", "model": "A100", "launcher": "kubernetes", "hosts": {
        name: [f"GPU-{name}-{index}" for index in range(GPUS)] for name in NODES
    }}],
    "tenants": [{"name": "vision", "guaranteed": 6}, {"name": "chem", "guaranteed": 4}],
    "queues": [{"name": "batch", "policy": "priority"}],
    "policies": {"elastic_hold": 0.5},
}  # fmt: skip
SECOND = 1.2
"""A kubelet's times are whole seconds."""
LOOK_SECONDS = 2.0
"""What an operator needs to begin."""
LATE_SECONDS = 20.0
"""So late an operator that runs may hear of a pod that is gone, on a machine with much else to do."""


class Faulty(ApiCluster):
    """share: of calls that go wrong."""

    def __init__(self, kubeconfig: Path, share: Synchronized[float], seed: str) -> None:
        super().__init__(find(kubeconfig))
        self._share, self._chance = share, random.Random(seed)

    def carry_out(self, calls: Sequence[Call]) -> list[Outcome]:
        found: list[Outcome] = []
        for call in calls:
            how = self._chance.choice(["lost", "unheard", "quota"]) if self._chance.random() < self._share.value else ""
            if how == "lost":
                found.append(Interrupted("lost"))
            elif how == "quota" and call.path.endswith("/pods"):
                found.append(Absent("exceeded quota", forbidden=True))
            elif how == "unheard":
                deaf, self._learn = self._learn, lambda call, found: False  # type: ignore[method-assign, assignment]
                try:
                    super().carry_out([call])
                finally:
                    self._learn = deaf  # type: ignore[method-assign]
                found.append(Interrupted("unheard"))
            else:
                found += super().carry_out([call])
        return found


def operate(
    kubeconfig: Path, folder: Path, share: Synchronized[float], rounds: Synchronized[int], seed: str, said: Path
) -> None:
    """The operator, until it is killed.   rounds: that it has done."""
    with said.open("a", buffering=1) as errors:
        os.dup2(errors.fileno(), 2)
        log = Log(folder / "log", alone=True)
        executor = PodExecutor()

        def show(*_: object) -> None:
            faulthandler.dump_traceback(errors)
            print(*(f"{name}: {value}" for name, value in vars(executor).items()), sep="\n", file=errors)
            jobs = service.book.jobs.items()
            print(*(f"{job}: {one.status} in {one.world}, after {one.follows}" for job, one in jobs), file=errors)

        service = Service(log, parse_settings(SETTINGS), "c", executor, time.time)
        signal.signal(signal.SIGUSR1, show)
        with Faulty(kubeconfig, share, seed) as cluster:
            operator = Operator(service, executor, cluster, time.time)
            while True:
                did = operator.step()
                rounds.value += 1
                time.sleep(0.01 if did else 0.05)


@dataclass
class Life:
    """A pod, as its kubelet knows it. told: whether its kubelet told its end.   gone: when its object was.
    shown: the pod as it was seen first."""

    shown: Thing
    began: float | None = None
    ended: float | None = None
    told: bool = False
    gone: float = float("inf")
    until: float = 0.0

    @property
    def world(self) -> tuple[str, str]:
        return pods.allocation_of(self.shown), pods.world_of(self.shown)


class FaultError(AssertionError):
    """What is not as it should be."""


@dataclass
class Site:
    """A real API server, which histories share, one after the other."""

    plane: ControlPlane
    folder: Path
    context: Any = field(default_factory=lambda: multiprocessing.get_context("forkserver"))

    def __post_init__(self) -> None:
        self.context.set_forkserver_preload(["tests.scheduler.kubernetes.real_histories"])
        for file in sorted((DEPLOY / "operator").glob("crd-*.yaml")):
            self.plane.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(file.read_text()))
        self.plane.merge(f"/api/v1/namespaces/{SPACE}", {"metadata": {"annotations": {
            "gpuledger.io/tenants": "chem,vision"
        }}})  # fmt: skip
        for name in NODES:
            self.plane.post("/api/v1/nodes", {"metadata": {"name": name}})
            self.set_node(name)
        waited(lambda: self.plane.api.get(JOBS).status_code == httpx.codes.OK, lambda: "no ElasticJobs are served")

    def set_node(self, name: str, ready: bool = True, cordoned: bool = False) -> None:
        self.plane.merge(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": cordoned}})
        said = {"type": "Ready", "status": "True" if ready else "Unknown"}
        self.plane.merge(
            f"/api/v1/nodes/{name}/status",
            {"status": {"conditions": [said], "capacity": {"nvidia.com/gpu": str(GPUS)}}},
        )


@contextlib.contextmanager
def a_site(folder: Path) -> Iterator[Site]:
    with control_plane(folder / "plane") as plane:
        yield Site(plane, folder)


def waited(is_so: Callable[[], object], otherwise: Callable[[], str], every: float = 0.05) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > end:
            raise FaultError(f"waited in vain: {otherwise()}")
        time.sleep(every)


class History:
    """lives: of pods by UID.   gone: uids of jobs that a user deleted.   down: nodes whose kubelet does nothing."""

    def __init__(self, site: Site, seed: str, number: int) -> None:
        self.site, self.plane, self.seed, self.number = site, site.plane, seed, number
        self.chance = random.Random(seed)
        self.folder = site.folder / f"h{number}"
        self.folder.mkdir()
        self.said = self.folder / "operator.log"
        Log(self.folder / "log").close()  # two that begin it at once would be in each other's way
        self.share, self.rounds = site.context.Value("d", 0.0), site.context.Value("i", 0)
        self.lives: dict[str, Life] = {}
        self.down: set[str] = set()
        self.did = Counter[str]()
        self.created = 0
        self.ups: list[list[float]] = []
        self.process: Any = None

    def run(self) -> None:
        try:
            self.start()
            for _ in range(self.chance.randint(10, 18)):
                self.something()
            self.share.value = 0.0
            if self.process is None:
                self.start()
            self.down.clear()
            for name in NODES:
                self.site.set_node(name)
            waited(self.is_as_decided, lambda: f"{self.differs()}\n{self.shown()}")
            waited(self.all_done, self.shown)
            waited(self.is_as_decided, lambda: f"{self.differs()}\n{self.shown()}")
            self.stop()
            self.check()
        finally:
            self.stop()
            self.clean()

    # The operator

    def start(self) -> None:
        arguments = (self.plane.operator, self.folder, self.share, self.rounds, f"{self.seed} {len(self.ups)}")
        self.process = self.site.context.Process(target=operate, args=(*arguments, self.said), daemon=True)
        self.process.start()
        self.ups.append([time.time(), float("inf")])

    def stop(self) -> None:
        """kill -9, if it runs."""
        if self.process is not None:
            if not self.process.is_alive():
                raise FaultError(f"the operator ended by itself: {self.said.read_text()}")
            self.process.kill()
            self.process.join()
            self.process.close()
            self.ups[-1][1] = time.time()
            self.process = None

    # What happens

    def something(self) -> None:
        what = self.chance.choices(
            ["create", "delete", "suspend", "scale", "end", "take", "node", "faults", "kill", "wait", "server"],
            [8, 2, 2, 3, 2, 2, 2, 2, 3, 2, 0.05],
        )[0]
        jobs = self.jobs()
        if what == "create" and self.created < 6:
            least = self.chance.randint(1, 3)
            more = {"gpusPerReplica": self.chance.randint(0, GPUS), "backoffLimit": self.chance.choice([0, 1])}
            more |= {"priority": self.chance.randint(0, 2), "tenant": self.chance.choice(["chem", "vision"])}
            self.created += 1
            body = elastic_job("", "", least, least + self.chance.randint(0, 3), **more)
            body["metadata"] = {"name": f"h{self.number}-{self.created}"}
            self.plane.post(JOBS, {"apiVersion": API_VERSION, "kind": KIND, **body})
        elif what == "delete" and jobs:
            self.plane.api.delete(f"{JOBS}/{self.chance.choice(jobs)['metadata']['name']}")
        elif what == "suspend" and jobs:
            job = self.chance.choice(jobs)
            self.change(job, {"suspend": not job["spec"].get("suspend", False)})
        elif what == "scale" and jobs:
            least = self.chance.randint(1, 3)
            most = least + self.chance.choice([0, 1, 2, -1])
            queue = {"queueDepth": {"growBelow": 1, "shrinkAt": self.chance.choice([1, 2]), "waitedSeconds": 0}}
            hours = {"windows": [{"maxReplicas": self.chance.randint(1, 3)}], "timeZone": "Asia/Kolkata"}
            policy = self.chance.choice([None, None, queue, hours, queue | hours])
            scaling = {"minReplicas": least, "maxReplicas": most, "policy": policy}
            self.change(self.chance.choice(jobs), {"scaling": scaling})
        elif what == "end":
            for pod in self.running()[: self.chance.randint(1, 3)]:
                self.ends(pod, self.chance.choice([0, 0, 1]))
        elif what == "take":
            self.take()
        elif what == "node":
            name = self.chance.choice(NODES)
            ready, cordoned = self.chance.random() < 0.5, self.chance.random() < 0.3
            self.site.set_node(name, ready, cordoned)
            (self.down.discard if ready else self.down.add)(name)
            for pod in self.running() if not ready else ():
                if pod["spec"].get("nodeName") == name and self.is_noted(pod):
                    self.plane.api.delete(f"{PODS}/{pod['metadata']['name']}")  # as node-lifecycle does
        elif what == "faults":
            self.share.value = self.chance.choice([0.0, 0.3, 0.6])
        elif what == "kill":
            if self.process is None:
                self.start()
            else:
                self.stop()
                if self.chance.random() < 0.6:
                    self.start()
        elif what == "server":
            self.plane.compact()
            self.plane.kill_server()
            self.plane.start_server()
        else:
            what = "wait"
        self.did[what] += 1
        self.play(self.chance.choice([0, 0.05, 0.2, 0.4, 1.5 if what in ("wait", "kill") else 0.1]))

    def change(self, job: Thing, spec: Thing) -> None:
        self.plane.api.patch(f"{JOBS}/{job['metadata']['name']}", json={"spec": spec}, headers=MERGED)

    def take(self) -> None:
        """Somebody takes a pod from a job."""
        noted = [pod for pod in self.pods() if not pods.is_over(pod) and self.is_noted(pod)]
        if not noted:
            return
        pod = self.chance.choice(noted)
        how, path = self.chance.choice(["evicted", "deleted", "gone"]), f"{PODS}/{pod['metadata']['name']}"
        if how == "evicted":
            self.ends(pod, 137, reason="Evicted")
        elif how == "deleted":
            self.plane.api.delete(path)
        else:
            self.leaves(pod)

    def jobs(self) -> list[Thing]:
        found: list[Thing] = self.plane.api.get(JOBS).json()["items"]
        return found

    def is_noted(self, pod: Thing) -> bool:
        """Whether its job's status says that all pods of its world were there: from then on none is created again."""
        found = [one for one in self.jobs() if one["metadata"]["uid"] == pods.job_uid(pod)]
        return any(str(child(one, "status").get("world")) == pods.world_of(pod) for one in found)

    # Kubelets, and Kubernetes' scheduler

    def pods(self) -> list[Thing]:
        found: list[Thing] = self.plane.api.get(PODS, params={"labelSelector": pods.JOB}).json()["items"]
        now = time.time()
        for pod in found:
            self.lives.setdefault(pod["metadata"]["uid"], Life(pod))
        there = {pod["metadata"]["uid"] for pod in found}
        for uid, life in self.lives.items():
            if uid not in there:
                life.gone = min(life.gone, now)
                if life.began is not None and life.ended is None:
                    life.ended = now
        return found

    def running(self) -> list[Thing]:
        return [one for one in self.pods() if pods.phase(one) == "Running"]

    def play(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            self.kubelets()
            if time.monotonic() >= end:
                return
            time.sleep(0.05)

    def kubelets(self, lasts: tuple[float, float] = (0.2, 4)) -> None:
        there = self.pods()
        for pod in there:
            life, path = self.lives[pod["metadata"]["uid"]], f"{PODS}/{pod['metadata']['name']}"
            if pod["spec"].get("nodeName") in self.down:
                continue
            if pods.is_leaving(pod):
                if pods.phase(pod) == "Running":
                    self.ends(pod, self.chance.choice([0, 143]))
                self.leaves(pod)
            elif not pod["spec"].get("nodeName"):
                node = node_of(pod)
                on = [one for one in there if one["spec"].get("nodeName") == node and not pods.is_over(one)]
                if node not in self.down and sum(map(gpus_of, on)) + gpus_of(pod) <= GPUS:
                    target = {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": node}}
                    self.plane.api.post(f"{path}/binding", json=target)
                    pod["spec"]["nodeName"] = node
            elif pods.phase(pod) == "Pending":
                life.began = time.time()
                life.until = life.began + self.chance.uniform(*lasts)
                status = {"phase": "Running", "startTime": stamp(life.began)}
                self.plane.api.patch(f"{path}/status", json={"status": status}, headers=MERGED)
            elif pods.phase(pod) == "Running" and time.time() > life.until:
                self.ends(pod, 0)

    def ends(self, pod: Thing, code: int, reason: str = "") -> None:
        life = self.lives[pod["metadata"]["uid"]]
        life.ended = time.time()
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": stamp(life.ended)}
        one = {"name": "main", "state": {"terminated": ended}, "image": "i", "imageID": "", "ready": False,
               "restartCount": 0}  # fmt: skip
        status = {"phase": "Failed" if code else "Succeeded"}
        status |= {"reason": reason} if reason else {"containerStatuses": [one]}
        path = f"{PODS}/{pod['metadata']['name']}/status"
        life.told = self.plane.api.patch(path, json={"status": status}, headers=MERGED).is_success and not reason

    def leaves(self, pod: Thing) -> None:
        uid = pod["metadata"]["uid"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self.plane.api.request("DELETE", f"{PODS}/{pod['metadata']['name']}", json=options)
        life = self.lives[uid]
        life.gone = time.time()
        if life.began is not None and life.ended is None:
            life.ended = life.gone
        if life.ended is not None and not pods.is_over(pod):
            # Whether the operator has seen the end before, it alone knows.
            life.told = False

    # What is to be

    def restored(self, tell: Callable[[str, Any], None] = lambda record, rows: None) -> Restored:
        with contextlib.closing(Log(self.folder / "log")) as log:
            return restore(log.entries(), log.of_kind("configured"), "c", tell)

    def differs(self) -> str:
        """What is not as it was decided; '': nothing."""
        there = [one for one in self.pods() if not pods.is_over(one)]
        found = Counter((one["metadata"]["name"], node_of(one)) for one in there)
        restored, jobs = self.restored(), {job_id(one): one for one in self.jobs()}
        done = {one.shown["metadata"]["name"] for one in self.lives.values() if one.ended is not None}
        wanted = Counter[tuple[str, str]]()
        for job, live in restored.book.jobs.items():
            if live.status == "stopping":
                return f"{job} is stopping"  # its end is not in the books yet
            if live.status in ("starting", "running"):
                for rank in ranks_of(restored.setup.nodes, live.grants):
                    name = pods.pod_name(live.payload["name"], live.world, rank.number)
                    if name not in done:
                        wanted[name, rank.node] += 1
            state = child(jobs.get(job, {}), "status").get("state")
            alike = {"pending": "Pending", "starting": "Starting", "running": "Running", "suspended": "Suspended"}
            if alike.get(live.status) != state:
                return f"{job} is {live.status}, and its status says {state}"
        others = [one for job, one in jobs.items() if job not in restored.book.jobs]
        wrong = [one for one in others if child(one, "status").get("state") not in ENDED]
        orphans = [one["metadata"]["name"] for one in self.pods() if pods.job_uid(one) not in
                   {job["metadata"]["uid"] for job in jobs.values()}]  # fmt: skip
        return str((found - wanted, wanted - found, wrong, orphans)) if found != wanted or wrong or orphans else ""

    def is_as_decided(self) -> bool:
        self.kubelets((3600, 3600))
        try:
            return not self.differs()
        except LedgerError:
            return False  # its operator has just begun its log

    def all_done(self) -> bool:
        for life in self.lives.values():
            life.until = min(life.until, time.time() + 0.3)
        self.kubelets((0.1, 0.3))
        states = [child(job, "status").get("state") for job in self.jobs()]
        return all(one in (*ENDED, "Suspended") for one in states)

    def shown(self) -> str:
        statuses = [(one["metadata"]["name"], one["spec"], child(one, "status")) for one in self.jobs()]
        there = [(one["metadata"]["name"], one["spec"].get("nodeName"), one["status"]["phase"]) for one in self.pods()]
        return f"{statuses}\n{there}\n{self.where_it_is()}"

    def where_it_is(self) -> str:
        """What the operator said last, how many rounds it did in a second, where its threads are and what its executor
        knows."""
        before = self.rounds.value
        if self.process is not None and self.process.is_alive():
            time.sleep(1)
            os.kill(self.process.pid, signal.SIGUSR1)
            time.sleep(0.5)
        return f"{self.rounds.value - before} rounds\n{self.said.read_text()[-20_000:]}"

    def check(self) -> None:
        there = self.pods()
        alive = [one["metadata"]["name"] for one in there if not pods.is_over(one)]
        if alive:
            raise FaultError(f"pods run on: {alive}")
        names = Counter(life.shown["metadata"]["name"] for life in self.lives.values())
        twice = [name for name, many in names.items() if many > 1]
        if twice:
            raise FaultError(f"created twice: {twice}")
        told: list[Row] = []

        def tell(record: str, rows: Any) -> None:
            told.extend(rows if record == "events" else ())

        self.restored(tell)
        self.check_lives(told)

    def check_lives(self, told: Sequence[Row]) -> None:
        """Each attempt in the books from when all pods of a world ran until the last has ended; no pod outside."""
        began: dict[str, float] = {}
        ended: dict[str, float] = {}
        for row in told:
            which = str(row["allocation_id"])
            if row["event"] == "started":
                began[which] = min(began.get(which, float("inf")), row["ts"].timestamp())
            elif row["event"] in TERMINAL:
                ended.setdefault(which, row["ts"].timestamp())  # one that was suspended may be cancelled later
        worlds: dict[str, dict[str, list[Life]]] = defaultdict(lambda: defaultdict(list))
        for life in self.lives.values():
            worlds[life.world[0]][life.world[1]].append(life)
        for which, of_attempt in worlds.items():
            every = [one for found in of_attempt.values() for one in found if one.began is not None]
            whole = [
                max(one.began for one in found if one.began is not None)
                for found in of_attempt.values()
                if all(one.began is not None for one in found) and len(found) == int(pods.size_of(found[0].shown))
            ]
            where = f"{which}: {[(one.world[1], one.began, one.ended, one.told) for one in every]}{self.log_of(which)}"
            if which not in began:
                if self.ran_together(of_attempt):
                    raise FaultError(f"its pods ran, and the books have no start. {where}")
                continue
            start, end = began[which], ended.get(which)
            if not any(abs(start - one) <= SECOND for one in whole):
                raise FaultError(f"started at {start}, its pods at {whole}. {where}")
            if end is None:
                raise FaultError(f"has no end in the books. {where}")
            last = max(one.ended for one in every if one.ended is not None)
            if end < last - SECOND:
                raise FaultError(f"ended at {end}, the last pod at {last}. {where}")
            if end > self.heard(last, all(map(self.was_to_be_seen, every))) + SECOND:
                raise FaultError(f"ended at {end}, the last pod at {last}, and that was told. {where}")

    def log_of(self, allocation: str) -> str:
        job = allocation if allocation.rpartition("/")[2] != allocation and "@" in allocation else ""
        job = job.partition("@")[0] + "@" + job.partition("@")[2].partition("/")[0]
        with contextlib.closing(Log(self.folder / "log")) as log:
            lines = [f"{one.at:.3f} {one.kind} {one.body}"[:400] for one in log.of_job(job)]
        return "\n  ".join(["", *lines, f"operators: {self.ups}"])

    def ran_together(self, of_attempt: dict[str, list[Life]]) -> bool:
        """Whether all pods of a world ran at once for so long that an operator that was there has seen so."""
        for found in of_attempt.values():
            if len(found) < int(pods.size_of(found[0].shown)) or any(one.began is None for one in found):
                continue
            first = max(one.began for one in found if one.began is not None)
            if all(one.told for one in found) and first < min(one.ended or 0 for one in found):
                return True
        return False

    def was_to_be_seen(self, life: Life) -> bool:
        """Whether an operator ran, and had time to look, while its end was told and the pod still there."""
        ended = life.ended or 0.0
        return life.told and any(max(up + LOOK_SECONDS, ended) < min(life.gone, down) for up, down in self.ups)

    def heard(self, when: float, told: bool) -> float:
        """When the operator can have heard at the latest of something that happened then."""
        if told:
            return when
        return next((max(when, up) for up, down in self.ups if down > when), when) + LATE_SECONDS

    def clean(self) -> None:
        for path in (JOBS, PODS):
            self.plane.api.request("DELETE", path, json={"gracePeriodSeconds": 0})
        for name in NODES:
            self.site.set_node(name)
        waited(lambda: not self.jobs() and not self.pods(), lambda: "objects stay")


def stamp(when: float) -> str:
    return written(datetime.fromtimestamp(when, UTC))
