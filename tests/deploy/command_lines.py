"""Command lines that somebody may copy: those of our documents, and whether the program understands one."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from gpuledger.cli import build

_ENDS = re.compile(r"(?:\s{4,}(?![\s-])|\s*(?:;|&&| \| | > | < | #)).*")
"""Where a command line ends: at a wide gap, and where the shell or a comment begins."""
_NOT_OURS = ("kubectl ", "kubectl-")
"""Programs in whose lines `gpuledger` is only a name."""


@functools.cache
def _program() -> Any:
    return typer.main.get_command(build())


def understood(arguments: Sequence[str]) -> None:
    """Errors: click's own for what is no command, no option of it, or lacks what it needs."""
    command, rest, context, name = _program(), list(arguments), None, "gpuledger"
    while hasattr(command, "get_command"):
        context = command.make_context(name, rest, parent=context)
        rest = [*context._protected_args, *context.args]
        if command.invoke_without_command and not rest:
            return
        found, command, rest = command.resolve_command(context, rest)
        assert command is not None, rest
        name = str(found)
    command.make_context(name, rest, parent=context)


def of_document(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number of the line, and the words after `gpuledger`, of each command line that is whole: those of indented
    lines, and those between backticks that have an option."""
    text = re.sub(r" *\\\n *", lambda cut: " " * len(cut[0]), path.read_text(encoding="utf-8"))
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("    ") and not line.strip().startswith(("#", *_NOT_OURS)):
            found = re.findall(r"(?:^ +(?:\S*/)?|[;&(] *|  )gpuledger (.+?)(?=;|$| {2}gpuledger)", line)
        elif line.startswith("|"):
            continue  # a table says what there is, in short
        else:
            found = [one for one in re.findall(r"`gpuledger ([^`]+)`", line) if " --" in one]
        for one in found:
            words = shlex.split(_ENDS.sub("", _first_choice(one)))
            yield number, words


def _first_choice(line: str) -> str:
    """What may be left out is there; of what is to be chosen from, the first is."""
    line = re.sub(r"(--[\w-]+ )(?:\.{3}|…)", r"\1x", line.replace("[", "").replace("]", ""))
    line = re.sub(r" (?:\.{3}|…)", "", line)
    return re.sub(r"(?<=[\w-])(?: \| |\|)[\w-]+(?: \| [\w-]+|\|[\w-]+)*", "", line)
