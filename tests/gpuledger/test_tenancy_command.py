"""`gpuledger tenants kubernetes` against what an API server answers, and on a real one."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from collectors.kubernetes.direct import Cluster, Forbidden, Invalid
from scheduler.kubernetes import tenancy
from scheduler.settings import load_settings
from tests.collectors.kubernetes.control_plane import control_plane, missing
from tests.collectors.kubernetes.reviewing import Scripted
from tests.deploy.helm import kubectl, no_kustomize
from tests.gpuledger.running import refused, run
from tests.gpuledger.test_kubectl import api, config, kubeconfig
from tests.patience import until

__all__ = ["api", "config"]

SITE = """
pools: [{name: h100, launcher: kubernetes, hosts: {g1: [a0, a1, a2, a3]}}]
tenants: [{name: vision, guaranteed: 2, borrowing_limit: 1}]
queues: [{name: batch, priority: 5}]
"""
HOME = {"metadata": {"name": "vision"}}
COMMAND = "tenants kubernetes --config"


@pytest.fixture
def site(tmp_path: Path) -> str:
    (tmp_path / "site.yaml").write_text(SITE)
    return str(tmp_path / "site.yaml")


def answers(api: Scripted, site: str) -> list[dict[str, Any]]:
    """Those of a cluster with ValidatingAdmissionPolicy that has all that is wanted."""
    objects = list(
        tenancy.wanted(load_settings(site), [HOME], "nvidia.com/gpu", tenancy.Enforcer.ADMISSION_POLICY).objects
    )
    resources = {"resources": [{"name": "validatingadmissionpolicies"}]}
    api.pods = {"/api/v1/namespaces": (200, {"items": [HOME]}), f"/apis/{tenancy.POLICIES_GROUP}": (200, resources)}
    for path, (_, kind) in tenancy.lists(tenancy.Enforcer.ADMISSION_POLICY).items():
        api.pods[path] = (200, {"items": [one for one in objects if one["kind"] == kind]})
    return objects


def test_what_is_wanted_is_printed(api: Scripted, config: Path, site: str) -> None:
    objects = answers(api, site)
    done = run(COMMAND, site)
    assert (done.exit_code, list(yaml.safe_load_all(done.stdout))) == (0, objects)
    assert {what.partition(" ")[0] for what, _, _ in api.asked} == {"GET"}


def test_a_cluster_that_differs_is_a_no_with_a_line_for_each_difference(api: Scripted, config: Path, site: str) -> None:
    objects = answers(api, site)
    done = run(COMMAND, site, "--check")
    assert (done.exit_code, done.stdout) == (0, "")
    changed = json.loads(json.dumps(objects))
    (quota,) = (one for one in changed if one["kind"] == "ResourceQuota")
    quota["spec"]["hard"]["requests.nvidia.com/gpu"] = "4"
    api.pods["/api/v1/resourcequotas"] = (200, {"items": [quota]})
    api.pods["/api/v1/limitranges"] = (200, {"items": []})
    done = run(COMMAND, site, "--check")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "ResourceQuota vision/gpuledger: spec.hard.requests.nvidia.com/gpu is 4, not 3",
        "LimitRange vision/gpuledger: is missing",
    ]


def test_options_that_do_not_fit_and_a_cluster_that_refuses_are_one_line(
    api: Scripted, config: Path, site: str, tmp_path: Path
) -> None:
    assert "do not fit together" in refused(COMMAND, site, "--check", "--apply")
    assert "do not fit together" in refused(COMMAND, site, "--force")
    api.pods["/api/v1/namespaces"] = (403, {"message": "namespaces is forbidden"})
    assert "namespaces is forbidden" in refused(COMMAND, site)
    (tmp_path / "site.yaml").write_text("pool: []")
    assert "site.yaml" in refused(COMMAND, site)


def test_what_the_cluster_does_not_take_keeps_nothing_else_from_it(
    api: Scripted, config: Path, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, applied = answers(api, site), list[str]()

    def apply(_: Cluster, path: str, body: dict[str, Any], *__: Any) -> None:
        if body["kind"] == "PriorityClass":
            raise Invalid("it", "Value: Forbidden: may not be changed in an update.")
        if body["kind"] == "LimitRange":
            raise Forbidden("it", "the namespace is being terminated")
        applied.append(path)

    monkeypatch.setattr(Cluster, "apply", apply)
    done = run(COMMAND, site, "--apply")
    assert applied == [tenancy.path_of(one) for one in objects if one["kind"] not in ("PriorityClass", "LimitRange")]
    assert str(done.exception).startswith("LimitRange vision/gpuledger: the namespace is being terminated")
    first, count = done.stderr.splitlines()
    assert first.startswith("PriorityClass gpuledger-batch: Value: Forbidden: may not be changed in an update.")
    assert "kubectl delete priorityclass gpuledger-batch (pods keep theirs), and apply again" in first
    assert count == f"applied {len(applied)} objects"


@pytest.mark.slow
@pytest.mark.skipif(bool(missing() or no_kustomize()), reason=missing() or no_kustomize())
def test_a_real_api_server_takes_them_tells_drift_and_who_has_a_field(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with control_plane(tmp_path / "plane") as plane:
        config = tmp_path / "config"
        server = str(plane.api.base_url).rstrip("/")
        config.write_text(kubeconfig(server, {"token": "admin"}, **{"insecure-skip-tls-verify": True}))
        of = ("--kubeconfig", str(config))
        plane.post("/api/v1/namespaces", HOME)
        done = run(COMMAND, site, "--check", *of)
        assert done.exit_code == 1
        assert set(done.stdout.splitlines()) == {
            "PriorityClass gpuledger-batch: is missing",
            "ResourceQuota vision/gpuledger: is missing",
            "LimitRange vision/gpuledger: is missing",
        }
        assert "Kubernetes 1.30" in done.stderr
        for _ in range(2):
            done = run(COMMAND, site, "--apply", *of)
            assert (done.exit_code, done.stdout) == (0, ""), done.output
        assert run(COMMAND, site, "--check", *of).exit_code == 0

        # Pods without GPUs ask for none, and nobody asks for more than a node has.
        pods = "/api/v1/namespaces/vision/pods"

        def pod(name: str, **container: Any) -> dict[str, Any]:
            return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", **container}]}}

        made = plane.post(pods, pod("plain"))["spec"]["containers"][0]["resources"]
        assert made["limits"] == {"nvidia.com/gpu": "0"}
        plane.post(pods, pod("four", resources={"limits": {"nvidia.com/gpu": "4"}}))
        answer = plane.api.post(pods, json=pod("five", resources={"limits": {"nvidia.com/gpu": "5"}}))
        assert (answer.status_code, "maximum nvidia.com/gpu" in answer.text) == (403, True), answer.text

        # Somebody else changes the quota, and is then its field's manager.
        path = "/api/v1/namespaces/vision/resourcequotas/gpuledger"
        quota = plane.api.get(path).json()
        quota["spec"]["hard"]["requests.nvidia.com/gpu"] = "4"
        plane.put(f"{path}?fieldManager=somebody", quota)
        done = run(COMMAND, site, "--check", *of)
        line = "ResourceQuota vision/gpuledger: spec.hard.requests.nvidia.com/gpu is 4, not 3"
        assert (done.exit_code, done.stdout.splitlines()) == (1, [line])
        # The same through kubectl, where the kubeconfig names a login program.
        version = "client.authentication.k8s.io/v1"
        login, programs = tmp_path / "login", tmp_path / "bin"
        credential = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": "admin"}}
        login.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
        login.chmod(0o755)
        programs.mkdir()
        (programs / "kubectl").symlink_to(kubectl())
        monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
        by_login = tmp_path / "by-login"
        user = {"exec": {"apiVersion": version, "command": str(login), "interactiveMode": "Never"}}
        by_login.write_text(kubeconfig(server, user, **{"insecure-skip-tls-verify": True}))
        through = ("--kubeconfig", str(by_login))
        for way in (of, through):
            said = refused(COMMAND, site, "--apply", *way)
            assert "ResourceQuota vision/gpuledger" in said
            assert "somebody" in said
        assert run(COMMAND, site, "--check", *through).stdout.splitlines() == [line]
        assert run(COMMAND, site, "--apply", "--force", *through).exit_code == 0
        assert run(COMMAND, site, "--check", *of).exit_code == 0

        # A PriorityClass keeps its value; the rest is applied all the same.
        for way, limit in ((of, 2), (through, 4)):
            changed = SITE.replace("priority: 5", "priority: 6").replace("borrowing_limit: 1", f"limit: {limit}")
            Path(site).write_text(changed)
            said = refused(COMMAND, site, "--apply", *way)
            assert said.startswith("PriorityClass gpuledger-batch: ")
            assert "kubectl delete priorityclass gpuledger-batch" in said
            line = "PriorityClass gpuledger-batch: value is 5, not 6"
            assert run(COMMAND, site, "--check", *of).stdout.splitlines() == [line]
        plane.delete("/apis/scheduling.k8s.io/v1/priorityclasses/gpuledger-batch", 0)
        Path(site).write_text(SITE)
        assert run(COMMAND, site, "--apply", *of).exit_code == 0

        # A tenant that is no more leaves objects behind, which are named.
        Path(site).write_text(SITE.replace("name: vision", "name: speech"))
        done = run(COMMAND, site, "--check", *of)
        assert "ResourceQuota vision/gpuledger: is not wanted any more" in done.stdout

        # Where Gatekeeper is, it makes a constraint's kind when it sees the template: the command waits for that.
        Path(site).write_text(SITE)
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        plane.post(crds, crd("templates.gatekeeper.sh", "v1", "ConstraintTemplate", "constrainttemplates"))
        until(lambda: plane.api.get(TEMPLATES).status_code == 200)
        done = run(COMMAND, site, "--check", *of)
        assert {line for line in done.stdout.splitlines() if "enants: is missing" in line} == {
            "ConstraintTemplate gpuledgertenants: is missing",
            "GpuledgerTenants gpuledger-tenants: is missing",
        }, done.output

        def gatekeeper() -> None:
            until(lambda: plane.api.get(TEMPLATES).json()["items"])
            plane.post(crds, crd("constraints.gatekeeper.sh", "v1beta1", "GpuledgerTenants", "gpuledgertenants"))

        controller = threading.Thread(target=gatekeeper)
        controller.start()
        done = run(COMMAND, site, "--apply", *of)
        controller.join()
        assert (done.exit_code, done.stdout) == (0, ""), done.output
        assert "Gatekeeper" not in done.stderr
        annotated = {"metadata": {"annotations": {"gpuledger.io/tenants": "vision"}}}
        plane.api.patch(
            "/api/v1/namespaces/vision", json=annotated, headers={"Content-Type": "application/merge-patch+json"}
        )
        done = run(COMMAND, site, "--check", *of)
        assert done.stdout.startswith("GpuledgerTenants gpuledger-tenants: spec.parameters.namespaces is "), done.output


TEMPLATES = "/apis/templates.gatekeeper.sh/v1/constrainttemplates"


def crd(group: str, version: str, kind: str, plural: str) -> dict[str, Any]:
    """A kind as Gatekeeper has it, of which only the names are checked."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": versions}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}
