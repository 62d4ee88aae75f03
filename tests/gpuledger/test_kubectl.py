"""`kubectl gpuledger`: explain, cost and who, against a server of ours and what an API server answers; with a real API
server and the real kubectl in test_kubectl_who.py."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from collectors.kubernetes.connection import KubernetesError
from collectors.kubernetes.contexts import namespace_of
from gpuledger.kubectl.cli import app
from gpuledger.kubectl.explain import explanation, lines
from scheduler.kubernetes import pods as pods_of
from scheduler.kubernetes.status import Standing, status_of
from scheduler.model import Reason
from tests.collectors.kubernetes.reviewing import Scripted, reviewing
from tests.conftest import REPO
from tests.dashboards.site import Site
from warehouse.errors import LedgerError
from warehouse.isolation import PROMISES

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
JOB: dict[str, Any] = {
    "metadata": {"name": "train", "namespace": "vision", "uid": "u1", "creationTimestamp": "2026-11-27T09:00:00Z"},
    "spec": {"queue": "batch", "gpusPerReplica": 4, "scaling": {"minReplicas": 2, "maxReplicas": 8}},
}
EJ = "/apis/gpuledger.io/v1alpha1/namespaces/vision/elasticjobs/train"
ITS_PODS = "/api/v1/namespaces/vision/pods?labelSelector=gpuledger.io%2Fjob%3Dtrain"
NODES_PODS = "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1"


def waiting(**more: Any) -> dict[str, Any]:
    reasons = [Reason("InsufficientCapacity", "8 of 16 GPUs are free")]
    interval = (NOW + timedelta(hours=1), NOW + timedelta(hours=3))
    standing = Standing("pending", "vision", "vision/train@u1", reasons=reasons, interval=interval, **more)
    return {**JOB, "status": status_of(standing, {}, NOW - timedelta(minutes=95))}


@pytest.fixture
def api() -> Iterator[Scripted]:
    with reviewing() as scripted:
        yield scripted


@pytest.fixture
def config(api: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config"
    path.write_text(kubeconfig(api.url, {"token": "mine"}))
    monkeypatch.setenv("KUBECONFIG", str(path))
    for name in ("GPULEDGER_URL", "GPULEDGER_STORE", "GPULEDGER_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return path


def kubeconfig(url: str, user: dict[str, Any], **cluster: Any) -> str:
    return yaml.safe_dump(
        {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "c", "user": "u", "namespace": "vision"}}],
            "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
            "users": [{"name": "u", "user": user}],
        }
    )


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def refused(*arguments: str) -> str:
    done = run(*arguments)
    assert isinstance(done.exception, LedgerError), done.output
    assert "\n" not in str(done.exception)
    return str(done.exception)


def test_a_job_that_waits_is_explained(api: Scripted, config: Path) -> None:
    api.pods = {EJ: (200, waiting()), ITS_PODS: (200, {"items": []})}
    said = run("explain", "train").stdout
    for words in (
        "vision/train: Pending for ",
        "asks for 2 to 8 replicas, 4 GPUs each, in queue batch, tenant vision",
        "why it waits: InsufficientCapacity: 8 of 16 GPUs are free",
        "expected start: 2026-11-27 13:00Z to 2026-11-27 15:00Z",
    ):
        assert words in said
    assert api.asked[0] == (f"GET {EJ}", None, "Bearer mine")
    told = json.loads(run("explain", "ej/train", "-n", "vision", "--format", "json").stdout)
    assert (told["reason"], told["expected_start"]["from"]) == ("InsufficientCapacity", "2026-11-27T13:00:00.000Z")
    assert {one["type"] for one in told["conditions"]} == {"QuotaReserved", "PodsReady"}


def test_how_long_it_waits_is_counted_from_the_condition() -> None:
    (first, *_) = lines(explanation(waiting(), []), NOW)
    assert first == "vision/train: Pending for 1 h 35 min, since 2026-11-27 10:25Z"
    (first, *_) = lines(explanation(waiting(), []), NOW + timedelta(days=2))
    assert "for 2 d 1 h" in first


def test_an_expected_start_that_is_past_is_overdue() -> None:
    starts = datetime(2026, 11, 27, 13, tzinfo=UTC)
    ends = {
        now: next(line for line in lines(explanation(waiting(), []), now) if "expected start" in line).partition(
            "15:00Z"
        )[2]
        for now in (starts - timedelta(seconds=1), starts, starts + timedelta(hours=2))
    }
    assert [*ends.values()] == ["", ": due now", ": overdue"]


def test_a_job_that_starts_says_what_its_pods_wait_for() -> None:
    standing = Standing("starting", "vision", "j", replicas=2, ready=1, nodes=("n1", "n2"), unready="x")
    job = {**JOB, "status": status_of(standing, {}, NOW)}
    pods = [
        {"metadata": {"name": "train-1-1"}, "spec": {"nodeName": "n2"}, "status": {"phase": "Pending",
            "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}},
        {"metadata": {"name": "train-1-0"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}},
        {"metadata": {"name": "train-1-2"}, "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}]}},
    ]  # fmt: skip
    said = lines(explanation(job, pods), NOW)
    assert "  1 of 2 pods are ready, on n1, n2" in said
    waits = [
        "  pod train-1-1: Pending on n2, ImagePullBackOff: no such image",
        "  pod train-1-2: Pending, 0/2 nodes are available",
    ]
    assert said[-2:] == waits
    for pod in pods:
        pod["metadata"]["labels"] = {pods_of.WORLD: "10"}
    former = {"metadata": {"name": "train-9-0", "labels": {pods_of.WORLD: "9"}}, "status": {"phase": "Failed"}}
    assert lines(explanation(job, [*pods, former]), NOW)[-2:] == waits, "what a former attempt left waits for nothing"


def test_one_that_runs_says_its_isolation_what_its_policy_made_of_it_and_what_it_cost() -> None:
    scaled = {
        "asked": [2, 8], "min_replicas": 2, "max_replicas": 3, "reason": "Utilization",
        "text": "used little: at most 3", "problem": "",
    }  # fmt: skip
    standing = Standing(
        "running", "vision", "j", replicas=3, ready=3, nodes=("n1",), level="partitioned", scaled=scaled
    )
    status = status_of(standing, {}, NOW) | {"gpuHours": "12.5", "cost": "31.25"}
    said = lines(explanation({**JOB, "status": status}, []), NOW)
    assert said[-3:] == [
        "  scaling policy: used little: at most 3",
        f"  isolation: partitioned: {PROMISES['partitioned']}",
        "  so far: 12.5 GPU-hours, cost 31.25",
    ]
    odd = lines(explanation({**JOB, "status": status | {"isolationLevel": "odd", "cost": None}}, []), NOW)
    assert odd[-2:] == ["  isolation: odd: a level that this version does not know", "  so far: 12.5 GPU-hours"]


def test_one_replica_of_one_gpu_is_no_plural() -> None:
    said = lines(explanation({**JOB, "spec": {"queue": "batch"}}, []), NOW)
    assert said[1] == "  asks for 1 replica, 1 GPU each, in queue batch, tenant of its namespace"


def test_a_job_that_the_operator_has_not_seen_says_so() -> None:
    said = lines(explanation(JOB, []), NOW)
    assert said[0] == "vision/train: not seen by the operator yet for 3 h 0 min, since 2026-11-27 09:00Z"
    assert "gpuledger-operator" in said[-1]


def test_what_is_not_there_is_told_from_what_is_not_served(api: Scripted, config: Path) -> None:
    api.pods = {EJ: (404, {"kind": "Status", "message": "elasticjobs train not found"})}
    assert refused("explain", "train") == "namespace vision: has no ElasticJob train. Check: kubectl -n vision get ej"
    api.pods = {EJ: (404, {})}
    assert "serves no ElasticJobs" in refused("explain", "train")
    api.pods = {EJ: (403, {"kind": "Status", "message": "elasticjobs is forbidden"})}
    assert "elasticjobs is forbidden" in refused("explain", "train")
    api.pods = {EJ: (200, waiting()), ITS_PODS: (403, {"kind": "Status"})}
    done = run("explain", "train")
    assert (done.exit_code, "you may not list pods" in done.output) == (0, True)
    assert "one job is no table" in refused("explain", "train", "--format", "csv")


@pytest.mark.parametrize("name", ["../../../../api/v1/secrets", "..", "a?b", "a%2Fb"])
def test_a_name_leads_nowhere_else(api: Scripted, config: Path, name: str) -> None:
    refused("explain", name)
    ((asked, _, _),) = api.asked
    path = asked.removeprefix("GET ")
    assert path.startswith(EJ.rpartition("/")[0] + "/")
    assert "/" not in path[len(EJ.rpartition("/")[0]) + 1 :]
    assert "?" not in path


def test_a_cluster_that_is_not_there_is_one_line(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text(kubeconfig("http://127.0.0.1:1", {"token": "mine"}))
    assert "cannot be asked" in refused("explain", "train")
    monkeypatch.setenv("PATH", str(tmp_path))
    config.write_text(kubeconfig("http://127.0.0.1:1", {"exec": {"command": "aws"}}))
    assert "logs in with exec" in refused("explain", "train")
    config.unlink()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("KUBECONFIG", str(config))
    assert "no kubeconfig" in refused("explain", "train"), "kubectl would ask localhost:8080"


def test_where_the_login_is_a_plugin_kubectl_is_asked(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What kubectl itself does with it: test_kubectl_who.py."""
    config.write_text(kubeconfig("http://127.0.0.1:1", {"exec": {"command": "aws"}}))
    answers = tmp_path / "answers"
    answers.mkdir()
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncase "$*" in *elasticjobs*) cat {answers}/job;; '
        '*) echo "Error from server (Forbidden): pods is forbidden" >&2; exit 1;; esac\n'
    )
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (answers / "job").write_text(json.dumps(waiting()))
    done = run("explain", "train", "--context", "it")
    assert done.exit_code == 0, done.output
    assert "you may not list pods" in done.output
    assert (tmp_path / "asked").read_text().splitlines()[0] == f"--context it get --raw {EJ}"
    (answers / "job").write_text("no json")
    assert "no object" in refused("explain", "train")


def test_the_namespace_is_kubectls(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(kubeconfig("http://x", {}))
    assert namespace_of(path, "it") == "vision"
    assert namespace_of(None, environment={"KUBECONFIG": f"{path}{os.pathsep}/other"}) == "vision"
    assert namespace_of(path, "another") == "default"
    (tmp_path / "namespace").write_text("mine\n")
    assert namespace_of(tmp_path / "nothing", pod=tmp_path) == "mine"
    assert namespace_of(tmp_path / "nothing", pod=tmp_path / "nowhere") == "default"
    path.write_text("[")
    with pytest.raises(KubernetesError, match="not YAML"):
        namespace_of(path)


# The books ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(served_site: Site, config: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("GPULEDGER_URL", served_site.url)
    monkeypatch.setenv("GPULEDGER_TOKEN", served_site.tokens["admin"])
    return served_site


def figures(row: dict[str, Any]) -> tuple[Decimal, Decimal]:
    return Decimal(row["allocated_gpu_hours"]), Decimal(row["billed_cost"])


def test_cost_is_the_ledgers_by_namespace_or_tenant(asked: Site) -> None:
    found = json.loads(run("cost", "--period", "2026-10", "--format", "json").stdout)
    assert [(one["namespace"], figures(one)) for one in found["rows"]] == [
        ("p-speech", (48, 72)),
        ("p-vision", (48, 96)),
    ]
    assert figures(found["total"]) == (96, 168)
    said = run("cost", "--period", "2026-10", "--by", "tenant").stdout
    assert "GPU-hours and EUR" in said
    assert [line.split()[0] for line in said.splitlines()[1:]] == ["tenant", "speech", "vision", "total"]
    csv = run("cost", "--period", "2026-10", "--format", "csv").stdout.splitlines()
    assert (csv[0].split(",")[0], len(csv)) == ("namespace", 3)


def test_cost_of_one_namespace_or_cluster_alone(asked: Site) -> None:
    def of(*arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(run("cost", "--period", "2026-10", "--format", "json", *arguments).stdout)
        return found

    found = of("-n", "p-vision", "--by", "tenant")
    assert [one["tenant"] for one in found["rows"]] == ["vision"]
    assert figures(found["total"]) == (48, 96)
    assert len(of("--cluster", "c1")["rows"]) == 2
    empty = of("--cluster", "c2")
    assert (empty["rows"], figures(empty["total"])) == ([], (0, 0))


def test_a_tenants_token_sees_that_tenant(asked: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEDGER_TOKEN", asked.tokens["vision"])
    found = json.loads(run("cost", "--period", "2026-10", "--format", "json").stdout)
    assert [one["namespace"] for one in found["rows"]] == ["p-vision"]


def test_a_server_that_refuses_or_is_not_named_is_one_line(asked: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "2026-13" in refused("cost", "--period", "2026-13")
    monkeypatch.setenv("GPULEDGER_TOKEN", "wrong")
    assert asked.url in refused("cost")
    monkeypatch.delenv("GPULEDGER_URL")
    assert "no server is named" in refused("cost")
    assert "is no server's address" in refused("who", "n1", "--url", "chdb:///x")
    monkeypatch.setenv("GPULEDGER_STORE", "http://127.0.0.1:1")
    assert "127.0.0.1:1" in refused("cost")


def test_a_period_without_a_closed_hour_has_no_figures(asked: Site) -> None:
    done = run("cost", "--period", "2025-01")
    assert (done.exit_code, "no hour of that period is closed" in done.output) == (0, True)


def test_it_is_installed_where_kubectl_looks() -> None:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())
    assert project["project"]["scripts"]["kubectl-gpuledger"] == "gpuledger.__main__:kubectl"
    for command in ("explain", "cost", "who"):
        assert run(command, "--help").exit_code == 0
