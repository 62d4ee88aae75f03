"""The next steps that lines for people name: whoever copies one must reach the store that was given to this command.

A store of the environment is there for the next command too; one given by `--store` is added to the commands that a
line names, where they take one.
"""

from __future__ import annotations

import re
import shlex
from contextvars import ContextVar
from typing import Any

import typer

_given: ContextVar[tuple[str, Any] | None] = ContextVar("a store given by --store", default=None)

_PASSWORD = re.compile(r"(?<=//)([^/:@]*):[^/@]*(?=@)")
_WORD = re.compile(r" ([a-z][a-z-]*)\b")
_VALUE = r"(?:'[^']*'|(?!--)[^\s,;()`']*[^\s,;()`'.])"
_REST = re.compile(rf"(?: (?:--[a-z-]+(?: {_VALUE})?|[a-z]+(?= [A-Z]{{2,}}\b)|[A-Z]{{2,}}\b(?:-[\w-]+)?|'[^']*'))*")
"""Options with their values, placeholders such as FILE, numbers of documents, and quoted names."""


def note_store(context: typer.Context, url: str) -> None:
    """Remembers the store if it stands on the command line of the command that runs now."""
    source = context.get_parameter_source("store")
    is_typed = bool(url) and source is not None and source.name == "COMMANDLINE"
    _given.set((url, context.find_root()) if is_typed else None)


def with_store(line: str) -> str:
    """The line, in which each command that takes a store names the one that was given by `--store`."""
    given = _given.get()
    if given is None or "--store" in line:
        return line
    url, root = given
    without_password = _PASSWORD.sub(r"\1", url)
    option = f" --store {shlex.quote(without_password)}"
    pieces, at = [], 0
    for found in re.finditer(r"(?<!\ba )\bgpuledger(?= [a-z])", line):
        if (end := _end_of_command(line, found.end(), root)) is not None:
            pieces += [line[at:end], option]
            at = end
    return "".join([*pieces, line[at:]])


def _end_of_command(line: str, at: int, root: Any) -> int | None:
    """Where the command ends whose words begin there; None if it needs no store (its help needs none), or is none."""
    command: Any = root.command
    while hasattr(command, "get_command") and (word := _WORD.match(line, at)):
        below = command.get_command(root, word[1])
        if below is None:
            break
        command, at = below, word.end()
    if command is root.command or not any("--store" in param.opts for param in command.params):
        return None
    rest = _REST.match(line, at)
    if rest and rest[0].endswith(" --help"):
        return None
    return rest.end() if rest else at
