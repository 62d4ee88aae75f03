"""`kubectl gpuledger who` over a server of ours; and the commands through the real kubectl on a real API server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from access.opening import open_access
from access.settings import AccessSettings
from scheduler.kubernetes.status import Standing, status_of
from scheduler.model import Reason
from tests.collectors.kubernetes.control_plane import control_plane, missing
from tests.collectors.kubernetes.reviewing import Scripted
from tests.conftest import REPO
from tests.dashboards.site import serving, token_of
from tests.deploy.helm import kubectl, no_kustomize
from tests.gpuledger.test_kubectl import JOB, NODES_PODS, api, config, kubeconfig, refused, run
from tests.patience import until
from tests.stores import fresh_store
from warehouse.store import Store

__all__ = ["api", "config"]


def hold(store: Store) -> None:
    """On n1 a whole device, a half of another, and one of which only the node is known; a job on n1 and n2; one device
    that nobody is known to hold, and one that is down. On n3 a free one."""
    began = f"'{datetime.now(UTC) - timedelta(hours=2):%F %T}'"
    devices = [("n1", "a", 1, "available"), ("n1", "b", 2, "available"), ("n1", "c", 1, "available"),
               ("n1", "d", 1, "unavailable"), ("n1", "e", 1, "available"), ("n2", "f", 1, "available"),
               ("n3", "g", 1, "available")]  # fmt: skip
    store.command(
        "INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, pool, state) VALUES "
        + ", ".join(f"({began}, 'c1', '{node}', 'GPU-{one}', 'NVIDIA', 'H100', {units}, 'p', '{state}')"
                    for node, one, units, state in devices)
    )  # fmt: skip
    held = [("whole", "vision", "n1", "a", 1), ("half", "speech", "n1", "b", 1), ("wide", "vision", "n1", "c", 1),
            ("wide", "vision", "n2", "f", 1), ("unnamed", "vision", "n1", "", 1)]  # fmt: skip
    store.command(
        "INSERT INTO events (ts, cluster, allocation_id, workload_id, event, tenant, project, queue, gpus, node, "
        "device_id, units) VALUES "
        + ", ".join(f"({began}, 'c1', '{name}', 'uid-{name}', 'started', '{tenant}', 'ns-{tenant}', 'q', 1, '{node}', "
                    f"'{'GPU-' + one if one else ''}', {units})" for name, tenant, node, one, units in held)
    )  # fmt: skip

    store.command(
        "INSERT INTO samples (ts, interval_seconds, cluster, node, device_id, workload_id, state, utilization) VALUES "
        "(now64(3, 'UTC') - INTERVAL 1 SECOND, 60, 'c1', 'n1', 'GPU-a', 'uid-whole', 'ok', 0.5)"
    )


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """(URL, tokens) of a server over `hold`."""
    with fresh_store(tmp_path_factory.mktemp("live") / "store") as store, open_access(store) as people:
        hold(store)
        tokens = {name: token_of(people, name) for name in ("admin", "vision")}
        with serving(store, AccessSettings(sign_in=True)) as url:
            yield url, tokens


def holders(url: str, token: str, monkeypatch: pytest.MonkeyPatch, *more: str) -> dict[str, Any]:
    monkeypatch.setenv("GPULEDGER_TOKEN", token)
    done = run("who", "n1", "--url", url, "--format", "json", *more)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_who_holds_which_gpu_of_a_node(
    live: tuple[str, dict[str, str]], api: Scripted, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, tokens = live
    pod = {"metadata": {"uid": "uid-whole", "name": "train-1-0", "namespace": "ns-vision"}}
    api.pods = {NODES_PODS: (200, {"items": [pod]})}
    found = holders(url, tokens["admin"], monkeypatch)
    assert found["stopped"] is False
    wanted = ("device", "state", "share", "isolation", "workload")
    assert [tuple(map(one.get, wanted)) for one in found["rows"]] == [
        ("GPU-a", "", "1/1", "exclusive", "ns-vision/train-1-0"),
        ("GPU-b", "", "1/2", "shared", "uid-half"),
        ("GPU-c", "", "1/1", "exclusive", "uid-wide"),
        ("GPU-d", "unavailable", None, None, None),
        ("GPU-e", "unknown", None, None, None),
        (None, None, None, None, "uid-unnamed"),
    ]
    said = run("who", "n1", "--url", url).stdout
    assert "not known yet" in said
    (unknown,) = (line.split() for line in said.splitlines() if line.startswith("GPU-e"))
    assert unknown == ["GPU-e", "H100", "unknown", "-", "-", "-", "-", "-", "-"], "as found: free, which it may not be"
    (free,) = (line.split() for line in run("who", "n3", "--url", url).stdout.splitlines() if line.startswith("GPU-g"))
    assert free == ["GPU-g", "H100", "free", "-", "-", "-", "-", "-", "-"], "no tenant of that name"
    assert "ns-vision/train-1-0" in said
    assert holders(url, tokens["admin"], monkeypatch, "--cluster", "c1")["rows"] == found["rows"]
    assert "has no device in the books" in refused("who", "n1", "--url", url, "--cluster", "c9")
    assert "has no device in the books" in refused("who", "n9", "--url", url)


def test_a_tenant_sees_what_it_holds_itself(
    live: tuple[str, dict[str, str]], api: Scripted, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, tokens = live
    api.pods = {NODES_PODS: (403, {"kind": "Status", "message": "pods is forbidden"})}
    monkeypatch.setenv("GPULEDGER_TOKEN", tokens["vision"])
    done = run("who", "n1", "--url", url, "--format", "json")
    assert "pods are shown by UID" in done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {(one["workload"], one["device"], one["isolation"]) for one in rows} == {
        ("uid-whole", "GPU-a", "exclusive"), ("uid-wide", None, "exclusive"), ("uid-unnamed", None, None),
    }  # fmt: skip


# Through kubectl ---------------------------------------------------------------------------------------------------

JOBS = "/apis/gpuledger.io/v1alpha1/namespaces/vision/elasticjobs"
VIEWER = """
- {apiGroups: [gpuledger.io], resources: [elasticjobs], verbs: [get]}
- {apiGroups: [""], resources: [pods], verbs: [list]}
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(missing() or no_kustomize()), reason=missing() or no_kustomize())
def test_kubectl_runs_it_with_a_token_and_with_a_login_plugin(live: tuple[str, dict[str, str]], tmp_path: Path) -> None:
    url, tokens = live
    programs = tmp_path / "bin"
    programs.mkdir()
    shutil.copy(kubectl(), programs / "kubectl")
    plugin = programs / "kubectl-gpuledger"
    plugin.write_text(f"#!{sys.executable}\nfrom gpuledger.__main__ import kubectl\nkubectl()\n")
    login = programs / "login"
    version = "client.authentication.k8s.io/v1"
    credential = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": "watch"}}
    login.write_text(f"#!/bin/sh\necho '{json.dumps(credential)}'\n")
    for one in (plugin, login):
        one.chmod(0o755)
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(REPO),
        "KUBECONFIG": str(tmp_path / "config"), "GPULEDGER_URL": url, "GPULEDGER_TOKEN": tokens["admin"],
    }  # fmt: skip

    def typed(line: str) -> subprocess.CompletedProcess[str]:
        command = [str(programs / "kubectl"), *line.split()]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    with control_plane(tmp_path / "plane") as plane:
        for path in (REPO / "deploy" / "kubernetes" / "operator").glob("crd*.yaml"):
            for definition in yaml.safe_load_all(path.read_text()):
                plane.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        plane.post("/api/v1/namespaces", {"metadata": {"name": "vision"}})
        until(lambda: plane.api.get(JOBS).status_code == 200)
        # As in JOB, and as the operator writes its status.
        template = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
        plane.post(JOBS, {
            "apiVersion": "gpuledger.io/v1alpha1", "kind": "ElasticJob", "metadata": {"name": "train"},
            "spec": {**JOB["spec"], "template": template},
        })  # fmt: skip
        standing = Standing("pending", "vision", "j", reasons=[Reason("WaitingForQuota", "vision holds 8 of 8 GPUs")])
        answer = plane.api.patch(
            f"{JOBS}/train/status", json={"status": status_of(standing, {}, datetime.now(UTC))},
            headers={"Content-Type": "application/merge-patch+json"},
        )  # fmt: skip
        assert answer.status_code == 200, answer.text
        role = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        plane.post(role, {"metadata": {"name": "viewer"}, "rules": yaml.safe_load(VIEWER)})
        plane.post(f"{role[:-1]}bindings", {
            "metadata": {"name": "viewer"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "viewer"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io",
                          "name": "system:serviceaccount:gpuledger:gpuledger-watch"}],
        })  # fmt: skip
        spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
        plane.post("/api/v1/namespaces/vision/pods", {"metadata": {"name": "other"}, "spec": spec})

        def configured(user: dict[str, Any]) -> None:
            server = str(plane.api.base_url).rstrip("/")
            (tmp_path / "config").write_text(kubeconfig(server, user, **{"insecure-skip-tls-verify": True}))

        by_plugin = {"apiVersion": version, "command": str(login), "interactiveMode": "Never"}
        for user in ({"token": "watch"}, {"exec": by_plugin}):
            configured(user)
            done = typed("gpuledger explain train")
            assert done.returncode == 0, done.stderr
            assert "why it waits: WaitingForQuota: vision holds 8 of 8 GPUs" in done.stdout
            done = typed("gpuledger explain nothing")
            assert (done.returncode, "has no ElasticJob nothing" in done.stderr) == (2, True), done.stderr
            done = typed("gpuledger explain train -n kube-system")
            assert "namespace kube-system: has no ElasticJob train" in done.stderr
            done = typed("gpuledger who n1")
            assert done.returncode == 0, done.stderr
            assert "uid-whole" in done.stdout
            assert "pods are shown by UID" not in done.stderr
        assert "gpuledger" in typed("plugin list").stdout
        assert "Why an ElasticJob waits" in typed("gpuledger --help").stdout
        configured({"token": "nobody"})
        done = typed("gpuledger explain train")
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
