"""The command line. Exit 0: done; 1: the answer is no; 2: unusable input, with one line that says what to do."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuledger import __version__
from gpuledger.commands import COMMANDS
from gpuledger.output import complain
from warehouse.errors import LedgerError
from warehouse.private_files import keep_private

app = typer.Typer(
    name="gpuledger",
    help="Who held the GPUs, who used them, what it cost, and what went wrong.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_tell_version)
    ] = False,
) -> None: ...


@functools.cache
def build() -> typer.Typer:
    """The app with every command that can be imported here; a node with the agent alone has only the agent's."""
    for module in COMMANDS:
        importlib.import_module(f"gpuledger.commands.{module}").register(app)
    return app


def main(arguments: list[str] | None = None) -> None:
    keep_private()
    run(build(), arguments)


def run(command: Callable[..., Any], arguments: list[str] | None) -> None:
    """Runs the app; an error of ours or a broken pipe is one line and an exit status, never a traceback."""
    try:
        command(args=arguments)
    except LedgerError as error:
        complain(str(error))
        sys.exit(2)
    except FileNotFoundError as error:
        complain(f"{error.filename}: no such file. Check the path from {Path.cwd()}")
        sys.exit(2)
    except ModuleNotFoundError as error:
        complain(f"this installation has no {error.name}: it is an agent's. Next: pip install 'gpuledger[server]'")
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except KeyboardInterrupt:
        complain("interrupted; running the same command again carries on")
        sys.exit(130)
