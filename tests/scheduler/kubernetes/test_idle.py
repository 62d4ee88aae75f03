"""Idle ElasticJobs and gated pods: evidence by their pods, events on them, and how they come back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collectors.kubernetes.api import Absent, Refused
from collectors.kubernetes.objects import condition
from collectors.kubernetes.reclaims import reclaimed
from scheduler.live.idle import Feed, Reading
from scheduler.live.service import RefusedError
from tests.scheduler.kubernetes.hours import check_hours
from tests.scheduler.kubernetes.site import GatedSite, Site
from tests.scheduler.kubernetes.standin import Thing

MINUTE = 60.0
POLICY = {"warn": "30m", "after": "1h", "then": "suspend"}


def hear(site: Site, pods: Iterable[Thing], minutes: float) -> None:
    """These pods were idle for so long, as of now; nobody else was."""
    found = {one["metadata"]["uid"]: Reading.of(minutes * MINUTE, site.now) for one in pods}
    site.service.hear_idle(Feed(site.now, found))
    site.settle()


def running(site: Site, job: Thing) -> list[Thing]:
    site.settle()
    site.run()
    site.settle()
    assert job["status"]["state"] == "Running"
    return site.pods_of(job)


def idle_events(site: Site) -> list[tuple[str, str]]:
    """(kind, reason), without the objects' names."""
    found = [(one["involvedObject"]["kind"], one["reason"]) for one in site.cluster.events]
    return [one for one in found if one[1].startswith("Idle")]


def later(site: Site, minutes: float) -> None:
    site.now += minutes * MINUTE


def grow_idle(site: Site, pods: Sequence[Thing], upto: float, first: float = 20) -> None:
    """They have run for some time, and idled since; measured every ten minutes."""
    later(site, first + 20)
    minutes = first
    while minutes <= upto:
        hear(site, pods, minutes)
        later(site, 10)
        minutes += 10


def test_an_idle_elastic_job_has_an_event_for_each_step_and_is_suspended_until_resumed(tmp_path: Path) -> None:
    site = Site(tmp_path, idle=[POLICY])
    job = site.create("train", least=2, gpusPerReplica=1)
    pods = running(site, job)
    grow_idle(site, pods, 50)
    each = ["ElasticJob", "Pod", "Pod"]
    assert idle_events(site) == [(kind, reason) for reason in ("IdleNoticed", "IdleWarned") for kind in each]
    warned = next(one for one in site.cluster.events if one["reason"] == "IdleWarned")
    assert warned["type"] == "Warning"
    assert "idle for 30m" in warned["message"]
    assert "gpuledger.io/idle" not in pods[0]["metadata"]["annotations"], "these rights do not reach so far"
    hear(site, pods, 60)
    assert idle_events(site)[6:] == [(kind, "IdleReclaimed") for kind in each]
    assert job["status"]["state"] == "Stopping"
    site.run()
    site.settle()
    assert (job["status"]["state"], site.pods_of(job)) == ("Suspended", [])
    assert "idle for 1h" in job["status"]["message"]
    for _ in range(3):
        later(site, 1)
        site.restart()
        site.settle()
    assert job["status"]["state"] == "Suspended", "that spec.suspend is false does not resume it"
    assert len(idle_events(site)) == 9, "each step is told once"
    site.service.resume(site.service.list()[0]["job_id"], "ada")
    assert running(site, job)
    assert job["status"]["attempt"] == 2


def test_suspending_and_unsuspending_an_elastic_job_resumes_one_that_was_reclaimed(tmp_path: Path) -> None:
    site = Site(tmp_path, idle=[POLICY])
    job = site.create("train", gpusPerReplica=1)
    grow_idle(site, running(site, job), 60)
    site.run()
    site.settle()
    assert job["status"]["state"] == "Suspended"
    job["spec"]["suspend"] = True
    site.cluster.put("elasticjobs", job, "chem")
    site.settle()
    assert "suspended by kubernetes" in job["status"]["message"]
    job["spec"]["suspend"] = False
    site.cluster.put("elasticjobs", job, "chem")
    assert running(site, job)


@pytest.mark.parametrize("mark", ["rank", "world", "world-size"])
def test_numbers_that_a_tenant_writes_on_its_pods_stop_no_other_job(mark: str, tmp_path: Path) -> None:
    """Who may edit a pod may take a label away, and write an annotation of any length in its place."""
    site = Site(tmp_path, idle=[POLICY])
    job = site.create("train", least=2, gpusPerReplica=1)
    pod, _ = running(site, job)
    del pod["metadata"]["labels"][f"gpuledger.io/{mark}"]
    pod["metadata"].setdefault("annotations", {})[f"gpuledger.io/{mark}"] = "9" * 5000
    site.cluster.put("pods", pod, "chem")
    for _ in range(3):
        site.run()
        site.settle()
    assert running(site, site.create("other", least=1, gpusPerReplica=1))


def test_a_job_is_idle_only_while_all_its_pods_are(tmp_path: Path) -> None:
    site = Site(tmp_path, idle=[POLICY])
    job = site.create("train", least=2, gpusPerReplica=1)
    pods = running(site, job)
    grow_idle(site, pods[:1], 180)
    assert idle_events(site) == []
    assert job["status"]["state"] == "Running"


def test_a_job_of_which_a_pod_has_finished_is_not_known_to_be_idle(tmp_path: Path) -> None:
    """Made smaller, its finished rank would run again."""
    site = Site(tmp_path, idle=[POLICY | {"then": "shrink"}])
    job = site.create("train", least=1, most=2, gpusPerReplica=1)
    for _ in range(3):
        pods = running(site, job)
        later(site, 1)
    site.cluster.ends(pods[-1], 0)
    grow_idle(site, pods, 180)
    assert idle_events(site) == []
    assert (job["status"]["state"], job["status"]["replicas"]) == ("Running", 2)


def test_a_job_that_is_made_smaller_stays_so_though_its_pods_are_new(tmp_path: Path) -> None:
    site = Site(tmp_path, idle=[POLICY | {"then": "shrink"}])
    job = site.create("train", least=1, most=2, gpusPerReplica=1)
    pods = running(site, job)
    assert len(pods) == 2
    grow_idle(site, pods, 60)
    for _ in range(4):
        site.run()
        site.settle()
    (alone,) = site.pods_of(job)
    assert (job["status"]["state"], job["status"]["replicas"]) == ("Running", 1)
    assert alone["metadata"]["uid"] not in {one["metadata"]["uid"] for one in pods}
    for _ in range(6):
        later(site, 5)
        hear(site, [], 0)
    assert len(site.pods_of(job)) == 1, "a pod that is new cannot be known to be idle yet"
    hear(site, [alone], 18)
    later(site, 30)
    hear(site, [alone], 48)
    assert len(site.pods_of(job)) == 1
    later(site, 5)
    hear(site, [], 0)
    assert idle_events(site)[-1] == ("Pod", "IdleBusy")
    for _ in range(4):
        site.run()
        site.settle()
    assert len(site.pods_of(job)) == 2, "it is used again"
    for pod in site.pods_of(job):
        site.cluster.ends(pod, 0)
    site.settle()
    assert "completionTime" in job["status"]
    check_hours(site)


def marked(pods: Iterable[Thing]) -> dict[str, Thing]:
    """What is said on pods of why they are deleted, by their names."""
    found = ((one["metadata"]["name"], condition(one, "DisruptionTarget")) for one in pods)
    return {name: {"reason": said["reason"]} | json.loads(said["message"]) for name, said in found if said}


@pytest.mark.parametrize("calls", range(8))
def test_each_pod_says_before_it_is_deleted_that_its_job_was_idle(tmp_path: Path, calls: int) -> None:
    """Even if the operator is killed after any number of its calls."""
    site = Site(tmp_path, idle=[POLICY])
    job = site.create("train", least=2, gpusPerReplica=1, timeLimitSeconds=360_000)
    pods = running(site, job)
    began, attempt, world = site.now, job["status"]["jobId"], job["status"]["world"]
    grow_idle(site, pods, 50)
    site.service.hear_idle(Feed(site.now, {one["metadata"]["uid"]: Reading.of(3600, site.now) for one in pods}))
    site.kill(calls)
    site.restart()
    site.settle()
    assert all(one["metadata"].get("deletionTimestamp") for one in pods)
    found = marked(pods)
    assert found.keys() == {one["metadata"]["name"] for one in pods}
    for said in found.values():
        assert said.pop("text").startswith("idle for 1h, as measured at ")
        assert said == {
            "reason": "IdleReclaimed", "act": "suspended", "actor": "idle policy", "job": "chem/train",
            "allocation": attempt, "world": world, "left": 0,
            "time_limit_at": f"{datetime.fromtimestamp(began + 360_000, UTC):%Y-%m-%dT%H:%M:%S.000Z}",
        }  # fmt: skip
    site.run()
    site.settle()
    assert (job["status"]["state"], site.pods_of(job)) == ("Suspended", [])


def test_only_the_ranks_that_an_idle_job_loses_say_so_and_those_that_somebody_takes_then(tmp_path: Path) -> None:
    site = Site(tmp_path, idle=[POLICY | {"then": "shrink"}])
    job = site.create("train", least=3, most=4, gpusPerReplica=1)
    pods = running(site, job)
    grow_idle(site, pods, 60)
    (said,) = marked(pods).items()
    assert (said[0], said[1]["act"], said[1]["reason"]) == (pods[3]["metadata"]["name"], "shrunk", "IdleReclaimed")
    assert said[1]["left"] == 3
    for _ in range(4):
        site.run()
        site.settle()
    three = site.pods_of(job)
    assert (len(three), marked(three)) == (3, {})
    job["spec"]["scaling"] = {"minReplicas": 1, "maxReplicas": 2}
    site.cluster.put("elasticjobs", job, "chem")
    site.settle()
    (said,) = marked(three).items()
    assert (said[0], said[1]["act"], said[1]["reason"]) == (three[2]["metadata"]["name"], "shrunk", "Rescaled")
    assert said[1]["actor"] == "kubernetes"


@pytest.mark.parametrize("answer", [Absent("patch is forbidden", forbidden=True), Refused("pods", "no such field")])
def test_a_pod_that_cannot_be_marked_is_deleted_all_the_same(tmp_path: Path, answer: Exception) -> None:
    site = Site(tmp_path, idle=[POLICY])
    job = site.create("train", least=2, gpusPerReplica=1)
    pods = running(site, job)
    first, second = (one["metadata"]["name"] for one in pods)
    site.cluster.answer = lambda call: answer if call.path.endswith(f"/pods/{first}/status") else "done"
    grow_idle(site, pods, 60)
    site.run()
    site.settle()
    assert (job["status"]["state"], marked(pods).keys()) == ("Suspended", {second})


def test_what_others_stop_is_not_said_to_be_idle(tmp_path: Path) -> None:
    site = Site(tmp_path, idle=[POLICY])
    job = site.create("train", least=2, gpusPerReplica=1)
    pods = running(site, job)
    grow_idle(site, pods, 50)
    site.service.suspend(job["status"]["jobId"], "ada")
    site.settle()
    assert all(one["metadata"].get("deletionTimestamp") for one in pods)
    assert marked(pods) == {}


def test_gated_pods_are_marked_and_cannot_be_suspended(tmp_path: Path) -> None:
    site = GatedSite(tmp_path, idle=[POLICY])
    pod = site.submit("train", gpus=1)
    site.settle()
    site.run()
    site.settle()
    (job,) = site.service.list()
    grow_idle(site, [pod], 180)
    assert site.service.show(job["job_id"])["status"] == "running"
    assert idle_events(site) == [("Pod", "IdleNoticed"), ("Pod", "IdleWarned")]
    assert pod["metadata"]["annotations"]["gpuledger.io/idle"].startswith("IdleWarned: idle for 30m")
    hear(site, [pod], 180)
    with pytest.raises(RefusedError, match="not ours to make again"):
        site.service.reclaim(job["job_id"], "ada")
    site.service.keep(job["job_id"], "ada")
    site.settle()
    assert "gpuledger.io/idle" not in pod["metadata"]["annotations"]


@pytest.mark.parametrize("calls", range(6))
def test_gated_pods_are_evicted_where_a_policy_cancels_and_say_so_before(tmp_path: Path, calls: int) -> None:
    """Even if the operator is killed after any number of its calls."""
    site = GatedSite(tmp_path, idle=[POLICY | {"then": "cancel"}])
    pods = [site.submit(f"train-{n}", gpus=1, group="train", group_size="2") for n in range(2)]
    other = site.submit("other", gpus=1)
    site.settle()
    site.run()
    site.settle()
    job = next(one["job_id"] for one in site.service.list() if "train" in one["job_id"])
    grow_idle(site, pods, 50)
    site.service.hear_idle(Feed(site.now, {one["metadata"]["uid"]: Reading.of(3600, site.now) for one in pods}))
    site.kill(calls)
    site.restart()
    site.settle()
    assert [bool(one["metadata"].get("deletionTimestamp")) for one in (*pods, other)] == [True, True, False]
    for pod in pods:
        assert condition(pod, "DisruptionTarget")["reason"] == "EvictionByEvictionAPI", "as an API server does"
        said = condition(pod, "gpuledger.io/Reclaimed")
        told = {"reason": said["reason"]} | json.loads(said["message"])
        assert told.pop("text").startswith("idle for 1h, as measured at ")
        assert told == {
            "reason": "IdleReclaimed", "act": "cancelled", "actor": "idle policy", "allocation": job,
        }  # fmt: skip
        assert reclaimed(pod) is not None, "the books read it"
    assert not condition(other, "gpuledger.io/Reclaimed")
    site.run()
    site.settle()
    assert site.service.explain(job)["status"] == "cancelled"
    assert ("Pod", "IdleReclaimed") in idle_events(site)


def test_other_gated_pods_are_evicted_without_a_word(tmp_path: Path) -> None:
    """Somebody cancels one, another cannot be marked, and of a third the controller makes a new one."""
    site = GatedSite(tmp_path, idle=[POLICY | {"then": "cancel"}])
    pods = [site.submit(name, gpus=1) for name in ("a", "b", "c")]
    pods[2]["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}]
    site.settle()
    site.run()
    site.settle()
    forbidden = Absent("patch is forbidden", forbidden=True)
    site.cluster.answer = lambda call: forbidden if call.path.endswith("/pods/a/status") else "done"
    mine = next(one["job_id"] for one in site.service.list() if one["job_id"].startswith("chem/b@"))
    site.service.cancel(mine, "ada")
    grow_idle(site, pods, 60)
    site.settle()
    assert all(one["metadata"].get("deletionTimestamp") for one in pods)
    assert not any(condition(one, "gpuledger.io/Reclaimed") for one in pods)
