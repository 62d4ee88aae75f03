"""Commands whose --store is a server that holds it: what reads says the same, what changes goes by the API."""

from __future__ import annotations

import contextlib
import json
import re
import ssl
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from access.opening import open_access
from access.settings import AccessSettings
from docs.reference import commands
from gpuledger.books import _COMMANDS
from tests.billing.hand_ledger import HOUR_MS, Row
from tests.billing.hand_ledger import fill as used_hours
from tests.certificates import self_signed
from tests.conftest import REPO
from tests.dashboards.site import BUDGETS, CARD, fill, serving, token_of
from tests.draws import drawn, seldom
from tests.gpuledger.running import listed, refused, run
from tests.ingest.test_deliver import web
from tests.ports import free_port
from tests.slow_answers import answering
from tests.stores import fresh_store
from warehouse.errors import LedgerError
from warehouse.store import open_store

pytestmark = pytest.mark.usefixtures("engine_stays")

READS = (
    "ledger --by tenant,day", "savings", "verify", "audit", "invoice draft --period 2026-10",
    "invoice explain 1 --number GL-2026-00001", "interference status",
    "interference speeds", "alerts list",
    "slo status --at 2026-11-05T00:00Z", "simulate capacity --gpus 1 --shares 2",
)  # fmt: skip
STATUS = {"invoice verify GL-2026-00001": 1}
"""Exits other than 0: it was issued by hand here, and does not follow from the facts."""


@contextlib.contextmanager
def held(folder: Path, reads: Sequence[str] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    """The address of a server that holds a filled store, and what each of these commands said of the store before."""
    with fresh_store(folder / "store", fill) as opened, open_access(opened) as people:
        token = token_of(people, "admin")
    own = {}
    for command in reads:
        done = run(command, "--store", f"chdb://{folder / 'store'}", "--format", "json")
        assert done.exit_code == STATUS.get(command, 0), (command, done.output, done.exception)
        own[command] = json.loads(done.stdout)
    with (
        open_store(f"chdb://{folder / 'store'}") as opened,
        serving(opened, AccessSettings(sign_in=True)) as url,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("GPULEDGER_TOKEN", token)
        yield url, own


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param(READS, marks=seldom(5, "what reads, here and over HTTP")),
        pytest.param(tuple(STATUS), marks=seldom(8, "an invoice is computed again, here and over HTTP")),
    ],
)
def test_a_command_that_reads_says_the_same_of_a_store_that_a_server_holds(
    tmp_path: Path, reads: Sequence[str]
) -> None:
    with held(tmp_path, reads) as (url, own):
        for command in reads:
            done = run(command, "--store", url, "--format", "json")
            assert done.exit_code == STATUS.get(command, 0), (command, done.output, done.exception)
            assert json.loads(done.stdout) == own[command], command
        for command in ("energy", "invoice list"):
            assert "vision" in run(command, "--store", url).stdout


def test_a_rate_card_is_compared_alike_here_and_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, card = tmp_path / "first.yaml", tmp_path / "card.yaml"
    first.write_text(CARD)
    card.write_text(CARD.replace("2.00", "2.25"))
    folder = tmp_path / "store"
    with fresh_store(folder) as opened, open_access(opened) as people:
        used_hours(opened, [Row(datetime(2026, 10, 5, 7, tzinfo=UTC), "vision", used=str(HOUR_MS))])
        monkeypatch.setenv("GPULEDGER_TOKEN", token_of(people, "admin"))
    asked = [(str(file), "--format", form) for file in (first, card) for form in ("json", "csv", "table")]
    said: list[list[str]] = []
    for _ in ("before any card", "with one in force"):
        own = [run("rates diff", *words, "--store", f"chdb://{folder}").output for words in asked]
        with open_store(f"chdb://{folder}") as opened, serving(opened, AccessSettings(sign_in=True)) as url:
            assert [run("rates diff", *words, "--store", url).output for words in asked] == own
        assert run("rates apply", str(first), "--store", f"chdb://{folder}").exit_code == 0
        said.append(own)
    assert [json.loads(one)["effect"][0]["new_cost"] for one in (said[0][0], said[1][3])] == [
        "2.000000000",
        "2.250000000",
    ]
    assert "nothing would change" in said[1][2] and "from 2.00 to 2.25" in said[1][5]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with held(tmp_path_factory.mktemp("served")) as (found, _):
        yield found


FILES = {
    "rates": CARD + '  - {sku: b200, match: {model: B200}, price_per_gpu_hour: "9.00"}\n',
    "tenants": "rules: [{match: {tenant: speech}, cost_center: 'K-4711'}, {match: {tenant: x}, tenant: y}]",
    "budget": BUDGETS.replace('"100.00"', '"110.00"'),
    "slo": 'objectives: [{name: waits, kind: queue_wait, target: "0.9", within: 30m}]',
    "energy intensity": 'intensity: [{region: DE, grams_per_kwh: "380", source: "a table"}]',
    "invoice parties": "buyers: [{tenant: vision, name: Vision Research AG, payment_days: 14}]",
}
"""By the command that applies one."""


def test_files_are_compared_and_applied_by_the_server_as_the_token_s_owner(url: str, tmp_path: Path) -> None:
    for command, text in FILES.items():
        path = tmp_path / "file.yaml"
        path.write_text(text)
        if command == "rates":
            assert "added    b200 (model B200): 9.00" in run("rates diff", str(path), "--store", url).stdout
            found = json.loads(run("rates diff", str(path), "--store", url, "--format", "json").stdout)
            assert found["changes"] == [{"what": "added", "of": "b200 (model B200)", "words": "9.00"}]
            assert (found["old"] != found["new"], found["effect"]) == (True, [])
        for said in (r"(is|are) in force: .+ Next: gpuledger .+\n", r"(is|are) in force already\n"):
            done = run(f"{command} apply", str(path), "--store", url, "--reason", "why")
            assert done.exit_code == 0 and re.search(f"{said}$", done.stderr), done.output
    audit = json.loads(run("audit", "--store", url, "--format", "json").stdout)
    applied = [row["action"] for row in audit if (row["actor"], row["reason"]) == ("admin", "why")]
    assert sorted(applied) == [f"{part}.apply" for part in ("budgets", "energy", "parties", "rates", "slo", "tenants")]
    mine = ("invoice parties apply", str(path), "--store", url, "--author", "ada")
    assert "a server knows who you are" in refused(*mine)
    path.write_text("a: [")
    assert "not YAML" in refused("rates apply", str(path), "--store", url)
    assert "cannot be read" in refused("rates apply", str(tmp_path / "nothing"), "--store", url)
    assert "Give one file" in refused("rates diff", "1234", "--store", url)


@seldom(6, "invoices are credited made void and issued")
def test_invoices_are_credited_made_void_and_issued_by_the_server(url: str, tmp_path: Path) -> None:
    where = ("--store", url)
    assert (
        "5.00 EUR to vision's credit" in run("invoice credit GL-2026-00002 --amount 5.00 --reason late", *where).stderr
    )
    assert "is void since" in run("invoice void GL-2026-00003 --reason mistaken", *where).stderr
    assert "is void since" in run("invoice void GL-2026-00001 --reason wrong", *where).stderr
    assert run("close", *where).exit_code == 0
    done = run("invoice issue --period 2026-10 --format json", *where)
    assert [one["number"] for one in json.loads(done.stdout)] == ["GL-2026-00002", "GL-2026-00004"]
    out = tmp_path / "focus.csv"
    assert run("export focus --no-check --period 2026-10", "--out", str(out), *where).exit_code == 0
    assert "vision" in out.read_text(encoding="utf-8")
    added = "credits add --tenant vision --amount 2.50 --month 2026-11 --reason again"
    assert re.fullmatch(r"credit \w+: 2.50 EUR for vision in 2026-11\n", run(added, *where).stderr)
    assert "already exists" in run(added, *where).stderr
    mistyped = run("credits add --tenant vizion --amount 2.50 --month 2026-11 --reason typo", *where).stderr
    assert mistyped.startswith("the ledger knows no tenant 'vizion' yet; check its spelling")
    (credit,) = [one["id"] for one in listed("credits list", url) if one["reason"] == "again"]
    assert "-2.5 EUR for vision" in run(f"credits reverse {credit} --reason mistaken", *where).stderr
    grant = run("credits grant --tenant vision --amount 5.00 --expires 2027-01-01 --reason prepaid --id g1", *where)
    assert "grant g1: 5.00 EUR for vision" in grant.stderr
    assert "grant g1 of vision expires" in run("credits revoke g1 --reason over", *where).stderr
    (kept,) = [one for one in listed("credits list --grants", url) if one["id"] == "g1"]
    assert (kept["author"], kept["reason"]) == ("admin", "prepaid")
    assert "over" in {row["reason"] for row in listed("audit --object g1", url)}
    nothing = refused("credits revoke nothing --reason over", *where)
    assert "does not exist" in nothing
    assert nothing.endswith("See: gpuledger credits list --grants")  # not a path of the API


def test_alerts_are_kept_quiet_and_books_closed_by_the_server(url: str) -> None:
    made = run("alerts silence add tenant=vis* --for 1h --reason demo", "--store", url)
    (one,) = json.loads(run("alerts silence list --format json", "--store", url).stdout)
    assert made.stderr.startswith(f"silence {one['id']}: tenant=vis* until")
    assert one["author"] == "admin"
    assert run("alerts silence end", one["id"], "--store", url).exit_code == 0
    reached = json.loads(run("close --format json", "--store", url).stdout)["closed_until"]
    later = datetime.fromisoformat(reached) + timedelta(hours=3)
    assert "a server has its own" in refused("close --whole", "--store", url)
    assert "is in the future" in refused("close --until 2999-01-01T00:00Z", "--store", url)
    assert run("close --until", later.isoformat(), "--store", url).exit_code == 0
    assert (
        datetime.fromisoformat(json.loads(run("close --format json", "--store", url).stdout)["closed_until"]) == later
    )


def test_queries_and_sql_go_to_the_same_address(url: str) -> None:
    assert run("queries save one", "SELECT 1 AS one", "--store", url).exit_code == 0
    assert run("sql --saved one --format csv", "--store", url).stdout == '"one"\n1\n'


def test_a_report_is_made_by_the_server_and_mailed_by_nobody_else(url: str, tmp_path: Path) -> None:
    asked = ("report preview --tenant vision --period 2026-10", "--store", url)
    assert run(*asked).stdout.startswith("vision: October 2026\n")
    assert run(*asked, "--out", str(tmp_path / "vision.html")).exit_code == 0
    page = (tmp_path / "vision.html").read_text(encoding="utf-8")
    assert "data:image/png;base64," in page
    assert "nothing of it is closed" in refused("report preview --tenant vision --period 2027-10", "--store", url)
    schedule = tmp_path / "reports.yaml"
    schedule.write_text(
        "smtp: {host: h, from: a@example.org}\nreports: [{tenant: vision, every: week, to: [b@example.org]}]\n"
    )
    assert "mails by itself" in refused("report send --reports", str(schedule), "--store", url)


def test_who_a_server_does_not_know_is_told_so_in_one_line(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for token, said in (("", "sign in, or send"), ("gpl_x", "unknown, expired or revoked")):
        monkeypatch.setenv("GPULEDGER_TOKEN", token)
        assert said in refused("ledger", "--store", url)


ASKING = (["ledger"], ["sql", "SELECT 1"], ["tokens", "list"], ["invoice", "issue", "--period", "2026-10"], ["mcp"])
"""Over SQL, as SQL, over the API, to change something, and for an assistant."""


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_a_token_that_no_header_holds_is_not_repeated(command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As found: a trace, with the token in its last line."""
    broken = b"HTTP/1.1 401 No\r\nContent-Type: application/problem+json\r\nContent-Length: 1\r\n\r\n{"
    with answering(partial(iter, [broken])) as url:
        for token, said in (("gpl_sec\nret", "with"), ("gpl_s\u00e9cret", "with"), ("gpl_secret\n", "answers 401")):
            monkeypatch.setenv("GPULEDGER_TOKEN", token)
            line = refused(command[0], *command[1:], "--store", url.rstrip("/"))
            assert said in line and "gpl_" not in line


PLAIN = b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 9\r\n\r\nNot Found"


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_what_is_no_server_of_books_is_told_from_one_that_is_not_there(command: list[str]) -> None:
    """As found: a server of pushes alone "cannot be reached", and one that was away was `[Errno 111]`."""
    for pieces, said in (
        ([PLAIN % b"404 Not Found"], r"answers 404.*\. Is it a gpuledger server's address.* \(no --no-dashboard\)\?"),
        ([PLAIN % b"502 Bad Gateway"], r"answers 502.*\. .*proxy.*"),
        ([], r"hung up without an answer\. Did the server stop\? Then ask again\. If it speaks TLS, .+"),
    ):
        with answering(partial(iter, pieces)) as url:
            line = refused(command[0], *command[1:], "--store", url.rstrip("/"))
            assert re.fullmatch(re.escape(url.rstrip("/")) + ": " + said, line), line
            line = refused(command[0], *command[1:], "--store", url.replace("http:", "https:"))
            assert re.search(r"cannot be reached: TLS failed: .*begins with http://", line), line
    line = refused(command[0], *command[1:], "--store", f"http://127.0.0.1:{free_port()}")
    assert "cannot be reached: Connection refused. Is the server running" in line
    assert "[Errno" not in line and "(" not in line


TAKES_PUSHES = "and takes records that are pushed"
SERVES = "and serves it already"
REFUSED = {
    "alerts check": "and evaluates its rules by itself",
    "credits import": "and takes one credit at a time",
    "interference version": "and its API takes no versions",
    "ingest": TAKES_PUSHES,
    "watch kubernetes": TAKES_PUSHES,
    "watch slurm": TAKES_PUSHES,
    "replay philly": TAKES_PUSHES,
    "replay openb": TAKES_PUSHES,
    "scheduler": TAKES_PUSHES,
    "simulate trace": TAKES_PUSHES,
    "report send": "and mails by itself",
    "restore": "not an embedded store with a folder",
    "up": SERVES,
    "server": SERVES,
}
"""What a server does not do for a command, and why, as the command says."""
WITH = {
    "alerts silence add": "tenant=vis* --for 1h --reason demo",
    "alerts silence end": "nothing",
    "backup": "--list",
    "credits add": "--tenant vision --amount 1 --month 2026-11 --reason why",
    "credits import": "{folder}/credits.csv",
    "credits grant": "--tenant vision --amount 1 --expires 2099-01-01 --reason why",
    "credits reverse": "nothing --reason why",
    "credits revoke": "nothing --reason why",
    "export focus": "--period 2026-10 --no-check --out {folder}/focus.csv",
    "held accept": "nothing",
    "held refuse": "nothing",
    "held show": "nothing",
    "ingest": "events docs/tutorial/events.csv",
    "interference version": "x y",
    "changes": "--period 2026-10",
    "invoice credit": "nothing --amount 1 --reason why",
    "invoice draft": "--period 2026-10",
    "invoice explain": "1 --number GL-2026-00001",
    "invoice issue": "--period 2099-12",
    "invoice platform": "--period 2026-10",
    "invoice show": "GL-2026-00001",
    "invoice statement": "--period 2026-10",
    "invoice verify": "GL-2026-00001",
    "invoice void": "nothing --reason why",
    "queries delete": "nothing",
    "queries save": "one --shared -",
    "queries show": "nothing",
    "rates diff": "docs/tutorial/rates.yaml",
    "report preview": "--tenant vision --period 2026-10",
    "replay openb": "pods.csv --nodes nodes.csv",
    "replay philly": "jobs.csv --machines machines.csv",
    "report send": "--reports {folder}/reports.yaml",
    "restore": "{folder}",
    "scheduler": "--config pools.yaml --data log --events store",
    "server": "--tokens {folder}/senders.yaml",
    "simulate trace": "jobs.csv --into-store",
    "slo credits": "--month 2026-10",
    "sql": "-",
    "tenants check": "{folder}/tenants.yaml",
    "tokens create": "another --role analyst --scope read",
    "tokens revoke": "nothing",
    "users add": "eve --role analyst",
    "users set": "nobody --disable",
    "watch kubernetes": "--cluster c1",
    "watch slurm": "--cluster c1",
}
"""Arguments with which a command gets as far as the store."""


OF_A_STORE = [words for words, command in commands() if any("--store" in one.opts for one in command.params)]


def test_what_a_server_does_not_do_is_refused_with_the_reason_and_what_to_do(tmp_path: Path) -> None:
    assert (set(REFUSED) | set(WITH)) - set(OF_A_STORE) == set()
    nobody = "http://127.0.0.1:9"  # is not asked
    for words, why in REFUSED.items():
        done = run(words, *WITH.get(words, "").format(folder=tmp_path).split(), "--store", nobody)
        error = done.exception
        assert isinstance(error, LedgerError) and why in str(error), (words, done.output, error)
        assert error.where.endswith(nobody) and error.next_step and "\n" not in str(error), words


def test_what_a_server_did_not_understand_is_named_as_typed(url: str) -> None:
    error = run("tokens create ci --role king", "--store", url).exception
    assert isinstance(error, LedgerError)
    assert error.what.startswith("roles: Input should be 'admin'"), error
    assert error.next_step == "See the command's --help"


def test_url_is_no_second_name_of_a_server_that_holds_the_store() -> None:
    found = {words.split()[0] for words, command in commands() if any("--url" in one.opts for one in command.params)}
    assert found == {"agent", "watch", "scheduler"}


@seldom(5, "every command asks the server")
def test_every_other_command_asks_the_server(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPO)
    (tmp_path / "tenants.yaml").write_text("rules: [{match: {tenant: speech}, cost_center: 'K-4711'}]\n")
    for command, text in FILES.items():
        (tmp_path / f"{command} apply").write_text(text)
    for words in drawn([one for one in OF_A_STORE if one not in REFUSED], 1 / 3):
        more = WITH.get(words, "")
        file = [str(tmp_path / words)] if words.endswith(" apply") else []
        typed = "SELECT 1" if more.endswith("-") else "Long-Enough-Pass-1\n" * 2
        done = run(words, *file, *more.format(folder=tmp_path).split(), "--store", url, typed=typed)
        error = done.exception
        if isinstance(error, LedgerError):
            # The server's own word, and not that of a store that lets nobody write.
            assert str(error).startswith(f"{url}: ") and "does not offer this" not in str(error), (words, error)
        else:
            assert isinstance(error, SystemExit | None) and done.exit_code in (0, 1), (words, done.output, error)
        assert "\n" not in str(error or "")


@pytest.mark.parametrize("command", ["ledger", "tokens list", "sql x"])
def test_a_server_of_an_unknown_authority_is_told_from_one_that_does_not_run(tmp_path: Path, command: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(tmp_path, "localhost"))
    with web(lambda *_: (200, {}, b"")) as unknown:
        unknown.socket = context.wrap_socket(unknown.socket, server_side=True)
        assert "SSL_CERT_FILE" in refused(command, "--store", f"https://localhost:{unknown.server_port}")


def test_next_steps_of_the_server_that_name_a_list_have_a_command_that_shows_it() -> None:
    named = set()
    for source in (REPO / "api" / "routes").glob("*.py"):
        named |= set(re.findall(r'"See: (/api/v1/[^"]+)"', source.read_text()))
    assert named - set(_COMMANDS) == {"/api/v1/views", "/api/v1/waiting"}  # no command asks for these
    known = {name for name, _ in commands()}
    assert {command.partition(" --")[0] for command in _COMMANDS.values()} <= known
