"""Drawn histories of gated pods, in which all goes wrong, against a reckoning that knows only the pods."""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from pathlib import Path

import pytest

from collectors.kubernetes.api import Absent, Interrupted
from scheduler.kubernetes import gated_pods, pods
from scheduler.kubernetes.calls import Call
from scheduler.kubernetes.gates import EVICT_SECONDS
from scheduler.live.service import RefusedError
from tests.draws import keep_seed
from tests.scheduler.kubernetes.site import DEVICES, NODES, GatedSite, histories
from tests.scheduler.kubernetes.standin import SPACE, Killed, Thing, gpus_of, node, node_of


class History:
    """outsiders: pods that are not to be touched, as text.   whole: pods that waited with all of their group at once.
    opened: pods whose gate somebody else removed."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.chance, self.site = random.Random(seed), GatedSite(folder)
        self.outsiders: dict[str, str] = {}
        self.whole: set[str] = set()
        self.opened: set[str] = set()
        self.let_in: dict[str, str] = {}

    def gated(self) -> list[Thing]:
        """Pods of the kind that the operator admits, also once they are in."""
        found = [one for one in self.site.cluster.pods() if one["metadata"]["name"].startswith("g")]
        return [one for one in found if one["metadata"]["uid"] not in self.opened]

    def alive(self) -> list[Thing]:
        return [one for one in self.gated() if not is_gated(one) and not pods.is_over(one)]

    def step(self) -> None:
        self.note_groups()
        self.site.operator.step()
        self.check()

    def note_groups(self) -> None:
        waiting = [one for one in self.gated() if is_gated(one)]
        counts = Counter(group_of(one) for one in waiting)
        self.whole |= {one["metadata"]["uid"] for one in waiting if counts[group_of(one)] >= size_of(one)}

    def check(self) -> None:
        for pod in self.gated():
            uid = pod["metadata"]["uid"]
            if not is_gated(pod):
                assert uid in self.whole, "it was let in before its group was there"
                job = pod["metadata"]["annotations"][pods.ALLOCATION]
                assert self.let_in.setdefault(uid, job) == job, "it was let in once"
            else:
                assert uid not in self.let_in
        for name, before in self.outsiders.items():
            assert str(self.site.cluster.objects["pods", SPACE, name]) == before, "it is not the operator's"

    # What others do

    def something(self) -> None:
        chance, site, cluster = self.chance, self.site, self.site.cluster
        site.now += chance.choice([0, 0.5, 3, 10])
        gated = self.gated()
        what = chance.choices(
            [
                "create",
                "missing",
                "outsider",
                "delete",
                "open",
                "run",
                "end",
                "node",
                "cancel",
                "step",
                "faults",
                "kill",
                "regroup",
            ],
            [4, 2, 0.3, 2, 0.3, 6, 3, 1, 0.5, 9, 3, 2, 1],
        )[0]
        if what == "create" and len(gated) < 25:
            size = chance.choice([1, 1, 2, 3])
            named = {"tenant": chance.choice(["chem", "vision"]), "priority": str(chance.randint(0, 2))}
            named |= {"budget": "yes"} if chance.random() < 0.2 else {}
            group = f"g{cluster.number}"
            named |= {"group": group, "group_size": str(size)} if size > 1 else {}
            gpus = chance.randint(0, DEVICES)
            for number in range(size if chance.random() < 0.8 else size - 1):
                self.create(f"{group}-{number}", gpus, named)
        elif what == "missing" and gated:
            self.replace(chance.choice(gated))
        elif what == "outsider":
            pod = site.submit(f"outsider{cluster.number}")
            if chance.random() < 0.5:
                del pod["metadata"]["labels"][pods.QUEUE]
            else:
                pod["spec"]["schedulingGates"] = [{"name": "example.org/other"}]
            self.outsiders[pod["metadata"]["name"]] = str(pod)
        elif what == "delete" and gated:
            pod = chance.choice(gated)
            if chance.random() < 0.3:
                cluster.forget(pod["metadata"]["name"])
            else:
                cluster.delete("pods", pod["metadata"]["name"])
        elif what == "open" and any(map(is_gated, gated)):
            pod = chance.choice([one for one in gated if is_gated(one)])
            pod["spec"] |= {"schedulingGates": [], "nodeName": "by-hand"}
            cluster.says(pod, "Running")
            self.opened.add(pod["metadata"]["uid"])
            self.outsiders[pod["metadata"]["name"]] = str(pod)
        elif what == "run":
            self.run(lambda: chance.random() < 0.7)
        elif what == "end":
            running = [one for one in self.alive() if pods.phase(one) == "Running"]
            for pod in running if chance.random() < 0.5 else running[:1]:
                cluster.ends(pod, 0 if chance.random() < 0.8 else 1)
        elif what == "node":
            cluster.put("nodes", node(f"p-{chance.randrange(NODES)}", chance.random() < 0.6, chance.random() < 0.3))
        elif what == "cancel" and site.service.list():
            with contextlib.suppress(RefusedError):
                site.service.cancel(chance.choice(site.service.list())["job_id"], "somebody")
        elif what == "step":
            cluster.answer = lambda call: "done"
            self.step()
        elif what == "faults":
            refusals: list[str | Exception] = [Interrupted("500"), Absent("no right", forbidden=True)]
            cluster.answer = lambda call: chance.choice(["done", "lost", "unheard", *refusals])
            self.step()
        elif what == "kill":
            self.killed()
        elif what == "regroup" and any(map(is_gated, gated)):
            self.regroup(chance.choice([one for one in gated if is_gated(one)]))

    def create(self, name: str, gpus: int, named: dict[str, str]) -> None:
        labels = {key: value for key, value in named.items() if key != "budget"}
        pod = self.site.submit(name, gpus=gpus, **labels)
        if "budget" in named:
            pod["metadata"]["labels"]["budget"] = "yes"

    def regroup(self, of: Thing) -> None:
        """Somebody changes how large its group is to be, of those that wait."""
        size = str(self.chance.randint(1, 3))
        for pod in self.gated():
            if is_gated(pod) and group_of(pod) == group_of(of) and pod["metadata"]["labels"].get(gated_pods.GANG):
                pod["metadata"]["labels"][gated_pods.GANG_SIZE] = size
                self.site.cluster.says(pod, pods.phase(pod))

    def replace(self, of: Thing) -> None:
        """Its controller makes another pod of its template, in time or too early."""
        pod = self.site.submit(f"g{self.site.cluster.number}-again", gpus=gpus_of(of))
        pod["metadata"]["labels"] = dict(of["metadata"]["labels"])

    def run(self, chance: object = None) -> None:
        opened = [one for one in self.site.cluster.pods() if one["metadata"]["uid"] in self.opened]
        assert all(pods.phase(one) == "Running" for one in opened)
        self.site.run(chance) if callable(chance) else self.site.run()

    def killed(self) -> None:
        left = self.chance.randrange(4)

        def answer(call: Call) -> str:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return "done"

        self.note_groups()
        self.site.cluster.answer = answer
        with contextlib.suppress(Killed):
            self.site.operator.step()
        self.site.cluster.answer = lambda call: "done"
        self.site.restart()
        self.check()

    # How it is to be once nothing happens any more

    def rest(self) -> None:
        for _ in range(40):
            before = (self.site.cluster.number, self.site.log.last)
            self.run()
            self.site.now += EVICT_SECONDS + 1
            self.note_groups()
            self.site.settle()
            self.check()
            if (self.site.cluster.number, self.site.log.last) == before:
                return
        raise AssertionError("it does not come to rest")

    def jobs_of(self, let_in: list[Thing]) -> dict[str, list[Thing]]:
        jobs: dict[str, list[Thing]] = {}
        for pod in let_in:
            jobs.setdefault(pod["metadata"]["annotations"][pods.ALLOCATION], []).append(pod)
        return jobs

    def reckon(self) -> None:
        """What is in is a whole job that fits, and what waits says why; the scheduler counts just that."""
        used = Counter[str]()
        jobs = self.jobs_of([one for one in self.gated() if not is_gated(one)])
        for job in jobs.values():
            if any(not pods.is_over(one) for one in job):
                assert all(pods.phase(one) == "Running" or pods.is_over(one) for one in job), "bound, as there is room"
        for pod in self.alive():
            used[node_of(pod)] += gpus_of(pod)
        assert all(many <= DEVICES for many in used.values())
        running = {job for job, found in jobs.items() if any(not pods.is_over(one) for one in found)}
        shown = self.site.service.list()
        assert {one["job_id"] for one in shown if one["status"] == "running"} == running
        assert [one for one in shown if one["status"] not in ("running", "pending")] == []
        held = {job: sum(map(gpus_of, found)) for job, found in self.jobs_of(self.alive()).items()}
        counted = {one["job_id"]: sum(sum(rank["units"]) for rank in one["ranks"]) for one in shown}
        assert {job: many for job, many in counted.items() if job in held} == held, "no more than its pods have"
        waiting = {one["metadata"]["uid"] for one in self.gated() if is_gated(one)}
        named = [pod["uid"] for one in shown if one["status"] == "pending" for pod in one["payload"]["gated"]]
        assert len(named) == len(set(named))
        assert set(named) <= waiting
        for pod in self.gated():
            if is_gated(pod):
                assert pod["metadata"]["annotations"][gated_pods.REASON]


def is_gated(pod: Thing) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


def group_of(pod: Thing) -> str:
    return str(pod["metadata"]["labels"].get(gated_pods.GANG, pod["metadata"]["uid"]))


def size_of(pod: Thing) -> int:
    return int(pod["metadata"]["labels"].get(gated_pods.GANG_SIZE, 1))


@pytest.mark.parametrize("number", histories())
def test_what_is_let_in_is_what_the_pods_say_whatever_happens(tmp_path: Path, number: int) -> None:
    seed = os.environ.get("GPULEDGER_SEED", f"{keep_seed()} gates {number}")
    print(f"GPULEDGER_SEED={seed!r}")
    history = History(tmp_path, seed)
    for _ in range(80):
        history.something()
    site = history.site
    site.cluster.answer = lambda call: "done"
    for index in range(NODES):
        site.cluster.put("nodes", node(f"p-{index}"))
    history.rest()
    history.reckon()
    for _ in range(60):
        running = [one for one in history.alive() if not pods.is_leaving(one)]
        if not running:
            break
        for pod in running:
            site.cluster.ends(pod, 0)
        history.rest()
        history.reckon()
    assert all(line["allocated"] == 0 for line in site.service.pools())
    assert site.service.list() == [], "every whole group was let in and has ended"
