"""What Kubernetes' API says of the kinds of objects in deploy/kubernetes: strict JSON schemas, without their prose.

    uv run --no-project --with kubernetes-validate --with cloudcoil-models-prometheus-operator==0.80.1.0 \
      python tests/deploy/kubernetes_schemas.py

writes kubernetes_schemas.json from the former, which has them for every version of Kubernetes (72 MB), and from the
latter those of the Prometheus operator.
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
    "PodDisruptionBudget": "io.k8s.api.policy.v1",
    "PriorityClass": "io.k8s.api.scheduling.v1", "Role": "io.k8s.api.rbac.v1",
    "RoleBinding": "io.k8s.api.rbac.v1", "Service": "io.k8s.api.core.v1",
    "ServiceAccount": "io.k8s.api.core.v1", "StatefulSet": "io.k8s.api.apps.v1",
    "LimitRange": "io.k8s.api.core.v1", "ResourceQuota": "io.k8s.api.core.v1",
    "ValidatingAdmissionPolicy": "io.k8s.api.admissionregistration.v1",
    "ValidatingAdmissionPolicyBinding": "io.k8s.api.admissionregistration.v1",
    "PodMonitor": "com.coreos.monitoring.v1", "ServiceMonitor": "com.coreos.monitoring.v1",
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


def of_prometheus_operator() -> dict[str, Any]:
    from cloudcoil.models.prometheus_operator import v1  # type: ignore[import-not-found]

    def strict(value: Any, kind: str) -> Any:
        if isinstance(value, dict):
            found = {key: strict(one, kind) for key, one in value.items() if key not in ("title", "default", "$defs")}
            if isinstance(found.get("properties"), dict):
                found["additionalProperties"] = False
            if isinstance(reference := found.get("$ref"), str):
                found["$ref"] = reference.replace("#/$defs/", f"#/$defs/com.coreos.monitoring.v1.{kind}.")
            return found
        return [strict(one, kind) for one in value] if isinstance(value, list) else value

    found = {}
    for kind in ("PodMonitor", "ServiceMonitor"):
        schema = getattr(v1, kind).model_json_schema(by_alias=True)
        found[f"com.coreos.monitoring.v1.{kind}"] = bare(strict(schema, kind))
        for name, one in schema["$defs"].items():
            found[f"com.coreos.monitoring.v1.{kind}.{name}"] = bare(strict(one, kind))
    return found


def main() -> None:
    import kubernetes_validate  # type: ignore[import-not-found]

    folder = Path(kubernetes_validate.__file__).parent / f"kubernetes-json-schema/v{VERSION}-local-strict"
    every = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))["$defs"]
    every |= of_prometheus_operator()
    wanted, found = [f"{group}.{kind}" for kind, group in KINDS.items()], {}
    while wanted:
        if (name := wanted.pop()) not in found:
            found[name] = bare(every[name])
            wanted += re.findall(r"#/\$defs/([\w.\-]+)", json.dumps(found[name]))
    lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(found[name], separators=(',', ':'))}" for name in sorted(found))
    (HERE / "kubernetes_schemas.json").write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
