"""Pods that others make and that wait at our gate, on a cluster in memory; and drawn histories of them."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collectors.kubernetes.pods import Around, Heard, observe
from collectors.kubernetes.settings import Settings
from scheduler.kubernetes import gated_pods, pods
from scheduler.kubernetes.elastic_jobs import LEVEL, RESOURCE
from scheduler.kubernetes.gates import EVICT_SECONDS
from scheduler.live.service import RefusedError
from tests.scheduler.kubernetes.site import DeclaredGatedSite, GatedSite
from tests.scheduler.kubernetes.standin import SPACE, Thing, gated_pod, gpu_node, node_of, space
from warehouse.errors import LedgerError


def notes(pod: Thing) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"].get("annotations", {})
    return {key.removeprefix("gpuledger.io/"): value for key, value in found.items()}


def test_a_gated_pod_is_let_in_where_the_scheduler_decides_and_its_end_is_the_job_s(tmp_path: Path) -> None:
    site = GatedSite(tmp_path)
    pod = site.submit("train", gpus=4, tenant="vision")
    site.settle()
    assert pod["spec"]["schedulingGates"] == []
    (job,) = site.service.list()
    assert (job["status"], job["tenant"], job["queue"]) == ("starting", "vision", "batch")
    assert job["nodes"] == [node_of(pod)]
    assert (notes(pod)["allocation"], notes(pod)["tenant"]) == (job["job_id"], "vision")
    site.run()
    site.settle()
    assert site.service.list()[0]["status"] == "running"
    site.cluster.ends(pod, 0)
    site.settle()
    assert site.service.list() == []
    assert site.service.explain(job["job_id"])["status"] == "finished"
    assert [one["reason"] for one in site.cluster.events] == ["QuotaReserved"]


def test_one_that_waits_says_why_and_one_without_gate_or_label_is_left_alone(tmp_path: Path) -> None:
    site = GatedSite(tmp_path)
    holders = [site.submit(f"holder-{number}", gpus=4) for number in range(3)]
    site.settle()
    waits = site.submit("waits", gpus=4)
    others = [site.submit("ungated"), site.submit("unlabelled")]
    others[0]["spec"]["schedulingGates"] = [{"name": "example.org/other"}]
    del others[1]["metadata"]["labels"]["gpuledger.io/queue"]
    before = [str(one) for one in others]
    strange = site.submit("strange", tenant="astronomy")
    site.settle()
    assert [one["spec"]["schedulingGates"] for one in holders] == [[], [], []]
    assert notes(waits)["reason"] == "InsufficientCapacity"
    assert "fit" in notes(waits)["message"]
    assert notes(strange)["reason"] == "Misconfigured"
    assert "may not name tenant 'astronomy'" in notes(strange)["message"]
    assert [str(one) for one in others] == before
    site.cluster.put("namespaces", space("chem,vision,astronomy"))
    site.cluster.forget("holder-0")
    site.settle()
    assert waits["spec"]["schedulingGates"] == []
    assert "reason" not in notes(waits)
    assert strange["spec"]["schedulingGates"], "the node is full"
    assert notes(strange)["reason"] != "Misconfigured"
    assert site.cluster.objects["pods", SPACE, "waits"] is waits
    assert not pods.is_leaving(waits)


def test_a_group_is_let_in_whole_or_not_at_all(tmp_path: Path) -> None:
    site = GatedSite(tmp_path)
    gang = [site.submit(f"w-{number}", gpus=4, group="w", group_size="3") for number in (10, 2)]
    alone = site.submit("alone", gpus=4)
    site.settle()
    assert [notes(pod)["reason"] for pod in gang] == ["PendingEvaluation"] * 2
    assert "2 of 3 pods of its group are there" in notes(gang[0])["message"]
    gang.append(site.submit("w-1", gpus=4, group="w", group_size="3"))
    site.settle()
    assert all(is_gated(pod) for pod in gang)
    assert "2 of 3 replicas fit" in notes(gang[0])["message"]
    site.cluster.forget(alone["metadata"]["name"])
    site.settle()
    assert not any(is_gated(pod) for pod in gang)
    assert len({node_of(pod) for pod in gang}) == 3
    (job,) = site.service.list()
    assert [one["name"] for one in job["payload"]["gated"]] == ["w-1", "w-2", "w-10"]
    with pytest.raises(RefusedError, match="has as many replicas as it has pods"):
        site.service.ask_rescale(job["job_id"], None, 2, "ada")
    site.run()
    site.settle()
    for pod, code in zip(gang, (0, 1, 0), strict=True):
        assert site.service.list()[0]["status"] == "running"
        site.cluster.ends(pod, code)
        site.settle()
    assert site.service.explain(job["job_id"])["status"] == "failed"


@pytest.mark.parametrize("how", ["failed", "finished", "deleted"])
def test_what_a_pod_of_a_group_held_is_free_once_it_is_over(tmp_path: Path, how: str) -> None:
    """As of an index of a Job that failed for good, while the others run for another week."""
    site = GatedSite(tmp_path)
    gang = [site.submit(f"w-{number}", gpus=4, group="w", group_size="3") for number in (0, 1, 2)]
    site.settle()
    site.run()
    waits = site.submit("waits", gpus=4)
    site.settle()
    assert is_gated(waits)
    on, (job,) = node_of(gang[1]), (one for one in site.service.list() if one["status"] == "running")
    if how == "deleted":
        site.cluster.forget("w-1")
    else:
        site.cluster.ends(gang[1], 1 if how == "failed" else 0)
    site.settle()
    assert node_of(waits) == on, "at once"
    site.restart()
    site.run()
    site.settle()
    shown = site.service.show(job["job_id"])
    assert (shown["status"], [one["name"] for one in shown["payload"]["gated"]]) == ("running", ["w-0", "w-2"])
    assert not any(map(pods.is_leaving, gang))
    for pod in (gang[0], gang[2]):
        site.cluster.ends(pod, 0)
    site.settle()
    found = site.service.explain(job["job_id"])
    assert found["status"] == ("failed" if how == "failed" else "finished")
    assert ("pod w-1: " in str(found["history"][-1])) == (how == "failed"), "also after a restart"
    assert sum(line["allocated"] for line in site.service.pools()) == 4


def test_what_cannot_be_one_job_says_so(tmp_path: Path) -> None:
    site = GatedSite(tmp_path)
    uneven = [site.submit(f"u-{gpus}", gpus=gpus, group="u", group_size="2") for gpus in (1, 2)]
    unsure = [site.submit(f"v-{size}", group="v", group_size=size) for size in ("2", "two")]
    both = site.submit("both", resource="nvidia.com/mig-1g.10gb")
    both["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1"
    lost = site.submit("lost", queue="nowhere")
    picky = site.submit("picky")
    picky["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "p-1"}
    many = site.submit("many", group="m", group_size="9" * 5000)
    huge = site.submit("huge")
    asked = {"matchExpressions": [{"key": "rack", "operator": "Gt", "values": ["9" * 5000]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [asked]}}
    huge["spec"]["affinity"] = {"nodeAffinity": required}
    for node in ("p-0", "p-1"):
        site.cluster.objects["nodes", "", node]["metadata"]["labels"] = {"rack": "3"}
    site.settle()
    assert "name different accelerators" in notes(uneven[0])["message"]
    assert "has the label gpuledger.io/group-size '2' and 'two'" in notes(unsure[1])["message"]
    assert "asks for nvidia.com/gpu and nvidia.com/mig-1g.10gb" in notes(both)["message"]
    assert "queue 'nowhere' is not one of batch" in notes(lost)["message"]
    assert all("excludes nodes of every pool" in notes(pod)["message"] for pod in (picky, huge))
    assert "has the label gpuledger.io/group-size '999" in notes(many)["message"]
    assert {notes(pod)["reason"] for pod in (*uneven, *unsure, both, lost, picky, many, huge)} == {"Misconfigured"}
    assert site.service.list() == []
    waiting = [(one.labels, one.value) for one in site.service.series() if one.name == "gated_pods_without_job"]
    assert waiting == [({"cause": "Misconfigured"}, 8), ({"cause": "UnknownQueue"}, 1)]


def test_a_preempted_pod_is_evicted_and_deleted_where_a_budget_forbids_that(tmp_path: Path) -> None:
    site = GatedSite(tmp_path)
    chem = [site.submit(f"chem-{number}", gpus=4, tenant="chem") for number in range(3)]
    for pod in chem:
        pod["metadata"]["labels"]["budget"] = "yes"
    site.settle()
    site.run()
    site.settle()
    site.submit("vision", gpus=4, tenant="vision")
    for _ in range(5):
        site.operator.step()
    assert not any(pods.is_leaving(pod) for pod in chem), "the budget forbids it"
    site.now += EVICT_SECONDS
    for _ in range(5):
        site.operator.step()
    (victim,) = [pod for pod in chem if pods.is_leaving(pod)]
    site.settle()
    vision = site.cluster.objects["pods", SPACE, "vision"]
    assert is_gated(vision), "nothing is free before it is gone"
    site.run()
    site.settle()
    assert node_of(vision) == node_of(victim)
    statuses = {one["job_id"].partition("@")[0]: one["status"] for one in site.service.list()}
    assert f"{SPACE}/{victim['metadata']['name']}" not in statuses, "an evicted pod does not come back"
    assert site.operator._admission._known == {}, "what the log says of it is not remembered once it is gone"
    again = site.submit(victim["metadata"]["name"], gpus=4, tenant="chem")
    site.settle()
    assert is_gated(again)
    assert notes(again)["reason"] in ("WaitingForQuota", "InsufficientCapacity")


def test_one_that_ends_by_itself_while_a_budget_forbids_its_eviction_leaves_no_job_behind(tmp_path: Path) -> None:
    site = GatedSite(tmp_path)
    chem = [site.submit(f"chem-{number}", gpus=4, tenant="chem", group=f"{number}", group_size="1") for number in "abc"]
    for pod in chem:
        pod["metadata"]["labels"]["budget"] = "yes"
    site.settle()
    site.run()
    site.settle()
    vision = site.submit("vision", gpus=4, tenant="vision")
    for _ in range(3):
        site.operator.step()
    (victim,) = [one["payload"]["gated"][0]["name"] for one in site.service.list() if one["status"] == "stopping"]
    site.cluster.ends(site.cluster.objects["pods", SPACE, victim], 0)
    site.settle()
    assert not is_gated(vision)
    assert sorted(one["status"] for one in site.service.list()) == ["running", "running", "starting"]


def test_a_pod_of_a_cancelled_job_says_so_and_is_not_submitted_again(tmp_path: Path) -> None:
    site = GatedSite(tmp_path)
    for number in range(3):
        site.submit(f"holder-{number}", gpus=4)
    site.settle()
    waits = site.submit("waits", gpus=4)
    site.settle()
    (job,) = [one["job_id"] for one in site.service.list() if one["status"] == "pending"]
    site.service.cancel(job, "somebody")
    for _ in range(2):
        site.settle()
        assert is_gated(waits)
        assert notes(waits)["reason"] == "Cancelled"
        assert len(site.service.list()) == 3
        site.restart()


def test_what_others_do_to_gate_or_pod_ends_the_job_and_the_pod_is_left_alone(tmp_path: Path) -> None:
    site = GatedSite(tmp_path)
    site.submit("holder", gpus=4, group="h", group_size="1")
    rest = [site.submit(f"rest-{number}", gpus=4) for number in range(3)]
    site.settle()
    (waits,) = [pod for pod in rest if is_gated(pod)]
    waits["spec"] |= {"schedulingGates": [], "nodeName": "p-0"}
    site.cluster.says(waits, "Running")
    before = str(waits)
    site.settle()
    assert str(waits) == before
    assert len(site.service.list()) == 3


def test_a_group_ends_without_the_pod_that_somebody_else_let_in(tmp_path: Path) -> None:
    site = GatedSite(tmp_path)
    first, second = (site.submit(f"w-{number}", group="w", group_size="2") for number in range(2))
    site.cluster.answer = lambda call: "lost" if call.path.endswith("w-1") else "done"
    site.operator.step()
    assert (is_gated(first), is_gated(second)) == (False, True)
    second["spec"] |= {"schedulingGates": [], "nodeName": "by-hand"}
    site.cluster.says(second, "Running")
    site.cluster.answer = lambda call: "done"
    site.settle()
    site.run()
    site.settle()
    assert [one["status"] for one in site.service.list()] == ["running"]
    site.cluster.ends(first, 0)
    site.settle()
    assert site.service.list() == []


def test_mig_partitions_are_profiles_and_other_requests_are_read_as_the_books_read_them() -> None:
    pod = gated_pod("a", "u", 2, "nvidia.com/mig-1g.10gb", priority="7", pool="cut")
    pod["spec"] |= {"activeDeadlineSeconds": 60, "priority": 1000}
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1500m", "memory": "2Gi"}
    job = gated_pods.job_of([pod], "chem", "cut", False, frozenset({"cpu", "memory"}))
    expected = {"devices": 2, "profile": "1g.10gb", "pool": "cut", "cpu_milli": 1500, "host_memory_bytes": 2 << 30}
    assert job["request"] == expected
    assert (job["priority"], job["time_limit"], job["job_id"]) == (7, 60.0, f"{SPACE}/a@u")
    declared = gated_pods.job_of([pod], "chem", "", True, frozenset())
    assert declared["request"] == {"devices": 2, "pool": "", "labels": {RESOURCE: "nvidia.com/mig-1g.10gb"}}


def test_devices_of_a_resource_that_only_a_pool_knows_are_counted(tmp_path: Path) -> None:
    site = DeclaredGatedSite(tmp_path)
    odd = gpu_node("odd-0", pool="odd")
    odd["status"]["allocatable"] = {"acme.com/npu": "4"}
    site.cluster.put("nodes", odd)
    site.declare("computepools", "odd", nodeSelector={"pool": "odd"}, resourceNames=["acme.com/npu"])
    site.settle()
    held = site.submit("held", gpus=3, resource="acme.com/npu", tenant="vision", pool="odd")
    site.settle()
    waits = site.submit("waits", gpus=2, resource="acme.com/npu", tenant="vision", pool="odd")
    site.settle()
    assert (held["spec"]["schedulingGates"], node_of(held)) == ([], "odd-0")
    assert notes(waits)["reason"] == "InsufficientCapacity"
    assert site.cluster.objects["computepools", "", "odd"]["status"]["allocated"] == 3


def test_a_pod_waits_for_its_queue_to_be_declared(tmp_path: Path) -> None:
    site = DeclaredGatedSite(tmp_path)
    pod = site.submit("train")
    pod["metadata"]["labels"]["gpuledger.io/queue"] = "night"
    site.settle()
    assert notes(pod)["reason"] == "Misconfigured"
    site.declare("queues", "night")
    site.settle()
    assert pod["spec"]["schedulingGates"] == []


def test_a_pod_asks_for_an_isolation_level_by_its_label() -> None:
    pod = gated_pod("a", "u", isolation="exclusive")
    asked = gated_pods.job_of([pod], "chem", "p", labelled=True, weighs=frozenset())["request"]
    assert asked["labels"] == {RESOURCE: "nvidia.com/gpu", LEVEL: "exclusive"}
    pod["metadata"]["labels"] |= {"gpuledger.io/group": "g", "gpuledger.io/group-size": "2"}
    other = gated_pod("b", "v", group="g", group_size="2")
    with pytest.raises(LedgerError, match="name different accelerators"):
        gated_pods.job_of([pod, other], "chem", "p", labelled=True, weighs=frozenset())


def test_a_pod_goes_only_where_all_nodes_of_its_pool_suit_it() -> None:
    pools = {
        "a": [gpu_node("a-0", kind="a"), gpu_node("a-1", kind="a", rack="7")],
        "b": [gpu_node("b-0", kind="b")],
    }
    pod = gated_pod("x", "u")
    assert gated_pods.pool_of([pod], pools) == ""
    pod["spec"]["nodeSelector"] = {"kind": "a"}
    assert gated_pods.pool_of([pod], pools) == "a"
    term = {"matchExpressions": [{"key": "rack", "operator": "DoesNotExist"}]}
    pod["spec"]["affinity"] = {"nodeAffinity": {gated_pods.REQUIRED: {"nodeSelectorTerms": [term]}}}
    with pytest.raises(LedgerError, match="excludes nodes of every pool"):
        gated_pods.pool_of([pod], pools)
    pod["spec"].pop("nodeSelector")
    assert gated_pods.pool_of([pod], pools) == "b"
    pod["metadata"]["labels"][gated_pods.POOL] = "a"
    with pytest.raises(LedgerError, match="excludes nodes of pool a"):
        gated_pods.pool_of([pod], pools)
    patch = gated_pods.admission(pod, "b-0", "j", "t")
    (narrowed,) = patch["spec"]["affinity"]["nodeAffinity"][gated_pods.REQUIRED]["nodeSelectorTerms"]
    assert narrowed["matchExpressions"] == term["matchExpressions"]


def test_a_gated_pod_is_one_allocation_in_the_books(tmp_path: Path) -> None:
    """The watcher's, as for an ElasticJob's pods: `--events` is refused beside this executor."""
    site = GatedSite(tmp_path)
    pod = site.submit("train", gpus=4, tenant="vision")
    pod["metadata"]["creationTimestamp"] = "2026-10-01T08:00:00Z"
    settings = Settings(cluster="c", tenant_marks=("gpuledger.io/tenant",))
    known, rows = None, []

    def watched(minute: int) -> None:
        nonlocal known
        when = datetime(2026, 10, 1, 8, minute, tzinfo=UTC)
        seen = observe(known, copy.deepcopy(pod), Around(), settings, Heard(when))
        known = seen.known
        rows.extend(seen.rows)

    watched(0)
    site.settle()
    watched(1)
    site.run()
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-10-01T08:02:00Z"}
    pod["status"]["conditions"] = [bound]
    site.settle()
    watched(2)
    site.restart()
    site.settle()
    watched(3)
    site.cluster.ends(pod, 0)
    site.settle()
    watched(4)
    found = [(one["event"], one["allocation_id"]) for one in rows if one.get("allocation_id")]
    identity = pod["metadata"]["uid"]
    assert found == [("submitted", identity), ("started", identity), ("finished", identity)]
    assert {(one["tenant"], one["queue"]) for one in rows} == {("vision", "batch")}


def is_gated(pod: Thing) -> bool:
    return bool(pod["spec"].get("schedulingGates"))
