"""deploy/kubernetes, as kubectl renders it: every object is one that Kubernetes' API knows, pods may do no more than
they need, and what their containers are told starts the real processes, which answer the probes beside it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from collectors.kubernetes.settings import Scheduler, Settings
from collectors.kubernetes.watcher import paths_of
from scheduler.kubernetes.election import NAME
from scheduler.settings import parse_settings
from tests.certificates import self_signed
from tests.collectors.attribution.kubelet_server import PodResourcesServer
from tests.collectors.kubernetes.make import admitted, bound, node, pod
from tests.collectors.kubernetes.reviewing import Scripted, reviewing, user
from tests.collectors.kubernetes.server import NODES, PODS, serving
from tests.conftest import REPO
from tests.deploy.helm import KUBERNETES as FOLDER
from tests.deploy.helm import Object, Rendered, by_name, kustomize, no_kustomize
from tests.deploy.kubernetes_schemas import schema_of
from tests.draws import seldom
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_port
from warehouse.store import open_store

COMPONENTS = sorted(path.name for path in (FOLDER / "components").iterdir())
USES = [(), *((name,) for name in COMPONENTS), tuple(name for name in COMPONENTS if name != "maintenance")]
"""An overlay's components."""
SETTINGS = "configMapGenerator: [{name: gpuledger-server, literals: [GPULEDGER_REPORTS=/etc/gpuledger/reports.yaml]}]"


pytestmark = pytest.mark.skipif(bool(no_kustomize()), reason=no_kustomize())


@functools.cache
def render(components: tuple[str, ...]) -> Rendered:
    """What an overlay as in docs/deploy.md becomes."""
    named = ", ".join(f"../components/{name}" for name in components)
    return by_name(kustomize(f"namespace: gpuledger\nresources: [../base]\ncomponents: [{named}]\n{SETTINGS}\n"))


@functools.cache
def operator() -> Rendered:
    return by_name(kustomize("resources: [../operator]\n"))


def pods(rendered: Rendered) -> dict[str, Object]:
    found = {name: one["spec"]["template"]["spec"] for (_, name), one in rendered.items() if "template" in spec(one)}
    return found | {name: one["spec"] for (kind, name), one in rendered.items() if kind == "Pod"}


def spec(one: Object) -> Object:
    found: Object = one.get("spec", {})
    return found


@pytest.mark.parametrize("components", USES, ids=lambda names: "+".join(names) or "base")
def test_every_object_is_one_that_kubernetes_knows(components: tuple[str, ...]) -> None:
    for (kind, name), found in render(components).items():
        mistakes = [f"{one.instance_path}: {one.message}" for one in jsonschema_rs.iter_errors(schema_of(kind), found)]
        assert mistakes == [], (kind, name)


def test_the_operator_is_what_kubernetes_knows_and_does_no_more_than_it_says() -> None:
    rendered = operator()
    for (kind, name), found in rendered.items():
        if kind != "CustomResourceDefinition":  # a real API server takes them, in tests/scheduler/kubernetes
            mistakes = [one.message for one in jsonschema_rs.iter_errors(schema_of(kind), found)]
            assert mistakes == [], (kind, name)
    assert_does_no_more_than_it_needs(rendered)
    (rules,) = (one["rules"] for (kind, _), one in rendered.items() if kind == "ClusterRole")
    named = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}
    assert not {"*", "secrets", "pods/exec", "nodes/proxy"} & {resource for resource, _ in named}
    changing = {one for one in named if one[1] not in ("get", "list", "watch")}
    assert changing == {
        ("computepools/status", "patch"),
        ("elasticjobs", "delete"),
        ("elasticjobs/status", "patch"),
        ("events", "create"),
        ("pods", "create"),
        ("pods", "delete"),
        ("pods/status", "patch"),
        ("queues/status", "patch"),
        ("services", "create"),
        ("tenants/status", "patch"),
    }
    assert [one["rules"] for (kind, _), one in rendered.items() if kind == "Role"] == [[
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [NAME],
         "verbs": ["get", "update"]},
    ]]  # fmt: skip
    assert {one["metadata"]["namespace"] for (kind, _), one in rendered.items() if kind == "Role"} == {"gpuledger"}
    (settings,) = (one["data"]["site.yaml"] for (kind, _), one in rendered.items() if kind == "ConfigMap")
    (pool,) = parse_settings(yaml.safe_load(settings)).pools
    assert pool.launcher == "kubernetes"
    kinds = {spec(one)["names"]["kind"] for (kind, _), one in rendered.items() if kind == "CustomResourceDefinition"}
    assert kinds == {"ComputePool", "ElasticJob", "Queue", "Tenant"}


def test_the_schemas_know_a_mistake() -> None:
    one = render(())["StatefulSet", "gpuledger-server"]
    wrong = json.loads(json.dumps(one).replace('"readOnlyRootFilesystem"', '"readOnlyRootFileSystem"'))
    (mistake,) = jsonschema_rs.iter_errors(schema_of("StatefulSet"), wrong)
    assert "readOnlyRootFileSystem" in mistake.message


@pytest.mark.parametrize("components", USES, ids=lambda names: "+".join(names) or "base")
def test_a_pod_may_do_no_more_than_it_needs(components: tuple[str, ...]) -> None:
    assert_does_no_more_than_it_needs(render(components))


def assert_does_no_more_than_it_needs(rendered: Rendered) -> None:
    for name, found in pods(rendered).items():
        (container,) = found["containers"]
        context = {**found.get("securityContext", {}), **container["securityContext"]}
        assert context["readOnlyRootFilesystem"], name
        assert not context["allowPrivilegeEscalation"], name
        assert context["capabilities"] == {"drop": ["ALL"]}, name
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}, name
        assert "memory" in container["resources"]["limits"], name
        assert not container["image"].endswith(":latest"), name
        assert container["image"].startswith("registry.example.org/"), name
        hosts = {one for one in ("hostPID", "hostNetwork", "hostIPC") if found.get(one)}
        paths = {one["hostPath"]["path"] for one in found["volumes"] if "hostPath" in one}
        if name == "gpuledger-agent":
            assert (hosts, paths) == ({"hostPID"}, {"/var/lib/kubelet/pod-resources", "/var/lib/gpuledger"})
        else:
            assert (hosts, paths) == (set(), set()), name
            assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 65532), name
        for volume in found["volumes"]:
            assert volume.get("secret", {}).get("defaultMode", 0) & 0o007 == 0, (name, volume)
        asks_the_api = found.get("automountServiceAccountToken", True)
        assert asks_the_api == (("ServiceAccount", found.get("serviceAccountName")) in rendered), name


def test_roles_read_and_never_reach_into_a_node_but_with_old_kubelets() -> None:
    for components, reaches in (((), False), (("old-kubelet",), True)):
        roles = {name: one["rules"] for (kind, name), one in render(components).items() if kind == "ClusterRole"}
        rules = [rule for found in roles.values() for rule in found]
        (reviews,) = [rule for rule in rules if "create" in rule["verbs"]]
        assert reviews == {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}
        assert reviews in roles["gpuledger-server"]
        assert {verb for rule in rules for verb in rule["verbs"]} - {"create"} == {"get", "list", "watch"}
        named = {resource for rule in rules for resource in rule["resources"]}
        assert "secrets" not in named
        assert "*" not in named
        assert ("nodes/proxy" in named) == reaches
        assert "nodes/pods" in {resource for rule in roles["gpuledger-agent"] for resource in rule["resources"]}


@pytest.mark.parametrize("schedulers", [(), ("kueue",), ("volcano",), ("kueue", "volcano")], ids="+".join)
def test_the_watcher_may_list_and_watch_what_it_follows_and_nothing_else(schedulers: tuple[Scheduler, ...]) -> None:
    rendered = render(schedulers)
    (deployment,) = [one for key, one in rendered.items() if key == ("Deployment", "gpuledger-watch")]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [one for one in arguments if one.startswith("--queues")] == [f"--queues={one}" for one in schedulers]
    bound = [
        one["roleRef"]["name"]
        for (kind, _), one in rendered.items()
        if kind == "ClusterRoleBinding" and one["subjects"][0]["name"] == "gpuledger-watch"
    ]
    rules = [rule for name in bound for rule in rendered["ClusterRole", name]["rules"]]
    assert all(rule["verbs"] == ["list", "watch"] for rule in rules)
    may = {(group, one) for rule in rules for group in rule["apiGroups"] for one in rule["resources"]}
    followed = {path for paths in paths_of(Settings(queues_of=schedulers)).values() for path in paths}
    parts = [path.split("/") for path in followed]
    assert may == {("", one[3]) if one[1] == "api" else (one[2], one[4]) for one in parts}


def test_what_an_overlay_sets_reaches_the_server() -> None:
    rendered = render(())
    (name,) = (name for kind, name in rendered if kind == "ConfigMap" and name.startswith("gpuledger-server"))
    (container,) = pods(rendered)["gpuledger-server"]["containers"]
    assert container["envFrom"] == [{"configMapRef": {"name": name, "optional": True}}]
    server = render(("clickhouse",))["StatefulSet", "gpuledger-server"]
    (kept,) = server["spec"]["volumeClaimTemplates"]
    assert kept["spec"]["resources"]["requests"]["storage"] == "1Gi", "the access store's alone"
    (container,) = server["spec"]["template"]["spec"]["containers"]
    given = {one["name"]: one for one in container["env"]}
    assert given["GPULEDGER_STORE"]["value"].startswith("clickhouse://")
    mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    folder, _, file = given["GPULEDGER_STORE_PASSWORD_FILE"]["value"].rpartition("/")
    (secret,) = (one["secret"] for one in pods(render(("clickhouse",)))["gpuledger-server"]["volumes"]
                 if one["name"] == mounted[folder])  # fmt: skip
    assert (secret["secretName"], file) == ("gpuledger-clickhouse", "password")
    assert container["livenessProbe"]["httpGet"]["path"] == "/ping"
    maintained = render(("maintenance",))
    assert maintained["StatefulSet", "gpuledger-server"]["spec"]["replicas"] == 0
    volumes = pods(maintained)["gpuledger-maintenance"]["volumes"]
    (claim,) = (one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one)
    templates = render(())["StatefulSet", "gpuledger-server"]["spec"]["volumeClaimTemplates"]
    assert claim == f"{templates[0]['metadata']['name']}-gpuledger-server-0"
    runtime = pods(render(("nvidia-runtime",)))["gpuledger-agent"]["runtimeClassName"]
    assert runtime == "nvidia"


def test_agent_and_watch_have_tokens_of_their_own_and_no_secret_between_them() -> None:
    rendered = render(())
    (senders,) = (one["data"]["senders.yaml"] for (_, name), one in rendered.items() if "gpuledger-senders" in name)
    reported = yaml.safe_load(senders)["kubernetes"]
    accounts = {one["account"]: one for one in reported["accounts"]}
    assert accounts["gpuledger/gpuledger-agent"]["nodes"] == "own"
    assert "events" not in accounts["gpuledger/gpuledger-agent"]["records"]
    assert set(accounts["gpuledger/gpuledger-watch"]["records"]) == {"events", "devices", "findings", "service_levels"}
    assert accounts["gpuledger/gpuledger-watch"]["services"] == ["kueue/*", "volcano/*"], "quotas alone"
    for name in ("gpuledger-agent", "gpuledger-watch"):
        found = pods(rendered)[name]
        assert f"gpuledger/{found['serviceAccountName']}" in accounts
        (sources,) = (one["projected"]["sources"] for one in found["volumes"] if one["name"] == "token")
        (token,) = (one["serviceAccountToken"] for one in sources if "serviceAccountToken" in one)
        assert (token["audience"], token["expirationSeconds"] <= 3600) == (reported["audience"], True)
        assert not [one for one in found["volumes"] if "secret" in one]
    (container,) = pods(rendered)["gpuledger-server"]["containers"]
    (path,) = (one.removeprefix("--tokens=") for one in container["args"] if one.startswith("--tokens="))
    assert Path(path).parent.as_posix() in {one["mountPath"] for one in container["volumeMounts"]}


class Node:
    """Runs containers' command lines here: mounts are folders below `folder`, ports are free ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports: dict[int, int] = {}
        self.fields = {"spec.nodeName": "n1", "status.hostIP": "127.0.0.1"}
        self.replaced: dict[str, str] = {"gpuledger.gpuledger.svc": "127.0.0.1"}
        self.processes: list[subprocess.Popen[str]] = []
        self.until_the_end = contextlib.ExitStack()

    def mounted(self, name: str, path: str) -> Path:
        return self.folder / name / path.strip("/").replace("/", "-")

    def here(self, name: str, container: Object, text: str) -> str:
        """The text with this node's paths, names and ports, each put once."""
        put = {one["mountPath"]: str(self.mounted(name, one["mountPath"])) for one in container["volumeMounts"]}
        put |= self.replaced | {str(port): str(here) for port, here in self.ports.items()}
        either = "|".join(re.escape(old) for old in put)
        return re.sub(rf"({either})(?![\w-])", lambda match: put[match[1]], text)

    def start(self, name: str, container: Object, **more: str) -> subprocess.Popen[str]:
        for mount in container["volumeMounts"]:
            self.mounted(name, mount["mountPath"]).mkdir(parents=True, exist_ok=True)
        given = {
            one["name"]: self.here(name, container, one["value"])
            if "value" in one
            else self.fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
            for one in container.get("env", [])
        }
        arguments = [self.here(name, container, one) for one in container["args"]]
        environment = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ} | given | more
        log = (self.folder / f"{name}.log").open("w")
        process = subprocess.Popen(
            [sys.executable, "-m", "gpuledger", *arguments], cwd=REPO, env=environment, stderr=log, text=True
        )
        self.processes.append(process)
        return process

    def passes(self, container: Object, probe: Object) -> bool:
        return self.page(container, probe) is not None

    def page(self, container: Object, probe: Object, path: str = "") -> str | None:
        """As a kubelet asks, which believes any certificate."""
        (port,) = (one["containerPort"] for one in container["ports"] if one["name"] == probe["httpGet"]["port"])
        scheme = probe["httpGet"].get("scheme", "HTTP").lower()
        url = f"{scheme}://127.0.0.1:{self.ports[port]}{path or probe['httpGet']['path']}"
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(url, timeout=10, context=trust) as answer:
                return answer.read().decode() if 200 <= answer.status < 400 else None
        except OSError:  # an HTTPError is one
            return None

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def reviewing(self) -> Scripted:
        """An API server for the server, until the end."""
        return self.until_the_end.enter_context(reviewing())

    def end(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(PATIENCE_SECONDS)


@pytest.fixture
def here() -> Iterator[Node]:
    """In a short folder: a unix socket's path has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="node-") as folder, contextlib.ExitStack() as stack:
        found = Node(Path(folder))
        stack.enter_context(found.until_the_end)
        stack.callback(found.end)
        yield found


def kubeconfig(path: Path, url: str) -> Path:
    one = {"contexts": [{"name": "it", "context": {"cluster": "c", "user": "u"}}], "current-context": "it"}
    about = {"clusters": [{"name": "c", "cluster": {"server": url}}], "users": [{"name": "u", "user": {"token": "t"}}]}
    path.write_text(yaml.safe_dump({**one, **about}))
    return path


def comes(true: Callable[[], bool], here: Node, name: str) -> None:
    def lives_and_does() -> bool:
        assert all(one.poll() is None for one in here.processes), here.said(name)
        return true()

    until(lives_and_does, lambda: here.said(name), every=0.1)


def delivered(metrics: str | None) -> bool:
    found = re.search(r"^\w*agent_delivered_batches_total\S* (\S+)$", metrics or "", re.MULTILINE)
    return found is not None and float(found[1]) > 0


@seldom(6, "server agent and watch start as the")
@pytest.mark.slow
def test_server_agent_and_watch_start_as_the_manifests_say_and_answer_their_probes(here: Node) -> None:
    rendered = render(())
    server, agent, watch = (
        pods(rendered)[f"gpuledger-{name}"]["containers"][0] for name in ("server", "agent", "watch")
    )
    here.ports = {8443: free_port(), 9108: free_port(), 10250: free_port()}

    settings, tls = here.mounted("server", "/etc/gpuledger"), here.mounted("server", "/etc/gpuledger-tls")
    tokens = here.mounted("server", "/etc/gpuledger-senders")
    for folder in (settings, tls, tokens):
        folder.mkdir(parents=True)
    (senders,) = (one["data"]["senders.yaml"] for (_, name), one in rendered.items() if "gpuledger-senders" in name)
    (tokens / "senders.yaml").write_text(senders)
    (settings / "sign-in.yaml").write_text("session_hours: 8\n")
    for made, mounted in zip(self_signed(here.folder, "127.0.0.1"), ("tls.crt", "tls.key"), strict=True):
        made.rename(tls / mounted)
    reviews = here.reviewing()
    account = "gpuledger:gpuledger"
    reviews.of_tokens = {
        "the.agent.token": user(f"{account}-agent", **{"node-name": ["n1"]}),
        "the.watch.token": user(f"{account}-watch"),
    }
    here.start("server", server, KUBECONFIG=str(kubeconfig(here.folder / "reviews", reviews.url)))
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        comes(functools.partial(here.passes, server, server[probe]), here, "server")

    for name, path in (("agent", "/etc/gpuledger-token"), ("watch", "/etc/gpuledger")):
        here.mounted(name, path).mkdir(parents=True)
        (here.mounted(name, path) / "token").write_text(f"the.{name}.token")
        shutil.copy(tls / "tls.crt", here.mounted(name, path) / "ca.crt")
    (text,) = (
        one["data"]["agent.yaml"] for (kind, name), one in rendered.items() if name.startswith("gpuledger-agent-")
    )
    reported = here.mounted("agent", "/etc/gpuledger")
    reported.mkdir()
    (reported / "agent.yaml").write_text(here.here("agent", agent, text))
    kubelet = here.mounted("agent", "/var/lib/kubelet/pod-resources")
    kubelet.mkdir()
    pod_resources = PodResourcesServer(kubelet / "kubelet.sock").start()
    try:
        here.start("agent", agent)
        for probe in ("livenessProbe", "readinessProbe"):
            comes(functools.partial(here.passes, agent, agent[probe]), here, "agent")
        # It has said by itself that it finds no driver here.
        comes(lambda: delivered(here.page(agent, agent["livenessProbe"], "/metrics")), here, "agent")
    finally:
        pod_resources.stop()

    with serving() as (api, url):
        api.apply(NODES, node())
        api.apply(PODS, admitted(bound(pod("u"), 5), 6))
        config = kubeconfig(here.folder / "kubeconfig", url)
        alive = [here.here("watch", watch, part) for part in watch["livenessProbe"]["exec"]["command"]]
        assert subprocess.run(alive, capture_output=True, check=False).returncode != 0
        process = here.start("watch", watch, KUBECONFIG=str(config))
        comes(lambda: subprocess.run(alive, capture_output=True, check=False).returncode == 0, here, "watch")
        comes(lambda: bool(api.watches()), here, "watch")
        states = here.mounted("watch", "/var/lib/gpuledger") / ".local/state/gpuledger"
        # It notes what it has reported once that is delivered.
        comes(
            lambda: any(b"started" in path.read_bytes() for path in states.glob("watch-*") if path.is_file()),
            here,
            "watch",
        )
        hour_ago = time.time() - 3600
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0, here.said("watch")
    for path in states.glob("watch-*"):
        os.utime(path, (hour_ago, hour_ago))
    assert subprocess.run(alive, capture_output=True, check=False).returncode != 0, "a watch that hangs is noticed"
    here.end()
    assert [one.returncode for one in here.processes] == [0, 0, 0], here.said("server") + here.said("agent")
    with open_store(f"chdb://{here.mounted('server', '/var/lib/gpuledger')}/store") as store:
        pushed = store.rows("SELECT DISTINCT sender FROM ingest_batches WHERE record_type IN ('events', 'findings')")
        assert {row["sender"] for row in pushed} == {"gpuledger/gpuledger-watch", "gpuledger/gpuledger-agent@n1"}
        reported = store.rows("SELECT toString(event) AS event, workload_id FROM events ORDER BY ts")
    assert [row["event"] for row in reported] == ["submitted", "started"]
