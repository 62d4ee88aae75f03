"""Pods that others make and that wait at our gate, on a cluster in memory; and drawn histories of them."""

from __future__ import annotations

from pathlib import Path

from scheduler.kubernetes import pods
from tests.scheduler.kubernetes.site import GatedSite
from tests.scheduler.kubernetes.standin import SPACE, Thing, node_of, space


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
