"""The scheduler's side of agents: what each node is told, what is believed of it, and when it is lost. The nodes' side
is a small model of an agent, or the agent's own worker with real processes."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from collectors.jobs.processes import Processes
from collectors.jobs.wire import Answer, Report, read_answer
from collectors.jobs.worker import RankEnvironment, Worker
from scheduler.live import agents
from scheduler.live.agents import Agents
from scheduler.live.http import build_app
from scheduler.live.local import LocalProcesses
from scheduler.live.node_tokens import NodeTokens
from scheduler.live.service import RefusedError
from scheduler.records.restore import replays
from tests.draws import keep_seed
from tests.patience import until
from tests.scheduler.live.living import Living
from warehouse.errors import LedgerError

SETTINGS: dict[str, Any] = {
    "pools": [{"name": "p", "model": "A100", "hosts": {"n1": ["G1a", "G1b"], "n2": ["G2a", "G2b"]}}],
    "tenants": [{"name": "vision"}, {"name": "speech", "guaranteed": 2}],
    "queues": [{"name": "batch"}],
    "policies": {"elastic_hold": 0},
}
COMMAND = {"command": ["/bin/true"]}
LEASE = 60.0


class Node:
    """An agent as its scheduler sees it. Ranks run until the test ends them; what it is told to stop has ended when it
    is heard next."""

    def __init__(self, living: Living, name: str, instance: str = "") -> None:
        self.living, self.name = living, name
        self.instance = instance or (name.encode().hex() * 32)[:32]
        self.runs: dict[tuple[str, int, int, int], dict[str, Any]] = {}
        self.answer: Answer | None = None
        self.started: list[tuple[str, int, int, int]] = []
        self.ahead = 0.0
        """Of its clock, seconds."""

    def report(self, **more: Any) -> dict[str, Any]:
        answer = self.answer
        return {
            "instance": self.instance,
            "address": self.name,
            "at": self.living.now + self.ahead,
            "seen": answer.number if answer else 0,
            "seen_boot": answer.boot if answer else "",
            "runs": [
                {"job": job, "attempt": attempt, "world": world, "rank": rank, **run, **self.by_its_clock(run)}
                for (job, attempt, world, rank), run in self.runs.items()
            ],
            "ports": [
                {"job": job, "attempt": attempt, "world": world, "port": 4000 + world}
                for job, attempt, world, rank in self.runs
                if rank == 0
            ],
        } | more

    def by_its_clock(self, run: Mapping[str, Any]) -> dict[str, float]:
        return {name: run[name] + self.ahead for name in ("began_at", "ended_at") if run.get(name) is not None}

    def hear(self) -> Answer:
        """One exchange, and what it asks for done."""
        self.answer = read_answer(self.living.service.hear_agent(self.name, self.report()))
        wanted = {one.key: one for one in self.answer.run}
        for key in list(self.runs):
            one = wanted.get(key[:2])
            if one is not None and one.world == key[2]:
                continue
            if self.runs[key]["alive"]:
                self.end(key, stopped="asked")
            elif key[:2] not in self.answer.stop and one is None:
                del self.runs[key]
        for one in self.answer.run:
            for rank in one.ranks:
                key = (*one.key, one.world, rank.rank)
                if key not in self.runs and (one.ranks[0].rank == 0 or one.rendezvous is not None):
                    assert key not in self.started, "a rank is started twice"
                    self.started.append(key)
                    self.runs[key] = {"alive": True, "began_at": self.living.now, "devices": rank.devices}
        return self.answer

    def end(self, key: tuple[str, int, int, int], code: int | None = None, **more: Any) -> None:
        self.runs[key] |= {"alive": False, "code": code, "ended_at": self.living.now, **more}

    def alive(self, job_id: str = "") -> list[tuple[str, int, int, int]]:
        return [key for key, run in self.runs.items() if run["alive"] and job_id in ("", key[0])]


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jumped = 0.0
        """By how much the clock of the scheduler's machine was set on, or back."""
        self.living = Living(folder, SETTINGS, self.agents())
        self.nodes = {name: Node(self.living, name) for name in ("n1", "n2")}

    def agents(self) -> Agents:
        return Agents(LEASE, self.folder / "agents.json", lambda: self.seconds)

    @property
    def seconds(self) -> float:
        """They only go on, whatever the clock is set to."""
        return (self.living.now if hasattr(self, "living") else 1000.0) - self.jumped

    def jump(self, seconds: float) -> None:
        """The clock of the scheduler's machine is set on, or back; what happened is as long ago as before."""
        self.living.now += seconds
        self.jumped += seconds
        for node in self.nodes.values():
            for run in node.runs.values():
                run |= {name: run[name] + seconds for name in ("began_at", "ended_at") if run.get(name) is not None}

    def fill_disk(self, full: bool = True) -> None:
        """The log takes nothing, or everything again. (A limit of pages would take what fits into the last one.)"""
        self.living.log._db.execute(f"PRAGMA query_only = {int(full)}")

    def restart(self) -> None:
        """As after a kill of the scheduler."""
        self.living.restart(self.agents())

    def submit(self, job_id: str, gpus: int = 1, tenant: str = "vision", **more: Any) -> None:
        self.living.submit(job_id, gpus, tenant, **({"payload": COMMAND} | more))

    def round(self, *names: str, seconds: float = 1.0) -> None:
        self.living.now += seconds
        self.living.settle()
        for name in names or self.nodes:
            self.nodes[name].hear()
        self.living.settle()

    def settle(self) -> None:
        for _ in range(6):
            self.round()


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_a_gang_on_two_nodes_meets_at_rank_0_and_each_node_gets_only_its_own_ranks(cluster: Cluster) -> None:
    cluster.submit("a", 2, min_replicas=2, max_replicas=2)
    cluster.round("n2")
    other = cluster.nodes["n2"].answer
    assert other is not None
    assert other.run[0].rendezvous is None, "nobody knows where rank 0 is met"
    assert cluster.living.status("a") == "starting"
    cluster.settle()
    answers = {name: node.answer for name, node in cluster.nodes.items()}
    parts = {name: answer.run[0] for name, answer in answers.items() if answer is not None}
    assert [(rank.rank, rank.devices) for rank in parts["n1"].ranks] == [(0, ("G1a", "G1b"))]
    assert [(rank.rank, rank.devices) for rank in parts["n2"].ranks] == [(1, ("G2a", "G2b"))]
    meets = {part.rendezvous for part in parts.values()}
    assert [(one.address, one.port) for one in meets if one] == [("n1", 4000 + parts["n1"].world)]
    assert [(part.size, part.node_rank, part.nodes) for part in parts.values()] == [(2, 0, 2), (2, 1, 2)]
    assert cluster.living.status("a") == "running"


def test_a_gang_has_finished_when_its_last_rank_has_and_pays_until_then(cluster: Cluster) -> None:
    cluster.submit("a", 2, min_replicas=2, max_replicas=2)
    cluster.settle()
    began = min(run["began_at"] for node in cluster.nodes.values() for run in node.runs.values())
    n1, n2 = cluster.nodes["n1"], cluster.nodes["n2"]
    n1.end(n1.alive()[0], 0)
    cluster.settle()
    assert cluster.living.status("a") == "running"
    n2.end(n2.alive()[0], 0)
    ended = cluster.living.now
    cluster.living.now += 30  # nobody asks for a while
    cluster.settle()
    assert cluster.living.service.explain("a")["status"] == "finished"
    assert n1.runs == n2.runs == {}
    rows = [row for record, row in cluster.living.rows if record == "events"]
    assert {row["ts"].timestamp() for row in rows if row["event"] == "started"} == {began}
    assert [row["ts"].timestamp() for row in rows if row["event"] == "finished"] == [ended]


def test_one_rank_that_fails_ends_the_others_and_is_named_with_its_last_words(cluster: Cluster) -> None:
    cluster.submit("a", 2, min_replicas=2, max_replicas=2)
    cluster.settle()
    n1, n2 = cluster.nodes["n1"], cluster.nodes["n2"]
    n2.end(n2.alive()[0], 3, tail="first\nwords\x1b[2J")
    cluster.living.now += 1
    n1.end(n1.alive()[0], 1, tail="its peer is gone")
    n1.hear()
    assert cluster.living.status("a") == "running", "n2 may still run it"
    cluster.settle()
    history = cluster.living.service.explain("a")["history"]
    assert history[-1]["ending"] == "failed"
    assert history[-1]["cause"]["text"] == "rank 1 on n2: exit status 3"
    assert history[-1]["output"] == "first\nwords�[2J"
    cluster.submit("b", 2, min_replicas=2, max_replicas=2)
    cluster.settle()
    n1.end(n1.alive()[0], None, error="device G1a is not on this node", began_at=None)
    cluster.round("n1")
    assert cluster.living.status("b") == "running", "the other node has not confirmed"
    assert cluster.nodes["n2"].alive("b")
    cluster.settle()
    assert cluster.living.service.explain("b")["history"][-1]["cause"]["text"].endswith("is not on this node")


def test_what_never_began_is_not_billed(cluster: Cluster) -> None:
    cluster.submit("a", 1)
    cluster.living.settle()
    node = next(name for name in cluster.nodes if cluster.living.service.show("a")["nodes"] == [name])
    cluster.round(node)
    for run in cluster.nodes[node].runs.values():
        run |= {"alive": False, "began_at": None, "error": "no such program", "ended_at": cluster.living.now}
    cluster.settle()
    assert cluster.living.service.explain("a")["history"][-1]["cause"]["reason"] == "StartFailed"
    assert [event for _, event in cluster.living.events()] == ["submitted", "failed"]


def test_devices_are_free_only_when_every_node_has_confirmed_the_stop(cluster: Cluster) -> None:
    cluster.submit("a", 2, min_replicas=2, max_replicas=2)
    cluster.settle()
    cluster.living.service.cancel("a", "me")
    cluster.submit("b", 2, min_replicas=2, max_replicas=2)
    n1, n2 = cluster.nodes["n1"], cluster.nodes["n2"]
    late = n2.report(runs=[])  # as if made before it was told: its start may still be under way
    cluster.round("n1")
    cluster.round("n1")
    cluster.living.service.hear_agent("n2", late)
    cluster.living.settle()
    assert cluster.living.status("a") == "stopping"
    assert not n1.alive("b")
    cluster.settle()
    assert cluster.living.service.explain("a")["status"] == "cancelled"
    assert cluster.living.status("b") == "running"
    assert n2.alive("b")


def test_a_restarted_scheduler_hands_over_no_part_of_a_gang_before_its_last_device_is_free(cluster: Cluster) -> None:
    """The others would run, and pay, while it is still held on a node that is silent."""
    for name in "ab":
        cluster.submit(name, 2)
    cluster.settle()
    for name in "ab":
        cluster.living.service.cancel(name, "me")
    cluster.submit("gang", min_replicas=4, max_replicas=4)
    cluster.round("n1")
    cluster.round("n1")
    cluster.restart()
    for _ in range(3):
        cluster.round("n1")
    assert cluster.living.status("gang") == "starting"
    assert not cluster.nodes["n1"].alive()
    assert len(cluster.nodes["n2"].alive()) == 1, "it was not heard of"
    cluster.settle()
    assert [len(node.alive("gang")) for node in cluster.nodes.values()] == [2, 2]
    cluster.living.service.cancel("gang", "me")
    cluster.settle()
    billed_once(cluster)


def test_a_restarted_scheduler_goes_on_with_a_start_beside_what_stops_on_the_same_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shares of a device: the start was handed over before the other was told to stop."""
    monkeypatch.setitem(SETTINGS, "pools", [{"name": "p", "model": "A100", "units": 2, "hosts": {"n1": ["G1a"]}}])
    cluster = Cluster(tmp_path)
    living, share = cluster.living, {"devices": 1, "units": 1}
    n1 = cluster.nodes["n1"]
    cluster.submit("old", request=share)
    for _ in range(2):
        cluster.round("n1")
    cluster.submit("new", request=share)
    cluster.round("n1")
    assert n1.alive("new"), "it began, and nobody has heard of it yet"
    assert living.status("new") == "starting"
    living.service.cancel("old", "me")
    cluster.restart()
    for _ in range(3):
        cluster.round("n1")
    assert (n1.alive("old"), living.status("new")) == ([], "running")


def test_a_lost_nodes_jobs_run_elsewhere_after_its_lease_and_it_comes_back(cluster: Cluster) -> None:
    cluster.submit("a", 2)
    cluster.settle()
    (first,) = cluster.living.service.show("a")["nodes"]
    other = "n2" if first == "n1" else "n1"
    for _ in range(3):
        cluster.round(other, seconds=LEASE / 3 - 1)
    assert cluster.living.service.show("a")["attempt"] == 1, "its lease goes on"
    assert not cluster.nodes[other].alive()
    cluster.round(other, seconds=5)
    cluster.round(other)
    assert cluster.living.service.show("a")["attempt"] == 2
    assert cluster.living.service.show("a")["nodes"] == [other]
    assert ("a", "preempted") in cluster.living.events()
    assert cluster.living.service._node_states[first] == "failed"
    cluster.restart()
    cluster.settle()
    assert cluster.living.service._node_states[first] == "available"
    assert cluster.nodes[first].runs == {}, "what it had run is forgotten"
    cluster.living.service.set_node(first, "maintenance")
    for _ in range(2):
        cluster.round(other, seconds=LEASE + 1)
        assert cluster.living.service._node_states[first] == "maintenance", "a person said so"
    cluster.settle()
    assert cluster.living.service._node_states[first] == "maintenance"


def test_a_node_that_a_job_has_left_may_be_lost_without_it(cluster: Cluster) -> None:
    """It shrank to one node; what it has there goes on, and ends without asking the other."""
    cluster.submit("a", 1, min_replicas=2, max_replicas=4)
    cluster.settle()
    assert cluster.living.service.show("a")["nodes"] == ["n1", "n2"]
    cluster.submit("b", 2, "speech")
    cluster.settle()
    (left,) = cluster.living.service.show("a")["nodes"]
    cluster.living.service.set_node("n2" if left == "n1" else "n1", "maintenance")  # so that it does not grow again
    cluster.living.service.cancel("b", "me")
    for _ in range(4):
        cluster.round(left, seconds=LEASE / 3)
    assert cluster.living.service.explain("b")["status"] == "cancelled", "nothing of it is left there"
    node = cluster.nodes[left]
    for key in node.alive("a"):
        node.end(key, 0)
    for _ in range(3):
        cluster.round(left)
    assert cluster.living.service.explain("a")["status"] == "finished"
    assert not any(event == "preempted" for _, event in cluster.living.events())


def test_a_rank_that_ends_because_its_peers_node_is_lost_is_no_failure(cluster: Cluster) -> None:
    cluster.submit("a", 2, min_replicas=2, max_replicas=2)
    cluster.settle()
    n1 = cluster.nodes["n1"]
    n1.end(n1.alive()[0], 1)
    for _ in range(4):
        cluster.round("n1", seconds=LEASE / 3)
    assert (cluster.living.status("a"), cluster.living.service.show("a")["attempt"]) == ("pending", 2)


def test_what_failed_runs_again_as_often_as_its_submitter_wants(cluster: Cluster) -> None:
    cluster.submit("a", 1, payload=COMMAND | {"retries": 1})
    for attempt in (1, 2):
        cluster.settle()
        assert cluster.living.service.show("a")["attempt"] == attempt
        for node in cluster.nodes.values():
            for key in node.alive():
                node.end(key, 1)
    cluster.settle()
    assert cluster.living.service.explain("a")["status"] == "failed"


@pytest.mark.parametrize("ends", [True, False])
def test_a_job_grows_after_a_restart_only_once_all_its_agents_are_heard(cluster: Cluster, ends: bool) -> None:
    """One of its ranks may have finished while the scheduler was down, and would run again."""
    cluster.submit("other", 2)
    cluster.settle()
    cluster.submit("wide", min_replicas=1, max_replicas=4)
    cluster.settle()
    first, second = cluster.nodes["n1"], cluster.nodes["n2"]
    assert [rank for *_, rank in second.alive("wide")] == [0, 1]
    for key in first.alive("other"):
        first.end(key, 0)
    if ends:
        second.end(second.alive("wide")[-1], 0)
    for _ in range(3):
        cluster.restart()
        cluster.round("n1")
        cluster.round("n1")
    assert len(cluster.living.service.book.jobs["wide"].grants) == 2, "its agent has said nothing yet"
    assert [entry.kind for entry in cluster.living.log.of_job("wide")][-1] == "unheard"
    cluster.settle()
    kinds = [entry.kind for entry in cluster.living.log.of_job("wide")]
    assert (kinds.count("unheard"), kinds.count("heard"), kinds.count("completing")) == (1, 1, int(ends))
    assert len(cluster.living.service.book.jobs["wide"].grants) == (2 if ends else 4)
    entries = list(cluster.living.log.entries())
    assert all(one.same for one in replays(entries, [one for one in entries if one.kind == "plan"]))


def test_numbers_from_before_a_restart_of_the_scheduler_confirm_nothing(cluster: Cluster) -> None:
    """Its numbers mean nothing after a restart, though they may be higher."""
    cluster.submit("a", 2)
    cluster.settle()
    (name,) = cluster.living.service.show("a")["nodes"]
    cluster.restart()
    cluster.living.service.cancel("a", "me")
    node = cluster.nodes[name]
    for _ in range(2):
        cluster.living.service.hear_agent(name, node.report(runs=[], seen=10**6))
        cluster.living.settle()
        assert cluster.living.status("a") == "stopping"
    cluster.settle()
    assert cluster.living.service.explain("a")["status"] == "cancelled"


def test_only_the_node_of_rank_0_says_where_it_is_met(cluster: Cluster) -> None:
    cluster.submit("a", 2, min_replicas=2, max_replicas=2)
    cluster.settle()
    answer = cluster.nodes["n2"].answer
    assert answer is not None
    port = {"job": "a", "attempt": 1, "world": answer.run[0].world, "port": 6666}
    cluster.living.service.hear_agent("n2", cluster.nodes["n2"].report(ports=[port]))
    after = cluster.nodes["n2"].hear().run[0].rendezvous
    assert after is not None
    assert (after.address, after.port) == ("n1", 4000 + answer.run[0].world)


def test_a_new_scheduler_waits_for_the_leases_of_the_one_before(tmp_path: Path) -> None:
    now = [1000.0]
    Agents(100.0, tmp_path / "agents.json", lambda: now[0])
    agents = Agents(10.0, tmp_path / "agents.json", lambda: now[0])
    now[0] += 99
    assert not agents.is_lost("n1")
    now[0] += 2
    assert agents.is_lost("n1")
    agents.poll()
    later = Agents(10.0, tmp_path / "agents.json", lambda: now[0])
    now[0] += 11
    assert later.is_lost("n1"), "none of the long ones is left"
    (tmp_path / "agents.json").write_text("{}")
    with pytest.raises(LedgerError, match="cannot be read"):
        Agents(10.0, tmp_path / "agents.json")


def test_a_shorter_lease_counts_from_the_answer_that_granted_it(cluster: Cluster) -> None:
    """The new scheduler heard the node, and its answer was lost: ranks go on under the lease of the one before."""
    cluster.submit("a", 2)
    cluster.settle()
    (name,) = cluster.living.service.show("a")["nodes"]
    other = "n2" if name == "n1" else "n1"
    now = cluster.living.now
    cluster.living.restart(Agents(10.0, cluster.folder / "agents.json", lambda: cluster.living.now))
    cluster.living.service.hear_agent(name, cluster.nodes[name].report())
    while cluster.living.now < now + LEASE - 1:
        cluster.round(other, seconds=5)
        assert not cluster.nodes[other].runs
    cluster.round(other, seconds=5)
    cluster.round(other)
    assert cluster.nodes[other].runs


def test_a_nodes_clock_makes_its_jobs_neither_longer_nor_shorter(cluster: Cluster) -> None:
    """It may be wrong, and jump while they run."""
    began = cluster.living.now
    cluster.submit("a", 2)
    cluster.settle()
    (node,) = (node for node in cluster.nodes.values() if node.runs)
    for node.ahead in (300.0, -300.0):
        cluster.round(seconds=30)
    node.end(*node.runs, code=0)
    ended = cluster.living.now
    cluster.living.now += 40
    cluster.settle()
    at = {row["event"]: row["ts"].timestamp() for record, row in cluster.living.rows if record == "events"}
    assert began <= at["started"] <= began + 2
    assert at["finished"] == ended


def test_a_successor_pays_from_its_predecessors_end_at_the_earliest_whatever_the_clocks_say(cluster: Cluster) -> None:
    """Of a gang one rank ended long before the other, which ended by a clock that is ahead."""
    cluster.submit("a", 2, min_replicas=2, max_replicas=2)
    cluster.settle()
    n1, n2 = cluster.nodes["n1"], cluster.nodes["n2"]
    n1.ahead, n2.ahead = -9, 9
    n1.end(n1.alive()[0], 0)
    cluster.submit("b", 2, "speech")
    cluster.settle()
    assert cluster.living.status("b") == "running"
    rows = [row for record, row in cluster.living.rows if record == "events"]
    (ended,) = {row["ts"] for row in rows if (row["allocation_id"], row["event"]) == ("a", "preempted")}
    (began,) = {row["ts"] for row in rows if (row["allocation_id"], row["event"]) == ("b", "started")}
    assert ended <= began


@pytest.mark.parametrize("how", ["cancel", "suspend"])
def test_what_is_stopped_before_its_agent_has_reported_its_beginning_pays_for_what_it_held(
    cluster: Cluster, how: str
) -> None:
    cluster.submit("a", 2)
    cluster.living.settle()
    while not any(node.runs for node in cluster.nodes.values()):
        for node in cluster.nodes.values():
            node.hear()
        cluster.living.settle()
    assert cluster.living.status("a") == "starting"
    began = cluster.living.now
    cluster.living.now += 30
    getattr(cluster.living.service, how)("a", "ada")
    cluster.restart()
    cluster.settle()
    ended = cluster.living.now
    rows = [row for record, row in cluster.living.rows if record == "events" and row["allocation_id"] == "a"]
    held = [(row["event"], row["ts"].timestamp()) for row in rows if row["event"] != "submitted"]
    assert held[:2] == [("started", began)] * 2, "on two devices"
    (event, at), *_ = held[2:]
    assert event == {"cancel": "cancelled", "suspend": "suspended"}[how]
    assert began + 30 <= at <= ended


def test_jobs_on_agents_are_ended_only_by_their_agents(cluster: Cluster) -> None:
    """Its devices would be given away while it runs."""
    cluster.submit("a", 2)
    cluster.settle()
    with pytest.raises(RefusedError, match="notices its end itself"):
        cluster.living.service.finish("a", True, "somebody")
    assert cluster.living.status("a") == "running"


def test_an_undeliverable_order_does_not_keep_a_node_from_getting_the_others(tmp_path: Path) -> None:
    name = "x" * 2000
    pools = [{"name": "p", "model": "A100", "hosts": {"n1": [name, "G1b"], "n2": ["G2a", "G2b"]}}]
    living = Living(tmp_path, SETTINGS | {"pools": pools}, Agents(LEASE))
    node = Node(living, "n1")
    for job_id in ("a", "b", "c", "d"):
        living.submit(job_id, 1, payload=COMMAND)
    living.settle()
    node.hear()
    living.settle()
    assert [key[0] for key in node.alive()]
    explained = [living.service.explain(job_id) for job_id in ("a", "b", "c", "d")]
    assert [one["status"] for one in explained].count("failed") == 1
    assert "cannot be sent to agents" in json.dumps([one["history"] for one in explained], default=str)


def test_one_agent_speaks_for_a_node(cluster: Cluster) -> None:
    cluster.submit("a", 2)
    cluster.settle()
    (name,) = cluster.living.service.show("a")["nodes"]
    twin = Node(cluster.living, name, "f" * 32)
    for _ in range(2):
        with pytest.raises(RefusedError, match="another agent reports for it"):
            twin.hear()
        cluster.restart()  # who speaks is remembered
    cluster.living.now += LEASE + 1
    twin.hear()
    with pytest.raises(RefusedError, match="another agent reports for it"):
        cluster.nodes[name].hear()
    cluster.living.settle()
    assert cluster.living.service.show("a")["attempt"] == 2


def test_a_rank_that_its_agent_no_longer_knows_is_no_rank_to_start_again(cluster: Cluster) -> None:
    cluster.submit("a", 2)
    cluster.settle()
    (name,) = cluster.living.service.show("a")["nodes"]
    cluster.nodes[name].runs.clear()
    cluster.settle()
    assert "no longer knows of it" in cluster.living.service.explain("a")["history"][-1]["cause"]["text"]


@pytest.mark.parametrize("change", [
    {"instance": "x"}, {"address": "a b"}, {"address": "$(id)"}, {"runs": "all"}, {"seen": -1},
    {"runs": [{"job": "a"}]}, {"ports": [{"job": "a", "attempt": 1, "world": 1, "port": 0}]},
    {"runs": [{"job": "a", "attempt": 1, "world": 1, "rank": 0, "alive": False, "tail": "x" * 5000}]},
    {"runs": [{"job": "a", "attempt": 1, "world": 1, "rank": 0, "alive": False, "ended_at": float("nan")}]},
])  # fmt: skip
def test_what_is_no_report_is_refused_and_changes_nothing(cluster: Cluster, change: Mapping[str, Any]) -> None:
    with pytest.raises(RefusedError, match="report"):
        cluster.living.service.hear_agent("n1", cluster.nodes["n1"].report() | change)


def test_a_node_cannot_speak_of_what_was_not_given_to_it(cluster: Cluster) -> None:
    """The second fence: the token is right, and what it tells of is another's."""
    cluster.submit("a", 2)
    cluster.settle()
    (name,) = cluster.living.service.show("a")["nodes"]
    other = cluster.nodes["n2" if name == "n1" else "n1"]
    ((job, attempt, world, rank),) = cluster.nodes[name].alive()
    other.runs[job, attempt, world, rank] = {"alive": False, "code": 0, "began_at": 1.0, "ended_at": 2.0}
    cluster.settle()
    assert cluster.living.status("a") == "running"
    with pytest.raises(RefusedError, match="is not there"):
        cluster.living.service.hear_agent("n3", other.report())


def test_a_node_of_a_gang_speaks_of_its_own_ranks_alone(cluster: Cluster) -> None:
    cluster.submit("a", 2, min_replicas=2, max_replicas=2)
    cluster.settle()
    ((job, attempt, world, rank),) = cluster.nodes["n1"].alive()
    for number, code in ((rank, 0), (1 - rank, 0)):
        cluster.nodes["n1"].runs[job, attempt, world, number] = {
            "alive": False, "code": code, "began_at": cluster.living.now, "ended_at": cluster.living.now,
        }  # fmt: skip
    cluster.settle()
    assert cluster.living.status("a") == "running", "the other one's goes on"
    cluster.nodes["n2"].end(*cluster.nodes["n2"].alive(), code=0)
    cluster.settle()
    assert cluster.living.service.explain("a")["status"] == "finished"


def test_a_token_is_good_for_its_own_node_and_for_nothing_else(cluster: Cluster, tmp_path: Path) -> None:
    tokens = tmp_path / "agents.yaml"
    tokens.write_text("agents: [{node: n1, token: token-of-the-first-node}, {node: n2, token: token-of-the-other-one}]")
    client = TestClient(build_app(cluster.living.service, "the-token-of-users", ("*",), NodeTokens(tokens)))
    report = cluster.nodes["n1"].report()

    def status(path: str, token: str, method: str = "POST") -> int:
        return client.request(method, path, json=report, headers={"authorization": f"Bearer {token}"}).status_code

    assert status("/api/v1/agents/n1", "token-of-the-first-node") == 200
    assert status("/api/v1/agents/n2", "token-of-the-first-node") == 403
    assert status("/api/v1/agents/n2/../n1", "token-of-the-other-one") in (401, 403)
    assert status("/api/v1/agents/n1", "the-token-of-users") == 401
    assert status("/api/v1/agents/n1", "") == 401
    assert status("/api/v1/jobs", "token-of-the-first-node", "GET") == 401
    tokens.write_text("agents: [{node: n1, token: another-token-of-the-first}]")
    assert status("/api/v1/agents/n1", "token-of-the-first-node") == 401
    tokens.write_text("agents: []")
    assert status("/api/v1/agents/n1", "another-token-of-the-first") == 200, "what cannot be used changes nothing"
    tokens.write_text("agents: [{node: n1, token: same-token-for-both-x}, {node: n2, token: same-token-for-both-x}]")
    with pytest.raises(LedgerError, match="the same token"):
        NodeTokens(tokens)
    alone = TestClient(build_app(cluster.living.service, ""))
    assert alone.post("/api/v1/agents/n1", json=report).status_code == 401, "nobody, where no tokens are"


BAD = [
    ({}, "not a list of words"),
    *(({"command": one}, "not a list of words") for one in ("rm -rf /", [], ["a\0b"], [""], [1])),
    ({"command": ["\ud800"]}, "cannot be stored"),
    ({"command": ["x" * 200_000]}, "can be started"),
    (COMMAND | {"env": {"A=B": "c"}}, "payload.env"), (COMMAND | {"env": {"A": 1}}, "payload.env"),
    (COMMAND | {"directory": "etc"}, "payload.directory"), (COMMAND | {"resize": "maybe"}, "payload.resize"),
    (COMMAND | {"retries": True}, "payload.retries"), (COMMAND | {"retries": 101}, "payload.retries"),
    (COMMAND | {"commands": []}, "unknown field"),
]  # fmt: skip


@pytest.mark.parametrize(("payload", "why"), BAD)
def test_a_payload_that_no_process_can_be_made_of_is_refused_when_it_is_submitted(
    cluster: Cluster, payload: Mapping[str, Any], why: str
) -> None:
    with pytest.raises(RefusedError, match=why):
        cluster.submit("a", 1, payload=payload)
    assert ("a", "rejected") in cluster.living.events() or not cluster.living.service.step()


def pools(*changes: Mapping[str, Any]) -> dict[str, Any]:
    return {**SETTINGS, "pools": [{"name": f"p{n}", "model": f"M{n}", **change} for n, change in enumerate(changes)]}


HERE = {"hosts": {"here": ["G1a", "G1b"]}}


@pytest.mark.parametrize(("settings", "job", "why"), [
    (pools({"nodes": 1, "devices": 2}), {}, "may be placed on p0-0, whose devices the settings do not name"),
    (pools(HERE | {"launcher": "slurm"}), {}, "Slurm starts the processes"),
    (pools(HERE | {"launcher": "kubernetes"}), {"request": {"devices": 0}}, "Kubernetes starts the processes"),
    (pools(HERE | {"units": 7}), {"request": {"devices": 1, "profile": "1g.10gb"}}, "no MIG instance is named"),
])  # fmt: skip
def test_what_agents_cannot_start_rightly_is_refused_when_it_is_submitted(
    tmp_path: Path, settings: dict[str, Any], job: dict[str, Any], why: str
) -> None:
    living = Living(tmp_path, settings, Agents(LEASE))
    with pytest.raises(RefusedError, match=why):
        living.submit("a", 1, payload=COMMAND, **job)


@pytest.mark.parametrize(("settings", "job", "why"), [
    (pools(HERE, {"hosts": {"other": ["G2a"]}}), {}, "may be placed on other, and --executor local"),
    (pools({"hosts": {"other": ["G2a", "G2b"]}}), {}, "may be placed on other"),
    (pools(HERE), {"min_replicas": 2, "max_replicas": 2, "request": {"devices": 2}}, "needs 2 x 2 devices together"),
    (pools(HERE), {"request": {"devices": 1, "pool": "q"}}, "cannot be placed on this machine"),
    (pools({"hosts": {"here": ["G1a", "G9"]}}), {}, "may be placed on device G9, which this machine does not have"),
    (pools({"nodes": 1, "devices": 2}), {"request": {"devices": 1}}, "p0-0"),
])  # fmt: skip
def test_what_this_machine_cannot_run_rightly_is_refused_when_it_is_submitted(
    tmp_path: Path, settings: dict[str, Any], job: dict[str, Any], why: str
) -> None:
    executor = LocalProcesses(tmp_path / "jobs", "here", devices=frozenset({"G1a", "G1b"}))
    living = Living(tmp_path, settings, executor)
    with pytest.raises(RefusedError, match=why):
        living.submit("a", 1, payload=COMMAND, **job)
    if "other" in str(settings) and len(settings["pools"]) == 2:
        living.submit("b", 1, payload=COMMAND, request={"devices": 1, "pool": "p0"})


def test_here_ranks_are_processes_with_their_own_devices_and_a_stopped_job_ends_once(tmp_path: Path) -> None:
    executor = LocalProcesses(tmp_path / "jobs", "here", grace_seconds=1, devices=None)
    living = Living(tmp_path, pools(HERE), executor)
    said = "echo $RANK/$WORLD_SIZE $CUDA_VISIBLE_DEVICES $MASTER_ADDR $GPULEDGER_JOB $GPULEDGER_ATTEMPT"
    script = f"{said} >> {tmp_path}/said; while test ! -e {tmp_path}/go; do sleep 0.02; done"
    living.submit("a", 1, payload={"command": ["/bin/sh", "-c", script]}, min_replicas=2, max_replicas=2)

    def reached(status: str) -> Any:
        living.now += 0.1
        living.service.step()
        return living.service.explain("a")["status"] == status

    until(
        lambda: reached("running") and (tmp_path / "said").exists() and (tmp_path / "said").read_text().count("\n") == 2
    )
    assert sorted((tmp_path / "said").read_text().splitlines()) == [
        "0/2 G1a 127.0.0.1 a 1",
        "1/2 G1b 127.0.0.1 a 1",
    ]
    (tmp_path / "go").touch()  # both end by themselves just as they are told to stop
    living.service.cancel("a", "me")
    until(lambda: reached("cancelled"))
    assert [event for _, event in living.events()].count("cancelled") == 1
    executor.close()


def test_list_and_explain_name_nodes_devices_and_payload_for_whoever_starts_it(tmp_path: Path) -> None:
    settings = pools({"hosts": {"n1": ["GPU-a"]}, "units": 7, "geometry": "a100-40gb",
                      "instances": {"GPU-a": {"1g.5gb@0": "MIG-x"}}})  # fmt: skip
    living = Living(tmp_path, settings)
    living.submit("a", payload={"any": "thing"}, request={"devices": 1, "profile": "1g.5gb"})
    living.settle()
    (shown,) = living.service.list()
    place = shown["ranks"][0]
    assert (shown["payload"], place["node"], place["profile"]) == ({"any": "thing"}, "n1", "1g.5gb")
    started = [row for record, row in living.rows if record == "events" and row["event"] == "started"]
    assert [row["partition_id"] for row in started] == place["devices"], "the books call it the same"
    (action,) = [line for line in living.service.explain("a")["history"] if line["what"] == "start"]
    assert action["ranks"] == shown["ranks"]
    assert "grants" not in action


def test_a_scheduler_that_starts_nothing_on_nodes_refuses_agents(tmp_path: Path) -> None:
    living = Living(tmp_path)
    with pytest.raises(RefusedError, match="this scheduler starts nothing on nodes"):
        living.service.hear_agent("p-0", {})


@pytest.mark.parametrize("number", [*range(4), "103", "1007", "1026", "1201"])
def test_whatever_happens_no_device_has_two_jobs_and_no_rank_runs_twice(tmp_path: Path, number: int | str) -> None:
    """Drawn: arrivals, cancels, ranks that end, silence of nodes up to a lease and beyond, kills of the scheduler, its
    clock set on and back, those of the nodes apart by less than is noticed, and its disk full for a while, in which
    nodes are answered all the same. A node that is silent for its lease stops what it runs, as its keepers do. Where a
    seed is named, clocks and disk are sound: a job grew while it started, and its start was said to be of all that it
    had then."""
    named = isinstance(number, str)
    seed = f"{number} of agents, 0" if named else f"{keep_seed()} of agents, {number}"
    draw = random.Random(seed)
    cluster = Cluster(tmp_path)
    cluster.jump(1e6)
    for node in cluster.nodes.values() if not named else ():
        node.ahead = draw.choice((0.0, 0.0, draw.uniform(-9, 9)))
    heard = dict.fromkeys(cluster.nodes, cluster.seconds)
    count = 0
    for _ in range(120):
        cluster.living.now += draw.choice((0.2, 1.0, 5.0))
        what = draw.random()
        if what < 0.2:
            low = draw.choice((1, 1, 2))
            gpus = draw.choice((1, 2))
            more = {"max_replicas": draw.choice((low, 4)), "payload": COMMAND | {"retries": draw.choice((0, 1))}}
            with suppress(LedgerError):  # no room
                cluster.submit(f"j{count}", gpus, draw.choice(("vision", "speech")), min_replicas=low, **more)
            count += 1
        elif what < 0.3:
            running = [one["job_id"] for one in cluster.living.service.list() if one["status"] != "stopping"]
            if running:
                with suppress(LedgerError):
                    cluster.living.service.cancel(draw.choice(running), "me")
        elif what < 0.36:
            cluster.restart()
        elif what < 0.4:
            cluster.living.now += draw.choice((LEASE / 2, LEASE * 1.1))
        elif what < 0.44 and not named:
            cluster.jump(draw.choice((-3600.0, -7.0, 7.0, 3600.0)))
        elif what < 0.52 and not named:
            cluster.fill_disk(draw.random() < 0.4)
        for name, node in cluster.nodes.items():
            if cluster.seconds - heard[name] >= LEASE * 0.9:
                for key in node.alive():
                    node.end(key, stopped="lease")
            if draw.random() < 0.2 and node.alive():
                node.end(draw.choice(node.alive()), draw.choice((0, 0, 1)))
            if draw.random() < 0.6:
                node.hear()
                heard[name] = cluster.seconds
        with suppress(LedgerError):
            cluster.living.service.step()
        one_job_a_device(cluster)
    cluster.fill_disk(full=False)
    for _ in range(400):
        for node in cluster.nodes.values():
            for key in node.alive():
                node.end(key, 0)
        cluster.round()
        if not cluster.living.service.list():
            break
    assert cluster.living.service.list() == [], f"seed {seed}: something never ends"
    billed_once(cluster)


def one_job_a_device(cluster: Cluster) -> None:
    """Of what runs now, by what the nodes were told: each device has one rank, each job one attempt."""
    attempts: dict[str, set[int]] = {}
    for node in cluster.nodes.values():
        held = [device for key in node.alive() for device in node.runs[key]["devices"]]
        assert len(set(held)) == len(held), held
        for job, attempt, _, _ in node.alive():
            attempts.setdefault(job, set()).add(attempt)
    assert all(len(found) == 1 for found in attempts.values()), attempts


def billed_once(cluster: Cluster) -> None:
    """Each attempt that began has one beginning and one end, in that order, and no device has two payers at once. Of a
    start and a change at one instant the change says what is held from then on, as in the books."""
    turns: dict[str, set[tuple[float, float]]] = {}
    for allocation in {allocation for allocation, _ in cluster.living.events()}:
        rows = [row for _, row in cluster.living.rows if row.get("allocation_id") == allocation]
        ends = {row["ts"] for row in rows if row["event"] in ("finished", "failed", "cancelled", "preempted")}
        starts = {row["ts"] for row in rows if row["event"] == "started"}
        assert len(ends) == 1
        assert len(starts) <= 1
        assert all(row["ts"] <= min(ends) for row in rows), allocation
        changes = sorted({row["ts"] for row in rows if row["event"] in ("started", "resized")} | ends)
        for since, to in pairwise(changes):
            now = [row for row in rows if row["ts"] == since]
            resized = [row for row in now if row["event"] == "resized"]
            for row in resized or now:
                if row["event"] in ("started", "resized"):
                    turns.setdefault(row["device_id"], set()).add((since.timestamp(), to.timestamp()))
    for device, held in turns.items():
        assert all(end <= start for (_, end), (start, _) in pairwise(sorted(held))), f"{device}: {sorted(held)}"


def words_of(path: Path) -> str | None:
    """None: it has gone meanwhile."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def test_real_ranks_that_go_on_hear_of_their_new_world(tmp_path: Path) -> None:
    """payload.resize: signal. Two workers, real processes: rank 0 stays the same process while others come and go."""
    cluster = Cluster(tmp_path)
    service = cluster.living.service
    workers = {}
    for name in cluster.nodes:

        def exchange(report: Report, name: str = name) -> Answer:
            return read_answer(service.hear_agent(name, report.model_dump(mode="json")))

        processes = Processes(tmp_path / name, 1, lease=tmp_path / f"{name}.lease")
        workers[name] = Worker(processes, RankEnvironment("127.0.0.1"), exchange, 1.0, 1.0)
    program = tmp_path / "program.py"
    program.write_text(ELASTIC)
    command = [sys.executable, "-I", "-S", str(program), str(tmp_path)]
    cluster.submit("a", 1, min_replicas=1, max_replicas=4, payload={"command": command, "resize": "signal"})

    def worlds() -> list[tuple[int, int]]:
        cluster.living.now += 0.05
        service.step()
        for worker in workers.values():
            worker.round()
        found = ((int(path.name.split(".")[1]), words_of(path)) for path in tmp_path.glob("rank.*"))
        return [(rank, int(size or 0)) for rank, size in found if size is not None]

    until(lambda: len(worlds()) == 4 and {size for _, size in worlds()} == {4})
    first = (tmp_path / "pid.0").read_text()
    cluster.submit("b", 2, "speech", payload={"command": ["/bin/sleep", "300"]})
    until(lambda: len(worlds()) == 2 and {size for _, size in worlds()} == {2})
    until(lambda: worlds() and cluster.living.status("b") == "running")
    service.cancel("b", "me")
    until(lambda: len(worlds()) == 4 and {size for _, size in worlds()} == {4})
    assert (tmp_path / "pid.0").read_text() == first
    assert cluster.living.service.show("a")["attempt"] == 1
    service.cancel("a", "me")
    until(lambda: not worlds() and cluster.living.service.list() == [])
    for worker in workers.values():
        worker.processes.close()


ELASTIC = """\
import json, os, signal, sys
from pathlib import Path
folder, mine = Path(sys.argv[1]), Path(sys.argv[1]) / f"rank.{os.environ['RANK']}"
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR1, signal.SIGTERM))
(folder / f"pid.{os.environ['RANK']}").write_text(str(os.getpid()))
while True:
    mine.write_text(str(json.loads(Path(os.environ["GPULEDGER_WORLD"]).read_text())["world_size"]))
    if signal.sigwait((signal.SIGUSR1, signal.SIGTERM)) == signal.SIGTERM:
        mine.unlink()
        break
"""


@pytest.mark.parametrize(("limit", "most"), [("MOST_BYTES", 6 * 90_000), ("MOST_RANKS", 6)])
def test_what_is_too_much_for_one_answer_begins_when_others_have_ended(
    limit: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that cannot read an answer, or be heard, stops all that runs when its lease is over."""
    monkeypatch.setattr(agents, limit, most)
    cluster = Cluster(tmp_path)
    living, node = cluster.living, cluster.nodes["n1"]
    living.service.set_node("n2", "maintenance")
    payload = {"command": ["/bin/true", "x" * 80_000]}
    for number in range(15):
        living.service.submit(
            {
                "job_id": f"j{number}",
                "tenant": "vision",
                "queue": "batch",
                "request": {"devices": 0},
                "payload": payload,
            },
            "tester",
        )
    living.settle()
    done: set[str] = set()
    for number in range(20):
        cluster.round("n1")
        assert 0 < len(node.alive()) <= 6
        ended = node.alive()[0]
        node.end(ended, 0)
        done.add(ended[0])
        if number % 7 == 3:
            cluster.restart()
        if len(done) == 12:
            break
    cluster.settle()
    assert len(node.started) == 15
    assert {living.service.explain(job)["status"] for job in done} == {"finished"}
    assert not living.log.of_kind("stop"), "nothing that ran was let go"
