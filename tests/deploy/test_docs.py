"""What the documents say that a machine can try: command lines are understood, examples of files are read by their
readers, and what is named (files, columns, variables) is there."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer import BadParameter, Exit

from access.roles import AccessError
from access.settings import load_access
from alerts.acceptance.plan import load_plan
from alerts.routing import load_routing
from alerts.rule_files import load_rules
from alerts.slo.objectives import load_objectives
from billing.accounts.budget_file import load_budgets
from billing.energy.settings import load_energy_settings
from billing.parties.details import load_parties
from billing.tenants.mapping import load_mapping
from collectors.agent.settings import read_settings
from collectors.services.profile import read_profile
from dashboards.reports.schedule import load_schedule
from gpuledger.commands import COMMANDS
from ingest.senders import Senders
from scheduler.settings import load_settings
from tests.conftest import REPO
from tests.deploy.command_lines import of_document, understood
from tests.exhaustive import EXHAUSTIVE, is_exhaustive
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

DOCUMENTS = [REPO / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + sorted(REPO.glob("docs/*.md"))
TRACKED = subprocess.run(["git", "ls-files"], cwd=REPO, capture_output=True, text=True, check=True).stdout.split()


def command_lines() -> Iterator[Any]:
    for path in DOCUMENTS:
        for number, words in of_document(path):
            yield pytest.param(words, id=f"{path.name}:{number} {' '.join(words)[:50]}")


@pytest.mark.parametrize("arguments", list(command_lines()))
def test_a_command_line_of_a_document_is_one_that_we_understand(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        understood(arguments)
    except Exit as done:
        assert done.exit_code == 0, "--help and --version end by themselves"
    except BadParameter as mistake:
        assert "does not exist" in mistake.message, "the reader's own file need not be here"


def test_a_command_line_that_we_do_not_understand_is_told_from_those_that_we_do() -> None:
    for line in ("ledger --perod 2026-10", "invoice isue", "invoice issue", "ingest things f.csv", "rates diff"):
        with pytest.raises(Exception, match=r"(?i)no such|missing|is not one of|^$"):
            understood(line.split())


def block(name: str, first: str) -> str:
    """An indented or fenced example of a document, by how its first line begins."""
    text = (REPO / "docs" / name).read_text(encoding="utf-8")
    fenced = re.search(rf"^```yaml\n({re.escape(first)}.*?)^```", text, re.M | re.S)
    if fenced:
        return fenced[1]
    indented = re.search(rf"^    {re.escape(first)}(?:.*\n)(?:    .*\n|\n(?=    ))*", text, re.M)
    assert indented, f"{name} has no example that begins with {first!r}"
    return re.sub(r"^    ", "", indented[0], flags=re.M)


def sign_in(path: Path) -> object:
    for secret in ("session.key", "oidc.secret"):
        (path.parent / secret).write_text("s" * 32)
    path.write_text(path.read_text().replace("/etc/gpuledger/", f"{path.parent}/"))
    return load_access(path)


def senders(path: Path) -> object:
    path.write_text(re.sub(r"(token_sha256: )(\w+)\.\.\.", lambda cut: f"{cut[1]}{cut[2]:0<64}", path.read_text()))
    return Senders(path)


def rule(path: Path) -> object:
    query = "SELECT '' AS cluster, '' AS node, '' AS tenant, {window_seconds:UInt32} AS value"
    path.with_name("hot_rack.sql").write_text(query)
    return load_rules(path.rename(path.with_name("hot-rack.yaml")).parent)


EXAMPLES: tuple[tuple[str, str, Callable[[Path], object]], ...] = (
    ("access.md", "url: https", sign_in),
    ("accounts.md", "currency: EUR", load_budgets),
    ("acceptance.md", "name: H100", load_plan),
    ("agent.md", "cluster: c1", read_settings),
    ("agent.md", "senders:", senders),
    ("alerts.md", "name: hot-rack", rule),
    ("alerts.md", "address: https", load_routing),
    ("billing.md", "seller:", load_parties),
    ("energy.md", "timezone: Europe/Berlin", load_energy_settings),
    ("reports.md", "address: https", load_schedule),
    ("scheduler.md", "pools:", load_settings),
    ("services.md", "name: mine", read_profile),
    ("slo.md", "objectives:", load_objectives),
    ("tenants.md", "timezone: Europe/Berlin", load_mapping),
)


@pytest.mark.parametrize(("name", "first", "read"), EXAMPLES, ids=[f"{name} {first}" for name, first, _ in EXAMPLES])
def test_an_example_of_a_document_is_read_by_its_reader(
    tmp_path: Path, name: str, first: str, read: Callable[[Path], object]
) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(block(name, first), encoding="utf-8")
    read(path)


def test_local_users_alone_are_one_line_and_nothing_is_no_file(tmp_path: Path) -> None:
    """As docs/access.md says."""
    assert "`local_users: true` alone is enough" in (REPO / "docs/access.md").read_text()
    path = tmp_path / "sign-in.yaml"
    path.write_text("local_users: true\n")
    assert load_access(path).sign_in
    path.write_text("")
    with pytest.raises(AccessError):
        load_access(path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.name))
def test_what_a_document_names_is_there(path: Path) -> None:
    text, missing = path.read_text(encoding="utf-8"), []
    for target, heading in re.findall(r"\]\(([^)#\s:]+)(?:#([^)]*))?\)", text):
        there = path.parent / target
        if not there.exists():
            missing.append(target)
        elif heading:
            titles = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.M)
            if heading not in [re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in titles]:
                missing.append(f"{target}#{heading}")
    folders = "|".join(sorted({name.partition("/")[0] for name in TRACKED if "/" in name}))
    named = re.findall(rf"(?<![\w/.-])((?:{folders})/[\w./*-]*\.\w+)", text)
    assert missing + [one for one in named if not any(REPO.glob(one))] == []


def test_every_heading_that_a_program_names_is_in_its_document() -> None:
    """As in `Next: docs/exporters.md, Known gaps of exporters`."""
    named, missing = 0, []
    for name in TRACKED:
        if name.endswith((".py", ".sql", ".yaml", ".toml")) and REPO / name != Path(__file__):
            text = (REPO / name).read_text(encoding="utf-8")
            for document, place in re.findall(r"docs/([\w-]+\.md), \"?([A-Z][^\n]*)", text):
                page = (REPO / "docs" / document).read_text(encoding="utf-8")
                titles = re.findall(r"^(?:#+ |(?:\d\. )?\*\*)(.*?)\.?(?:\*\*.*)?$", page, re.M)
                named += 1
                missing += [f"{name}: {document}, {place}"] * (not any(place.startswith(title) for title in titles))
    assert named > 0
    assert missing == []


def test_the_site_is_built_and_no_link_leads_nowhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", tmp_path / "site"]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False, env=quiet)
    assert (done.returncode, done.stderr) == (0, "")
    named = {path.stem for path in REPO.glob("docs/*.md")}
    assert named <= {path.stem for path in (tmp_path / "site").glob("*.html")}


def test_every_variable_of_the_environment_is_one_that_something_reads() -> None:
    pattern = r"GPULEDGER_[A-Z_]*[A-Z]"
    named = {one for path in DOCUMENTS for one in re.findall(pattern, path.read_text(encoding="utf-8"))}
    read: set[str] = set()
    for name in TRACKED:
        if not name.endswith((".md", ".lock", ".pdf", ".png", ".ttf", ".otf")):
            read |= set(re.findall(pattern, (REPO / name).read_text(encoding="utf-8", errors="replace")))
    assert named - read == set()


def test_the_contracts_name_every_column_and_key_and_no_other() -> None:
    text = (REPO / "docs/contracts.md").read_text(encoding="utf-8")
    for record in RECORD_TYPES.values():
        (section,) = re.findall(rf"^## {record.name}: .*\n((?:(?!^## ).*\n)*)", text, re.M)
        names = set(re.findall(r"`(\w+)`", section))
        choices = {choice for column in record.columns for choice in column.choices}
        assert {column.name for column in record.columns} - names == set(), record.name
        assert names - choices - {column.name for column in record.columns} == set(), record.name
        (key,) = re.findall(r"^Key: \(([^)]*)\)", section, re.M)
        assert tuple(re.findall(r"\w+", key)) == record.key, record.name
        assert choices - names == set() or "as for samples" in section, record.name


OTHERS = set(
    re.findall(
        r"\w+",
        """KillMode CAP_SYS_ADMIN NVIDIA_VISIBLE_DEVICES PrivateData sslmode Lax
    basic_auth retry_on_http_429 OTEL_EXPORTER_OTLP_METRICS_ENDPOINT OTEL_EXPORTER_OTLP_HEADERS
    OTEL_EXPORTER_OTLP_PROTOCOL OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE user_files_path PRECISION DOUBLE
    GR_ENGINE_ACTIVE SM_ACTIVE HOSTNAME slim bookworm lsm MPSCompute Graphics
    latform debootstrapped allowlist regex e3b0c442 o17 gpu_cpx RunningProcesses_v3
    nvmlDeviceGet partial_success param_name Tag
    RmProfilingAdminOnly validatingWebhookFailurePolicy dmon pmon ReplicatedMergeTree ReadWriteMany REMOTE db3""",
    )
)
"""Words of other programs and of examples, which ours need not have."""
PUT_TOGETHER = (
    r"process_(vanished|pid_reused)|filter(Namespaces|Nodes|Clusters|Labels)|share(Namespaces|Cost)"
    r"|gpu_(utilization_ratio|sm_active_ratio|sm_clock_hertz)|(LOCAL_)?WORLD_SIZE|LOCAL_RANK|NODE_RANK|MASTER_(ADDR|PORT)"
    r"|gpuledger_scheduler_\w+|gpuledger_(tenants|reader_role)|equals_the_oracle|jobs_one|\w+_|_\w+"
)
"""Names that a program puts together from parts, and parts of names."""


def words_of(names: list[str]) -> set[str]:
    texts = ((REPO / name).read_text(encoding="utf-8", errors="replace") for name in names)
    return {word for text in texts for word in re.findall(r"\w+", text)}


@functools.cache
def words_of_programs() -> set[str]:
    kinds = (".py", ".pyi", ".sql", ".yaml", ".yml", ".toml", ".sh", ".json", ".proto", ".service", ".csv", ".js")
    named = [name for name in TRACKED if name.endswith(kinds) or "." not in Path(name).name]
    programs = [name for name in named if REPO / name != Path(__file__)]
    return words_of(programs) | {Path(name).stem for name in TRACKED}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.name))
def test_every_name_of_a_document_is_one_of_a_program(path: Path) -> None:
    """Options, keys, columns, metrics, states, findings, settings, tests: what stands between backticks."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    named = {
        word for code in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"[A-Za-z_]\w\w+", code)
    }  # fmt: skip
    missing = named - words_of_programs() - OTHERS
    assert {word for word in missing if not re.fullmatch(PUT_TOGETHER, word)} == set()


def test_a_name_that_no_program_has_is_missed() -> None:
    assert "agent_ticks_total" in words_of_programs()
    assert "agent_tocks_" + "total" not in words_of_programs()


def served() -> set[str]:
    """Addresses that a program serves: texts that begin with a slash, below the prefixes of the API and of OpenCost."""
    names = [name for name in TRACKED if name.endswith(".py") and not name.startswith(("tests/", "bench/"))]
    found = {
        one
        for name in names
        for one in re.findall(r"\"(/[\w{}/:.-]*)\"", (REPO / name).read_text(encoding="utf-8"))
    }  # fmt: skip
    by_prefix = {"/queries", "/queries/{name}", "/records/{record}", "/openapi.json", "/"}
    return {re.sub(r"\{[^}]*\}", "{}", one) for one in found | by_prefix}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.name))
def test_every_address_of_a_document_is_served(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = re.findall(r"(?:GET|POST|PUT|PATCH|DELETE) (/[\w{}/.-]*)", text)
    named += re.findall(r"`(/(?:api|v1|model|sql|healthz|readyz|metrics|allocation)[\w{}/.-]*)", text)
    named += re.findall(r"https?://(?:ledger|127)[\w.:]*(/[\w{}/.-]*)", text)
    missing = []
    for one in named:
        ours = re.sub(r"\{[^}]*\}|(?<=/)[A-Z]+\b|(?<=/services/)chat", "{}", one).rstrip("/") or "/"
        short = re.sub(r"^(/api/v1|/model)(?=/|$)", "", ours)
        known = served()
        if not {ours, short, short or "/"} & known and not any(
            re.fullmatch(re.sub(r"\{\}", r"[\\w{}-]+", other), form) for other in known for form in (ours, short)
        ):
            missing.append(one)
    assert missing == []


def test_what_sizing_computes_follows_from_what_it_measured() -> None:
    """As found: a new measurement in the first table, and the old one below."""
    text = (REPO / "docs/sizing.md").read_text(encoding="utf-8")

    def row(begins: str) -> list[str]:
        return [cell.strip() for cell in re.findall(rf"^\| {begins}.*$", text, re.MULTILINE)[0].strip("|").split("|")]

    def figures(begins: str) -> list[str]:
        return [f"{float(cell.replace(',', '')):g}" for cell in row(begins)[1:]]

    def found(pattern: str, within: str) -> float:
        (number,) = re.findall(pattern, within)
        return float(number)

    gpus = [
        int(cell.replace(",", "")) for cell in re.findall(r"^\| \| (100 \|.*) \|$", text, re.MULTILINE)[0].split(" | ")
    ]
    seconds = found(r"([\d.]+) CPU s a million rows", row("a push of 88 rows")[1])
    assert found(r"\(([\d.]+) s a million rows\)", row("CPU of pushes")[0]) == seconds
    assert figures("rows a second") == [
        f"{float(f'{one / 60:.2g}' if one < 10_000 else round(one / 60)):g}" for one in gpus
    ]
    assert figures("CPU of pushes") == [f"{float(f'{one / 60 * seconds / 1e6:.1g}'):g}" for one in gpus]
    bytes_ = found(r"([\d.]+) bytes each", row("samples on disk")[1]) + found(
        r"([\d.]+) bytes", row("sums per stream")[1]
    )
    assert found(r"\(([\d.]+) bytes\)", row("disk a day")[0]) == pytest.approx(bytes_)
    units = {"MB": 1e6, "GB": 1e9}
    for begins, days, each in (("disk a day", 1, bytes_), ("disk for 400 days", 400, bytes_)):
        for one, cell in zip(gpus, row(begins)[1:], strict=True):
            number, unit = cell.split()
            assert float(number) * units[unit] == pytest.approx(one * 1440 * days * each, rel=0.06), (begins, one)


def test_the_views_of_sql_have_the_columns_that_it_names(store: Store) -> None:
    text = (REPO / "docs/sql.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(v_\w+)` \| [^|]*\| ([^|]*) \|$", text, re.M)
    assert len(rows) == 10
    for view, columns in rows:
        there = [row["name"] for row in store.rows(f"DESCRIBE TABLE {view}")]
        assert re.findall(r"`(\w+)`", columns) == there, view


def test_the_readme_lists_every_command() -> None:
    listed = "".join(line for line in (REPO / "README.md").read_text().splitlines(True) if line.startswith("| `"))
    assert [name for name in COMMANDS if not re.search(rf"`{name}\b", listed)] == []


def test_longer_runs_of_what_make_test_leaves_out_are_of_make_check() -> None:
    """`make test` would take none of them."""
    texts = {path: path.read_text(encoding="utf-8") for path in [*DOCUMENTS, *REPO.glob("tests/**/*.py")]}
    read_by: dict[str, list[str]] = {}
    for path, text in texts.items():
        for name in re.findall(r'environ[^\n]*"(GPULEDGER_\w+)"', text):
            read_by.setdefault(name, []).append(str(path.relative_to(REPO)))
    for path, text in texts.items():
        for name in re.findall(r"(GPULEDGER_[A-Z]+)=\S+ (?:GPULEDGER_\S+ )*make test\b", text):
            assert not all(map(is_exhaustive, read_by[name])), f"{path.name}: {name} with make test"


def test_every_exhaustive_test_is_there() -> None:
    def is_there(one: str) -> bool:
        file, _, test = one.partition("[")[0].partition("::")
        return any(name.startswith(file) for name in TRACKED) and bool(
            not test or re.search(rf"^(def|class) {test}", (REPO / file).read_text(encoding="utf-8"), re.MULTILINE)
        )

    assert [one for one in EXHAUSTIVE if not is_there(one)] == []
