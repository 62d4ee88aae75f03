"""Random lives of pods: what a scheduler, a kubelet and people do to them, the log of changes that an API server would
keep of that, and, reckoned beside it, from when until when the scheduler held devices for each.

The reckoning knows of no stamps: a pod holds from the step that binds it to the first one that makes its phase final or
takes its object away."""

from __future__ import annotations

import copy
import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.collectors.kubernetes.make import Pod, container, stamp

RESOURCES: list[dict[str, int]] = [
    {"nvidia.com/gpu": 1},
    {"nvidia.com/gpu": 8},
    {"nvidia.com/mig-1g.10gb": 2},
    {"amd.com/gpu": 2},
    {"cpu": 4},
]
NODES = ("n1", "n2")
Status = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """kind: wait (`seconds`), bind (to `node`), status (that is merged in; wipe: put in place of all), delete (with
    `seconds` of grace), gone."""

    kind: str
    seconds: int = 0
    node: str = ""
    status: Status = field(default_factory=dict)
    wipe: bool = False


Life = Generator[Step, str, str]
"""Steps; each is answered with the stamp of the second in which it was done. Returns how the pod ended, as gpuledger's
events have it, empty if it did not."""


@dataclass(frozen=True)
class Change:
    """At `at` seconds the object became this; deleted: it was gone, and this was its last version."""

    at: int
    object: Pod
    deleted: bool

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])


@dataclass(frozen=True)
class Held:
    """The scheduler held devices for the pod in [since, until); None: never, or for ever.   event: how it ended."""

    since: int | None
    until: int | None
    event: str


@dataclass(frozen=True)
class Shape:
    """restart: the pod's policy.   old: a control plane and a kubelet of years ago."""

    restart: str
    inits: int
    mains: int
    sidecar: bool
    old: bool

    def spec(self, asked: dict[str, int]) -> dict[str, Any]:
        sidecar = [{**container({}, "sidecar"), "restartPolicy": "Always"}] if self.sidecar else []
        return {
            "restartPolicy": self.restart,
            "initContainers": [*sidecar, *[container(asked, f"init{number}") for number in range(self.inits)]],
            "containers": [container(asked, f"main{number}") for number in range(self.mains)],
            "terminationGracePeriodSeconds": 30,
        }


def shape(chance: random.Random, sidecars: bool = True) -> Shape:
    """sidecars: the API server knows them."""
    return Shape(
        restart=chance.choice(["Never", "Never", "OnFailure", "Always"]),
        inits=chance.choice([0, 0, 1, 2]),
        mains=chance.choice([1, 1, 2]),
        sidecar=sidecars and chance.random() < 0.3,
        old=chance.random() < 0.3,
    )


class Kubelet:
    """What the kubelet says of one pod. now: the stamp of this second."""

    def __init__(self, chance: random.Random, of: Shape, longest: int) -> None:
        self.chance, self.of, self.longest = chance, of, longest
        self.now = ""
        self.began = ""
        self.conditions: dict[str, Status] = {}
        self.sidecar = [self._waiting("sidecar")] if of.sidecar else []
        self.init = [self._waiting(f"init{number}") for number in range(of.inits)]
        self.main = [self._waiting(f"main{number}") for number in range(of.mains)]

    @staticmethod
    def _waiting(name: str) -> Status:
        state = {"waiting": {"reason": "PodInitializing"}}
        return {"name": name, "state": state, "restartCount": 0, "ready": False, "image": "i", "imageID": ""}

    def wait(self) -> Generator[Step, str, None]:
        self.now = yield Step("wait", self.chance.randint(1, self.longest))

    def odds(self, share: float) -> bool:
        return self.chance.random() < share

    def say(self, **more: Any) -> Generator[Step, str, None]:
        """Of all containers, and more of the status."""
        self.began = self.began or self.now
        reported = {"startTime": self.began, "initContainerStatuses": [*self.sidecar, *self.init]}
        yield self.step({**reported, "containerStatuses": self.main, **more})

    def step(self, status: Status, wipe: bool = False) -> Step:
        conditions = [] if wipe else list(self.conditions.values())
        return Step("status", status=copy.deepcopy({**status, "conditions": conditions}), wipe=wipe)

    def put(self, kind: str, status: str, reason: str = "") -> None:
        """A condition, since now if it was another before."""
        before = self.conditions.get(kind, {})
        since = before["lastTransitionTime"] if before.get("status") == status else self.now
        self.conditions[kind] = {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason}

    def run(self, one: Status) -> None:
        one["state"] = {"running": {"startedAt": self.now}}

    def stop(self, one: Status, code: int) -> None:
        """Ends it if it runs."""
        if (ran := one["state"].get("running")) is not None:
            why = "Completed" if code == 0 else "Error"
            one["state"] = {"terminated": {**ran, "finishedAt": self.now, "exitCode": code, "reason": why}}

    def back_off(self, one: Status) -> None:
        """It crashed, and waits for its next try."""
        one["lastState"] = {"terminated": one["state"]["terminated"]}
        one["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
        one["restartCount"] += 1

    def tear_down(self) -> None:
        """What runs is killed; of what does not, the kubelet says its last exit, or that it knows of none."""
        for one in [*self.sidecar, *self.init, *self.main]:
            self.stop(one, self.chance.choice([0, 137, 143]))
            if "waiting" in one["state"]:
                lost = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
                one["state"] = {"terminated": one.get("lastState", {}).get("terminated", lost)}


def life(chance: random.Random, of: Shape, longest: int = 90, nodes: Sequence[str] = NODES) -> Life:
    """longest: seconds between two steps."""
    kubelet = Kubelet(chance, of, longest)
    if kubelet.odds(0.4):
        yield from kubelet.wait()
        kubelet.put("PodScheduled", "False", "Unschedulable")
        yield kubelet.step({})
        del kubelet.conditions["PodScheduled"]
    if kubelet.odds(0.1):
        return ""
    if kubelet.odds(0.1):
        return (yield from _deleted_at_once(kubelet))
    yield from kubelet.wait()
    yield Step("bind", node=chance.choice(nodes))
    if kubelet.odds(0.1):
        yield from kubelet.wait()
        said = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed"}
        yield kubelet.step({**said, "startTime": kubelet.now}, wipe=True)
        return "rejected"
    if kubelet.odds(0.1):
        return (yield from _taken(kubelet))
    yield from kubelet.wait()
    kubelet.began = kubelet.now
    kubelet.put("Ready", "False", "ContainersNotReady")
    yield from kubelet.say()
    if (ending := (yield from _initialized(kubelet))) is not None:
        return ending
    return (yield from _ran(kubelet))


def _initialized(kubelet: Kubelet) -> Generator[Step, str, str | None]:
    """The sidecar and the init containers, one by one; answers how the pod ended if it did."""
    for one in kubelet.sidecar:
        yield from kubelet.wait()
        kubelet.run(one)
        yield from kubelet.say()
    for one in kubelet.init:
        yield from kubelet.wait()
        kubelet.run(one)
        yield from kubelet.say()
        while kubelet.of.restart != "Never" and kubelet.odds(0.3):
            if (yield from _crashed(kubelet, one)) and kubelet.odds(0.3):
                return (yield from _taken(kubelet))
            yield from kubelet.wait()
            kubelet.run(one)
            yield from kubelet.say()
        yield from kubelet.wait()
        if kubelet.of.restart == "Never" and kubelet.odds(0.15):
            kubelet.stop(one, 1)
            for each in kubelet.sidecar:
                kubelet.stop(each, 0)
            yield from kubelet.say(phase="Failed")
            return "failed"
        kubelet.stop(one, 0)
        yield from kubelet.say()
    if kubelet.odds(0.25):
        for one in kubelet.main:
            one["state"] = {"waiting": {"reason": "ImagePullBackOff"}}
        yield from kubelet.wait()
        yield from kubelet.say()
        return (yield from _taken(kubelet))
    return None


def _crashed(kubelet: Kubelet, one: Status) -> Generator[Step, str, bool]:
    yield from kubelet.wait()
    kubelet.stop(one, 1)
    yield from kubelet.say()
    if kubelet.odds(0.2):
        return True
    yield from kubelet.wait()
    kubelet.back_off(one)
    yield from kubelet.say()
    return True


def _ran(kubelet: Kubelet) -> Life:
    yield from kubelet.wait()
    for one in kubelet.main:
        kubelet.run(one)
    kubelet.put("Ready", "True")
    yield from kubelet.say(phase="Running")
    crashing = [*(kubelet.main if kubelet.of.restart != "Never" else []), *kubelet.sidecar]
    while crashing and kubelet.odds(0.4):
        one = kubelet.chance.choice(crashing)
        kubelet.put("Ready", "False", "ContainersNotReady")
        yield from _crashed(kubelet, one)
        if kubelet.odds(0.4):
            return (yield from _taken(kubelet))
        yield from kubelet.wait()
        kubelet.run(one)
        kubelet.put("Ready", "True")
        yield from kubelet.say()
    if kubelet.odds(0.15):
        return ""
    if kubelet.of.restart == "Always" or kubelet.odds(0.5):
        return (yield from _taken(kubelet))
    failed = kubelet.of.restart == "Never" and kubelet.odds(0.5)
    for number, one in enumerate(kubelet.main):
        yield from kubelet.wait()
        kubelet.stop(one, 1 if failed and not number else 0)
        if number < len(kubelet.main) - 1:
            yield from kubelet.say()
    for one in kubelet.sidecar:
        kubelet.stop(one, 0)
    kubelet.put("Ready", "False", "PodCompleted")
    yield from kubelet.say(phase="Failed" if failed else "Succeeded")
    if kubelet.odds(0.5):
        yield from _deleted_at_once(kubelet)
    return "failed" if failed else "finished"


def _deleted_at_once(kubelet: Kubelet) -> Life:
    yield from kubelet.wait()
    yield Step("delete", 0)
    yield Step("gone")
    return "cancelled"


def _taken(kubelet: Kubelet) -> Life:
    """Somebody ends it."""
    how = kubelet.chance.choice(["deleted", "deleted", "forced", "preempted", "evicted", "deadline", "node lost"])
    old = kubelet.of.old
    if how == "forced":
        return (yield from _deleted_at_once(kubelet))
    yield from kubelet.wait()
    if how in ("evicted", "deadline"):
        said = {"phase": "Failed", "reason": "DeadlineExceeded", "message": "longer than specified"}
        if how == "evicted":
            kubelet.put("DisruptionTarget", "True", "TerminationByKubelet")
            yield kubelet.step({})
            yield from kubelet.wait()
            said = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
        kubelet.tear_down()
        yield from kubelet.say(**said)
        return "failed"
    if how != "deleted":
        by = {"preempted": "PreemptionByScheduler", "node lost": "DeletionByTaintManager"}[how]
        kubelet.put("DisruptionTarget", "True", by)
        yield kubelet.step({})
    yield Step("delete", 30)
    yield from kubelet.wait()
    torn_down = how != "node lost" and kubelet.odds(0.7)
    if torn_down:
        kubelet.tear_down()
    if not old:  # by the kubelet, or by the pod garbage collector
        if torn_down:
            failed = any(one["state"]["terminated"]["exitCode"] for one in kubelet.main)
            yield from kubelet.say(phase="Failed" if failed else "Succeeded")
        else:
            yield kubelet.step({"phase": "Failed"})
        yield from kubelet.wait()
    elif torn_down:
        yield from kubelet.say()
    yield Step("delete", 0)
    yield Step("gone")
    return {"deleted": "cancelled", "preempted": "preempted", "node lost": "failed"}[how]


def played(chance: random.Random, uid: str, begin: int, longest: int = 90) -> tuple[list[Change], Held]:
    """The log that a server would keep of a life, and when devices were held."""
    of = shape(chance)
    steps = life(chance, of, longest)
    asked = chance.choice(RESOURCES)
    clock, wrote = begin, begin
    since: int | None = None
    until: int | None = None
    metadata = {"uid": uid, "name": f"train-{uid}", "namespace": "chem", "creationTimestamp": stamp(clock)}
    pod: Pod = {"metadata": metadata, "spec": of.spec(asked), "status": {"phase": "Pending"}}
    log = [Change(clock, copy.deepcopy(pod), False)]
    requested = 0
    try:
        step = next(steps)
        while True:
            metadata, status = pod["metadata"], pod["status"]
            if step.kind == "wait":
                clock += step.seconds
            elif step.kind == "bind":
                since = clock
                pod["spec"]["nodeName"] = step.node
                scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(clock)}
                pod["status"] = _merged(status, {"conditions": [scheduled]})
            elif step.kind == "status":
                # Years ago the server did not write down when a value changed.
                wrote = clock if not of.old or "managedFields" not in metadata else wrote
                pod["status"] = step.status if step.wipe else _merged(status, step.status)
                entry = {"time": stamp(wrote), "fieldsV1": {"f:status": {"f:phase": {}}}}
                metadata["managedFields"] = [entry if of.old else {**entry, "subresource": "status"}]
            elif step.kind == "delete":
                requested = requested or clock
                due = stamp(requested + step.seconds)
                metadata |= {"deletionTimestamp": due, "deletionGracePeriodSeconds": step.seconds}
            if until is None and (step.kind == "gone" or pod["status"]["phase"] in ("Succeeded", "Failed")):
                until = clock
            if step.kind != "wait":
                log.append(Change(clock, copy.deepcopy(pod), step.kind == "gone"))
            step = steps.send(stamp(clock))
    except StopIteration as over:
        return log, Held(since, until, over.value)


def _merged(before: Status, said: Status) -> Status:
    """As a strategic merge patch does: conditions by their type."""
    conditions = {each["type"]: each for each in [*before.get("conditions", []), *said.get("conditions", [])]}
    return {**before, **said, "conditions": list(conditions.values())}


def lives(chance: random.Random, most: int = 6, longest: int = 90) -> tuple[list[Change], dict[str, Held]]:
    """What happened to a handful of pods, in order, and what was held for each of them that asks for devices."""
    log: list[Change] = []
    held: dict[str, Held] = {}
    for number in range(chance.randint(1, most)):
        changes, holds = played(chance, f"pod-{number}", chance.randint(0, 300), longest)
        log += changes
        if asks_for_devices(changes[0].object):
            held[f"pod-{number}"] = holds
    return sorted(log, key=lambda change: change.at), held


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Change], dict[str, Held]]:
    """Some of pods whose steps are seconds apart: shorter than an interruption that makes no difference."""
    return lives(draw(st.randoms(use_true_random=False)), longest=draw(st.sampled_from([90, 90, 2])))


def asks_for_devices(pod: Pod) -> bool:
    return "cpu" not in pod["spec"]["containers"][0]["resources"]["limits"]


def present(log: Sequence[Change], upto: int) -> list[Pod]:
    """The objects that there are after the first `upto` changes."""
    found: dict[str, Pod] = {}
    for change in log[:upto]:
        if change.deleted:
            found.pop(change.uid, None)
        else:
            found[change.uid] = change.object
    return [found[uid] for uid in sorted(found)]


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    """The natural key of an event."""
    return tuple(
        row.get(column, "") for column in ("cluster", "allocation_id", "event", "ts", "device_id", "partition_id")
    )
