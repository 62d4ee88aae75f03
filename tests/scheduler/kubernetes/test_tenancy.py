"""What a cluster is to know of the scheduler's tenants: how much their namespaces get, and what differs."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema_rs
import pytest

from scheduler.kubernetes.tenancy import MANAGER, MARK, Enforcer, drift, lists, path_of, tenants_of, wanted
from scheduler.settings import parse_settings
from tests.deploy.kubernetes_schemas import schema_of

GPU = "nvidia.com/gpu"
SITE: dict[str, Any] = {
    "pools": [
        {"name": "h100", "launcher": "kubernetes", "hosts": {"g1": [f"a{n}" for n in range(8)], "g2": ["b0", "b1"]}},
        {"name": "slurm", "launcher": "slurm", "hosts": {"s1": ["c0"]}},
    ],
    "tenants": [
        {"name": "research", "guaranteed": 2, "limit": 9},
        {"name": "vision", "parent": "research", "guaranteed": 4, "borrowing_limit": 2},
        {"name": "speech", "parent": "research"},
        {"name": "free"},
        {"name": "elsewhere", "pool": "slurm", "guaranteed": 1},
    ],
    "queues": [
        {"name": "all"},
        {"name": "batch", "parent": "all", "priority": -5},
        {"name": "Big_Jobs", "parent": "all"},
    ],
}  # fmt: skip


def home(name: str, tenants: str = "") -> dict[str, Any]:
    annotations = {"annotations": {"gpuledger.io/tenants": tenants}} if tenants else {}
    return {"metadata": {"name": name, **annotations}}


def objects(
    *namespaces: dict[str, Any], enforcer: Enforcer = Enforcer.NONE, **more: Any
) -> dict[tuple[str, str, str], dict[str, Any]]:
    made = wanted(parse_settings({**SITE, **more}), namespaces, GPU, enforcer).objects
    return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in made}


@pytest.mark.parametrize(
    ("namespace", "gpus"),
    [
        (home("vision"), 6),  # guaranteed and what it may borrow
        (home("speech"), 9),  # its parent's limit
        (home("a", "speech"), 9),
        (home("b", "vision,speech"), 10),  # both, but no more than there is
        (home("c", "free"), 10),  # all there are
        (home("d", "free, unknown"), 10),
    ],
)
def test_a_namespace_gets_what_its_tenants_may_hold(namespace: dict[str, Any], gpus: int) -> None:
    name = namespace["metadata"]["name"]
    found = objects(namespace)
    assert found["ResourceQuota", name, "gpuledger"]["spec"] == {"hard": {f"requests.{GPU}": str(gpus)}}
    (limits,) = found["LimitRange", name, "gpuledger"]["spec"]["limits"]
    assert (limits["max"], limits["default"]) == ({GPU: "8"}, {GPU: "0"})


def test_quotas_of_several_pools_add_up() -> None:
    pools = [{"name": name, "launcher": "kubernetes", "hosts": {f"{name}1": [f"{name}{n}" for n in range(4)]}}
             for name in ("p", "q")]  # fmt: skip
    tenants = [{"name": "t", "pool": "p", "limit": 3}, {"name": "t", "pool": "q", "limit": 2}]
    found = objects(home("t"), pools=pools, tenants=tenants)
    assert found["ResourceQuota", "t", "gpuledger"]["spec"]["hard"] == {f"requests.{GPU}": "5"}
    # In a pool that does not list it, it may borrow what nobody is guaranteed or others lend.
    found = objects(home("t"), pools=pools, tenants=[tenants[0], {"name": "u", "pool": "q", "lending_limit": 0}])
    assert found["ResourceQuota", "t", "gpuledger"]["spec"]["hard"] == {f"requests.{GPU}": "7"}


def test_a_namespace_without_tenant_gets_nothing_and_an_unknown_tenant_is_named() -> None:
    made = wanted(
        parse_settings(SITE),
        [home("kube-system"), home("x", "visoin"), home("elsewhere")],
        GPU,
        Enforcer.ADMISSION_POLICY,
    )
    assert not [one for one in made.objects if "namespace" in one["metadata"]]
    assert "namespace x: may name tenant visoin, which the settings do not have" in made.notes
    assert not [note for note in made.notes if "kube-system" in note]


def test_priorities_are_of_queues_that_jobs_stand_in() -> None:
    made = wanted(parse_settings(SITE), [], GPU, Enforcer.ADMISSION_POLICY)
    (one,) = (one for one in made.objects if one["kind"] == "PriorityClass")
    assert (one["metadata"]["name"], one["value"], one["preemptionPolicy"]) == ("gpuledger-batch", -5, "Never")
    assert [note for note in made.notes if "Big_Jobs" in note]
    queues = [{"name": name} for name in ("night.eu-1", "night..eu", ".night", "x" * 201)]
    made = wanted(parse_settings(SITE | {"queues": queues}), [], GPU, Enforcer.ADMISSION_POLICY)
    assert [one["metadata"]["name"] for one in made.objects if one["kind"] == "PriorityClass"] == [
        "gpuledger-night.eu-1"
    ]


def test_a_namespace_that_is_being_deleted_gets_nothing() -> None:
    leaving = home("vision")
    leaving["metadata"] |= {"deletionTimestamp": "2026-10-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    for one, many in ((home("vision"), 2), (leaving, 0)):
        made = wanted(parse_settings(SITE), [one], GPU, Enforcer.NONE)
        assert len([each for each in made.objects if "namespace" in each["metadata"]]) == many


def test_without_a_pool_of_the_operators_there_are_no_quotas() -> None:
    others = {**SITE, "pools": SITE["pools"][1:], "tenants": [{"name": "vision"}]}
    made = wanted(parse_settings(others), [home("vision")], GPU, Enforcer.ADMISSION_POLICY)
    assert not [one for one in made.objects if one["kind"] in ("ResourceQuota", "LimitRange")]
    assert [note for note in made.notes if "launcher: kubernetes" in note]


def test_a_pool_of_shares_is_in_no_quota() -> None:
    shares = {"name": "mig", "launcher": "kubernetes", "units": 7, "hosts": {"m1": ["m0"]}}
    made = wanted(
        parse_settings({**SITE, "pools": [*SITE["pools"], shares]}), [home("free")], GPU, Enforcer.ADMISSION_POLICY
    )
    (quota,) = (one for one in made.objects if one["kind"] == "ResourceQuota")
    assert quota["spec"]["hard"] == {f"requests.{GPU}": "10"}
    assert [note for note in made.notes if "pool mig" in note]


def test_policies_are_made_where_the_cluster_has_them() -> None:
    kinds = {kind for kind, _, _ in objects(enforcer=Enforcer.ADMISSION_POLICY)}
    assert kinds == {"PriorityClass", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    kinds = {kind for kind, _, _ in objects(enforcer=Enforcer.GATEKEEPER)}
    assert kinds == {"PriorityClass", "ConstraintTemplate", "GpuledgerTenants"}
    assert {kind for kind, _, _ in objects()} == {"PriorityClass"}
    assert [note for note in wanted(parse_settings(SITE), [], GPU, Enforcer.NONE).notes if "1.30" in note]


def test_every_object_is_one_that_kubernetes_knows() -> None:
    found = objects(home("vision"), enforcer=Enforcer.ADMISSION_POLICY)
    assert len({kind for kind, _, _ in found}) == 5
    for (kind, _, name), one in found.items():
        assert [mistake.message for mistake in jsonschema_rs.iter_errors(schema_of(kind), one)] == [], (kind, name)
        assert one["metadata"]["labels"] == {MARK: MANAGER}


def test_gatekeeper_s_constraint_has_the_annotations_of_namespaces() -> None:
    found = objects(home("a", " b , c,"), home("vision"), home("d", "speech"), enforcer=Enforcer.GATEKEEPER)
    template = found["ConstraintTemplate", "", "gpuledgertenants"]
    named = template["spec"]["crd"]["spec"]["names"]["kind"]
    constraint = found[named, "", "gpuledger-tenants"]
    assert constraint["spec"]["parameters"] == {
        "namespaces": [{"name": "a", "tenants": ["b", "c"]}, {"name": "d", "tenants": ["speech"]}]
    }
    schema = template["spec"]["crd"]["spec"]["validation"]["openAPIV3Schema"]
    assert jsonschema_rs.is_valid(schema, constraint["spec"]["parameters"])
    listed = lists(Enforcer.GATEKEEPER)
    for one in (template, constraint):
        path = path_of(one).rpartition("/")[0]
        assert listed[path] == (one["apiVersion"], one["kind"])


def test_paths_are_the_apis() -> None:
    found = objects(home("vision"), enforcer=Enforcer.ADMISSION_POLICY)
    assert (
        path_of(found["ResourceQuota", "vision", "gpuledger"]) == "/api/v1/namespaces/vision/resourcequotas/gpuledger"
    )
    assert path_of(found["PriorityClass", "", "gpuledger-batch"]).startswith(
        "/apis/scheduling.k8s.io/v1/priorityclasses/"
    )


def test_the_first_tenant_is_the_namespaces_own_without_an_annotation() -> None:
    assert tenants_of(home("a")) == ["a"]
    assert tenants_of(home("a", " b , c,")) == ["b", "c"]


def test_drift_is_a_line_for_each_difference_and_what_the_cluster_adds_is_none() -> None:
    ours = list(objects(home("vision"), enforcer=Enforcer.ADMISSION_POLICY).values())
    there = copy.deepcopy(ours)
    for one in there:
        one["metadata"] |= {"uid": "u", "creationTimestamp": "now"}
        one["status"] = {"used": {}}
    assert drift(ours, there) == []
    by_kind = {one["kind"]: one for one in there}
    by_kind["ResourceQuota"]["spec"]["hard"][f"requests.{GPU}"] = "64"
    by_kind["ResourceQuota"]["spec"]["hard"]["pods"] = "10"
    by_kind["PriorityClass"]["metadata"]["labels"] = {}
    del by_kind["LimitRange"]["spec"]["limits"][0]["default"]
    old = copy.deepcopy(by_kind["ResourceQuota"])
    old["metadata"]["namespace"] = "gone"
    not_ours = copy.deepcopy(old)
    not_ours["metadata"] |= {"namespace": "theirs", "labels": {}}
    there = [one for one in there if one["kind"] != "ValidatingAdmissionPolicyBinding"] + [old, not_ours]
    assert drift(ours, there) == [
        f"PriorityClass gpuledger-batch: metadata.labels.{MARK} is absent, not {MANAGER}",
        f"ResourceQuota vision/gpuledger: spec.hard.requests.{GPU} is 64, not 6",
        f"LimitRange vision/gpuledger: spec.limits[0].default is absent, not {{'{GPU}': '0'}}",
        "ValidatingAdmissionPolicyBinding gpuledger-tenants-of-elasticjobs: is missing",
        "ValidatingAdmissionPolicyBinding gpuledger-tenants-of-pods: is missing",
        "ResourceQuota gone/gpuledger: is not wanted any more",
    ]
