"""Grafana's dashboards: what is written is what their code makes, Grafana's own model reads it, and every query of
theirs is answered by the engine or parsed by Prometheus's own tool."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from access.principal import Principal
from access.roles import Role
from api.sql.engine import Engine, Question
from api.sql.limits import Limits
from collectors.agent.exposition import _OF_SAMPLE
from tests.alerts.test_prometheus import needs_promtool, promtool
from tests.conftest import REPO
from tests.dashboards.site import fill
from tests.draws import seldom
from tests.stores import fresh_store
from warehouse.store import Store

GRAFANA = REPO / "deploy" / "grafana"
MACROS = (
    (r"\$__timeFilter\((\w+)\)", r"(\1 >= toDateTime(1790726400) AND \1 <= toDateTime(1793491200))"),
    (r"\$__timeInterval\((\w+)\)", r"toStartOfInterval(toDateTime(\1), INTERVAL 3600 second)"),
)
"""As the ClickHouse data source puts them (October 2026, and the day before)."""


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("grafana_build", GRAFANA / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BUILD = builder()
BOARDS = {board.uid: board for board in BUILD.boards()}
PANELS = [(board, panel) for board in BOARDS.values() for panel in board.panels]


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("books") / "store", fill) as store:
        yield store


def asked(store: Store, sql: str) -> list[dict[str, Any]]:
    """As Grafana's token may ask it."""
    who = Principal("grafana", frozenset({Role.analyst}), how="token")
    with Engine(store, Limits()).ask_blocking(who, Question(sql, "JSON")) as (_, pieces):
        found: list[dict[str, Any]] = json.loads(b"".join(pieces))["data"]
    return found


@pytest.mark.parametrize("uid", BOARDS)
def test_a_dashboard_is_what_its_code_makes_and_grafana_s_model_reads_all_of_it(uid: str) -> None:
    written = json.loads((GRAFANA / "dashboards" / f"{uid}.json").read_text(encoding="utf-8"))
    assert written == BUILD.build(BOARDS[uid]), "renew them: python deploy/grafana/build.py"
    register_default_plugins()
    read = json.loads(json.dumps(Dashboard.from_json(written), cls=JSONEncoder))
    assert read == written
    ids = [panel["id"] for panel in written["panels"]]
    assert len(set(ids)) == len(BOARDS[uid].panels)
    for panel in written["panels"]:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert panel["datasource"] in [one.to_json() for one in BUILD.SOURCES.values()]


@seldom(6, "a query of the books answers")
@pytest.mark.parametrize(
    ("board", "panel"), [pytest.param(b, p, id=f"{b.uid} {p.title}") for b, p in PANELS if b.source == "books"]
)
def test_a_query_of_the_books_answers(books: Store, board: Any, panel: Any) -> None:
    sql = panel.sql
    for name, query in board.variables.items():
        values = ", ".join(f"'{row[name]}'" for row in asked(books, query))
        assert values
        sql = sql.replace(f"${{{name}:singlequote}}", values)
    for macro, text in MACROS:
        sql = re.sub(macro, text, sql)
    assert "$" not in sql
    rows = asked(books, sql)
    assert rows
    if panel.kind in ("lines", "stack", "bars"):
        assert next(iter(rows[0])) == "time"


def test_what_a_dashboard_shows_is_what_the_books_say(books: Store) -> None:
    panels = {panel.title: panel for panel in BOARDS["gpuledger-fleet"].panels}
    sql = re.sub(*MACROS[0], panels["Held"].sql).replace("${cluster:singlequote}", "'c1'")
    (row,) = asked(books, sql)
    assert round(next(iter(row.values())), 6) == round(96 / (31 * 24 * 3), 6)


def expressions() -> list[str]:
    found = [text for _, panel in PANELS for text in panel.promql.values()]
    return [re.sub(r"\$__\w+", "5m", text).replace("$node", ".*").replace("$queue", ".*") for text in found]


@needs_promtool
def test_promtool_parses_every_expression(tmp_path: Path) -> None:
    rules = [{"record": f"one:{number}", "expr": text} for number, text in enumerate(expressions())]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", "--lint=none", str(path))


def test_every_metric_that_a_dashboard_names_is_one_that_we_expose() -> None:
    sources = ["collectors/agent/own_metrics.py", "collectors/agent/exposition.py", "alerts/metrics.py",
               "api/metrics.py", "scheduler/exposition.py"]  # fmt: skip
    text = "".join((REPO / path).read_text(encoding="utf-8") for path in sources)
    named = set(re.findall(r"\b(?:gpu|agent|gpuledger)_\w+", " ".join(expressions())))
    assert len(named) > 25
    for name in named:
        scheduler = name.removeprefix("gpuledger_scheduler_")
        sample = name.removeprefix("gpu_").removesuffix("_total")
        assert f'"{name}"' in text or f'"{scheduler}"' in text or sample in _OF_SAMPLE or name == "gpu_activity_ratio"


def test_the_provisioning_names_the_sources_that_the_dashboards_ask() -> None:
    sources = yaml.safe_load((GRAFANA / "provisioning/datasources/gpuledger.yaml").read_text())["datasources"]
    known = {(one["type"], one["uid"]) for one in sources}
    assert known == {(one.type_val, one.uid) for one in BUILD.SOURCES.values()}
    (provider,) = yaml.safe_load((GRAFANA / "provisioning/dashboards/gpuledger.yaml").read_text())["providers"]
    assert provider["options"]["path"] == "/etc/grafana/gpuledger-dashboards"


def test_without_the_dev_tools_one_line_says_what_to_do() -> None:
    build = str(GRAFANA / "build.py")
    done = subprocess.run([sys.executable, "-I", "-S", build], capture_output=True, text=True)
    said = f"{build}: this Python has no yaml. Next: make dev, then .venv/bin/python {build}\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
