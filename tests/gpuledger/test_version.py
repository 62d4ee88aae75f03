"""What the whole program answers without a command, and where it cannot write its answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpuledger import __version__
from gpuledger.cli import build, main
from gpuledger.commands import PANELS


@pytest.mark.parametrize("arguments", [["--version"], ["--version", "close"]], ids=" ".join)
def test_the_version_is_one_line_and_needs_no_command(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(arguments)
    said = capsys.readouterr()
    assert (int(done.value.code or 0), said.out, said.err) == (0, f"{__version__}\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "arguments", [["--version"], ["sql", "SELECT 1 AS one", "--format", "json"], ["sql", "SELECT 1"]]
)
def test_an_answer_that_cannot_be_written_is_no_no(tmp_path: Path, arguments: list[str]) -> None:
    """1 would say that the answer is no."""
    store = ["--store", f"chdb://{tmp_path}/store"] if arguments[0] == "sql" else []
    with Path("/dev/full").open("w") as full:
        asked = [sys.executable, "-m", "gpuledger", *arguments, *store]
        done = subprocess.run(asked, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr == "gpuledger: output: No space left on device. The output is incomplete\n"


def test_help_shows_every_command_once() -> None:
    registered = [one.name for one in (*build().registered_commands, *build().registered_groups)]
    shown = [name for names in PANELS.values() for name in names]
    assert sorted(shown) == sorted(filter(None, registered))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_our_commands(shell: str) -> None:
    typed = {"_GPULEDGER_COMPLETE": f"complete_{shell}", "COMP_WORDS": "gpuledger invo", "COMP_CWORD": "1",
             "_TYPER_COMPLETE_ARGS": "gpuledger invo", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}  # fmt: skip
    assert "invoice" in CliRunner().invoke(build(), [], env=typed, prog_name="gpuledger").output
