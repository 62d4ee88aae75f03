"""The command line. Exit 0: done; 1: the answer is no; 2: unusable input, with one line that says what to do."""

from __future__ import annotations

import functools
import importlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gpuledger import __version__
from gpuledger.commands import COMMANDS, PANELS
from gpuledger.output import complain
from warehouse.errors import LedgerError
from warehouse.private_files import keep_private


class _InPanels(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return [name for names in PANELS.values() for name in names]


app = typer.Typer(
    name="gpuledger",
    cls=_InPanels,
    help="Who held the GPUs, who used them, what it cost, and what went wrong.",
    no_args_is_help=True,
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
    panel_of = {name: panel for panel, names in PANELS.items() for name in names}
    for command in app.registered_commands:
        command.rich_help_panel = panel_of[command.name or ""]
    for group in app.registered_groups:
        group.rich_help_panel = panel_of[group.name or ""]
    return app


def main(arguments: list[str] | None = None) -> None:
    keep_private()
    run(build(), arguments)


def _forget_output() -> None:
    """What could not be written would be tried again when the interpreter ends, with a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(command: Callable[..., Any], arguments: list[str] | None) -> None:
    """Runs the app; an error of ours, or of what it writes to, is one line and an exit status, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the locale cannot write
    try:
        try:
            command(args=arguments)
        finally:
            sys.stdout.flush()
    except LedgerError as error:
        complain(str(error))
        sys.exit(2)
    except FileNotFoundError as error:
        complain(f"{error.filename}: no such file. Check the path from {Path.cwd()}")
        sys.exit(2)
    except ModuleNotFoundError as error:
        complain(f"this installation has no {error.name}: it is for agents only. Next: pip install 'gpuledger[server]'")
        sys.exit(2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        # 1 would say that the answer is no.
        if error.filename:
            complain(f"{error.filename}: {error.strerror}")
        else:
            complain(f"output: {error.strerror or error}. The output is incomplete")
            _forget_output()
        sys.exit(2)
    except KeyboardInterrupt:
        complain("interrupted; run the same command again to continue")
        sys.exit(130)
