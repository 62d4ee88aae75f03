"""The chart, as Helm renders it, is what Kustomize makes of deploy/kubernetes: object by object, with every component
and the values that stand for it. What makes no sense is refused, and no value is without effect."""

from __future__ import annotations

import copy
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from ingest.senders import Senders
from tests.collectors.kubernetes.test_token_review import ReportedNode
from tests.conftest import REPO
from tests.deploy.helm import (
    CHART,
    KUBERNETES,
    RELEASE,
    Object,
    no_helm,
    no_kustomize,
    of_helm,
    of_kustomize,
    run_helm,
    template,
)
from tests.deploy.kubernetes_schemas import schema_of
from tests.deploy.test_blocks import of
from tests.draws import drawn

needs_helm = pytest.mark.skipif(bool(no_helm()), reason=no_helm())
needs_both = pytest.mark.skipif(bool(no_helm() or no_kustomize()), reason=no_helm() or no_kustomize())

SITE = yaml.safe_load((KUBERNETES / "operator" / "site.yaml").read_text())
CLICKHOUSE: Object = {
    "clickhouse": {"enabled": True},
    "server": {"storage": {"size": "1Gi"}, "resources": {"requests": {"memory": "512Mi"}, "limits": {"memory": "4Gi"}}},
}
TWO_SERVERS = {
    **CLICKHOUSE,
    "server": {**CLICKHOUSE["server"], "replicas": 2, "settings": {"GPULEDGER_ACCESS_STORE": "postgresql://db/a"}},
    "podDisruptionBudget": {"enabled": True},
}
ACCESS_STORE = "configMapGenerator: [{name: gpuledger-server, literals: [GPULEDGER_ACCESS_STORE=postgresql://db/a]}]"
OPERATOR = {"operator": {"enabled": True, "settings": SITE}}
SAME: dict[str, tuple[str, Object]] = {
    "": ("", {}),
    "nvidia-runtime": ("", {"agent": {"runtimeClassName": "nvidia"}}),
    "old-api-server": ("", {"oldApiServer": True}),
    "old-kubelet": ("", {"oldKubelet": True}),
    "maintenance": ("", {"maintenance": True}),
    "monitoring": ("", {"monitoring": {"enabled": True}}),
    "clickhouse": ("", CLICKHOUSE),
    "clickhouse disruption-budget": (ACCESS_STORE, TWO_SERVERS),
    "kueue": ("", {"watch": {"kueue": True}}),
    "kueue volcano": ("", {"watch": {"kueue": True, "volcano": True}}),
    "operator": ("", OPERATOR),
    "operator gated-pods": ("", {"operator": {**OPERATOR["operator"], "gatedPods": True}}),
    "operator egress": ("", {**OPERATOR, "networkPolicy": {"egress": {"enabled": True}}}),
}
"""Components of an overlay (`operator` is a base of its own), what else it says, and the same as values."""


def built() -> dict[str, str]:
    script = REPO / "deploy" / "helm" / "build.py"
    spec = importlib.util.spec_from_file_location("build_chart", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[str, str] = module.built()
    return found


def test_the_templates_are_built_from_the_manifests() -> None:
    for name, text in built().items():
        there = (CHART / "templates" / name).read_text()
        assert there == text, f"{name} is not what is in deploy/kubernetes. Next: python deploy/helm/build.py"


@needs_both
@pytest.mark.parametrize("components", list(SAME), ids=lambda names: names or "base")
def test_the_chart_is_what_kustomize_makes_of_the_manifests(components: str) -> None:
    more, values = SAME[components]
    bases = ", ".join(["../base", *(["../operator"] if "operator" in components else [])])
    named = ", ".join(f"../components/{one}" for one in components.split() if one != "operator")
    overlay = f"namespace: gpuledger\nresources: [{bases}]\ncomponents: [{named}]\n{more}\n"
    expected, found = of_kustomize(overlay), of_helm(values)
    assert found.keys() == expected.keys()
    for key, one in expected.items():
        assert found[key] == one, key


def test_every_component_has_values_that_stand_for_it() -> None:
    named = {name for one in SAME for name in one.split()} - {"operator"}
    assert named == {path.name for path in (KUBERNETES / "components").iterdir()}


@needs_helm
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"server": {"replicas": 2}}, "the embedded store belongs to one process"),
        ({**CLICKHOUSE, "server": {"replicas": 2}}, "server.settings.GPULEDGER_ACCESS_STORE"),
        ({"podDisruptionBudget": {"enabled": True}}, "would stop every drain"),
        ({**CLICKHOUSE, "maintenance": True}, "is for the embedded store"),
        ({"operator": {"enabled": True}}, "operator.settings: empty"),
        ({"sever": {"replicas": 2}}, "sever"),
        ({"server": {"replica": 2}}, "replica"),
        ({"cluster": ""}, "cluster"),
        ({"clickhouse": {"url": "clickhouse://u:secret@db/gpuledger"}}, "clickhouse"),
        ({"server": {"settings": {"GPULEDGER_STORE_PASSWORD": "secret"}}}, "GPULEDGER_STORE_PASSWORD"),
        ({"server": {"settings": {"GPULEDGER_ACCESS_STORE": "postgresql://u:secret@db/a"}}}, "GPULEDGER_ACCESS_STORE"),
        ({"server": {"senders": [{"name": "n", "token": "at least 16 characters"}]}}, "senders"),
        ({"agent": {"tolerations": {"operator": "Exists"}}}, "tolerations"),
    ],
)
def test_values_of_no_use_are_refused(values: Object, said: str) -> None:
    done = run_helm("template", *RELEASE, values=values)
    assert done.returncode == 1
    assert said in done.stderr


@needs_helm
def test_helm_finds_nothing_wrong_with_the_chart() -> None:
    done = run_helm("lint", "--strict", str(CHART), values=OPERATOR)
    assert done.returncode == 0, done.stdout + done.stderr
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (REPO / "pyproject.toml").read_text()
    assert f'version = "{version["appVersion"]}"' in project


PLACE = {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists", "effect": "NoExecute"}], "affinity": {
    "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}
}, "resources": {"limits": {"memory": "7Gi"}}}  # fmt: skip
PEERS = [{"podSelector": {"matchLabels": {"a": "b"}}}]
RULES = [{"ports": [{"port": 4711}]}]
OTHER: Object = {
    "image": {
        "server": {"repository": "other/server", "tag": "9"},
        "agent": {"repository": "other/agent", "tag": "9"},
        "pullPolicy": "Always",
        "pullSecrets": [{"name": "registry"}],
    },
    "cluster": "c9",
    "server": {
        "replicas": 3,
        "existingSecret": "mine",
        "tlsSecret": "mine",
        "caConfigMap": "mine",
        "settings": {"GPULEDGER_REPORTS": "/etc/gpuledger/reports.yaml"},
        "senders": [
            {"name": "gpu-9", "token_sha256": "0" * 64, "records": ["samples"], "clusters": ["c2"], "nodes": ["gpu-9"]}
        ],
        "storage": {"size": "7Gi", "className": "fast"},
        **PLACE,
    },
    "clickhouse": {"enabled": False, "url": "clickhouse://w@other/g", "existingSecret": "mine"},
    "watch": {"enabled": False, "kueue": True, "volcano": True, "extraArgs": ["--tenant-label=team"],
              "storage": {"size": "7Gi", "className": "fast"}, **PLACE},
    "agent": {"enabled": False, "settings": {"spool": {"folder": "/x"}}, "runtimeClassName": "nvidia",
              "scrapeAnnotations": False, **PLACE},
    "operator": {"enabled": False, "settings": {**SITE, "queues": []}, "gatedPods": True, "extraArgs": ["--interval=5"],
                 "existingSecret": "mine", "storage": {"size": "7Gi", "className": "fast"}, **PLACE},
    "networkPolicy": {
        "enabled": False, "serverFrom": PEERS, "metricsFrom": PEERS,
        "egress": {"enabled": False, "server": RULES, "agent": RULES, "watch": RULES, "operator": RULES},
    },
    "podDisruptionBudget": {"enabled": False},
    "monitoring": {"enabled": False, "existingSecret": "mine"},
    "oldApiServer": True,
    "oldKubelet": True,
    "maintenance": True,
}  # fmt: skip
"""Of each value another than EVERYTHING has."""
EVERYTHING: Object = {
    **TWO_SERVERS,
    **OPERATOR,
    "networkPolicy": {"egress": {"enabled": True}},
    "monitoring": {"enabled": True},
}
"""All that can be switched on together."""


def leaves(of: Object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each value of values.yaml, and what OTHER has instead."""
    known = yaml.safe_load((CHART / "values.yaml").read_text())
    for name in path:
        known = known[name]
    assert set(known) == set(of), path
    for key, value in of.items():
        deeper = isinstance(value, dict) and isinstance(known[key], dict) and known[key] and key not in PLACE
        yield from leaves(value, (*path, key)) if deeper else [((*path, key), value)]


@needs_helm
@pytest.mark.parametrize(("path", "value"), drawn(list(leaves(OTHER)), 0.2))
def test_every_value_has_an_effect(path: tuple[str, ...], value: Any) -> None:
    values = copy.deepcopy(EVERYTHING)
    place = values
    for name in path[:-1]:
        place = place.setdefault(name, {})
    place[path[-1]] = {**place.get(path[-1], {}), **value} if path[-1] == "settings" else value
    if path == ("maintenance",):
        values = {"maintenance": True}
        assert template(values) != template({})
    elif path == ("clickhouse", "enabled"):
        assert template(CLICKHOUSE) != template({**CLICKHOUSE, "clickhouse": {"enabled": False}})
    else:
        assert template(values) != template(EVERYTHING)


@needs_helm
def test_who_may_push_follows_the_values(tmp_path: Path) -> None:
    def senders(values: Object) -> Object:
        (tmp_path / "senders.yaml").write_text(
            template(values)["ConfigMap", "gpuledger-senders"]["data"]["senders.yaml"]
        )
        Senders(tmp_path / "senders.yaml", lambda settings: ReportedNode())
        found: Object = yaml.safe_load((tmp_path / "senders.yaml").read_text())
        return found

    sender = OTHER["server"]["senders"]
    found = senders({"cluster": "c9", "server": {"senders": sender}})
    assert found["senders"] == sender
    assert [one["clusters"] for one in found["kubernetes"]["accounts"]] == [["c9"], ["c9"]]
    (watch,) = senders({"agent": {"enabled": False}})["kubernetes"]["accounts"]
    assert watch["account"] == "gpuledger/gpuledger-watch"
    assert "kubernetes" not in senders(
        {"agent": {"enabled": False}, "watch": {"enabled": False}, "server": {"senders": sender}}
    )


@needs_helm
def test_an_agents_settings_are_merged_but_its_sources_replaced(tmp_path: Path) -> None:
    mine = {
        "spool": {"folder": "/elsewhere"},
        "sources": {"exporters": [{"profile": "amd", "url": "http://$NODE_IP:5000/metrics"}]},
    }
    found = yaml.safe_load(
        template({"agent": {"settings": mine}})["ConfigMap", "gpuledger-agent"]["data"]["agent.yaml"]
    )
    assert (found["cluster"], found["metrics"]["port"]) == ("c1", 9108)
    assert {name: found[name] for name in mine} == mine


@needs_helm
def test_a_policy_that_names_nobody_lets_nobody_in() -> None:
    closed = template({"networkPolicy": {"metricsFrom": [], "serverFrom": []}})
    assert not closed["NetworkPolicy", "gpuledger-agent"]["spec"]["ingress"]
    (rule,) = closed["NetworkPolicy", "gpuledger-server"]["spec"]["ingress"]
    assert [set(one) for one in rule["from"]] == [{"podSelector"}] * 2, "the agents and the watcher"


@needs_helm
def test_another_namespace_is_named_throughout() -> None:
    arguments = [
        "other" if one == "gpuledger" and RELEASE[at - 1] == "--namespace" else one for at, one in enumerate(RELEASE)
    ]
    done = run_helm("template", *arguments, values={**EVERYTHING})
    assert done.returncode == 0, done.stderr
    for words in ("gpuledger.gpuledger.svc", "namespace: gpuledger", 'namespace: "gpuledger"', "gpuledger/gpuledger-"):
        assert words not in re.sub(r"registry\S+|- account.*#.*", "", done.stdout), words
    assert "account: other/gpuledger-agent" in done.stdout


@needs_helm
def test_the_values_in_the_document_are_taken() -> None:
    values = yaml.safe_load(of("docs/deploy.md", "cluster: prod-1"))
    rendered = template(values)
    assert rendered["ConfigMap", "gpuledger-server"]["data"] == values["server"]["settings"]
    (claim,) = rendered["StatefulSet", "gpuledger-server"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == values["server"]["storage"]["className"]
    (watch,) = rendered["Deployment", "gpuledger-watch"]["spec"]["template"]["spec"]["containers"]
    assert {"--cluster=prod-1", "--tenant-label=team"} <= set(watch["args"])


@needs_helm
def test_with_everything_on_every_object_is_one_that_kubernetes_knows() -> None:
    for values in (EVERYTHING, {**OTHER, "server": {**OTHER["server"], "replicas": 1}}):
        for (kind, name), found in template(values).items():
            if kind != "CustomResourceDefinition":
                mistakes = [one.message for one in jsonschema_rs.iter_errors(schema_of(kind), found)]
                assert mistakes == [], (kind, name)
