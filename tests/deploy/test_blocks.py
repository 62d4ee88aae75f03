"""Every block of README and the documents is tried as it stands. Requests and programs are run here; our own command
lines by test_typed_documents.py, SQL by test_cookbook.py, most files by test_docs.py. The rest is in one list, with the
test that has it or the reason why nothing can."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from billing.rates import parse_rate_card
from ingest.senders import Senders
from scheduler.codec import read
from scheduler.kubernetes.elastic_jobs import policy_of
from scheduler.kubernetes.virtual import level_of
from scheduler.live.node_tokens import NodeTokens
from scheduler.model import Device, Job, Node, Request
from scheduler.placement.packing import BestFit
from scheduler.scaling import problem
from scheduler.settings import parse_settings
from tests.alerts.test_prometheus import needs_promtool, promtool
from tests.conftest import REPO
from tests.dashboards.site import Site
from tests.deploy.test_docs import DOCUMENTS, EXAMPLES

POOL = {"pools": [{"name": "v", "nodes": 2, "devices": 8, "model": "NVIDIA H100"}]}
QUEUES = {"queues": [{"name": name} for name in ("inference", "batch")], "tenants": [{"name": "search"}]}


def blocks(text: str) -> Iterator[str]:
    """Indented and fenced ones, as a reader copies them."""
    fenced = re.compile(r"^```\w*\n(.*?)^```\n", re.M | re.S)
    yield from fenced.findall(text)
    for indented in re.findall(r"(?:\A|(?<=\n\n))((?: {4}.*\n)(?: {4}.*\n|\n(?= {4}))*)", fenced.sub("", text)):
        yield re.sub(r"^ {4}", "", indented, flags=re.M)


def of(document: str, beginning: str) -> str:
    """A block, or from a paragraph of one on; without command lines of ours that follow."""
    for text in blocks((REPO / document).read_text(encoding="utf-8")):
        if found := re.search(rf"(?:\A|(?<=\n\n)){re.escape(beginning)}", text):
            return re.split(r"\n\n(?=gpuledger )", text[found.start() :])[0]
    raise AssertionError(f"{document} has no block that begins with {beginning!r}")


# Files -----------------------------------------------------------------------------------------------------------


def senders(text: str, folder: Path) -> None:
    path = folder / "senders.yaml"
    text = re.sub(r"(token_sha256: )(\w+)\.\.\.", lambda cut: f"{cut[1]}{cut[2]:0<64}", text)
    path.write_text(text)
    Senders(path, lambda _: lambda token: pytest.fail("no token is asked about"))


def agents(text: str, folder: Path) -> None:
    (folder / "agents.yaml").write_text(text.replace('"..."', f'"{"0" * 64}"'))
    NodeTokens(folder / "agents.yaml")


def components(text: str, _: Path) -> None:
    card: dict[str, Any] = {"currency": "EUR", "rates": [{"sku": "g", "match": {}, "price_per_gpu_hour": "1"}]}
    parse_rate_card(card | yaml.safe_load(text))


def site_settings(text: str, _: Path) -> None:
    parse_settings(POOL | QUEUES | yaml.safe_load(text))


def scaled_job(text: str, _: Path) -> None:
    """A part of a job, with its policy."""
    job = {"job_id": "a", "tenant": "vision", "queue": "batch", "request": {}, "submitted_at": 0.0}
    policy = read(Job, job | yaml.safe_load(text), "job").scaling
    assert policy is not None
    assert policy.queue is not None
    assert policy.utilization is not None
    assert policy.windows
    assert problem(policy) == ""


def elastic_policy(text: str, _: Path) -> None:
    policy = policy_of({"spec": yaml.safe_load(text)})
    assert policy is not None
    assert all((policy.queue, policy.utilization, policy.windows))


def virtualization(text: str, _: Path) -> None:
    assert level_of({"spec": yaml.safe_load(text)}) == "partitioned"


def prometheus(text: str, folder: Path) -> None:
    (folder / "prometheus.yml").write_text(text)
    promtool("check", "config", "--syntax-only", str(folder / "prometheus.yml"))


def plain_yaml(text: str, _: Path) -> None:
    assert yaml.safe_load(text)


READ: Mapping[tuple[str, str], Callable[[str, Path], None]] = {
    ("docs/receivers.md", "senders:"): senders,
    ("docs/kubernetes.md", "kubernetes:"): senders,
    ("docs/energy.md", "components:"): components,
    ("docs/scheduler-live.md", "pools:"): site_settings,
    ("docs/scheduler-live.md", "services:"): site_settings,
    ("docs/scheduler-live.md", "callbacks:"): site_settings,
    ("docs/scheduler-live.md", "idle:"): site_settings,
    ("docs/scheduler-live.md", "agents:"): agents,
    ("docs/scheduler-live.md", "min_replicas: 1"): scaled_job,
    ("docs/operator.md", "scaling:"): elastic_policy,
    ("docs/operator.md", "virtualization:"): virtualization,
    ("docs/scheduler-live.md", "[sh, -c"): plain_yaml,
    ("docs/receivers.md", "exporters:"): plain_yaml,  # a collector's, which is not here
}


@pytest.mark.parametrize("where", READ, ids=" ".join)
def test_a_file_is_one_that_its_reader_takes(where: tuple[str, str], tmp_path: Path) -> None:
    READ[where](of(*where), tmp_path)


@needs_promtool
def test_prometheus_takes_its_settings(tmp_path: Path) -> None:
    prometheus(of("docs/receivers.md", "global:"), tmp_path)


# Requests and programs ---------------------------------------------------------------------------------------------


REQUESTS = (
    ("docs/api.md", "curl"),
    ("docs/opencost.md", "curl"),
    ("docs/sql.md", "curl"),
)


def curls(text: str) -> list[str]:
    return [one for one in re.sub(r"\\\n", " ", text).splitlines() if one.startswith("curl ")]


@pytest.mark.parametrize("where", REQUESTS, ids=" ".join)
def test_a_request_is_answered(served_site: Site, where: tuple[str, str]) -> None:
    for line in curls(of(*where)):
        typed = re.sub(r"https?://(?:ledger:8443|127\.0\.0\.1:8050)", served_site.url, line)
        if "$TOKEN" not in typed:  # a loopback that asks for none
            typed += ' -H "Authorization: Bearer $TOKEN"'
        done = subprocess.run(
            ["bash", "-c", typed + " --silent --show-error --fail-with-body"],
            env={"TOKEN": served_site.tokens["admin"], "PATH": "/usr/bin:/bin"}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}\n{done.stdout[:400]}{done.stderr}"
        assert done.stdout.strip(), line


def test_the_client_s_lines_run(served_site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    text = of("docs/api.md", "from gpuledger.client").replace("https://ledger:8443", served_site.url)
    exec(text, {"Path": Path, "token": served_site.tokens["admin"]})
    assert "vision" in capsys.readouterr().out
    assert (tmp_path / "october.parquet").stat().st_size


def test_the_lines_of_a_clickhouse_client_run(served_site: Site) -> None:
    import clickhouse_connect

    address = httpx.URL(served_site.url)
    text = of("docs/sql.md", "client = clickhouse_connect")
    for said, here in (
        ('"ledger"', f'"{address.host}"'),
        ("8443", str(address.port)),
        ("secure=True", "secure=False"),
        ("client.query_df", "found = client.query_df"),
    ):
        assert said in text
        text = text.replace(said, here)
    names: dict[str, Any] = {"clickhouse_connect": clickhouse_connect, "token": served_site.tokens["admin"]}
    exec(text, names)
    assert len(names["found"])


def test_the_lines_of_placement_run() -> None:
    nodes = [Node(f"n{n}", tuple(Device(f"g{n}{d}", "H100") for d in range(8))) for n in range(2)]
    exec(of("docs/placement.md", "from scheduler"), {"nodes": nodes, "request": Request(devices=1)})


def test_the_lines_of_speeds_run(served_site: Site) -> None:
    now = datetime.now(UTC)
    names = {"store": served_site.store, "since": now - timedelta(days=1), "until": now, "base": BestFit()}
    exec(of("docs/interference.md", "from alerts"), names)
    assert "policy" in names


def test_the_lines_of_a_training_run() -> None:
    text = of("docs/services.md", "from collectors.progress").replace("...\n    progress", "if True:\n    progress")
    assert "if True" in text
    exec(text, {"samples_of_all_ranks": 64})


def test_a_digest_by_hand_is_the_store_s() -> None:
    """What it is compared with: tests/warehouse/test_chain.py."""
    command = of("docs/billing.md", "printf")
    done = subprocess.run(
        ["bash", "-c", command], env={"PREVIOUS": "e3b0c442"}, capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"[0-9a-f]{64}  -\n", done.stdout)


# Everything else ---------------------------------------------------------------------------------------------------


OURS = re.compile(r"(\$ )?(\S*/)?gpuledger |\s|#")
"""Lines of ours, and what belongs to the line before."""
WHOLE: Mapping[str, str] = {
    "docs/tutorial.md": "tests/gpuledger/test_tutorial.py",
    "docs/rates.md": "tests/billing/test_rates_document.py",
    "docs/sql.md": "tests/api/sql/test_cookbook.py",
    "docs/reference-alert-rules.md": "tests/deploy/test_reference.py",
}
"""Documents whose blocks one test has; those of docs/sql.md that are no SQL stand below."""
NO_CLUSTER = "needs a cluster: tests/deploy/test_kubernetes.py reads what is applied"
NO_ENGINE = "needs Docker: tests/deploy/test_deploy.py reads what it starts"
NO_SYSTEMD = "needs systemd: tests/deploy/test_deploy.py reads the units"
SKETCH = "a picture or a formula"
ELSEWHERE: Mapping[tuple[str, str], str] = {
    ("README.md", "make demo"): "tests/gpuledger/test_up.py",
    ("README.md", "make dev"): ".ci/run",
    ("README.md", "$ gpuledger ledger"): "tests/gpuledger/test_typed_documents.py",
    ("README.md", "pip install"): "tests/gpuledger/test_wheel.py",
    ("CONTRIBUTING.md", "make dev"): ".ci/run",
    ("CONTRIBUTING.md", "GPULEDGER_ALL=1"): "longer runs of the tests themselves",
    ("docs/acceptance.md", '{"about"'): "tests/alerts/acceptance/test_suite.py",
    ("docs/accounts.md", "granted - drawn"): SKETCH,
    ("docs/accounts.md", "gpuledger budget"): "the file below it: tests/deploy/test_docs.py",
    ("docs/agent.md", "gpuledger agent"): "tests/gpuledger/test_agent_command.py",
    ("docs/agent.md", "POST /api"): "tests/ingest/test_receive.py",
    ("docs/agent.md", "curl"): "tests/ingest/test_receive.py",
    ("docs/alerts.md", "facts"): SKETCH,
    ("docs/alerts.md", "parameters:"): "a part of a rule: tests/alerts/test_rule_files.py",
    ("docs/api.md", "export"): "tests/gpuledger/test_served_commands.py",
    ("docs/attribution.md", "driver"): SKETCH,
    ("docs/attribution.md", "python -m grpc_tools"): "tests/collectors/attribution/test_podresources.py",
    ("docs/backups.md", "export AWS"): "tests/warehouse/test_bucket.py",
    ("docs/backups.md", "for folder in"): "tests/warehouse/test_backup.py",
    ("docs/backups.md", "<clickhouse>"): "tests/warehouse/test_server_backup.py",
    ("docs/billing.md", "PREVIOUS"): "tests/warehouse/test_chain.py",
    ("docs/billing.md", '"idle_reclaims"'): "tests/billing/test_idle_reclaims.py",
    ("docs/billing.md", "SELECT"): "tests/billing/test_idle_reclaims.py",
    ("docs/deploy.md", "agents (a node"): SKETCH,
    ("docs/deploy.md", "printf"): "sha256sum, which senders.yaml of every test is made with",
    ("docs/backups.md", "BACKUP DATABASE"): "needs a ClickHouse cluster of several shards",
    ("docs/deploy.md", "python3 -m venv"): NO_SYSTEMD,
    ("docs/deploy.md", "systemctl"): NO_SYSTEMD,
    ("docs/deploy.md", "docker"): NO_ENGINE,
    ("docs/deploy.md", "cd deploy/compose"): NO_ENGINE,
    ("docs/deploy.md", "GPULEDGER_STORE=clickhouse"): "needs a ClickHouse server",
    ("docs/deploy.md", "namespace:"): "tests/deploy/test_kubernetes.py",
    ("docs/deploy.md", "kubectl"): NO_CLUSTER,
    ("docs/deploy.md", "helm install"): "tests/deploy/test_real_cluster.py",
    ("docs/deploy.md", "cluster: prod-1"): "tests/deploy/test_helm.py",
    ("docs/exporters.md", "name: acme"): "tests/collectors/exporters/test_profile.py",
    ("docs/kubernetes.md", "apiVersion"): "tests/deploy/test_deploy.py",
    ("docs/kubernetes.md", "kubectl gpuledger"): "tests/gpuledger/test_kubectl_who.py",
    ("docs/ledger.md", "events"): SKETCH,
    ("docs/mcp.md", "pip install"): "tests/gpuledger/test_wheel.py",
    ("docs/mcp.md", '{"mcpServers"'): "an assistant's own file: tests/gpuledger/test_mcp.py starts that command",
    ("docs/nvml.md", "python -m collectors.nvml.record"): "tests/collectors/nvml/test_record.py",
    ("docs/operator.md", "apiVersion"): "tests/scheduler/kubernetes/test_real_server.py",
    ("docs/operator.md", "kubectl"): NO_CLUSTER,
    ("docs/pages.md", "# dashboards"): "a page cut short: tests/dashboards/pages has whole ones",
    ("docs/placement.md", "0 of 1 replicas"): "tests/scheduler/placement/test_why_not.py",
    (
        "docs/receivers.md",
        "journalctl",
    ): "needs systemd; the words are in tests/collectors/receivers/test_real_prometheus.py",
    ("docs/receivers.md", "python -m grpc_tools"): "tests/collectors/receivers/test_remote_write.py",
    ("docs/scheduler-live.md", "tenant: vision"): "tests/gpuledger/test_scheduler_command.py",
    ("docs/scheduler-live.md", "payload:"): "a part of a job: tests/scheduler/live/test_agents.py",
    ("docs/scheduler-live.md", "gpuledger scheduler --config"): "tests/gpuledger/test_agents_scene.py",
    ("docs/scheduler-live.md", '{"version":1'): "tests/scheduler/live/test_callbacks.py",
    ("docs/services.md", "echo"): "tests/collectors/services/test_progress.py",
    ("docs/slurm.md", "node,index"): "tests/gpuledger/test_watch_command.py",
    ("docs/slurm.md", "sacct"): "tests/collectors/slurm/test_real_slurm.py",
    (
        "docs/storage.md",
        "make cluster-test",
    ): "needs a ClickHouse cluster; of one node: tests/warehouse/test_cluster.py",
    (
        "docs/storage.md",
        "<remote_servers>",
    ): "a part of a server's own file; tests/warehouse/test_shards.py has another",
    ("docs/sql.md", "GPULEDGER_SQL_USER"): "tests/api/sql/test_server_engine.py",
}
"""By document and beginning: the test that tries it, or why nothing does."""
HERE = {
    *REQUESTS, *READ, *((f"docs/{name}", first) for name, first, _ in EXAMPLES),
    ("docs/receivers.md", "global:"), ("docs/api.md", "from gpuledger.client"),
    ("docs/sql.md", "client = clickhouse_connect"), ("docs/placement.md", "from scheduler"),
    ("docs/interference.md", "from alerts"), ("docs/services.md", "from collectors.progress"),
    ("docs/billing.md", "printf"),
}  # fmt: skip


def known(document: str, text: str) -> tuple[str, str] | None:
    names = [*HERE, *ELSEWHERE]
    return next((one for one in names if one[0] == document and text.startswith(one[1])), None)


def is_ours(text: str) -> bool:
    return all(OURS.match(line) for line in text.splitlines() if line)


def test_every_block_is_tried_or_says_why_not() -> None:
    unknown, used = [], set()
    for path in DOCUMENTS:
        name = str(path.relative_to(REPO))
        for text in blocks(path.read_text(encoding="utf-8")):
            if one := known(name, text):
                used.add(one)
            elif not is_ours(text) and name not in WHOLE:
                unknown.append(f"{name}: {text.splitlines()[0]}")
    assert unknown == []
    assert set(ELSEWHERE) - used == set(), "of no document any more"


def test_every_test_that_is_named_is_there() -> None:
    named = {word for why in [*ELSEWHERE.values(), *WHOLE.values()] for word in re.findall(r"(?:tests/|\.ci/)\S+", why)}
    assert {one for one in named if not (REPO / one).exists()} == set()
