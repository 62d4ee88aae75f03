"""`gpuledger alerts`: what it prints, its exit status, and its worst inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gpuledger.cli import build
from tests.alerts.facts import device, put, sampled, started
from tests.stores import fresh_store
from warehouse.errors import LedgerError

pytestmark = pytest.mark.usefixtures("engine_stays")

AT = "2026-10-06T12:00Z"
OFF = "name: {name}\nextends: true\nenabled: false\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store in which a job has been idle for more than three hours."""
    folder = tmp_path_factory.mktemp("store")
    idle = sampled("GPU-0", 200, 0, 0.0, sm_active=0.0, memory_used_bytes=30 << 30)
    with fresh_store(folder / "store") as opened:
        put(opened, [*device(), *started("job", 300), *idle])
    return f"chdb://{folder / 'store'}"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["alerts", *arguments])


def test_check_prints_what_fires_and_exits_1_and_list_and_history_show_it_after(store: str) -> None:
    done = run("check", "--store", store, "--at", AT, "--format", "json")
    assert done.exit_code == 1, done.output
    found = {row["rule"]: row for row in json.loads(done.stdout)}
    assert found["idle-holder-reclaim"]["labels"]["allocation_id"] == "job"
    assert found["idle-holder-notice"]["held_back"] == "inhibited by idle-holder-reclaim"
    assert "ledger-late" in found
    listed = run("list", "--store", store, "--rule", "idle-holder", "--format", "csv")
    assert listed.exit_code == 0
    header, row = listed.stdout.splitlines()[:2]
    assert header.startswith("state,severity,rule,summary,owner")
    assert row.startswith("firing,warning,idle-holder,job of physics has kept 1 GPU idle for at least 3 h")
    history = json.loads(run("history", "--store", store, "--rule", "idle-holder", "--format", "json").stdout)
    assert [row["state"] for row in history] == ["firing"]
    assert run("history", "--store", store, "--deliveries", "--format", "csv").stdout.count("\n") == 1


def test_check_exits_0_where_nothing_fires(store: str, tmp_path: Path) -> None:
    from alerts.rule_files import SHIPPED

    for path in SHIPPED.glob("*.yaml"):
        (tmp_path / path.name).write_text(OFF.format(name=path.stem))
    done = run("check", "--store", store, "--at", AT, "--rules", str(tmp_path))
    assert done.exit_code == 0, done.output
    assert "nothing fires" in done.stderr


def test_a_silence_is_added_listed_and_ended(store: str) -> None:
    assert (
        run(
            "silence", "add", "tenant=phys*", "--for", "2h", "--reason", "demo", "--author", "ann", "--store", store
        ).exit_code
        == 0
    )
    (silence,) = json.loads(run("silence", "list", "--store", store, "--format", "json").stdout)
    assert (silence["author"], silence["reason"], silence["matchers"]) == ("ann", "demo", {"tenant": ["phys*"]})
    assert run("silence", "end", silence["id"], "--store", store).exit_code == 0
    assert json.loads(run("silence", "list", "--store", store, "--format", "json").stdout) == []


@pytest.mark.parametrize("fmt", ["table", "json", "csv", "prometheus"])
def test_rules_are_printed_without_a_store(fmt: str) -> None:
    done = run("rules", "--format", fmt)
    assert done.exit_code == 0
    assert "idle-holder" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["check", "--at", "noon"], "'noon' is not an instant"),
        (["check", "--rules", "/nowhere"], "not a folder of rules"),
        (["silence", "add", "tenant", "--for", "2h", "--reason", "x"], "not a matcher"),
        (["silence", "add", "tenant=x", "--for", "soon", "--reason", "x"], "not a duration"),
        (["silence", "add", "tenant=x", "--reason", "x"], "A silence has an end"),
        (["silence", "add", "tenant=x", "tenant=y", "--for", "2h", "--reason", "x"], "second matcher of tenant"),
        (["silence", "end", "nothing"], "is not active"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], says: str, store: str) -> None:
    done = run(*arguments, "--store", store)
    assert isinstance(done.exception, LedgerError), done.output
    assert says in str(done.exception)
    assert "\n" not in str(done.exception)
