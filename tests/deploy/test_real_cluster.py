"""deploy/ on a real API server: it takes every overlay and the chart, which Helm installs, upgrades and removes there;
and each account may do what its program does, and nothing else that the server serves."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.collectors.kubernetes.control_plane import OWN, ControlPlane, control_plane, missing
from tests.deploy.helm import KUBERNETES, RELEASE, helm, kubectl, kustomize, no_helm, no_kustomize, run_helm
from tests.deploy.test_helm import OPERATOR, SAME
from tests.draws import seldom

WHY = missing() or no_kustomize() or no_helm()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(WHY), reason=WHY)]

ELSEWHERE = {"PodDisruptionBudget": "policy/v1", "ServiceMonitor": "monitoring.coreos.com/v1",
             "PodMonitor": "monitoring.coreos.com/v1"}  # fmt: skip
"""What an API server may not serve: budgets before 1.21, and the Prometheus operator's kinds."""
ACCOUNTS = ("server", "agent", "watch", "operator")
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")


class Cluster:
    """plane: etcd and API server.   admin: a kubeconfig for everything."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.admin = str(folder / "admin.kubeconfig")
        server = {"server": str(plane.api.base_url).rstrip("/"), "insecure-skip-tls-verify": True}
        one: dict[str, Any] = {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": server}],
            "users": [{"name": "u", "user": {"token": "admin"}}],
        }
        Path(self.admin).write_text(yaml.safe_dump(one))
        Path(self.admin).chmod(0o600)

    def kubectl(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = [kubectl(), "--kubeconfig", self.admin, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)

    def helm(self, *arguments: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        return run_helm(*arguments, "--kubeconfig", self.admin, values=values)

    def served(self) -> set[str]:
        """The API versions, such as apps/v1."""
        return set(self.kubectl("api-versions").stdout.split())

    def resources(self) -> Iterator[tuple[str, str]]:
        """(group, resource or resource/subresource) of all that is served."""
        for version in sorted(self.served()):
            path = f"/apis/{version}" if "/" in version else f"/api/{version}"
            for one in self.plane.api.get(path).json()["resources"]:
                yield version.rpartition("/")[0], one["name"]

    def may(self, account: str, group: str, resource: str, verb: str, namespace: str) -> bool:
        """As the account itself would be answered."""
        name, _, below = resource.partition("/")
        asked = {"group": group, "resource": name, "subresource": below, "verb": verb, "namespace": namespace}
        answer = self.plane.api.post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            json={"spec": {"resourceAttributes": asked}, "apiVersion": "authorization.k8s.io/v1",
                  "kind": "SelfSubjectAccessReview"},
            headers={"Impersonate-User": f"system:serviceaccount:gpuledger:gpuledger-{account}"},
        )  # fmt: skip
        assert answer.status_code == httpx.codes.CREATED, answer.text
        return bool(answer.json()["status"]["allowed"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with control_plane(folder / "k") as plane:
        found = Cluster(plane, folder)
        # It has the roles of the manifests already, and their namespace: here they come with the rest.
        for kind in ("clusterrolebinding", "clusterrole"):
            names = [f"gpuledger-{one}" for one in ACCOUNTS]
            found.kubectl("delete", kind, "--ignore-not-found", *names)
        for kind in ("rolebindings", "roles"):
            assert found.kubectl("-n", OWN, "delete", kind, "--all").returncode == 0
        yield found


def applicable(cluster: Cluster, text: str) -> str:
    """The objects of kinds that the server serves; the others are those which it need not."""
    served = cluster.served()
    every = [one for one in yaml.safe_load_all(text) if one]
    missing_here = {one["kind"] for one in every if one["apiVersion"] not in served}
    assert missing_here <= set(ELSEWHERE), missing_here
    return yaml.safe_dump_all([one for one in every if one["kind"] not in missing_here])


@pytest.mark.parametrize("components", list(SAME), ids=lambda names: names or "base")
def test_the_api_server_takes_every_overlay(cluster: Cluster, components: str) -> None:
    bases = ", ".join(["../base", *(["../operator"] if "operator" in components else [])])
    named = ", ".join(f"../components/{one}" for one in components.split() if one != "operator")
    text = kustomize(f"namespace: gpuledger\nresources: [{bases}]\ncomponents: [{named}]\n{SAME[components][0]}\n")
    objects = applicable(cluster, text)
    done = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=objects)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("serverside-applied (server dry run)") == len(list(yaml.safe_load_all(objects)))


def test_an_object_with_a_wrong_field_is_not_taken(cluster: Cluster) -> None:
    text = kustomize("namespace: gpuledger\nresources: [../base]\n").replace("serviceName:", "serviceNam:")
    done = cluster.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", stdin=text)
    assert done.returncode == 1
    assert "serviceNam" in done.stderr


def test_helm_installs_upgrades_and_removes_it_and_volumes_stay(cluster: Cluster) -> None:
    def there(kind: str) -> set[str]:
        return set(cluster.kubectl("-n", "gpuledger", "get", kind, "-o", "name").stdout.split())

    done = cluster.helm("install", *RELEASE)
    assert done.returncode == 0, done.stderr
    assert "secret gpuledger-settings, secret gpuledger-tls, configmap gpuledger-ca" in done.stdout
    assert there("deployment") == {"deployment.apps/gpuledger-watch"}
    before = cluster.kubectl("-n", "gpuledger", "get", "statefulset/gpuledger-server", "-o", "json").stdout

    values: dict[str, Any] = {**OPERATOR, "watch": {"enabled": False}, "cluster": "c9"}
    done = cluster.helm("upgrade", *RELEASE, values=values)
    assert done.returncode == 0, done.stderr
    assert there("deployment") == {"deployment.apps/gpuledger-operator"}
    assert "customresourcedefinition.apiextensions.k8s.io/elasticjobs.gpuledger.io" in there("crd")
    after = cluster.kubectl("-n", "gpuledger", "get", "statefulset/gpuledger-server", "-o", "json").stdout
    checksums = [re.findall(r'"checksum/settings": "(\w+)"', text) for text in (before, after)]
    assert checksums[0] != checksums[1], "who may push has changed: the server starts again"

    done = cluster.helm("upgrade", *RELEASE, values={**values, "server": {"storage": {"size": "7Gi"}}})
    assert done.returncode == 1, "Kubernetes changes no volume claim template, as values.yaml says"
    assert "updates to statefulset spec" in done.stderr

    removed = subprocess.run(
        [helm(), "uninstall", "gpuledger", "-n", "gpuledger", "--kubeconfig", cluster.admin],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert removed.returncode == 0, removed.stderr
    assert there("deployment,statefulset,daemonset,configmap,networkpolicy") <= {"configmap/kube-root-ca.crt"}
    claims = {f"persistentvolumeclaim/gpuledger-{one}" for one in ("watch", "operator")}
    assert there("pvc") == claims
    assert "customresourcedefinition.apiextensions.k8s.io/elasticjobs.gpuledger.io" in there("crd")
    # What stayed is taken over again.
    done = cluster.helm("install", *RELEASE, values=OPERATOR)
    assert done.returncode == 0, done.stderr


USED = {
    "server": {("authentication.k8s.io", "tokenreviews", "create")},
    "agent": {("", "nodes/pods", "get"), ("resource.k8s.io", "resourceslices", "list")},
    "watch": {
        (group, resource, verb)
        for group, resource in (
            ("", "pods"), ("", "nodes"), ("resource.k8s.io", "resourceclaims"), ("resource.k8s.io", "resourceslices"),
            ("kueue.x-k8s.io", "workloads"), ("kueue.x-k8s.io", "clusterqueues"), ("kueue.x-k8s.io", "localqueues"),
            ("scheduling.volcano.sh", "queues"), ("scheduling.volcano.sh", "podgroups"),
        )
        for verb in ("list", "watch")
    },
}  # fmt: skip
"""(group, resource, verb) of the requests that our programs make (collectors/kubernetes, collectors/attribution). The
operator's are tried in tests/scheduler/kubernetes: here its manifest says them."""
EVERYBODYS = {
    ("authorization.k8s.io", "selfsubjectaccessreviews", "create"),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "create"),
}


@seldom(5, "the rights of accounts on a real server")
def test_an_account_may_do_what_its_program_does_and_nothing_else(cluster: Cluster) -> None:
    parts = "components: [../components/kueue, ../components/volcano]"
    text = kustomize(f"namespace: gpuledger\nresources: [../base, ../operator]\n{parts}\n")
    done = cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    used = {(account, namespace): USED.get(account, set()) for account in ACCOUNTS for namespace in ("gpuledger", "")}
    for role in yaml.safe_load_all((KUBERNETES / "operator" / "rbac.yaml").read_text()):
        # What is granted by name alone is not granted to who asks without one.
        rights = {
            (group, resource, verb)
            for rule in role.get("rules", [])
            for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]
            if "resourceNames" not in rule
        }  # fmt: skip
        for namespace in ("gpuledger", "") if role["kind"] == "ClusterRole" else ("gpuledger",):
            used["operator", namespace] = used["operator", namespace] | rights
    known = set(cluster.resources()) | {one[:2] for rights in used.values() for one in rights}
    assert len(known) > 60
    for (account, namespace), rights in used.items():
        allowed = {
            (*resource, verb)
            for resource in known
            for verb in VERBS
            if cluster.may(account, *resource, verb, namespace)
        }
        assert allowed - EVERYBODYS == rights, (account, namespace or "everywhere")
