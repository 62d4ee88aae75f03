"""Helm and the chart of deploy/helm, with Kustomize's rendering of deploy/kubernetes beside it."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from tests.conftest import REPO

CHART = REPO / "deploy" / "helm" / "gpuledger"
KUBERNETES = REPO / "deploy" / "kubernetes"
RELEASE = ("gpuledger", str(CHART), "--namespace", "gpuledger")
TOOLS = REPO / ".venv-kubernetes"
"""What `make kubernetes-tools` unpacks."""

Object = dict[str, Any]
Rendered = dict[tuple[str, str], Object]


@functools.cache
def helm() -> str:
    """Its path; empty: there is none."""
    return _found("helm")


@functools.cache
def kubectl() -> str:
    """The path of one with Kustomize 5; empty: there is none."""
    return next((path for path in (shutil.which("kubectl"), _found("kubectl")) if path and _has_kustomize(path)), "")


def _found(name: str) -> str:
    ours = TOOLS / name / name
    return str(ours) if ours.exists() else shutil.which(name) or ""


def _has_kustomize(path: str) -> bool:
    done = subprocess.run([path, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False)
    return bool(json.loads(done.stdout or "{}").get("kustomizeVersion", "").startswith("v5"))


def no_helm() -> str:
    """Why no chart can be rendered; empty: it can."""
    return "" if helm() else "no helm here (make kubernetes-tools)"


def no_kustomize() -> str:
    """Why nothing can be rendered; empty: it can."""
    return "" if kubectl() else "no kubectl with Kustomize 5 here (make kubernetes-tools)"


def run_helm(*arguments: str, values: Object | None = None) -> subprocess.CompletedProcess[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values or {}, file)
        file.flush()
        command = [helm(), *arguments, "--values", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def template(values: Object) -> Rendered:
    """What the chart becomes with these values beside its own."""
    done = run_helm("template", *RELEASE, values=values)
    assert done.returncode == 0, done.stderr
    return by_name(done.stdout)


def kustomize(overlay: str) -> str:
    """What an overlay becomes, which names `../base` and `../components/...`."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(KUBERNETES, f"{folder}/kubernetes")
        mine = Path(folder, "kubernetes", "mine")
        mine.mkdir()
        (mine / "kustomization.yaml").write_text(overlay)
        done = subprocess.run([kubectl(), "kustomize", mine], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def by_name(text: str) -> Rendered:
    found = [one for one in yaml.safe_load_all(text) if one]
    named = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(named) == len(found)
    return named


def of_kustomize(overlay: str) -> Rendered:
    """The objects without the Namespace, which is Helm's own affair, and the hashes in names of ConfigMaps."""
    text = kustomize(overlay)
    for name in re.findall(r"^  name: (gpuledger-[a-z]+-[a-z0-9]{10})$", text, re.M):
        text = text.replace(name, name.rpartition("-")[0])
    return {key: _comparable(one) for key, one in by_name(text).items() if key[0] != "Namespace"}


def of_helm(values: Object) -> Rendered:
    """The objects without what Helm alone says of them: its labels, and what makes pods anew."""
    return {key: _comparable(one) for key, one in template(values).items()}


HELMS_OWN = ("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart",
             "checksum/settings", "helm.sh/resource-policy")  # fmt: skip


def _comparable(one: Any) -> Any:
    if isinstance(one, list):
        return [_comparable(item) for item in one]
    if not isinstance(one, dict):
        return one
    found = {key: _comparable(value) for key, value in one.items() if key not in HELMS_OWN}
    if found.get("annotations") == {}:
        del found["annotations"]
    if found.get("kind") == "ConfigMap":
        found["data"] = {key: yaml.safe_load(value) for key, value in found["data"].items()}
    return found
