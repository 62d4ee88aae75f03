"""The namespace that kubectl would take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from collectors.kubernetes.connection import SERVICE_ACCOUNT, KubernetesError
from collectors.kubernetes.objects import child, items, text
from warehouse.written_files import read_yaml

DEFAULT = "default"


def namespace_of(
    kubeconfig: Path | None, context: str = "", environment: Mapping[str, str] = os.environ, pod: Path = SERVICE_ACCOUNT
) -> str:
    """Of the context, by default the current one; in a pod without a kubeconfig, the pod's."""
    path = kubeconfig or usual(environment)
    if not path.exists():
        inside = pod / "namespace"
        return inside.read_text(encoding="utf-8").strip() if inside.exists() else DEFAULT
    document = read_yaml(path, "a kubeconfig", "It has the keys contexts, clusters and users", KubernetesError)
    wanted = context or text(document, "current-context")
    chosen = next((child(one, "context") for one in items(document, "contexts") if one.get("name") == wanted), {})
    return text(chosen, "namespace") or DEFAULT


def usual(environment: Mapping[str, str]) -> Path:
    """The default kubeconfig."""
    named = environment.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(named) if named else Path.home() / ".kube" / "config"
