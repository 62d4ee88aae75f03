"""Commands as a person types them, in this process."""

from __future__ import annotations

import functools
import importlib
import json
from typing import Any

import typer
from typer.testing import CliRunner, Result

from gpuledger.commands import COMMANDS
from warehouse.errors import LedgerError


@functools.cache
def whole() -> typer.Typer:
    """The app with all commands, without those that other tests gave it."""
    app = typer.Typer()
    for module in COMMANDS:
        importlib.import_module(f"gpuledger.commands.{module}").register(app)
    return app


def run(command: str, *more: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(whole(), [*command.split(), *more], input=typed)


def listed(command: str, url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(command, "--store", url, "--format", "json").stdout)
    return found


def refused(command: str, *more: str, typed: str | None = None) -> str:
    """The line in which it was."""
    done = run(command, *more, typed=typed)
    assert isinstance(done.exception, LedgerError), done.output
    assert "\n" not in str(done.exception)
    return str(done.exception)
