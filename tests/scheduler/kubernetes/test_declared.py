"""Pools, queues and tenants as resources of the cluster: nodes that come and go, promises that can be kept or not."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from collectors.kubernetes.objects import child, condition
from scheduler.kubernetes import pods
from scheduler.kubernetes.declarations import first_settings
from scheduler.kubernetes.elastic_jobs import ENDED
from scheduler.kubernetes.executor import AGAIN_SECONDS
from scheduler.kubernetes.inventory import hosts_of, open_hosts
from scheduler.kubernetes.pods import node_of as kubernetes_name
from scheduler.settings import Settings, SettingsError, parse_settings
from tests.draws import keep_seed
from tests.scheduler.kubernetes.site import DeclaredSite, histories
from tests.scheduler.kubernetes.standin import SPACE, Thing, gpu_node, node_of, space


def ready(of: Thing) -> tuple[str, str, str]:
    found = condition(of, "Ready")
    return found["status"], found["reason"], found.get("message", "")


def settings(site: DeclaredSite) -> Settings:
    return site.service.restored.settings


def quota(site: DeclaredSite, tenant: str, pool: str = "p") -> tuple[int, int | None] | None:
    """Guarantee and limit in force."""
    found = [(one.guaranteed, one.limit) for one in settings(site).tenants if (one.name, one.pool) == (tenant, pool)]
    return found[0] if found else None


def test_a_pool_has_the_nodes_that_its_labels_select_and_tells_what_they_do(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    pool = site.declare("computepools", "p", nodeSelector={"pool": "p"}, modelLabel="product")
    site.cluster.put("nodes", gpu_node("p-1", 4, pool="p", product="H100"))
    site.cluster.put("nodes", gpu_node("p-2", 4, cordoned=True, pool="p", product="H100"))
    site.cluster.put("nodes", gpu_node("other", 8, pool="q"))
    site.settle()
    status = pool["status"]
    assert (status["phase"], status["nodes"], status["total"], status["available"]) == ("Ready", 3, 12, 8)
    assert status["unavailable"] == 4
    assert [(one["model"], one["total"]) for one in status["models"]] == [("GPU", 4), ("H100", 8)]
    job = site.create("train", gpusPerReplica=2, models=["H100"])
    site.settle()
    assert node_of(site.pods_of(job)[0]) == "p-1"
    assert (pool["status"]["allocated"], pool["status"]["available"]) == (2, 6)
    assert site.cluster.objects["queues", "", "batch"]["status"]["allocated"] == 2


@pytest.mark.parametrize(
    ("written", "total"), [("1k", 64), ("64", 64), ("0", 0), ("-3", 0), ("many", 0), (2, 2), ("4.0", 4)]
)
def test_a_node_offers_as_many_devices_as_kubernetes_reads(tmp_path: Path, written: object, total: int) -> None:
    site = DeclaredSite(tmp_path)
    node = gpu_node("q-0", pool="q")
    node["status"]["allocatable"]["nvidia.com/gpu"] = written
    site.cluster.put("nodes", node)
    pool = site.declare("computepools", "q", nodeSelector={"pool": "q"})
    site.settle()
    assert pool["status"]["total"] == total


def test_before_there_is_anything_a_scheduler_waits_for_it(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    for kind, _, name in list(site.cluster.objects):
        if kind in ("computepools", "queues", "nodes"):
            site.remove(kind, name)
    site.restart()
    site.settle()
    site.restart()
    pool = site.declare("computepools", "p", nodeSelector={"pool": "p"}, quotas=[{"tenant": "chem", "guaranteed": 4}])
    site.settle()
    assert ready(pool)[:2] == ("False", "NoNodes")
    assert pool["status"]["phase"] == "Empty"
    site.declare("queues", "batch")
    site.cluster.put("nodes", gpu_node("p-0", 8, pool="p"))
    job = site.create("train", gpusPerReplica=8, pool="p")
    site.settle()
    assert ready(pool)[0] == "True"
    assert quota(site, "chem") == (4, None)
    assert job["status"]["state"] == "Starting"


def test_a_node_that_leaves_keeps_what_runs_gets_nothing_new_and_may_come_back(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    limited = [{"tenant": "chem", "guaranteed": 0, "limit": 10}]
    pool = site.declare("computepools", "p", nodeSelector={"pool": "p"}, model="A100", quotas=limited)
    job = site.create("first", gpusPerReplica=4, pool="p")
    site.settle()
    site.run()
    site.settle()
    (pod,) = site.pods_of(job)
    site.cluster.put("nodes", gpu_node(node_of(pod), 4, pool="elsewhere"))
    others = [site.create(f"j{number}", gpusPerReplica=2, pool="p") for number in range(5)]
    site.settle()
    assert job["status"]["state"] == "Running"
    assert (pool["status"]["total"], pool["status"]["draining"], pool["status"]["allocated"]) == (8, 4, 6)
    used = {node for one in others for node in one["status"].get("nodes", [])}
    assert node_of(pod) not in used
    assert "holds 10 of at most 10" in others[3]["status"]["message"], "what is on nodes that have left counts"
    assert [(one["total"], one["draining"]) for one in site.service.pools()] == [(8, 4)]
    site.cluster.put("nodes", gpu_node(node_of(pod), 4, pool="p"))
    site.cluster.ends(pod, 0)
    site.settle()
    assert [one["status"]["state"] for one in others] == ["Starting"] * 5
    assert (pool["status"]["total"], pool["status"]["draining"]) == (12, 0)
    assert len(hosts_of(settings(site))) == 3, "it is the same node again"


def test_a_node_goes_to_another_pool_when_jobs_have_left_it(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    other = site.declare("computepools", "q", nodeSelector={"pool": "q"}, model="A100")
    job = site.create("first", least=3, gpusPerReplica=4)
    site.settle()
    assert ready(other)[1] == "NoNodes"
    site.run()
    site.settle()
    site.cluster.put("nodes", gpu_node("p-0", 4, pool="q"))
    follows = site.create("second", gpusPerReplica=4, pool="q")
    site.settle()
    assert ready(other)[2] == "node p-0 is still used by jobs of pool p"
    assert follows["status"]["state"] == "Pending"
    site.restart()
    site.settle()
    assert follows["status"]["state"] == "Pending"
    for pod in site.pods_of(job):
        site.cluster.ends(pod, 0)
    site.settle()
    assert ready(other)[0] == "True"
    assert follows["status"]["state"] == "Starting"
    assert follows["status"]["nodes"] == ["p-0"], "as Kubernetes calls it"
    assert node_of(site.pods_of(follows)[0]) == "p-0"


def test_a_node_with_fewer_gpus_is_used_with_these_and_with_all_when_they_are_back(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    pool = site.cluster.objects["computepools", "", "p"]
    site.settle()
    for gpus, total in ((3, 11), (0, 8), (4, 12), (3, 11), (4, 12)):
        site.cluster.put("nodes", gpu_node("p-0", gpus, pool="p"))
        site.settle()
        assert pool["status"]["total"] == total
    assert sorted(host for host in hosts_of(settings(site)) if kubernetes_name(host) == "p-0") == ["p-0", "p-0~2"]


def test_an_edit_that_cannot_be_kept_is_refused_alone_and_what_was_promised_stays(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    good = [{"tenant": "chem", "guaranteed": 6}, {"tenant": "vision", "guaranteed": 4, "limit": 8}]
    pool = site.declare("computepools", "p", nodeSelector={"pool": "p"}, quotas=good)
    site.settle()
    assert (quota(site, "chem"), quota(site, "vision")) == ((6, None), (4, 8))
    bad = [{"tenant": "chem", "guaranteed": 9}, {"tenant": "vision", "guaranteed": 4, "limit": 8}]
    site.declare("computepools", "p", nodeSelector={"pool": "p"}, quotas=bad)
    night = site.declare("queues", "night", parent="nowhere")
    late = site.declare(
        "queues", "late", policy="fair_share", halfLife="7d", waitBound="12h", preempts={"scope": "all"}
    )
    both = site.declare("queues", "both", preempts={"scope": "all", "queues": ["late"]})
    for _ in range(2):
        site.settle()
        assert ready(pool) == (
            "False",
            "GuaranteesExceedCapacity",
            "tenants of pool p: 13 units are guaranteed, and there are 12; what it promised before stays in force",
        )
        assert pool["status"]["phase"] == "Degraded"
        assert (quota(site, "chem"), quota(site, "vision")) == ((6, None), (4, 8))
        assert ready(night)[:2] == ("False", "Invalid")
        assert "unknown parent 'nowhere'" in ready(night)[2]
        assert "Say one of them" in ready(both)[2]
        assert ready(late)[0] == "True"
        (queue,) = (one for one in settings(site).queues if one.name == "late")
        assert (queue.half_life, queue.wait_bound, queue.preempts) == (7 * 86400, 12 * 3600, "all")
        site.restart()
    site.declare("queues", "nowhere")
    site.declare("computepools", "p", nodeSelector={"pool": "p"}, quotas=good[:1])
    site.settle()
    assert ready(night)[0] == "True", "its parent is there now"
    assert ready(pool)[0] == "True"
    assert quota(site, "vision") is None


def test_guarantees_lost_with_their_nodes_are_reported_and_may_only_become_fewer(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    spec: Thing = {"nodeSelector": {"pool": "p"}}
    pool = site.declare("computepools", "p", **spec, quotas=[{"tenant": "chem", "guaranteed": 10}])
    site.settle()
    site.remove("nodes", "p-0")
    site.cluster.put("nodes", gpu_node("p-1", 4, pool="p", ready=False))
    site.settle()
    assert ready(pool) == (
        "False", "GuaranteesExceedCapacity", "tenants of pool p: 10 units are guaranteed, and there are 8",
    )  # fmt: skip
    assert quota(site, "chem") == (10, None)
    site.declare("computepools", "p", **spec, quotas=[{"tenant": "chem", "guaranteed": 11}])
    site.settle()
    assert quota(site, "chem") == (10, None)
    assert "11 units are guaranteed" in ready(pool)[2]
    site.declare("computepools", "p", **spec, quotas=[{"tenant": "chem", "guaranteed": 9}])
    site.settle()
    assert quota(site, "chem") == (9, None), "nearer to what there is"
    site.cluster.put("nodes", gpu_node("new", 4, pool="p"))
    site.settle()
    assert ready(pool)[0] == "True"


def test_a_pool_that_is_deleted_keeps_its_running_jobs(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    site.declare("computepools", "p", nodeSelector={"pool": "p"}, quotas=[{"tenant": "chem", "guaranteed": 4}])
    job = site.create("train", least=2, gpusPerReplica=2, pool="p")
    site.settle()
    site.run()
    site.settle()
    site.remove("computepools", "p")
    waits = site.create("waits")
    site.settle()
    site.restart()
    site.settle()
    assert (job["status"]["state"], waits["status"]["state"]) == ("Running", "Pending")
    assert quota(site, "chem") is None
    for pod in site.pods_of(job):
        site.cluster.ends(pod, 0)
    site.settle()
    assert (job["status"]["state"], site.service.pools()) == ("Succeeded", [])
    pool = site.declare("computepools", "p", nodeSelector={"pool": "p"}, model="A100")
    site.settle()
    assert (ready(pool)[0], waits["status"]["state"]) == ("True", "Starting")


def test_two_pools_that_select_one_node_do_not_both_get_it(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    first = site.cluster.objects["computepools", "", "p"]
    site.settle()
    greedy = site.declare("computepools", "a", nodeSelector={"pool": "p"})
    site.settle()
    assert ready(first)[0] == "True"
    assert ready(greedy)[:2] == ("False", "NodeConflict")
    assert ready(greedy)[2].startswith("node p-0 is in pool p; ")
    site.remove("computepools", "p")
    site.settle()
    assert (ready(greedy)[0], greedy["status"]["total"]) == ("True", 12)


def test_a_dedicated_pool_is_for_tenants_with_a_quota_and_a_reserve_for_those_it_names(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    pool = site.declare(
        "computepools", "p", nodeSelector={"pool": "p"}, isolation="dedicated",
        quotas=[{"tenant": "vision", "guaranteed": 12}],
    )  # fmt: skip
    theirs = site.create("theirs", tenant="vision", gpusPerReplica=4, pool="p")
    others = site.create("others", pool="p")
    site.settle()
    assert (theirs["status"]["state"], others["status"]["state"]) == ("Starting", "Pending")
    assert (ready(pool)[0], pool["status"]["reserved"], pool["status"]["available"]) == ("True", 8, 0)
    kept = {"reserved": "90%", "reservedFor": {"tenants": ["vision"]}}
    site.declare("computepools", "p", nodeSelector={"pool": "p"}, capacity=kept)
    site.settle()
    assert ready(pool)[:2] == ("False", "Invalid"), "no such tenant is declared"
    site.declare("tenants", "vision", weight=2)
    site.settle()
    assert (ready(pool)[0], others["status"]["state"]) == ("True", "Starting"), "90% of 12 are 11, and one is left"
    assert (pool["status"]["allocated"], pool["status"]["reserved"], pool["status"]["available"]) == (5, 7, 0)


def test_a_tenant_names_the_namespaces_that_may_name_it(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    site.cluster.put("namespaces", {"metadata": {"name": SPACE}})
    own = site.create("own")
    asks = site.create("asks", tenant="physics")
    site.settle()
    assert own["status"]["tenant"] == SPACE
    assert "may not name tenant 'physics'" in asks["status"]["message"]
    tenant = site.declare("tenants", "physics", namespaces=[SPACE], limit=1)
    site.settle()
    assert (asks["status"]["tenant"], asks["status"]["state"]) == ("physics", "Starting")
    default = site.create("default")
    site.settle()
    assert (default["status"]["tenant"], default["status"]["state"]) == ("physics", "Pending"), "over its limit"
    assert tenant["status"]["allocated"] == tenant["status"]["running"] == tenant["status"]["pending"] == 1
    site.cluster.put("namespaces", space("chem"))
    first = site.create("annotated")
    site.settle()
    assert first["status"]["tenant"] == "chem", "the annotation comes first"


def test_parents_count_what_is_below_them_and_stay_while_they_are_needed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site = DeclaredSite(tmp_path)
    parent = site.declare("queues", "all", policy="fair_share", guaranteed=4)
    site.declare("queues", "batch", parent="all", weight=3)
    site.create("train", gpusPerReplica=3)
    site.settle()
    assert (parent["status"]["running"], parent["status"]["allocated"]) == (1, 3)
    site.remove("queues", "all")
    site.settle()
    assert "all" in {queue.name for queue in settings(site).queues}
    assert "Queue all is deleted, and stays in force" in caplog.text
    site.declare("queues", "batch")
    site.settle()
    assert "all" not in {queue.name for queue in settings(site).queues}


def test_a_job_waits_for_its_queue_to_be_declared_and_is_counted_meanwhile(tmp_path: Path) -> None:
    """As where one file has both, jobs first."""
    site = DeclaredSite(tmp_path)
    job = site.create("train", queue="night")
    site.settle()
    assert (job["status"]["state"], job["status"]["reason"]) == ("Pending", "Misconfigured")
    assert job["status"]["message"] == "queue night: is not declared; Queues: batch. See kubectl get gq"
    counted = [(one.labels, one.value) for one in site.service.series() if one.name == "elastic_jobs_without_job"]
    assert counted == [({"cause": "Misconfigured"}, 1)]
    site.restart()
    site.declare("queues", "night")
    site.settle()
    assert job["status"]["state"] == "Starting"
    assert not [one for one in site.service.series() if one.name == "elastic_jobs_without_job"]
    site.remove("queues", "night")
    site.settle()
    assert job["status"]["state"] == "Starting"
    site.remove("queues", "batch")
    any_queue = site.create("any", queue="any")
    site.settle()
    assert any_queue["status"]["state"] == "Starting", "there are no queues"


def test_what_is_being_stopped_is_allocated_neither_in_its_pool_nor_to_its_tenant(tmp_path: Path) -> None:
    """Its quota is somebody else's by then."""
    site = DeclaredSite(tmp_path)
    tenant = site.declare("tenants", "vision", limit=4)
    job = site.create("train", gpusPerReplica=4, tenant="vision")
    site.settle()
    site.run()
    site.settle()
    pool = site.cluster.objects["computepools", "", "p"]
    assert (tenant["status"]["allocated"], pool["status"]["allocated"]) == (4, 4)
    job["spec"]["suspend"] = True
    site.cluster.put("elasticjobs", job, SPACE)
    site.settle()
    assert job["status"]["state"] == "Stopping"
    assert (tenant["status"]["allocated"], pool["status"]["allocated"], tenant["status"]["running"]) == (0, 0, 1)
    other = site.create("next", gpusPerReplica=4, tenant="vision")
    site.settle()
    assert (other["status"]["state"], tenant["status"]["allocated"]) == ("Starting", 4)


def test_jobs_get_nodes_with_the_resource_that_they_ask_for(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    ascend = gpu_node("n-0", 0, pool="p")
    ascend["status"]["allocatable"] = {"huawei.com/Ascend910": "8"}
    site.cluster.put("nodes", ascend)
    pool = site.declare("computepools", "p", poolType="mixed", nodeSelector={"pool": "p"})
    job = site.create("npu", gpusPerReplica=8, resourceName="huawei.com/Ascend910")
    site.settle()
    assert (ready(pool)[:2], job["status"]["state"]) == (("False", "Invalid"), "Pending")
    site.declare(
        "computepools", "p", poolType="mixed", nodeSelector={"pool": "p"},
        resourceNames=["nvidia.com/gpu", "huawei.com/Ascend910"],
    )  # fmt: skip
    huge = site.create("gpu", gpusPerReplica=8)
    site.settle()
    assert (pool["status"]["total"], node_of(site.pods_of(job)[0])) == (20, "n-0")
    assert huge["status"]["reason"] == "NeverFits"


def test_the_settings_file_keeps_what_resources_do_not_say(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    site.settle()
    with pytest.raises(SettingsError, match="file: queues: come from Queues in the cluster"):
        site.declarations.read_file(parse_settings({"queues": [{"name": "x"}]}), "file")
    reserved = {"name": "x", "nodes": ["p-0"], "start": "2026-12-01T08:00Z", "end": "2026-12-01T18:00Z"}
    site.declarations.read_file(parse_settings({"reservations": [{**reserved, "kind": "maintenance"}]}), "file")
    site.settle()
    assert [one.name for one in settings(site).reservations] == ["x"]
    site.declarations.read_file(parse_settings({"policies": {"placement": "fgd"}}), "file")
    site.settle()
    assert (settings(site).policies.placement, settings(site).reservations) == ("fgd", ())
    by_file = parse_settings({"pools": [{"name": "p", "hosts": {"p-0": ["a"]}}]})
    with pytest.raises(SettingsError, match="nodes stay as they were"):
        first_settings(by_file, parse_settings({}), "file")


# Whatever happens


@pytest.mark.parametrize("number", histories())
def test_what_is_declared_is_in_force_or_says_why_not_whatever_happens(tmp_path: Path, number: int) -> None:
    """Nodes join, leave, move and break; people edit pools, queues and tenants well and badly; jobs come and go; the
    operator is killed. Then all is well again, and what was promised is what is declared."""
    seed = os.environ.get("GPULEDGER_SEED", f"{keep_seed()} declared {number}")
    print(f"GPULEDGER_SEED={seed!r}")
    chance = random.Random(seed)
    site = DeclaredSite(tmp_path)
    site.settle()
    for _ in range(50):
        _something(site, chance)
        if chance.random() < 0.6:
            site.operator.step()
        else:
            site.settle()
            _conditions_are_true(site)
        _a_node_is_in_one_place(site)
    site.cluster.answer = lambda call: "done"
    for index in range(4):
        site.cluster.put("nodes", gpu_node(f"p-{index}", 4, pool="p"))
    site.declare("computepools", "p", nodeSelector={"pool": "p"}, quotas=[{"tenant": "chem", "guaranteed": 7}])
    for kind, _, name in list(site.cluster.objects):
        if (kind in ("queues", "tenants") and name != "batch") or (kind == "computepools" and name != "p"):
            site.remove(kind, name)
    site.declare("queues", "batch")
    _drain(site)
    assert {ready(one)[0] for (kind, _, _), one in site.cluster.objects.items() if kind == "computepools"} == {"True"}
    assert [(one.name, one.pool, one.guaranteed) for one in settings(site).tenants] == [("chem", "p", 7)]
    assert [queue.name for queue in settings(site).queues] == ["batch"]
    assert [(one["pool"], one["total"], one["available"]) for one in site.service.pools()] == [("p", 16, 16)]
    assert [one for one in site.cluster.jobs() if child(one, "status").get("state") not in (*ENDED, "Pending")] == []


def _something(site: DeclaredSite, chance: random.Random) -> None:
    site.now += chance.choice([0, 0.5, 3])
    what = chance.choice(["node", "node", "pool", "queue", "tenant", "job", "job", "end", "run", "run", "kill", "gone"])
    if what == "node":
        name = f"p-{chance.randrange(4)}"
        labels = {"pool": chance.choice(["p", "p", "q", "nobody"])}
        many = chance.choice([4, 4, 4, 3, 0])
        site.cluster.put("nodes", gpu_node(name, many, chance.random() < 0.8, chance.random() < 0.2, **labels))
        if chance.random() < 0.15:
            site.remove("nodes", name)
    elif what == "pool":
        quotas = [
            {"tenant": tenant, "guaranteed": chance.choice([0, 3, 6, 20]), **chance.choice([{}, {"limit": 5}])}
            for tenant in chance.sample(["chem", "vision"], chance.randint(0, 2))
        ]
        levels = [{}, {"isolationLevel": "exclusive"}, {"virtualization": {"strategy": "time-slicing", "replicas": 2}}]
        levels += [{"virtualization": {"strategy": "mig"}}]
        more = chance.choice([*levels, {"isolation": "dedicated"}, {"capacity": {"reserved": chance.choice([2, "20%"]),
                              "reservedFor": {"tenants": ["vision"]}}}])  # fmt: skip
        name = chance.choice(["p", "q", "r"])
        site.declare("computepools", name, nodeSelector={"pool": name.replace("r", "p")}, quotas=quotas, **more)
    elif what == "queue":
        more = chance.choice([{}, {"parent": "night"}, {"policy": "fair_share"}, {"guaranteed": 5}, {"halfLife": "x"}])
        site.declare("queues", chance.choice(["batch", "night"]), **more)
    elif what == "tenant":
        more = chance.choice([{"guaranteed": 2}, {"limit": 6}, {"parent": "chem"}, {"guaranteed": 99}])
        site.declare("tenants", chance.choice(["chem", "vision"]), **more)
    elif what == "gone":
        found = [at for at in site.cluster.objects if at[0] in ("computepools", "queues", "tenants")]
        if found:
            kind, _, name = chance.choice(found)
            site.remove(kind, name)
    elif what == "job" and len(site.cluster.jobs()) < 10:
        tenant, pool = chance.choice(["chem", "vision"]), chance.choice([{}, {}, {"pool": "q"}])
        least = chance.randint(1, 2)
        site.create(f"j{site.cluster.number}", least=least, most=least + chance.randint(0, 2),
                    gpusPerReplica=chance.randint(1, 4), tenant=tenant, **pool)  # fmt: skip
    elif what == "end":
        for pod in site.cluster.alive()[:2]:
            if pods.phase(pod) == "Running":
                site.cluster.ends(pod, 0)
    elif what == "run":
        site.run(lambda: chance.random() < 0.8)
    elif what == "kill":
        site.kill(chance.randrange(4))
        before = settings(site)
        site.restart()
        assert settings(site) == before


def _a_node_is_in_one_place(site: DeclaredSite) -> None:
    """Of what the scheduler knows a node as, one is open at most, and jobs are on one."""
    nodes = site.service.restored.setup.nodes
    held = {nodes[grant.node].name for live in site.service.book.jobs.values() for grant in live.grants}
    for hosts in (open_hosts(settings(site)), held):
        assert len({kubernetes_name(host) for host in hosts}) == len(hosts), hosts


def _conditions_are_true(site: DeclaredSite) -> None:
    """Ready is what is in force, and what is there, is counted."""
    for (kind, _, name), of in site.cluster.objects.items():
        if kind not in ("computepools", "queues", "tenants"):
            continue
        holds, reason, _ = ready(of)
        spec = of["spec"]
        if kind == "computepools":
            status = of["status"]
            parts = [status[part] for part in ("allocated", "available", "reserved", "unavailable")]
            assert sum(parts) == status["total"]
            declared = {one["tenant"]: (one["guaranteed"], one.get("limit")) for one in spec.get("quotas", [])}
            kept = {one.name: (one.guaranteed, one.limit) for one in settings(site).tenants if one.pool == name}
            if reason in ("InForce", "NodeConflict") and status["nodes"]:
                assert kept == declared, (name, ready(of))
            there = sum(
                int(node["status"]["allocatable"]["nvidia.com/gpu"])
                for (what, _, _), node in site.cluster.objects.items()
                if what == "nodes" and node["metadata"]["labels"]["pool"] == spec["nodeSelector"]["pool"]
            )
            assert status["total"] <= there
        elif holds == "True":
            there_ = settings(site).queues if kind == "queues" else settings(site).tenants
            (one,) = (one for one in there_ if one.name == name and not getattr(one, "pool", ""))
            assert one.guaranteed == spec.get("guaranteed", 0)
            assert one.parent == spec.get("parent", "")
    assert {one.name for one in settings(site).queues} >= {
        name for (kind, _, name), of in site.cluster.objects.items() if kind == "queues" and ready(of)[0] == "True"
    }


def _drain(site: DeclaredSite) -> None:
    """Until all that can run has."""
    for _ in range(300):
        before = (site.cluster.number, site.service.log.last)
        site.run()
        site.now += AGAIN_SECONDS + 1
        for pod in site.cluster.alive():
            if pods.phase(pod) == "Running" and not pods.is_leaving(pod):
                site.cluster.ends(pod, 0)
        site.settle()
        if (site.cluster.number, site.service.log.last) == before:
            return
    raise AssertionError("it does not come to rest")
