"""The operator on a cluster in memory: what becomes of an ElasticJob, and drawn histories in which all goes wrong."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from collectors.kubernetes.api import Absent, Interrupted, Refused
from collectors.kubernetes.connection import KubernetesError
from collectors.kubernetes.objects import child, condition
from scheduler.kubernetes import pods
from scheduler.kubernetes.calls import Call
from scheduler.kubernetes.elastic_jobs import ENDED, job_id, policy_of
from scheduler.kubernetes.executor import AGAIN_SECONDS
from scheduler.kubernetes.operator import POSITION_SECONDS
from scheduler.live.idle import Feed, Reading
from scheduler.live.scaled_jobs import Measured
from scheduler.live.scaled_jobs import Reading as Use
from scheduler.live.service import RefusedError
from scheduler.records.restore import restore
from tests.draws import keep_seed
from tests.scheduler.kubernetes.hours import check_hours
from tests.scheduler.kubernetes.marks import check_marks
from tests.scheduler.kubernetes.site import NODES, Site, histories
from tests.scheduler.kubernetes.standin import SPACE, StandIn, Thing, elastic_job, gpus_of, node, node_of, space
from warehouse.errors import LedgerError


def test_pods_with_gpus_tolerate_the_taint_of_their_gpus(tmp_path: Path) -> None:
    site = Site(tmp_path)
    own = {"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}
    gpus = {"key": "nvidia.com/gpu", "operator": "Exists"}
    for name, more, wanted in (
        ("plain", {}, [gpus]), ("own", {"tolerations": [own]}, [own, gpus]), ("none", {"tolerations": None}, [gpus]),
    ):  # fmt: skip
        spec = {"containers": [{"name": "main", "image": "train"}], **more}
        job = site.create(name, gpusPerReplica=1, template={"metadata": {}, "spec": spec})
        site.settle()
        (pod,) = site.pods_of(job)
        assert pod["spec"]["tolerations"] == wanted


def asking(resource: str, many: str) -> Thing:
    return {"name": "main", "image": "train", "resources": {"limits": {resource: many}}}


def services(site: Site) -> list[Thing]:
    return [one for (kind, _, _), one in site.cluster.objects.items() if kind == "services"]


def test_a_job_of_a_former_one_s_name_has_a_service_of_its_own(tmp_path: Path) -> None:
    """What the former one owned is collected later, perhaps when the new one's pods run."""
    site = Site(tmp_path)
    site.create("train", least=2, gpusPerReplica=1)
    site.settle()
    (old,) = services(site)
    site.cluster.delete("elasticjobs", "train", SPACE)
    site.settle()
    job = site.create("train", least=2, gpusPerReplica=1)
    site.settle()
    del site.cluster.objects["services", SPACE, old["metadata"]["name"]]  # as the garbage collector does
    (new,) = services(site)
    assert new["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    assert {one["spec"]["subdomain"] for one in site.pods_of(job)} == {new["metadata"]["name"]}


def test_a_service_that_somebody_deleted_is_there_again_for_the_next_world(tmp_path: Path) -> None:
    site = Site(tmp_path)
    job = site.create("train", least=2, most=2, gpusPerReplica=1)
    site.settle()
    site.run()
    site.settle()
    (service,) = services(site)
    del site.cluster.objects["services", SPACE, service["metadata"]["name"]]
    job["spec"]["scaling"]["maxReplicas"] = 3
    site.cluster.put("elasticjobs", job, SPACE)
    for _ in range(10):
        site.now += 5
        site.settle()
        site.run()
    assert len(site.pods_of(job)) == 3
    assert [one["metadata"]["name"] for one in services(site)] == [service["metadata"]["name"]]


def test_a_job_becomes_pods_on_its_nodes_and_its_end_is_reported(tmp_path: Path) -> None:
    site = Site(tmp_path)
    job = site.create("train", least=2, gpusPerReplica=4, tenant="vision", project="ocr")
    site.settle()
    first, second = site.pods_of(job)
    assert {node_of(first), node_of(second)} <= {"p-0", "p-1", "p-2"}
    assert node_of(first) != node_of(second)
    assert gpus_of(first) == 4
    said = first["metadata"]["annotations"]
    assert (said["gpuledger.io/tenant"], said["gpuledger.io/project"]) == ("vision", "ocr")
    (owner,) = first["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("ElasticJob", job["metadata"]["uid"], True)
    env = {one["name"]: one["value"] for one in second["spec"]["containers"][0]["env"]}
    assert (env["RANK"], env["WORLD_SIZE"]) == ("1", "2")
    (service,) = services(site)
    assert service["metadata"]["ownerReferences"] == first["metadata"]["ownerReferences"]
    assert service["metadata"]["name"] == first["spec"]["subdomain"] == second["spec"]["subdomain"]
    assert env["MASTER_ADDR"] == f"{first['metadata']['name']}.{first['spec']['subdomain']}.{SPACE}.svc"
    status = job["status"]
    assert (status["state"], status["replicas"], status["readyReplicas"]) == ("Starting", 2, 0)
    site.run()
    site.settle()
    status = job["status"]
    assert (status["state"], status["readyReplicas"], condition(job, "PodsReady")["status"]) == ("Running", 2, "True")
    for pod in site.pods_of(job):
        site.cluster.ends(pod, 0)
    site.settle()
    assert job["status"]["state"] == "Succeeded"
    assert condition(job, "Finished")["status"] == "True"
    assert len(site.pods_of(job)) == 2, "what is over is kept, for its logs"
    assert [one["reason"] for one in site.cluster.events] == ["Starting", "Running", "Succeeded"]
    assert site.cluster.events[1]["message"].startswith("Running: 2 replicas on p-")
    site.create("alone")
    site.settle()
    assert site.cluster.events[-1]["message"].startswith("Starting: 1 replica on p-")


def test_what_waits_says_why_in_the_words_of_kueue(tmp_path: Path) -> None:
    site = Site(tmp_path)
    huge = site.create("huge", least=4, gpusPerReplica=4)
    strange = site.create("strange", tenant="astronomy")
    lost = site.create("lost", queue="nowhere")
    first = site.create("first", least=3, gpusPerReplica=4)
    second = site.create("second", gpusPerReplica=4)
    site.settle()
    assert condition(huge, "QuotaReserved")["reason"] == "NoMatchingFlavor"
    assert "may not name tenant 'astronomy'" in strange["status"]["message"]
    assert condition(strange, "QuotaReserved")["reason"] == "Misconfigured"
    assert (lost["status"]["state"], lost["status"]["reason"]) == ("Rejected", "UnknownQueue")
    assert (first["status"]["state"], first["status"]["reason"]) == ("Pending", "InsufficientCapacity")
    assert "2 of 3 replicas fit" in first["status"]["message"]
    assert second["status"]["state"] == "Starting", "it does not delay the first"
    site.cluster.put("namespaces", space("astronomy"))
    site.settle()
    assert "astronomy" not in strange["status"].get("message", "")


def test_a_template_says_neither_who_pays_nor_where_it_runs(tmp_path: Path) -> None:
    site = Site(tmp_path)
    template = elastic_job("x", "x")["spec"]["template"]
    template["metadata"] = {"labels": {"gpuledger.io/tenant": "vision", "app": "mine"}}
    template["spec"] |= {"nodeName": "elsewhere"}
    job = site.create("sly", template=template)
    greedy = elastic_job("x", "x")["spec"]["template"]
    greedy["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "8"}}
    refused = site.create("greedy", template=greedy)
    site.settle()
    (pod,) = site.pods_of(job)
    assert pod["metadata"]["labels"]["app"] == "mine"
    assert "gpuledger.io/tenant" not in pod["metadata"]["labels"]
    assert pod["metadata"]["annotations"]["gpuledger.io/tenant"] == "chem", "the first that its namespace may name"
    assert "nodeName" not in pod["spec"]
    assert refused["status"]["state"] == "Rejected"
    assert "say gpusPerReplica instead" in refused["status"]["message"]


@pytest.mark.parametrize(
    ("resource", "more", "named"),
    [
        ("nvidia.com/gpu", {"initContainers": [asking("nvidia.com/gpu", "8")]}, "nvidia.com/gpu"),
        ("acme.com/npu", {"initContainers": [asking("acme.com/npu", "8")]}, "acme.com/npu"),
        ("nvidia.com/gpu", {"containers": [asking("nvidia.com/mig-1g.10gb", "7")]}, "nvidia.com/mig-1g.10gb"),
        ("nvidia.com/gpu", {"containers": [asking("cpu", "1"), asking("amd.com/gpu", "2")]}, "amd.com/gpu"),
        ("nvidia.com/gpu", {"containers": [asking("cpu", "1"), asking("nvidia.com/gpu", "0")]}, "nvidia.com/gpu"),
    ],
)
def test_a_template_takes_no_devices_that_the_scheduler_does_not_count(
    tmp_path: Path, resource: str, more: Thing, named: str
) -> None:
    site = Site(tmp_path)
    spec = {"containers": [asking("cpu", "1")], "restartPolicy": "Never"} | more
    job = site.create("sly", gpusPerReplica=1, resourceName=resource, template={"metadata": {}, "spec": spec})
    site.settle()
    assert (job["status"]["state"], job["status"]["reason"]) == ("Rejected", "CannotRun")
    assert f"asks for {named}: say gpusPerReplica" in job["status"]["message"]


@pytest.mark.parametrize("part", ["labels", "ownerReferences"])
def test_a_pod_whose_mark_somebody_takes_away_does_not_run_on_beside_its_job(tmp_path: Path, part: str) -> None:
    site = Site(tmp_path)
    job = site.create("train", gpusPerReplica=4)
    site.settle()
    site.run()
    site.settle()
    (pod,) = site.pods_of(job)
    del pod["metadata"][part]
    site.cluster.number += 1
    site.cluster.answer = lambda call: "lost" if call.method == "DELETE" else "done"
    for _ in range(3):
        site.operator.step()
    assert not pods.is_leaving(pod)
    site.cluster.answer = lambda _: "done"
    site.settle()
    assert pods.is_leaving(pod)
    site.cluster.forget(pod["metadata"]["name"])
    site.settle()
    site.run()
    site.settle()
    (again,) = site.pods_of(job)
    assert (again["metadata"]["name"] != pod["metadata"]["name"], job["status"]["attempt"]) == (True, 2)


def test_a_failed_rank_ends_the_others_and_one_taken_away_begins_another_attempt(tmp_path: Path) -> None:
    site = Site(tmp_path)
    fails = site.create("fails", least=2, gpusPerReplica=1)
    taken = site.create("taken", least=2, gpusPerReplica=1)
    site.settle()
    site.run()
    site.settle()
    site.cluster.ends(site.pods_of(fails)[1], 3)
    site.cluster.says(site.pods_of(taken)[0], "Failed", reason="Evicted", message="low on memory")
    site.settle()
    assert fails["status"]["state"] == "Stopping"
    assert pods.is_leaving(site.pods_of(fails)[0])
    assert condition(taken, "Evicted")["reason"] == "NodeLost"
    for _ in range(4):
        site.run()
        site.now += 1
        site.settle()
    assert fails["status"]["state"] == "Failed"
    assert "exit status 3" in fails["status"]["message"]
    assert (taken["status"]["state"], taken["status"]["attempt"]) == ("Running", 2)
    assert condition(taken, "Evicted")["status"] == "False"


def test_ttl_suspend_and_deletion(tmp_path: Path) -> None:
    site = Site(tmp_path)
    short = site.create("short", ttlSecondsAfterFinished=60)
    sleeper = site.create("sleeper", gpusPerReplica=2)
    gone = site.create("gone", gpusPerReplica=2)
    site.settle()
    site.run()
    site.settle()
    site.cluster.ends(site.pods_of(short)[0], 0)
    sleeper["spec"]["suspend"] = True
    site.cluster.delete("elasticjobs", "gone")
    site.settle()
    assert pods.is_leaving(site.pods_of(gone)[0])
    site.run()
    site.settle()
    assert site.pods_of(gone) == []
    assert (sleeper["status"]["state"], site.pods_of(sleeper)) == ("Suspended", [])
    site.now += 61
    site.settle()
    assert short not in site.cluster.jobs()
    site.settle()
    assert site.pods_of(short) == [], "its pod went with it"
    sleeper["spec"]["suspend"] = False
    site.cluster.number += 1
    site.settle()
    assert (sleeper["status"]["state"], len(site.pods_of(sleeper))) == ("Starting", 1)


def test_a_resized_job_restarts_with_its_size_and_one_that_finished_meanwhile_does_not(tmp_path: Path) -> None:
    for finishes in (False, True):
        site = Site(tmp_path / str(finishes))
        wide = site.create("wide", least=1, most=3, gpusPerReplica=4)
        site.settle()
        site.run()
        site.settle()
        before = site.pods_of(wide)
        assert len(before) == 3
        narrow = site.create("narrow", gpusPerReplica=4, tenant="vision")

        def all_finish(call: Call, pods_of: list[Thing] = before, cluster: StandIn = site.cluster) -> str:
            for pod in pods_of if call.method == "DELETE" else []:
                if not pods.is_over(pod):
                    cluster.ends(pod, 0)
            return "done"

        if finishes:
            site.cluster.answer = all_finish
        for _ in range(4):
            site.now += 1
            site.settle()
            site.run()
        site.settle()
        if finishes:
            assert wide["status"]["state"] == "Succeeded"
            assert [one["metadata"]["name"] for one in site.pods_of(wide)] == [
                one["metadata"]["name"] for one in before
            ]
        else:
            assert (wide["status"]["state"], wide["status"]["replicas"], wide["status"]["attempt"]) == ("Running", 2, 1)
            env = {one["name"]: one["value"] for one in site.pods_of(wide)[1]["spec"]["containers"][0]["env"]}
            assert (env["RANK"], env["WORLD_SIZE"], env["GPULEDGER_ATTEMPT"]) == ("1", "2", "1")
            assert narrow["status"]["state"] == "Running"


def test_what_ended_while_nobody_looked_ends_when_it_did_whatever_its_owner_changed_since(tmp_path: Path) -> None:
    for change in ({"scaling": {"minReplicas": 1, "maxReplicas": 1}}, {"suspend": True}, None):
        site = Site(tmp_path / str(change)[:9])
        job = site.create("train", least=1, most=3)
        site.settle()
        if change is None:
            site.run()
            site.settle()
        site.now += 2
        site.run()
        ended = site.now = site.now + 8
        for pod in site.pods_of(job):
            site.cluster.ends(pod, 0, when=ended)
        site.now += 100
        if change:
            job["spec"].update(change)
            site.cluster.put("elasticjobs", job, SPACE)
        else:
            site.cluster.delete("elasticjobs", "train")
        site.restart()
        site.settle()
        told: list[Thing] = []
        restore(site.log.entries(), site.log.of_kind("configured"), "c", lambda kind, rows, to=told: to.extend(rows))
        last = [row for row in told if row.get("event") not in (None, "waits")][-1]
        assert (last["event"], last["ts"].timestamp()) == ("finished", ended), change


def test_a_change_of_scaling_is_followed_or_explained(tmp_path: Path) -> None:
    site = Site(tmp_path, tenants=[{"name": "chem", "limit": 10}])
    job = site.create("wide", least=1, most=2, gpusPerReplica=2)
    waits = site.create("waits", least=5, gpusPerReplica=4)

    def after(least: int, most: int, of: Thing = job) -> tuple[int, str]:
        of["spec"]["scaling"] = {"minReplicas": least, "maxReplicas": most}
        site.cluster.number += 1
        for _ in range(5):
            site.now += 6
            site.settle()
            site.run()
        site.settle()
        assert of["status"].get("replicas") == len([one for one in site.pods_of(of) if not pods.is_over(one)])
        return of["status"]["replicas"], of["status"].get("reason", "")

    assert after(1, 2) == (2, "")
    assert condition(job, "ScalingLimited") == {}
    assert after(1, 4) == (4, "")
    assert after(1, 1) == (1, "")
    assert after(3, 3) == (3, "")
    assert after(4, 2) == (3, "Misconfigured")
    limited = condition(job, "ScalingLimited")
    assert (limited["status"], limited["reason"]) == ("True", "Misconfigured")
    assert "it stays from 3 to 3: replicas from 4 to 2 are not a range" in limited["message"]
    with pytest.raises(RefusedError, match="has its size from its ElasticJob"):
        site.service.ask_rescale(job_id(job), 1, None, "ada")
    site.restart()
    assert after(4, 2) == (3, "Misconfigured"), "still, after a restart"
    assert after(6, 6) == (5, "ExceedsMaxQuota")
    said = condition(job, "ScalingLimited")["message"]
    assert said == "has 5 of at least 6 replicas: limits allow 10 device units in all"
    assert after(2, 5) == (5, "")
    assert condition(job, "ScalingLimited")["status"] == "False"
    assert waits["status"]["reason"] == "ExceedsMaxQuota"
    assert after(1, 1, waits) == (1, ""), "what waits is to have another number, too"
    assert after(2, 4) == (3, ""), "of its own surplus it gave up what the other needed"
    assert {"ScalingLimited", "Resized"} <= {one["reason"] for one in site.cluster.events}
    assert job["status"]["attempt"] == 1
    for pod in site.cluster.alive():
        site.cluster.ends(pod, 0)
    site.settle()
    assert (job["status"]["state"], waits["status"]["state"]) == ("Succeeded", "Succeeded")
    check_hours(site)


def test_a_job_of_which_a_rank_has_finished_does_not_grow_and_that_rank_does_not_run_again(tmp_path: Path) -> None:
    site = Site(tmp_path)
    other = site.create("other", gpusPerReplica=4)
    site.settle()
    job = site.create("wide", least=1, most=3, gpusPerReplica=4)

    def pass_time() -> None:
        for _ in range(5):
            site.now += 6
            site.settle()
            site.run()
        site.settle()

    pass_time()
    first, second = before = site.pods_of(job)
    site.cluster.ends(second, 0)
    site.settle()
    site.cluster.ends(site.pods_of(other)[0], 0)
    pass_time()
    assert other["status"]["state"] == "Succeeded"
    assert (job["status"]["state"], job["status"]["replicas"], site.pods_of(job)) == ("Running", 2, before)
    job["spec"]["scaling"] = {"minReplicas": 3, "maxReplicas": 3}
    site.cluster.number += 1
    site.restart()
    pass_time()
    assert (job["status"]["state"], job["status"]["replicas"], site.pods_of(job)) == ("Running", 2, before)
    limited = condition(job, "ScalingLimited")
    why = "a rank has finished, and a larger job would run it again"
    assert (limited["reason"], limited["message"]) == ("Completing", f"has 2 of at least 3 replicas: {why}")
    site.cluster.says(first, "Failed", reason="Evicted")
    pass_time()
    assert (job["status"]["state"], job["status"]["replicas"], job["status"]["attempt"]) == ("Running", 3, 2)
    assert condition(job, "ScalingLimited")["status"] == "False"
    for pod in site.cluster.alive():
        site.cluster.ends(pod, 0)
    site.settle()
    assert job["status"]["state"] == "Succeeded"
    check_hours(site)


def test_a_policy_of_scaling_is_followed_and_its_reasons_are_told(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.service.watches_idleness = True
    by_use = {"utilization": {"shrinkBelowPercent": 20, "growAbovePercent": 70, "windowSeconds": 600}}
    job = site.create("wide", least=1, most=6)
    job["spec"]["scaling"]["policy"] = by_use | {"coolDownSeconds": 60}

    def after(minutes: float, use: float | None = None) -> tuple[int, str, str]:
        """Its size once its pods were so used for so long; and the condition's reason and message."""
        site.now += minutes * 60
        readings = {one["metadata"]["uid"]: Use(use, 1.0) for one in site.pods_of(job)}
        site.service.hear_use(600.0, Measured(site.now, site.now, readings))
        for _ in range(4):
            site.settle()
            site.run()
        site.settle()
        found = condition(job, "ScaledByPolicy")
        assert job["status"]["replicas"] == len([one for one in site.pods_of(job) if not pods.is_over(one)])
        return job["status"]["replicas"], found["reason"], found.get("message", "")

    assert after(0) == (1, "Utilization", "its utilization is not known: at most 1")
    assert after(25, None)[2].endswith(
        "; its utilization is not known, and changes nothing: not all of its devices were measured"
    )
    assert after(1, 0.9) == (2, "Utilization", "utilization 90% over 10m with 1 replica is above 70%: at most 2")
    assert after(15, 0.9)[0] == 2, "it has not had its size for long"
    assert after(10, 0.9)[0] == 4
    assert after(25, 0.1)[:2] == (1, "Utilization")
    assert after(25, 1.0)[0] == 3
    job["spec"]["scaling"] |= {"maxReplicas": 2}
    site.cluster.number += 1
    assert after(0)[0] == 2
    assert condition(job, "ScaledByPolicy")["status"] == "False", "it has all that it asks for"
    job["spec"]["scaling"] |= {"maxReplicas": 6, "policy": {"windows": [{"minReplicas": 5, "maxReplicas": 3}]}}
    site.cluster.number += 1
    assert after(0)[0] == 2
    said = condition(job, "ScalingLimited")["message"]
    assert said.startswith(
        "spec.scaling cannot be followed, it stays from 1 to 2: spec.scaling.policy: scaling.windows: "
    )
    site.restart()
    job["spec"]["scaling"]["policy"] = {"windows": [{"maxReplicas": 3}, {"minReplicas": 2}], "timeZone": "Asia/Kolkata"}
    site.cluster.number += 1
    assert after(2) == (3, "TimeWindow", _ALWAYS)
    del job["spec"]["scaling"]["policy"]
    site.cluster.number += 1
    assert after(2) == (6, "NoPolicy", "")
    told = [one["message"] for one in site.cluster.events if one["reason"] == "ScaledByPolicy"]
    assert "utilization 10% over 10m with 4 replicas is below 20%: at most 1" in told
    assert len(told) == len(set(told)) == 7


_DAYS = "mon,tue,wed,thu,fri,sat,sun 00:00-24:00 Asia/Kolkata"
_ALWAYS = f"open: {_DAYS}; {_DAYS}: at least 2, at most 3"


def test_a_policy_that_is_none_waits_until_it_is_mended(tmp_path: Path) -> None:
    site = Site(tmp_path)
    job = site.create("wide", least=1, most=6)
    for policy, said in (
        ({}, "has neither queue, utilization nor windows"),
        ({"timeZone": "UTC", "queueDepth": {"growBelow": 1, "shrinkAt": 2}}, "is for windows, and there are none"),
        ({"windows": [{"maxReplicas": 2}], "timeZone": "Mars/Olympus"}, "expected a time zone"),
        ({"utilization": {"shrinkBelowPercent": 70, "growAbovePercent": 20}}, "the first is below the second"),
        ({"utilization": {"shrinkBelowPercent": "x", "growAbovePercent": 20}}, "is 'x', not a number"),
        ({"queueDepth": {"growBelow": 3, "shrinkAt": 2}}, "and at most the second"),
        ({"queueDepth": "often"}, "has no grow_below, shrink_at"),
        ("always", "has neither queue"),
    ):
        job["spec"]["scaling"]["policy"] = policy
        site.cluster.number += 1
        site.settle()
        assert (job["status"]["state"], job["status"]["reason"]) == ("Pending", "Misconfigured"), policy
        assert said in job["status"]["message"], job["status"]["message"]
        assert "\n" not in job["status"]["message"]
    job["spec"]["scaling"]["policy"] = {"queueDepth": {"growBelow": 1, "shrinkAt": 2}, "utilization": None}
    site.cluster.number += 1
    site.settle()
    site.run()
    site.settle()
    assert job["status"]["state"] == "Running"
    assert condition(job, "ScaledByPolicy")["reason"] == "QueueDepth"


def test_a_job_that_runs_does_so_after_a_restart_whatever_was_written_into_it_meanwhile(tmp_path: Path) -> None:
    site = Site(tmp_path)
    job = site.create("wide", least=1, most=2, tenant="vision")
    site.settle()
    site.run()
    site.settle()
    world = job["status"]["world"]
    for spec, of_tenants in (({"scaling": {"minReplicas": 1, "maxReplicas": 2, "policy": {}}}, "vision"), ({}, "chem")):
        job["spec"] |= spec
        site.cluster.put("namespaces", space(of_tenants))
        site.restart()
        site.settle()
        assert (job["status"]["state"], job["status"]["replicas"], job["status"]["world"]) == ("Running", 2, world)
        assert condition(job, "ScalingLimited")["reason"] == "Misconfigured"


def test_a_job_that_waits_says_its_position_and_one_that_runs_has_none(tmp_path: Path) -> None:
    site = Site(tmp_path)
    first = site.create("first", least=3, gpusPerReplica=4)
    site.settle()
    low, high = (site.create(name, gpusPerReplica=4, priority=rank) for name, rank in (("low", -2), ("high", -1)))
    site.now += POSITION_SECONDS
    site.settle()
    assert (first["status"].get("position"), high["status"]["position"], low["status"]["position"]) == (None, 1, 2)
    late = site.create("late", gpusPerReplica=4, priority=-1)
    site.settle()
    assert "position" not in late["status"], "they are not computed each time"
    site.now += POSITION_SECONDS
    site.settle()
    assert [one["status"]["position"] for one in (high, late, low)] == [1, 2, 3]
    site.cluster.delete("elasticjobs", "high")
    site.settle()
    site.now += POSITION_SECONDS
    site.settle()
    assert [one["status"]["position"] for one in (late, low)] == [1, 2], "though nothing else of them has changed"
    late["spec"]["suspend"] = True
    site.cluster.number += 1
    site.settle()
    assert "position" not in late["status"]


def test_nothing_is_remembered_of_jobs_that_are_gone(tmp_path: Path) -> None:
    site = Site(tmp_path)
    jobs = [site.create("small", least=2), site.create("strange", tenant="astronomy"), site.create("odd", least=2)]
    site.settle()
    jobs[2]["spec"]["scaling"] = {"minReplicas": 3, "maxReplicas": 2}
    site.cluster.number += 1
    site.settle()

    def remembered() -> set[str]:
        of_operator = (value for one in (site.operator, site.operator._executor) for value in vars(one).values())
        held = [str(one) for one in of_operator if isinstance(one, set | dict)]
        return {job["metadata"]["name"] for job in jobs if any(job["metadata"]["uid"] in one for one in held)}

    assert remembered() == {"small", "strange", "odd"}
    for job in jobs:
        site.cluster.delete("elasticjobs", job["metadata"]["name"])
    for _ in range(3):
        site.settle()
        site.run()
    site.settle()
    site.now += POSITION_SECONDS * 2
    site.settle()
    assert remembered() == set()


def test_pods_that_others_make_look_like_a_job_s_own_change_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    job = site.create("train", least=2)
    site.operator.step()  # its service
    (world,) = (str(one.world) for one in site.service.book.jobs.values())
    forged = {
        "metadata": {
            "name": "train-x",
            "labels": {pods.JOB: "train", pods.WORLD: world, pods.RANK: "1"},
            "ownerReferences": [{"kind": "ElasticJob", "name": "train", "uid": job["metadata"]["uid"]}],
        },
        "spec": {"nodeName": "p-0", "containers": [{"name": "main"}]},
        "status": {"phase": "Running"},
    }
    for where in (SPACE, "elsewhere"):
        about = forged["metadata"] | {"namespace": where, "uid": f"forged-{where}"}
        site.cluster.put("pods", forged | {"metadata": about}, where)
    site.settle()
    assert pods.is_leaving(site.cluster.objects["pods", SPACE, "train-x"]), "nobody wants it"
    site.cluster.forget("train-x")
    site.settle()
    own = {f"train-{world}-0", f"train-{world}-1"}
    assert {one["metadata"]["name"] for one in site.pods_of(job)} == own | {"train-x"}, "and the one elsewhere"
    site.run()
    site.settle()
    assert job["status"]["state"] == "Running"
    assert not pods.is_leaving(site.cluster.objects["pods", "elsewhere", "train-x"]), "what is elsewhere is not its own"


def test_a_status_that_could_not_be_written_is_written_by_the_next_round(tmp_path: Path) -> None:
    site = Site(tmp_path)
    job = site.create("train")
    site.settle()
    (pod,) = site.pods_of(job)
    waiting = {"waiting": {"reason": "ImagePullBackOff"}}
    pod["status"]["containerStatuses"] = [{"name": "worker", "state": waiting}]
    site.cluster.put("pods", pod, pod["metadata"]["namespace"])
    failures = [Interrupted("HTTP 503")]
    site.cluster.answer = lambda call: failures.pop() if failures and call.path.endswith("/status") else "done"
    site.operator.step()
    assert not failures
    assert "ImagePullBackOff" not in condition(job, "PodsReady")["message"]
    site.operator.step()
    assert "ImagePullBackOff" in condition(job, "PodsReady")["message"]


def test_a_refusal_that_is_final_ends_the_job_and_others_are_waited_out(tmp_path: Path) -> None:
    refusals: dict[Exception, str] = {
        Refused("pods", "no such field"): "Failed",
        Absent("exceeded quota", forbidden=True): "Starting",
        KubernetesError("proxy", "HTTP 302"): "Starting",
        Interrupted("HTTP 503"): "Starting",
    }
    for number, (refusal, state) in enumerate(refusals.items()):
        site = Site(tmp_path / str(number))
        asked = 0

        def answer(call: Call, refusal: Exception = refusal) -> str | Exception:
            nonlocal asked
            is_pod = call.method == "POST" and call.path.endswith("/pods")
            asked += is_pod
            return refusal if is_pod else "done"

        site.cluster.answer = answer
        job = site.create("train", backoffLimit=3)
        for _ in range(10):
            site.operator.step()
        said = job["status"]["message"] if state == "Failed" else condition(job, "PodsReady")["message"]
        assert (job["status"]["state"], str(refusal) in said) == (state, True), job["status"]
        if isinstance(refusal, Absent):
            assert asked == 1, "a quota is not asked about each round"
        site.cluster.answer = lambda call: "done"
        site.now += AGAIN_SECONDS
        site.settle()
        assert len(site.pods_of(job)) == (state == "Starting")


@pytest.mark.parametrize("unheard", range(6))
def test_what_was_done_unheard_does_not_wait_for_another_change(tmp_path: Path, unheard: int) -> None:
    site, calls = Site(tmp_path), 0

    def answer(call: Call) -> str:
        nonlocal calls
        calls += 1
        return "unheard" if calls == unheard + 1 else "done"

    site.cluster.answer = answer
    job = site.create("train", least=2)
    site.operator.step()
    site.settle()
    assert len(site.pods_of(job)) == 2
    assert "unheard" not in condition(job, "PodsReady")["message"]
    site.run()
    site.settle()
    assert job["status"]["state"] == "Running"


def test_nodes_that_take_nothing_get_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.cluster.put("nodes", node("p-0", ready=False))
    site.cluster.put("nodes", node("p-1", cordoned=True))
    del site.cluster.objects["nodes", "", "p-2"]
    job = site.create("train")
    site.settle()
    assert (job["status"]["state"], site.pods_of(job)) == ("Pending", [])
    site.cluster.put("nodes", node("p-1"))
    site.settle()
    assert node_of(site.pods_of(job)[0]) == "p-1"


IDLE = [
    {"tenants": ["chem"], "warn": 1, "after": 2, "then": "suspend"},
    {"tenants": ["vision"], "warn": 1, "after": 2, "then": "shrink"},
]


@pytest.mark.parametrize("number", histories())
def test_pods_are_what_the_scheduler_decided_whatever_happens(tmp_path: Path, number: int) -> None:
    """Users, kubelets, the API and kill -9 do what they like; then they stop, and everything is as it should be."""
    seed = os.environ.get("GPULEDGER_SEED", f"{keep_seed()} operator {number}")
    print(f"GPULEDGER_SEED={seed!r}")
    chance = random.Random(seed)
    site = Site(tmp_path, idle=IDLE)
    for _ in range(60):
        _something(site, chance)
        _nothing_is_twice(site)
    site.cluster.answer = lambda call: "done"
    for index in range(NODES):
        site.cluster.put("nodes", node(f"p-{index}"))
    for job in site.cluster.jobs():
        _mend_policy(job)
    site.cluster.number += 1
    _rest(site)
    _as_decided(site)
    for _ in range(200):
        if not site.cluster.alive() and not [one for one in site.cluster.jobs() if not _is_done(one)]:
            break
        for pod in site.cluster.alive():
            if pods.phase(pod) == "Running" and not pods.is_leaving(pod):
                site.cluster.ends(pod, 0)
        _rest(site)
        _nothing_is_twice(site)
    assert [one for one in site.cluster.jobs() if not _is_done(one)] == []
    assert site.cluster.alive() == []
    assert all(line["allocated"] == 0 for line in site.service.pools()), "nothing is held for what is over"
    check_hours(site)
    check_marks(site)
    _no_finished_rank_runs_again(site)


def _no_finished_rank_runs_again(site: Site) -> None:
    """But where a job had to give replicas up, or its attempt was over."""
    completing: set[str] = set()
    for entry in site.log.entries():
        if entry.kind == "plan":
            for action in entry.body["actions"]:
                assert action["do"] != "resize" or action["job_id"] not in completing, (
                    f"{action} of entry {entry.sequence}"
                )
                completing.discard(action["job_id"])
        elif entry.kind == "completing":
            completing.add(entry.job_id)
        elif entry.body.get("replicas", entry.kind in ("stop", "suspend", "freed", "end")):
            completing.discard(entry.job_id)


def _is_done(job: Thing) -> bool:
    return child(job, "status").get("state") in (*ENDED, "Suspended")


def _rest(site: Site) -> None:
    """Until nothing changes any more."""
    for _ in range(40):
        before = (site.cluster.number, site.log.last)
        site.run()
        site.now += AGAIN_SECONDS + 1
        site.settle()
        if (site.cluster.number, site.log.last) == before:
            return
    raise AssertionError("it does not come to rest")


def _something(site: Site, chance: random.Random) -> None:
    site.now += chance.choice([0, 0.5, 3, 10])
    cluster, jobs = site.cluster, site.cluster.jobs()
    noted = [one for one in cluster.alive() if _is_noted(site, one)]
    what = chance.choices(
        [
            "create",
            "delete",
            "suspend",
            "run",
            "end",
            "take",
            "node",
            "step",
            "faults",
            "kill",
            "idle",
            "resume",
            "scale",
            "measured",
        ],
        [3, 1, 1, 6, 3, 2, 1, 8, 3, 2, 4, 1, 2, 2],
    )[0]
    if what == "create" and len(jobs) < 12:
        least = chance.randint(1, 3)
        more = {"gpusPerReplica": chance.randint(0, 4), "backoffLimit": chance.choice([0, 1])}
        more |= {"priority": chance.randint(0, 2), "tenant": chance.choice(["chem", "vision"])}
        name = f"j{chance.randint(0, 20)}x{cluster.number}"
        job = site.create(name, least=least, most=least + chance.randint(0, 3), **more)
        if chance.random() < 0.3:
            job["spec"]["scaling"]["policy"] = _policy(chance)
    elif what == "delete" and jobs:
        cluster.delete("elasticjobs", chance.choice(jobs)["metadata"]["name"])
    elif what == "suspend" and jobs:
        job = chance.choice(jobs)
        job["spec"]["suspend"] = not job["spec"].get("suspend", False)
        cluster.number += 1
    elif what == "run":
        site.run(lambda: chance.random() < 0.7)
    elif what == "end":
        running = [one for one in cluster.alive() if pods.phase(one) == "Running"]
        for pod in running if chance.random() < 0.5 else running[:1]:
            cluster.ends(pod, 0 if chance.random() < 0.8 else 1)
    elif what == "take" and noted:
        pod = chance.choice(noted)
        how = chance.choice(["evicted", "deleted", "gone"])
        if how == "evicted":
            cluster.says(pod, "Failed", reason="Evicted", message="low on memory")
        elif how == "deleted":
            cluster.delete("pods", pod["metadata"]["name"])
        else:
            cluster.forget(pod["metadata"]["name"])
    elif what == "node":
        name = f"p-{chance.randrange(NODES)}"
        cluster.put("nodes", node(name, chance.random() < 0.6, chance.random() < 0.3))
    elif what == "step":
        cluster.answer = lambda call: "done"
        site.operator.step()
    elif what == "faults":
        cluster.answer = lambda call: chance.choice(
            ["done", "lost", "unheard", Interrupted("500"), Absent("quota", forbidden=True)]
        )
        site.operator.step()
    elif what == "kill":
        site.kill(chance.randrange(4))
        site.restart()
    elif what == "measured":
        known = [one for one in cluster.alive() if chance.random() < 0.9]
        readings = {one["metadata"]["uid"]: Use(chance.choice([0.05, 0.5, 0.9, None]), 1.0) for one in known}
        site.service.watches_idleness = True
        site.service.hear_use(300.0, Measured(site.now, site.now, readings))
        site.now += chance.choice([0, 0, 1000])
    elif what == "idle":
        used = {pods.job_uid(one) for one in cluster.alive() if chance.random() < 0.1}
        idle = [one for one in cluster.alive() if pods.job_uid(one) not in used]
        found = {one["metadata"]["uid"]: Reading.of(chance.randrange(20), site.now) for one in idle}
        site.service.hear_idle(Feed(site.now, found))
    elif what == "scale" and jobs:
        least = chance.randint(1, 3)
        scaling = {"minReplicas": least, "maxReplicas": least + chance.choice([0, 0, 1, 3, -1])}
        scaling |= chance.choice([{}, {}, {"policy": _policy(chance)}])
        chance.choice(jobs)["spec"]["scaling"] = scaling
        cluster.number += 1
    elif what == "resume":
        for one in site.service.list("suspended"):
            site.service.resume(one["job_id"], "ada")


def _policy(chance: random.Random) -> Thing:
    """Also some that are none."""
    found: Thing = {"coolDownSeconds": chance.choice([60, 600, 1])}
    if chance.random() < 0.5:
        found["queueDepth"] = {
            "growBelow": chance.choice([1, 2]),
            "shrinkAt": chance.choice([1, 2]),
            "waitedSeconds": 5,
        }
    if chance.random() < 0.5:
        found["utilization"] = {"shrinkBelowPercent": 20, "growAbovePercent": 70, "windowSeconds": 300}
    if chance.random() < 0.4:
        hours = {"start": f"{chance.randint(0, 23):02}:15", "end": f"{chance.randint(0, 23):02}:45"}
        found |= {"windows": [hours | {"maxReplicas": chance.randint(1, 3)}], "timeZone": "Asia/Kolkata"}
    return found


def _mend_policy(job: Thing) -> None:
    try:
        policy_of(job)
    except LedgerError:
        del job["spec"]["scaling"]["policy"]


def _is_noted(site: Site, pod: Thing) -> bool:
    """Whether its job's status says that all pods of its world were there: from then on none is created again."""
    found = [one for one in site.cluster.jobs() if one["metadata"]["uid"] == pods.job_uid(pod)]
    return any(str(child(one, "status").get("world")) == pods.world_of(pod) for one in found)


def _has_finished(site: Site, uid: str, rank: str) -> bool:
    """Its pod is over, while others of the job still run."""
    (world,) = (one.world for one in site.service.book.jobs.values() if one.payload["uid"] == uid)
    own = [one for one in site.cluster.pods() if pods.job_uid(one) == uid and pods.world_of(one) == str(world)]
    return any(pods.phase(one) == "Succeeded" for one in own if one["metadata"]["labels"][pods.RANK] == rank)


def _nothing_is_twice(site: Site) -> None:
    assert [name for name, count in site.cluster.created.items() if count > 1] == []
    worlds: dict[str, set[str]] = {}
    for pod in site.cluster.alive():
        worlds.setdefault(pods.job_uid(pod), set()).add(pods.world_of(pod))
    assert [job for job, found in worlds.items() if len(found) > 1] == [], "no two worlds of a job at once"


def _as_decided(site: Site) -> None:
    """What runs is what the scheduler says, where it says, and everything belongs to somebody."""
    there = {(pods.job_uid(one), one["metadata"]["labels"][pods.RANK], node_of(one)) for one in site.cluster.alive()}
    shown = [(one, site.service.book.jobs[one["job_id"]].payload["uid"]) for one in site.service.list()]
    wanted = {
        (uid, str(rank["rank"]), rank["node"])
        for one, uid in shown
        if one["status"] in ("starting", "running")
        for rank in one["ranks"]
    }
    done = {(uid, rank, on) for uid, rank, on in wanted if _has_finished(site, uid, rank)}
    assert there == wanted - done
    for one, uid in shown:
        live = site.service.book.jobs[one["job_id"]]
        (job,) = [job for job in site.cluster.jobs() if job["metadata"]["uid"] == uid]
        least, most = job["spec"]["scaling"]["minReplicas"], job["spec"]["scaling"]["maxReplicas"]
        if least <= most and not live.stop:
            assert live.asked == (least, most)
            assert live.job.scaling == policy_of(job)
            assert least <= live.job.min_replicas <= live.job.max_replicas <= most
            assert len(live.grants) <= live.job.max_replicas
            assert len(one["ranks"]) <= most
    known = {one["metadata"]["uid"] for one in site.cluster.jobs()}
    assert {pods.job_uid(one) for one in site.cluster.pods()} <= known
    states = {one["job_id"]: one["status"] for one, _ in shown}
    for job in site.cluster.jobs():
        status = job["status"]
        alike = {"pending": "Pending", "starting": "Starting", "running": "Running", "suspended": "Suspended"}
        expected = alike.get(states.get(status["jobId"], ""), status["state"])
        assert status["state"] == expected, status
