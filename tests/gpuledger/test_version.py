"""What the whole program answers without a command, and where it cannot write its answer."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gpuledger import __version__
from gpuledger.cli import _imported, build, main, run
from gpuledger.commands import COMMANDS
from tests.draws import seldom


@pytest.mark.parametrize("arguments", [["--version"], ["--version", "close"]], ids=" ".join)
def test_the_version_is_one_line_and_needs_no_command(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(arguments)
    said = capsys.readouterr()
    assert (int(done.value.code or 0), said.out, said.err) == (0, f"{__version__}\n", "")


@seldom(5, "an answer that cannot be written")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "arguments", [["--version"], ["sql", "SELECT 1 AS one", "--format", "json"], ["sql", "SELECT 1"]]
)
def test_an_answer_that_cannot_be_written_is_no_no(tmp_path: Path, arguments: list[str]) -> None:
    """1 would say that the answer is no."""
    store = ["--store", f"chdb://{tmp_path}/store"] if arguments[0] == "sql" else []
    if store:
        subprocess.run([sys.executable, "-m", "gpuledger", "init", *store], check=True, timeout=120)
    with Path("/dev/full").open("w") as full:
        asked = [sys.executable, "-m", "gpuledger", *arguments, *store]
        done = subprocess.run(asked, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr == "gpuledger: output: No space left on device. The output is incomplete\n"


@pytest.mark.parametrize(
    ("left", "status"),
    [(BrokenPipeError(errno.EPIPE, "Broken pipe"), 141), (typer.Abort(), 130), (typer.Exit(1), 1), (None, 0)],
    ids=["the reader went away", "given up at a question", "the answer is no", "done"],
)
def test_no_but_a_no_exits_1(monkeypatch: pytest.MonkeyPatch, left: Exception | None, status: int) -> None:
    """`gpuledger ledger | head` said no, under pipefail, as soon as the table was longer than a pipe holds."""
    app = typer.Typer()

    @app.command()
    def answer() -> None:
        if left:
            raise left

    for name in ("stdout", "stderr"):  # typer puts others in their place
        monkeypatch.setattr(sys, name, getattr(sys, name))
    with pytest.raises(SystemExit) as done:
        run(app, [])
    assert (done.value.code or 0) == status


@pytest.mark.parametrize("left", [KeyboardInterrupt(), typer.Abort()])
def test_an_interrupted_command_says_how_to_continue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], left: BaseException
) -> None:
    """typer ends at Ctrl-C without a word."""
    app = typer.Typer()

    @app.command()
    def answer() -> None:
        raise left

    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    with pytest.raises(SystemExit) as done:
        run(app, [])
    assert done.value.code == 130
    assert capsys.readouterr().err == "gpuledger: interrupted; run the same command again to continue\n"


def test_a_command_that_is_interrupted_while_it_is_imported_says_so(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from gpuledger.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (130, "gpuledger: interrupted; nothing was begun\n")


def test_help_shows_every_command_of_every_module_once_and_each_on_one_line() -> None:
    modules = Path(str(files("gpuledger.commands"))).glob("*.py")
    found = [one.stem for one in modules if "def register" in one.read_text()]
    assert sorted(found) == sorted({module for entry in COMMANDS.values() for module in entry.modules})
    group = typer.main.get_command(build())
    for together in {entry.modules for entry in COMMANDS.values()}:
        assert {name for name, entry in COMMANDS.items() if entry.modules == together} == set(_imported(together))
    said = CliRunner().invoke(build(), ["--help"], env={"COLUMNS": "80"}).output.splitlines()
    for name, entry in COMMANDS.items():
        assert len([line for line in said if line.split()[1:2] == [name] and f" {entry.help} " in line]) == 1, name
    assert list(COMMANDS) == group.list_commands(None)


ASK = """
import atexit, sys
atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))
sys.argv[0] = "gpuledger"
from gpuledger.__main__ import main
main()
"""


def imported(*arguments: str, **variables: str) -> tuple[set[str], str]:
    """What a process that was asked for this has imported in the end, and what it answered."""
    asked = [sys.executable, "-c", ASK, *arguments]
    done = subprocess.run(
        asked, capture_output=True, text=True, timeout=120, check=True, env={**os.environ, **variables}
    )
    return set(done.stderr.splitlines()[-1].split()), done.stdout


ENGINE = {"chdb", "clickhouse_connect", "pyarrow", "numpy"}
"""What takes tenths of a second."""
SERVERS = {"fastapi", "dash", "plotly", "sqlalchemy", "sqlglot", "typst", "jinja2", "httpx", "grpc", "anyio", "pandas"}


@pytest.mark.parametrize(
    ("arguments", "never"),
    [
        (["--version"], ENGINE | SERVERS | {"pydantic", "rich", "yaml", "gpuledger.commands.ledger"}),
        (["--help"], ENGINE | SERVERS | {"pydantic", "yaml", "gpuledger.commands.ledger"}),
        (["ledger", "--help"], ENGINE | SERVERS | {"yaml", "billing", "gpuledger.commands.invoice"}),
        (["ledger"], SERVERS | {"pyarrow", "numpy", "yaml", "billing.rates", "gpuledger.commands.invoice"}),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_a_command_imports_nothing_that_it_does_not_need(tmp_path: Path, arguments: list[str], never: set[str]) -> None:
    """Most of the time of a short command is its imports; seconds would say so on an idle machine alone."""
    found, _ = imported(*arguments, GPULEDGER_STORE=f"chdb://{tmp_path}/store")
    assert "gpuledger.cli" in found and found & never == set()


@pytest.mark.parametrize(
    ("typed", "completed", "never"),
    [("gpuledger inv", "invoice", {"gpuledger.commands.invoice"}), ("gpuledger invoice iss", "issue", {"billing"})],
    ids=["command", "subcommand"],
)
def test_completion_needs_no_store_and_no_engine(tmp_path: Path, typed: str, completed: str, never: set[str]) -> None:
    shell = {"_GPULEDGER_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    found, answer = imported(GPULEDGER_STORE=f"chdb://{tmp_path}/none/store", **shell)
    assert answer.split() == [completed]
    assert found & (ENGINE | SERVERS | never) == set()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_our_commands(shell: str) -> None:
    typed = {"_GPULEDGER_COMPLETE": f"complete_{shell}", "COMP_WORDS": "gpuledger invo", "COMP_CWORD": "1",
             "_TYPER_COMPLETE_ARGS": "gpuledger invo", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}  # fmt: skip
    assert "invoice" in CliRunner().invoke(build(), [], env=typed, prog_name="gpuledger").output
