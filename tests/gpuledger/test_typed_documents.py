"""Command lines of README and docs that can run here, typed in the tutorial's books: nothing that cannot be used, no
traceback. A run types README's and some documents'. Those that cannot run here stand in one list, with reasons."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyarrow import csv
from typer.testing import CliRunner

from docs.reference import EXAMPLES
from gpuledger.cli import build
from tests.conftest import REPO
from tests.deploy.command_lines import of_document
from tests.deploy.test_docs import block
from tests.draws import drawn, seldom
from tests.gpuledger.test_tutorial import matches, sessions
from tests.stores import engine_that_stays

SERVES = "goes on until it is stopped: test_up.py, test_server_command.py, test_agent_command.py and others start it"
AGENT = "reads what is not here: test_agent_command.py, test_exporter_command.py"
CLUSTER = "asks a Kubernetes or a Slurm: test_watch_command.py"
SCHEDULER = "asks a scheduler that runs: test_scheduler_command.py"
SERVER = "asks a server that runs: test_served_commands.py, test_access_commands.py"
CLICKHOUSE = "asks a ClickHouse server: test_init_accounts.py"
STORE = "copies a store, or asks the copy: tests/warehouse/test_backup.py, tests/api/test_backups.py"
MAIL = "sends mail: tests/dashboards/reports"
HELD = "needs a push that is held: test_served_held.py"
TRACE = "needs a public trace: tests/collectors/test_philly.py, test_openb.py, tests/scheduler"
LOADS = "starts loads of its own, for minutes: test_acceptance_command.py"
NOT_HERE: tuple[tuple[str, str], ...] = (
    ("up|server", SERVES),
    ("agent|exporter ", AGENT),
    ("watch ", CLUSTER),
    ("tenants kubernetes", "asks a Kubernetes: test_tenancy_command.py"),
    ("mcp", "serves an assistant: test_mcp.py"),
    ("scheduler", SCHEDULER),
    (".*--url |.*https?://", SERVER),
    (".*clickhouse://|init --accounts( --passwords.*)?$", CLICKHOUSE),
    ("init .*--cluster |doctor --cluster", "asks a ClickHouse cluster: tests/warehouse/test_cluster.py"),
    ("report send", MAIL),
    ("held (show|accept|refuse)", HELD),
    ("replay |simulate fragmentation", TRACE),
    ("backup|restore|verify --store chdb:///var", STORE),
    ("acceptance", LOADS),
)
"""Beginnings of command lines that are not typed here."""
ANSWERS_NO = re.compile(
    "alerts check|anomalies|savings|slo status|tenants check|interference status|export check|verify|report preview"
)
"""Commands whose exit status 1 is an answer."""
STANDS_FOR: tuple[tuple[str, str], ...] = (
    (r"^(credits (?!import).*)2026-10", r"\g<1>2026-11"),  # a month that is not issued yet
    (r"2026-10-01T00:00:00Z,2026-10-02T00:00:00Z", "2026-09-01T22:00:00Z,2026-09-02T22:00:00Z"),
    (r"2026-10", "2026-09"),
    (r"^(simulate capacity --period .*--model) 'NVIDIA H100'", r"\1 'NVIDIA H100 80GB HBM3'"),
    (r"^(simulate capacity --period .*) --pool \w+", r"\1"),
    (r"physics", "vision"),
    (r"invoice explain 3 ", "invoice explain 1 "),
    (r"GL-2026-00007", "GL-2026-00001"),
    (r"GL-2026-00008", "GL-2026-00002"),
    (r"^credits import FILE", "credits import credits.csv"),
    (r"^(budget|tenants) (apply|check) FILE", r"\1 \2 \1.yaml"),
    (r"^ingest events FILE --store x", "ingest events late.csv"),
    (r"--rules DIR --routing FILE --at INSTANT", "--at 2026-09-02T12:00Z"),
    (r"^(credits reverse) ID", r"\1 slo-1"),
    (r"^(users add) ada --role admin", r"\1 eve --role admin"),  # ada is there
    (r"samples-\*", "samples-1"),  # the shell's
)
"""What is said of a site of its own, and what of the tutorial's books."""
MADE = {"GRANT": "grant", "ID": "silence", "3f2a9c01b7de": "token"}
"""Ids, and the word that stands before them where a command before made one."""
COMMANDS = REPO / "docs" / "reference-commands.md"
DOCUMENTS = [
    REPO / "README.md",
    *sorted(path for path in REPO.glob("docs/*.md") if path.name not in ("tutorial.md", COMMANDS.name)),
]


def lines(documents: list[Path]) -> Iterator[tuple[str, list[str]]]:
    """Each command line once, and where it stands first."""
    seen = set()
    for path in documents:
        for number, words in of_document(path):
            if path == COMMANDS and not any(" ".join(words).startswith(one) for one in EXAMPLES):
                continue  # it repeats another document's
            if " ".join(words) not in seen:
                seen.add(" ".join(words))
                yield f"{path.name}:{number}", words


def reason(words: list[str]) -> str:
    text = " ".join(words)
    return next((why for pattern, why in NOT_HERE if re.match(pattern, text)), "")


def files(folder: Path) -> None:
    """What the reader has: the tutorial's files in other formats, and the documents' own examples."""
    tutorial = REPO / "docs" / "tutorial"
    (folder / "docs").symlink_to(REPO / "docs")
    for name in ("devices.csv", "rates.yaml", "late.csv"):
        shutil.copy(tutorial / name, folder)
    shutil.copy(tutorial / "rates.yaml", folder / "new.yaml")
    pq.write_table(csv.read_csv(tutorial / "samples.csv"), folder / "samples-1.parquet")
    events = csv.read_csv(tutorial / "late.csv").to_pylist()
    reported = [{name: str(value) for name, value in row.items() if value not in (None, "")} for row in events]
    (folder / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in reported))
    for name, document, first in (
        ("budget.yaml", "accounts.md", "currency: EUR"),
        ("grid.yaml", "energy.md", "timezone: Europe/Berlin"),
        ("objectives.yaml", "slo.md", "objectives:"),
        ("parties.yaml", "billing.md", "seller:"),
        ("tenants.yaml", "tenants.md", "timezone: Europe/Berlin"),
    ):
        (folder / name).write_text(block(document, first))
    (folder / "credits.csv").write_text("tenant,month,amount,reason\nvision,2026-11,1.50,switch down\n")
    (folder / "jobs.csv").write_text("job_id,submitted_at,run_seconds,gpus\na,0,600,8\nb,60,600,4\n")
    shutil.copy(folder / "jobs.csv", folder / "TRACE")
    for name in ("A", "B", "fifo", "fair"):
        (folder / f"{name}.yaml").write_text(
            "pools: [{name: v, nodes: 2, devices: 8, model: NVIDIA H100}]\nqueues: [{name: q, policy: fifo}]\n"
        )


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Result]]:
    """What each line answered, after the tutorial's."""
    folder, answered, made = tmp_path_factory.mktemp("typed"), {}, {}
    files(folder)
    with pytest.MonkeyPatch.context() as patched, engine_that_stays():
        patched.setenv("GPULEDGER_STORE", f"chdb://{folder}/store")
        patched.setenv("COLUMNS", "200")
        patched.chdir(folder)
        for command, _ in sessions((REPO / "docs" / "tutorial.md").read_text(encoding="utf-8")):
            assert CliRunner().invoke(build(), shlex.split(command)).exit_code == 0, command
        for command, shown in sessions((REPO / "README.md").read_text(encoding="utf-8")):
            seen = CliRunner().invoke(build(), shlex.split(command))
            assert matches(shown, seen.stdout), f"README.md: {command}\n{seen.output}"
        for where, words in lines([DOCUMENTS[0], *drawn(DOCUMENTS[1:], 0.4), COMMANDS]):
            if not reason(words):
                text = shlex.join(words)
                for pattern, ours in STANDS_FOR:
                    text = re.sub(pattern, ours, text)
                arguments = [made.get(MADE.get(word, ""), word) for word in shlex.split(text)]
                answered[where, text] = done = CliRunner().invoke(build(), arguments, input=stdin(words))
                made.update(re.findall(r"(?m)^(grant|silence|token) (\w+)", done.output))
        yield answered


def stdin(words: list[str]) -> str:
    return "SELECT 1 AS n\n" if "-" in words else "Long-Enough-Pass-1\n" * 2


@seldom(5, "the lines of documents are typed")
def test_each_command_line_does_what_it_may(typed: dict[str, Result]) -> None:
    wrong = {}
    for line, done in typed.items():
        no = done.exit_code == 1 and isinstance(done.exception, SystemExit) and ANSWERS_NO.match(line[1])
        if done.exit_code and not no:
            wrong[line] = (done.exit_code, done.exception, done.output[-500:])
    assert wrong == {}
    assert len(typed) > 12


def test_who_watches_names_the_cluster_which_has_no_default() -> None:
    watching = [words for _, words in lines(DOCUMENTS) if reason(words) == CLUSTER]
    assert len(watching) >= 5
    assert [words for words in watching if "--cluster" not in words] == []


def test_every_reason_not_to_type_a_line_is_needed() -> None:
    used = {reason(words) for _, words in lines(DOCUMENTS)}
    assert {why for _, why in NOT_HERE} - used == set()
