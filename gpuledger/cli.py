"""The command line: finds a command's module, runs it, and turns errors into one line and an exit status.

Exit 0: done; 1: the answer is no; 2: unusable input, with one line that says what to do; 130: interrupted; 141: the
reader of the output has closed it.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import io
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gpuledger import __version__
from gpuledger.commands import COMMANDS
from gpuledger.options import refuse_impossible
from gpuledger.output import AGAIN, INTERRUPTED, ROWS, complain, limit_rows
from warehouse.errors import LedgerError
from warehouse.private_files import keep_private

READER_GONE = 141
"""128 + SIGPIPE, as a shell reports it: the reader of the output, such as `head`, has closed it."""

EXTRAS = {"httpx": "client", "aiohttp": "agent", "grpc": "agent", "google": "agent", "mcp": "mcp"}
"""The extra that brings a module; `server` brings the others."""

MAY_BE_EMPTY = {
    "by": "no dimension: the total alone",
    "command": "a word of a job's command",
    "description": "none",
    "evidence": "none",
    "identity": "everything, such as a driver",
    "statement": "no statement, which is refused as such",
    "reason": "none; where one is needed, the command says so",
    "why": "none",
}
"""Options and arguments for which an empty text is a value, and which."""


class _Commands(TyperGroup):
    """Imports a command's modules when the command is used; listing all commands imports none."""

    _lists = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        return _listed(cmd_name) if self._lists else _imported(COMMANDS[cmd_name].modules)[cmd_name]

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_values(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except typer.TyperException as error:
            if near := difflib.get_close_matches(args[0], COMMANDS):
                error.message = f"{error.message.rstrip('.')}. Did you mean {', '.join(map(repr, near))}?"
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._listing():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._listing():
            return super().shell_complete(ctx, incomplete)

    @contextlib.contextmanager
    def _listing(self) -> Iterator[None]:
        self._lists = True
        try:
            yield
        finally:
            self._lists = False


def _listed(name: str) -> TyperCommand:
    """A command's line in `--help`."""
    entry = COMMANDS[name]
    return TyperCommand(name, help=entry.help, short_help=entry.help, rich_help_panel=entry.panel)


@functools.cache
def _imported(modules: tuple[str, ...]) -> dict[str, Any]:
    """The commands of these modules, by name."""
    of_modules = typer.Typer(pretty_exceptions_enable=False)
    for module in modules:
        importlib.import_module(f"gpuledger.commands.{module}").register(of_modules)
    found = dict(typer.main.get_group(of_modules).commands)
    for command in found.values():
        _limited(command)
    return found


def _without_values(params: Iterable[Any]) -> list[Any]:
    """Flags without the type that typer shows in `--help`: they take no value."""
    found = list(params)
    for param in found:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return found


def _limited(command: Any) -> None:
    """Gives `--limit` to whatever has `--format`, unless it has one of its own; refuses nan and inf as numbers,
    folders that cannot be, and empty texts; flags show no type."""
    listed = command.get_params
    command.get_params = lambda context: _without_values(listed(context))
    options = {name for one in command.params for name in one.opts}
    for param in command.params:
        if "float" in str(param.type_descriptor.annotation):
            param.callback = _finite
        elif not param.type_descriptor.parameter_info.file_okay and param.callback is None:
            param.callback = _folder
    refuse_empty(command)
    if "--format" in options and "--limit" not in options:
        command.params.append(_limit())
    for below in getattr(command, "commands", {}).values():
        _limited(below)


def refuse_empty(command: Any) -> None:
    """Has a command refuse an empty text: of a shell's variable that is not set, as if the option were not there."""
    for param in command.params:
        if param.name not in MAY_BE_EMPTY:
            param.process_value = functools.partial(_given, param, param.process_value)


class Careful(TyperGroup):
    """A group whose commands refuse empty texts."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        for command in self.commands.values():
            refuse_empty(command)


def _given(param: Any, process: Callable[[Any, Any], Any], context: Any, value: Any) -> Any:
    """The value of an option or argument.   Errors: LedgerError if it was typed and is empty."""
    if context.get_parameter_source(param.name).name == "COMMANDLINE":  # not the environment, nor a default
        texts = value if isinstance(value, list | tuple) else (value,)
        if any(isinstance(text, str) and not text.strip() for text in texts):
            where = param.opts[0] if param.param_type_name == "option" else param.metavar or param.name
            raise LedgerError(where, "is empty", "If a shell variable stands there, is it set?")
    return process(context, value)


def _finite(context: Any, param: Any, value: float | None) -> float | None:
    """nan is within any range.   Errors: typer.BadParameter"""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a number that counts.", ctx=context, param=param)
    return value


def _folder(context: Any, param: Any, value: Path | None) -> Path | None:
    """Errors: LedgerError for one that is not there and cannot be made."""
    if value is not None:
        refuse_impossible(param.opts[0], value)
    return value


@functools.cache
def _limit() -> Any:
    alone = typer.Typer()

    @alone.command()
    def rows(
        limit: Annotated[
            int,
            typer.Option(
                min=0, expose_value=False, callback=limit_rows,
                help="Rows of a table; 0 shows all. JSON and CSV always have all.",
            ),
        ] = ROWS,
    ) -> None: ...  # fmt: skip

    return next(one for one in typer.main.get_command(alone).params if one.name == "limit")


CONTEXT = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    name="gpuledger",
    cls=_Commands,
    help="Who held the GPUs, who used them, what it cost, and what went wrong.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None: ...


def build() -> typer.Typer:
    """The app. Any installation lists all commands; those it cannot run say what to install."""
    return app


def main(arguments: list[str] | None = None) -> None:
    keep_private()
    run(build(), arguments)


def _forget_output() -> None:
    """Discards unwritten output: the interpreter would try to write it again on exit, and print a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _answer(command: Callable[..., Any], arguments: list[str] | None) -> None:
    """Exits with the command's status. 1 means that the answer is no; where typer means an error, it becomes 2."""
    try:
        status = command(args=arguments, standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        if said := error.format_message():  # not where no argument means help, which is printed already
            said = said.replace("Value error, ", "").rstrip(".")
            end = "" if said.endswith("?") else "."
            complain(said + (f"{end} See: {context.command_path} --help" if context else ""))
        sys.exit(2)
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):
            sys.exit(READER_GONE)
        raise
    if status == INTERRUPTED:  # what typer makes of Ctrl-C, without a word
        raise KeyboardInterrupt
    sys.exit(status)


def extra_of(module: str) -> str:
    """The smallest extra of the distribution that brings a module."""
    return EXTRAS.get(module.partition(".")[0], "server")


def run(command: Callable[..., Any], arguments: list[str] | None) -> None:
    """Runs the app; an expected error, or one in writing the output, is one line and a status, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the locale cannot write
    try:
        try:
            _answer(command, arguments)
        finally:
            sys.stdout.flush()
    except LedgerError as error:
        complain(str(error))
        sys.exit(2)
    except FileNotFoundError as error:
        complain(f"{error.filename}: no such file. Check the path from {Path.cwd()}")
        sys.exit(2)
    except ModuleNotFoundError as error:
        complain(f"this installation has no {error.name}. Next: pip install 'gpuledger[{extra_of(error.name or '')}]'")
        sys.exit(2)
    except BrokenPipeError as gone:  # only the last lines are lost, the result is known
        sys.stderr.close()
        sys.exit(gone.__context__.code if isinstance(gone.__context__, SystemExit) else READER_GONE)
    except OSError as error:
        # Not 1, which means that the answer is no.
        if error.filename:
            complain(f"{error.filename}: {error.strerror}")
        else:
            complain(f"output: {error.strerror or error}. The output is incomplete")
            _forget_output()
        sys.exit(2)
    except KeyboardInterrupt:
        complain(AGAIN)
        sys.exit(INTERRUPTED)
