"""What lies in deploy/ fits what it deploys: every command line parses, every file that is named exists, settings are
read by their own readers, ports and paths agree."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import socket
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from access.settings import load_access
from alerts.routing import load_routing
from collectors.agent.settings import read_settings
from ingest.senders import Senders
from tests.alerts.test_prometheus import needs_promtool, promtool
from tests.conftest import REPO
from tests.deploy.command_lines import understood

DEPLOY = REPO / "deploy"
BASE = DEPLOY / "kubernetes" / "base"
COMPOSE = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
DOCKERFILES = sorted((DEPLOY / "docker").glob("*.Dockerfile"))


def objects(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


KINDS = {
    (one["kind"], one["metadata"]["name"]): one
    for path in BASE.glob("*.yaml")
    for one in objects(path)
    if "metadata" in one
}
PODS = {name: one["spec"]["template"]["spec"] for (_, name), one in KINDS.items() if "template" in one.get("spec", {})}


def exec_start(unit: Path) -> list[str]:
    (line,) = re.findall(r"^ExecStart=((?:.*\\\n)*.*)", unit.read_text(), re.M)
    return shlex.split(line.replace("\\\n", " ").replace("${CREDENTIALS_DIRECTORY}", "/run/credentials/x"))


def docker_cmd(path: Path) -> list[str]:
    text = path.read_text()
    assert 'ENTRYPOINT ["gpuledger"]' in text
    found: list[str] = json.loads(re.findall(r"^CMD (.*)$", text, re.M)[0])
    return found


def documented() -> Iterator[Any]:
    """Command lines of comments."""
    for path in (DEPLOY / "compose/prometheus.yml", DEPLOY / "grafana/provisioning/datasources/gpuledger.yaml"):
        for line in re.findall(r"(?:# |`)gpuledger ((?:users|tokens|sql) [^>#`\n]+)", path.read_text(), re.M):
            yield pytest.param(shlex.split(line), id=f"{path.name}: {line.strip()[:60]}")


COMMANDS = [
    *(pytest.param(exec_start(unit)[1:], id=unit.name) for unit in UNITS),
    *(pytest.param(docker_cmd(path), id=path.name) for path in DOCKERFILES),
    *(pytest.param(one["args"], id=name) for name, pod in PODS.items() for one in pod["containers"]),
    pytest.param(COMPOSE["services"]["server"]["command"], id="compose"),
    *documented(),
]


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_command_line_is_one_that_we_understand(arguments: list[str]) -> None:
    understood(arguments)


def test_the_units_keep_secrets_and_the_system_apart() -> None:
    for unit in UNITS:
        text = unit.read_text()
        assert exec_start(unit)[0] == "/opt/gpuledger/bin/gpuledger"
        for line in ("DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes", "LoadCredential=", "UMask=0077"):
            assert line in text, (unit.name, line)
        given = set(re.findall(r"^LoadCredential=([^:]+):", text, re.M))
        used = set(re.findall(r"\$\{CREDENTIALS_DIRECTORY\}/(\S+)", text))
        assert used <= given, unit.name
        (state,) = re.findall(r"^StateDirectory=(.*)$", text, re.M)
        assert f"/var/lib/{state}/" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_nothing_wrong_with_a_unit(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/gpuledger/bin/gpuledger", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.replace(str(copy), "")) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
@pytest.mark.parametrize(("name", "tenths"), [("gpuledger-server", 12), ("gpuledger-agent", 20)])
def test_a_unit_is_no_more_exposed_than_it_was(name: str, tenths: int) -> None:
    """In systemd's own measure, 0 to 10; the agent reads /dev/kmsg, /proc and devices."""
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={tenths}"]
    done = subprocess.run(
        [*command, DEPLOY / "systemd" / f"{name}.service"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_images_have_every_package_of_the_distribution_and_no_root() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())
    for path in DOCKERFILES:
        text = path.read_text()
        copied = re.findall(r"^COPY (\w+) \./\1$", text, re.M)
        assert copied == project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"], path.name
        extra = path.name.removesuffix(".Dockerfile")
        assert text.count(f"uv sync --frozen --no-install-project --extra {extra}\n") == 1
        assert extra in project["project"]["optional-dependencies"]
        build, last = text.split("FROM ${PYTHON}")[1:]
        assert "uv" in build
        assert "uv" not in last
        assert re.findall(r"^USER (.*)$", last, re.M) == ["65532:65532"]


def test_a_kustomization_names_files_that_exist_and_all_of_them() -> None:
    for path in (DEPLOY / "kubernetes").rglob("kustomization.yaml"):
        reported = yaml.safe_load(path.read_text())
        named = set(reported.get("resources", [])) | {
            file.partition("=")[2] or file for one in reported.get("configMapGenerator", []) for file in one["files"]
        }
        assert named == {one.name for one in path.parent.glob("*.yaml")} - {"kustomization.yaml"}
        images = {one["name"] for one in reported.get("images", [])}
        assert images <= {one["image"] for pod in PODS.values() for one in pod["containers"]}


def test_what_the_objects_name_is_there() -> None:
    secrets = {"gpuledger-settings", "gpuledger-tls"}
    deploy_md = (REPO / "docs" / "deploy.md").read_text(encoding="utf-8")
    for name, pod in PODS.items():
        volumes = {one["name"] for one in pod["volumes"]} | ({"store"} if name == "gpuledger-server" else set())
        for volume in pod["volumes"]:
            if secret := volume.get("secret", {}).get("secretName"):
                assert secret in secrets
                assert secret in deploy_md
            if claim := volume.get("persistentVolumeClaim", {}).get("claimName"):
                assert ("PersistentVolumeClaim", claim) in KINDS
        (container,) = pod["containers"]
        assert {one["name"] for one in container["volumeMounts"]} == volumes
        mounts = [one["mountPath"] for one in container["volumeMounts"]]
        for path in re.findall(r"=(/\S+)", " ".join(container["args"])):
            assert any(path.startswith(f"{mount}/") for mount in mounts), (name, path)
        assert not [one for one in mounts for other in mounts if one.startswith(f"{other}/")]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        if account := pod.get("serviceAccountName"):
            assert ("ServiceAccount", account) in KINDS
            assert KINDS["ClusterRoleBinding", account]["roleRef"]["name"] == account
            assert ("ClusterRole", account) in KINDS
    for (kind, name), policy in KINDS.items():
        if kind == "NetworkPolicy" and (chosen := policy["spec"]["podSelector"].get("matchLabels")):
            assert chosen["app.kubernetes.io/name"] == name
            assert name in PODS


def test_the_agent_sees_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_IP", "10.0.0.7")
    settings = read_settings(BASE / "agent-settings.yaml")
    pod = PODS["gpuledger-agent"]
    (container,) = pod["containers"]
    assert pod["hostPID"]
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    assert settings.sources.nvml.podresources is not None
    assert str(settings.sources.nvml.podresources.parent) in mounts
    assert str(settings.spool.folder.parent) in mounts
    assert settings.deliver.token_file is not None
    assert str(settings.deliver.token_file.parent) in mounts
    assert settings.metrics.port == container["ports"][0]["containerPort"]
    assert settings.sources.nvml.kubelet_url == "https://10.0.0.7:10250"
    service = KINDS["Service", "gpuledger"]
    address = f"https://gpuledger.gpuledger.svc:{service['spec']['ports'][0]['port']}"
    assert settings.deliver.url == address
    assert f"--url={address}" in PODS["gpuledger-watch"]["containers"][0]["args"]
    assert f"--port={service['spec']['ports'][0]['port']}" in PODS["gpuledger-server"]["containers"][0]["args"]
    rules = KINDS["ClusterRole", "gpuledger-agent"]["rules"]
    assert any("resourceslices" in rule["resources"] and "list" in rule["verbs"] for rule in rules)
    needed = yaml.safe_load(
        (REPO / "docs/kubernetes.md").read_text().split("It reads only:\n")[1].split("\nThe last")[0]
    )
    assert KINDS["ClusterRole", "gpuledger-watch"]["rules"] == needed["rules"]


def test_compose_s_file_is_what_its_specification_allows() -> None:
    text = (DEPLOY / "compose" / "compose.yaml").read_text()
    # Docker's own word, where the library knows addresses alone.
    text = text.replace("host-gateway", "172.17.0.1")
    PyCompose.from_yaml(text).validate()
    for right, wrong in (("cap_drop:", "cap_dorp:"), ("{source: routing,", "{source: rooting,")):
        with pytest.raises(ValueError, match=wrong.strip("{:,").rpartition(" ")[2]):
            PyCompose.from_yaml(text.replace(right, wrong, 1)).validate()


def test_no_service_of_compose_has_a_secret_where_inspect_shows_it() -> None:
    for name, service in COMPOSE["services"].items():
        for key, value in service.get("environment", {}).items():
            assert not re.search("PASSWORD|TOKEN|SECRET|KEY", key) or str(value).startswith("/run/secrets/"), (
                name,
                key,
            )
        assert "$" not in json.dumps(service), "nothing comes from the shell of whoever starts it"


def test_compose_starts_services_after_what_they_need_and_knows_their_health() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        assert service["healthcheck"]["test"][0] == "CMD", name
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}, (name, other)
        asked = {match for value in service.get("environment", {}).values() for match in re.findall(r"\w+", str(value))}
        assert asked & set(services) <= set(service.get("depends_on", ())) | {name, "gpuledger"}, name


def test_compose_names_what_is_there() -> None:
    folder = DEPLOY / "compose"
    for one in COMPOSE["configs"].values():
        assert (folder / one["file"]).exists()
    for name, service in COMPOSE["services"].items():
        for config in service.get("configs", []):
            assert config["source"] in COMPOSE["configs"], name
        for secret in service.get("secrets", []):
            assert (secret if isinstance(secret, str) else secret["source"]) in COMPOSE["secrets"], name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (folder / source).exists()
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    server = COMPOSE["services"]["server"]
    assert (folder / server["build"]["context"] / server["build"]["dockerfile"]).exists()
    grafana = COMPOSE["services"]["grafana"]
    sources = (DEPLOY / "grafana/provisioning/datasources/gpuledger.yaml").read_text()
    used = set(re.findall(r"\$([A-Z]\w+)", sources))
    assert used == {name for name in grafana["environment"] if name.startswith("GPULEDGER_")}
    (file,) = re.findall(r"\$__file\{(\S+)\}", sources)
    assert file in [one["target"] for one in grafana["secrets"] if isinstance(one, dict)]
    scraped = yaml.safe_load((folder / "prometheus.yml").read_text())["scrape_configs"][0]
    (port,) = [one.removeprefix("--port=") for one in server["command"] if one.startswith("--port=")]
    assert scraped["static_configs"][0]["targets"] == [f"server:{port}"]
    assert scraped["authorization"]["credentials_file"] == "/run/secrets/metrics_token"
    assert load_routing(folder / "routing.yaml").routes[0].receivers == ("oncall",)


def test_the_secrets_that_are_made_are_read_and_stay(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "compose" / "secrets.sh", tmp_path)
    for _ in range(2):
        subprocess.run([tmp_path / "secrets.sh"], check=True)
        made = {path: path.read_text() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    assert {one["file"] for one in COMPOSE["secrets"].values()} <= {str(path.relative_to(tmp_path)) for path in made}
    secrets = tmp_path / "secrets"
    assert load_access(secrets / "sign-in.yaml").sign_in
    subprocess.run([tmp_path / "secrets.sh", "gpu-1", "gpu-2"], check=True)
    senders = Senders(secrets / "senders.yaml")
    for node in ("gpu-1", "gpu-2", socket.gethostname()):
        agent = senders.of((secrets / f"agent-token-{node}").read_text())
        assert agent is not None
        assert (agent.name, agent.permissions.nodes, agent.permissions.clusters) == (f"agent-{node}", (node,), ("c1",))
        assert not agent.permissions.may_send("events")
        assert stat_mode(secrets / f"agent-token-{node}") == 0o600
    watch = senders.of((secrets / "watch-token").read_text())
    assert watch is not None
    assert set(watch.permissions.records) == {"events", "devices", "findings", "service_levels"}
    assert set(watch.permissions.services) == {"kueue/*", "volcano/*"}, "quotas alone"
    assert (stat_mode(secrets), stat_mode(secrets / "watch-token")) == (0o700, 0o600)
    wrong = subprocess.run([tmp_path / "secrets.sh", "x: y"], capture_output=True, check=False)
    assert wrong.returncode == 2
    passwords = ("store-password", "reader-password", "auditor-password", "grafana-sql-password", "grafana-password")
    for name in ("watch-token", *passwords):
        assert re.fullmatch("[0-9a-f]{64}", (secrets / name).read_text())
    assert len({(secrets / name).read_text() for name in passwords}) == len(passwords)


def stat_mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@needs_promtool
def test_prometheus_reads_its_configuration(tmp_path: Path) -> None:
    shutil.copy(DEPLOY / "prometheus" / "gpuledger.rules.yml", tmp_path)
    shutil.copy(DEPLOY / "compose" / "agents.yaml", tmp_path)
    text = (
        (DEPLOY / "compose" / "prometheus.yml")
        .read_text()
        .replace("/run/secrets/metrics_token", str(tmp_path / "token"))
    )
    (tmp_path / "token").write_text("x")
    (tmp_path / "prometheus.yml").write_text(text)
    assert "SUCCESS" in promtool("check", "config", str(tmp_path / "prometheus.yml"))
