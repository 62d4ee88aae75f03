"""Random lives of pods on a real API server that is killed, whose etcd is compacted, and the watch killed meanwhile.

The test plays scheduler and kubelet, and notes by its own clock in which second the server took each step."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from collectors.kubernetes.objects import at
from tests.collectors.kubernetes.control_plane import ControlPlane, control_plane, missing
from tests.collectors.kubernetes.lives import Life, Shape, Step, key, life, shape
from tests.draws import keep_seed, seldom
from tests.patience import PATIENCE_SECONDS, until

PODS = "/api/v1/namespaces/default/pods"
ENDS = ("preempted", "finished", "failed", "cancelled", "rejected")
LIVES = 16
LAST_SECONDS = 40.0
"""After which nothing new happens to them."""


@dataclass
class Truth:
    """Between which seconds the server took it: each a pair, None while it has not."""

    since: tuple[float, float] | None = None
    until: tuple[float, float] | None = None
    event: str = ""


class Played:
    """One pod's life as it is played."""

    def __init__(self, plane: ControlPlane, chance: random.Random, name: str) -> None:
        self._plane, self._path = plane, f"{PODS}/{name}"
        self._of: Shape = shape(chance, sidecars=False)
        self._steps: Life = life(chance, self._of, longest=4)
        self.truth = Truth()
        spec = {**self._of.spec({"nvidia.com/gpu": 1}), "tolerations": [{"operator": "Exists"}]}
        for one in (*spec["initContainers"], *spec["containers"]):
            one["image"] = "i"
        made = plane.post(PODS, {"metadata": {"name": name}, "spec": spec})
        self.uid = str(made["metadata"]["uid"])
        self._step: Step | None = next(self._steps, None)
        self._waiting = False
        self.due = time.time()

    @property
    def over(self) -> bool:
        return self._step is None

    def go_on(self) -> None:
        """Does the step that is due."""
        step = self._step
        assert step is not None
        began = time.time()
        if step.kind == "wait":
            self._waiting = not self._waiting
            if self._waiting:
                self.due = began + step.seconds
                return
        elif step.kind == "bind":
            target = {"kind": "Node", "name": step.node}
            self._plane.post(
                f"{self._path}/binding", {"metadata": {"name": self._path.rsplit("/")[-1]}, "target": target}
            )
            self.truth.since = began, time.time()
        elif step.kind == "status" and step.wipe:
            now = self._plane.api.get(self._path).json()
            self._plane.put(f"{self._path}/status", {**now, "status": step.status})
        elif step.kind == "status":
            self._plane.merge(f"{self._path}/status", {"status": step.status})
        elif step.kind == "delete":
            self._plane.delete(self._path, step.seconds)
        final = step.kind == "status" and step.status.get("phase") in ("Succeeded", "Failed")
        if self.truth.until is None and (final or (step.kind == "delete" and step.seconds == 0)):
            self.truth.until = began, time.time()
        try:
            self._step = self._steps.send(datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        except StopIteration as ended:
            self._step, self.truth.event = None, ended.value


class Watch:
    """`gpuledger watch kubernetes` as a process that can be killed."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._command = [
            sys.executable, "-m", "gpuledger", "watch", "kubernetes", "--cluster", "c1", "--kubeconfig",
            str(plane.kubeconfig), "--out", str(folder / "rows.jsonl"),
        ]  # fmt: skip
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {**os.environ, "HOME": str(self._folder)}
        with (self._folder / "watch.log").open("ab") as log:
            self._process = subprocess.Popen(self._command, env=environment, stdout=log, stderr=log)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "watch.log").read_text()
        self._process.send_signal(how)
        self._process.wait(PATIENCE_SECONDS)

    def __enter__(self) -> Watch:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left running, whatever failed."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)

    def known(self) -> set[str]:
        """Of whom it has said anything."""
        return {row["allocation_id"] for row in self.events()}

    def events(self) -> list[dict[str, Any]]:
        """Each once: a watch that is killed may tell again what it told."""
        path = self._folder / "rows.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return list({key(row): row for row in rows if row["record"] == "events"}.values())


@seldom(6, "allocations on a real server last as")
@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_allocations_on_a_real_server_last_as_long_as_it_had_them_reserved(tmp_path: Path) -> None:
    seed = f"{keep_seed()} real"
    print(f"lives of {seed}")
    chance = random.Random(seed)
    with control_plane(tmp_path / "plane") as plane, ExitStack() as stack:
        for name in ("n1", "n2"):
            plane.post("/api/v1/nodes", {"metadata": {"name": name}})
            plane.merge(f"/api/v1/nodes/{name}/status", {"status": {"capacity": {"nvidia.com/gpu": "64"}}})
        watch = stack.enter_context(Watch(plane, tmp_path))
        disturbances = sorted(
            (chance.uniform(3, LAST_SECONDS - 8), how) for how in ("watch", "server", "both", "watch")
        )
        begins = sorted(chance.uniform(0, LAST_SECONDS * 0.6) for _ in range(LIVES))
        played: list[Played] = []
        away: list[tuple[float, float]] = []
        zero = time.time()
        while (clock := time.time() - zero) < LAST_SECONDS:
            if disturbances and clock >= disturbances[0][0]:
                how = disturbances.pop(0)[1]
                began = time.time()
                if how != "server":
                    watch.kill()
                    _go_on(played, 2.0)
                if how != "watch":
                    plane.compact()
                    plane.kill_server()
                    plane.start_server()
                if how != "server":
                    watch.start()
                mark = plane.post(PODS, _waiting(f"mark{len(away)}"))["metadata"]["uid"]
                while mark not in watch.known():
                    assert time.time() < began + PATIENCE_SECONDS, (tmp_path / "watch.log").read_text()
                    _go_on(played, 0.05)
                away.append((began, time.time()))
            elif begins and clock >= begins[0]:
                begins.pop(0)
                played.append(Played(plane, chance, f"p{len(played)}"))
            _go_on(played, 0.05)
        while any(not each.over for each in played if each.truth.until is not None):
            _go_on(played, 0.05)  # a deletion of what is over already
        over = {each.uid: each.truth for each in played}
        expected = {uid for uid, truth in over.items() if truth.until is not None}

        def ended() -> set[str]:
            return {row["allocation_id"] for row in watch.events() if row["event"] in ENDS}

        gone_unseen = {
            uid
            for uid, truth in over.items()
            if truth.until is not None and any(begin - 1 <= truth.until[0] <= end for begin, end in away)
        }
        until(lambda: ended() >= expected - gone_unseen, lambda: (tmp_path / "watch.log").read_text())
        watch.kill(signal.SIGTERM)
        exact = _check(watch.events(), over)
    assert exact >= expected - gone_unseen, "what ended under its eyes is known to the second"


def _waiting(name: str) -> dict[str, Any]:
    """A pod that nobody binds."""
    asked = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {"metadata": {"name": name}, "spec": {"containers": [asked]}}


def _go_on(played: list[Played], seconds: float) -> None:
    """Plays what is due for so long."""
    until_ = time.time() + seconds
    while time.time() < until_:
        for each in played:
            if not each.over and each.due <= time.time():
                each.go_on()
        time.sleep(0.02)


def _check(rows: list[dict[str, Any]], over: dict[str, Truth]) -> set[str]:
    """Whose ends are exact, of which all are right."""
    exact = set()
    for uid in {row["allocation_id"] for row in rows} & over.keys():
        truth = over[uid]
        own = [row for row in rows if row["allocation_id"] == uid]
        starts = [row for row in own if row["event"] == "started"]
        ends = [row for row in own if row["event"] in ENDS]
        assert len(starts) <= 1, own
        assert truth.since is not None or not starts, own
        for row in starts:
            assert _in(row, truth.since), (row, truth)
        estimated = [row for row in ends if "estimated" in row.get("reason", "")]
        for row in ends:
            assert truth.until is not None, (row, truth)
            if row in estimated:
                assert _second(row) <= truth.until[1], (row, truth)
            else:
                assert row["event"] == truth.event and _in(row, truth.until), (row, truth)
                exact.add(uid)
    return exact


def _in(row: dict[str, Any], between: tuple[float, float] | None) -> bool:
    """In the second in which the server took it; stamps are of whole seconds, and hearing takes a moment."""
    assert between is not None
    return int(between[0]) - 1 <= _second(row) <= between[1] + 1


def _second(row: dict[str, Any]) -> float:
    found = at(row["ts"])
    assert found is not None
    return found.timestamp()
