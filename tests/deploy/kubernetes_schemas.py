"""What Kubernetes' API says of the kinds of objects in deploy/kubernetes: strict JSON schemas, without their prose.

    uv run --no-project --with kubernetes-validate python tests/deploy/kubernetes_schemas.py

writes kubernetes_schemas.json from that package, which has them for every version of Kubernetes (72 MB).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
VERSION = "1.32.0"
KINDS = {
    "ClusterRole": "io.k8s.api.rbac.v1", "ClusterRoleBinding": "io.k8s.api.rbac.v1",
    "ConfigMap": "io.k8s.api.core.v1", "DaemonSet": "io.k8s.api.apps.v1", "Deployment": "io.k8s.api.apps.v1",
    "Namespace": "io.k8s.api.core.v1", "NetworkPolicy": "io.k8s.api.networking.v1",
    "PersistentVolumeClaim": "io.k8s.api.core.v1", "Pod": "io.k8s.api.core.v1",
    "PriorityClass": "io.k8s.api.scheduling.v1", "Role": "io.k8s.api.rbac.v1",
    "RoleBinding": "io.k8s.api.rbac.v1", "Service": "io.k8s.api.core.v1",
    "ServiceAccount": "io.k8s.api.core.v1", "StatefulSet": "io.k8s.api.apps.v1",
}  # fmt: skip


def schema_of(kind: str) -> dict[str, Any]:
    """Of one object of the kind."""
    known = json.loads((HERE / "kubernetes_schemas.json").read_text(encoding="utf-8"))
    return {"$ref": f"#/$defs/{KINDS[kind]}.{kind}", "$defs": known}


def bare(value: Any) -> Any:
    if isinstance(value, dict):
        prose = {key for key, text in value.items() if key == "description" and isinstance(text, str)}
        return {key: bare(one) for key, one in value.items() if key not in prose and not key.startswith("x-kubernetes")}
    return [bare(one) for one in value] if isinstance(value, list) else value


def main() -> None:
    import kubernetes_validate  # type: ignore[import-not-found]

    folder = Path(kubernetes_validate.__file__).parent / f"kubernetes-json-schema/v{VERSION}-local-strict"
    every = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))["$defs"]
    wanted, found = [f"{group}.{kind}" for kind, group in KINDS.items()], {}
    while wanted:
        if (name := wanted.pop()) not in found:
            found[name] = bare(every[name])
            wanted += re.findall(r"#/\$defs/([\w.\-]+)", json.dumps(found[name]))
    lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(found[name], separators=(',', ':'))}" for name in sorted(found))
    (HERE / "kubernetes_schemas.json").write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
