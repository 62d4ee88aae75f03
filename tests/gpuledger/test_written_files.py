"""Every file that people write is refused in one line that says where, what and what would fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from access.settings import load_access
from alerts.acceptance.plan import load_plan
from alerts.routing import load_routing
from alerts.rule_files import load_rules
from alerts.slo.objectives import load_objectives
from billing.accounts.budget_file import load_budgets
from billing.energy.settings import load_energy_settings
from billing.rates import load_rate_card
from billing.tenants import load_mapping
from collectors.agent.settings import read_settings
from collectors.exporters.profile import read_profile
from collectors.kubernetes.connection import from_kubeconfig
from collectors.services.profile import read_profile as read_service_profile
from dashboards.reports.schedule import load_schedule
from gpuledger.commands.scheduler import _document
from ingest.senders import Senders
from scheduler.settings import load_settings
from tests.draws import seldom
from warehouse.errors import LedgerError


def _rules(path: Path) -> Any:
    return load_rules(path.parent)


FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "rates": (load_rate_card, 'currency: EUR\nrates:\n  - {sku: a, price_per_gpu_hour: "1"}\n'),
    "tenants": (load_mapping, "unmapped_owner: it\nrules:\n  - {match: {project: x}, tenant: a}\n"),
    "budgets": (load_budgets, 'currency: EUR\nbudgets:\n  - {tenant: a, amount: "1"}\n'),
    "energy": (load_energy_settings, 'timezone: UTC\nintensity:\n  - {grams_per_kwh: "1", source: x}\n'),
    "objectives": (load_objectives, 'objectives:\n  - {name: a, kind: job_success, target: "0.9"}\n'),
    "routing": (load_routing, "receivers:\n  a: {webhook: {url: http://localhost}}\nroutes:\n  - {receivers: [a]}\n"),
    "rule": (_rules, "name: rule\nsource: x\ncondition: '> 1'\nidentity: [cluster]\nsummary: s\n"),
    "senders": (Senders, "senders:\n  - {name: a, token: 0123456789abcdef, records: all, clusters: all, nodes: all}\n"),
    "sign-in": (load_access, "session_hours: 8\nlocal_users: true\n"),
    "reports": (
        load_schedule,
        "smtp: {host: h, from: a@example.org}\nreports:\n  - {tenant: a, every: week, to: [a@example.org]}\n",
    ),
    "agent": (read_settings, "cluster: c\nnode: n\n"),
    "profile": (
        read_profile,
        "name: p\nvendor: V\nrecognise: [a]\nidentity: {device_id: s}\n"
        "metrics:\n  - {names: a, metric: power_watts, range: [0, 1]}\n",
    ),
    "service": (read_service_profile, "name: p\nmetrics:\n  - {metric: a, names: b, kind: gauge}\n"),
    "settings": (load_settings, "queues:\n  - {name: q}\npolicies: {backfill: easy}\n"),
    "job": (_document, '{"tenant": "a",\n "queue": "q"}\n'),
    "plan": (load_plan, "name: p\nsteps: 400\n"),
    "kubeconfig": (
        from_kubeconfig,
        "current-context: c\ncontexts:\n  - {name: c, context: {cluster: k}}\n"
        "clusters:\n  - {name: k, cluster: {server: http://localhost:1}}\n",
    ),
}


def refused(tmp_path: Path, name: str, content: bytes | str) -> str:
    path = tmp_path / f"{name}.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(LedgerError) as caught:
        FILES[name][0](path)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(str(path)), "it names the file"
    assert len(said) < 1000
    return said


@seldom(6, "a file of any kind is refused")
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_any_kind_is_refused_in_a_line(tmp_path: Path, name: str) -> None:
    whole = FILES[name][1]
    first = whole.lstrip("{").split(":")[0].strip('"')
    if name == "job":
        again, line = whole.rstrip().removesuffix("}") + f',\n "{first}": 1}}', 3
    else:
        again, line = f"{whole}{first}: again\n", whole.count("\n") + 1
    said = refused(tmp_path, name, again)
    assert f".yaml, line {line}: the key {first!r} appears twice; its first line is 1. Remove" in said
    assert "nested more than 50 deep" in refused(tmp_path, name, "[" * 5000)
    assert "not UTF-8" in refused(tmp_path, name, b"a: \xff")
    assert "line 2: not YAML" in refused(tmp_path, name, "a: 1\nb: ]")
    assert "day is out of range" in refused(tmp_path, name, "a: 2026-02-30")
    refused(tmp_path, name, "- 1")
    refused(tmp_path, name, "")


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("job", "kubeconfig", "rule")])
def test_of_a_file_that_is_not_there_the_path_is_what_to_check(tmp_path: Path, name: str) -> None:
    """As found: "No such file or directory. It starts with the keys currency, timezone and rates"."""
    with pytest.raises(LedgerError) as caught:
        FILES[name][0](tmp_path / "nosuch.yaml")
    assert str(caught.value).endswith(f"No such file or directory. Check the path from {Path.cwd()}")


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("job", "kubeconfig", "plan", "rule")])
def test_the_good_file_of_each_kind_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text(FILES[name][1])
    assert FILES[name][0](path)


@pytest.mark.parametrize(
    ("name", "written", "misspelt", "meant"),
    [
        ("rates", "rates:", "discuonts: []\nrates:", "discounts"),
        ("rates", "sku: a,", "sku: a, efective_from: 2026-01-01,", "effective_from"),
        ("tenants", "unmapped_owner", "unmaped_owner", "unmapped_owner"),
        ("tenants", "{project:", "{projct:", "project"),
        ("budgets", "tenant: a,", "tenant: a, treshold: 1,", "thresholds"),
        ("energy", "source: x", "source: x, gram_per_kwh: 1", "grams_per_kwh"),
        ("objectives", "target:", "taget: 1, target:", "target"),
        ("routing", "{receivers:", "{fallbck: [a], receivers:", "fallback"),
        ("rule", "summary: s", "summary: s\nseverty: info", "severity"),
        ("senders", "name: a,", "name: a, clustrs: all,", "clusters"),
        ("sign-in", "local_users", "local_user", "local_users"),
        ("reports", "every: week,", "every: week, langage: en,", "language"),
        ("agent", "cluster: c", "clutser: c", "cluster"),
        ("profile", "metric: power_watts,", "metric: power_watts, facter: 1,", "factor"),
        ("service", "kind: gauge", "kind: gauge, combin: max", "combine"),
        ("settings", "{backfill:", "{backfil: easy, backfill:", "backfill"),
        ("plan", "steps:", "warmpu: 3\nsteps:", "warmup"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_one_that_was_meant(
    tmp_path: Path, name: str, written: str, misspelt: str, meant: str
) -> None:
    assert written in FILES[name][1]
    text = FILES[name][1].replace(written, misspelt)
    said = refused(tmp_path, name, text)
    if name == "plan":  # what it lacks comes first
        assert ".yaml: missing: loads; unknown: warmpu (did you mean warmup?)" in said
        return
    assert f"unknown key; did you mean {meant}?" in said
    if name != "agent":  # options may have changed what its file says
        key = said.partition(": unknown key")[0].rpartition(".")[2].rpartition(" ")[2]
        assert f".yaml, line {text[: text.index(key)].count(chr(10)) + 1}: " in said, "as an editor counts them"


@pytest.mark.parametrize(
    ("name", "written", "empty", "says"),
    [
        ("rates", '\n  - {sku: a, price_per_gpu_hour: "1"}', " []", "rates: an empty list; expected at least one"),
        ("budgets", '\n  - {tenant: a, amount: "1"}', " []", "it has no budgets and no low_balances"),
        ("budgets", 'amount: "1"', 'amount: "1", thresholds: []', r"thresholds: an empty list"),
        ("routing", "\n  - {receivers: [a]}", " []", "receivers without routes: nobody would be notified"),
        ("routing", "{receivers: [a]}", "{receivers: []}", "routes[0].receivers: an empty list"),
        ("senders", "records: all", "records: []", "senders[0].records: an empty list"),
        ("senders", "clusters: all", "clusters: []", "senders[0].clusters: an empty list"),
        ("senders", "nodes: all", "nodes: []", "senders[0].nodes: an empty list"),
        ("reports", "to: [a@example.org]", "to: []", "reports[0].to: an empty list"),
        ("settings", "queues:", "reservations: [{name: r, nodes: [], start: 2026-12-01T00:00Z, end: 2026-12-02T00:00Z, "
         "tenants: [a]}]\nqueues:", "reservations[0].nodes: an empty list"),
        ("service", "\n  - {metric: a, names: b, kind: gauge}", " []", "metrics"),
        ("settings", "{name: q}", "{name: q, wait_bound: .inf}", "wait_bound: found inf"),
        ("settings", "{backfill: easy}", "{usage_weight: .nan}", "usage_weight: found nan"),
        ("agent", "node: n", "node: n\ndeliver: {every_seconds: .nan}", "every_seconds: found nan"),
        ("sign-in", "session_hours: 8", "session_hours: .inf", "session_hours: "),
        ("objectives", 'target: "0.9"', 'target: "0.9", at_least: .inf', "at_least: found inf"),
    ],
)  # fmt: skip
def test_what_would_be_silently_nothing_or_without_bounds_is_refused(
    tmp_path: Path, name: str, written: str, empty: str, says: str
) -> None:
    assert written in FILES[name][1]
    assert says in refused(tmp_path, name, FILES[name][1].replace(written, empty))


def test_what_is_secret_is_not_repeated(tmp_path: Path) -> None:
    said = refused(tmp_path, "senders", FILES["senders"][1].replace("0123456789abcdef", "geheim"))
    assert "token" in said
    assert "geheim" not in said


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("budgets", "missing: currency; unknown: pets, colour; known here: currency, budgets, low_balances."),
        ("rates", "missing: currency, rates; unknown: pets, colour; known here: "),
        ("objectives", "unknown: pets, colour; known here: "),
    ],
)
def test_a_file_of_another_kind_is_refused_with_all_its_keys_at_once(tmp_path: Path, name: str, what: str) -> None:
    assert what in refused(tmp_path, name, "pets: 1\ncolour: red\n")


def test_a_misspelt_key_that_must_be_there_is_told_once_beside_an_unknown_one(tmp_path: Path) -> None:
    """And never as missing."""
    said = refused(tmp_path, "budgets", FILES["budgets"][1].replace("currency", "curency") + "pets: 1\n")
    assert ": unknown: curency (did you mean currency?), pets; known here: " in said
