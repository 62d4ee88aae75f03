"""Runs commands as a person types them, in this process."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from gpuledger.cli import build
from warehouse.errors import LedgerError


def run(command: str, *more: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(build(), [*command.split(), *more], input=typed)


def listed(command: str, url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(command, "--store", url, "--format", "json").stdout)
    return found


def refused(command: str, *more: str, typed: str | None = None) -> str:
    """The line in which it was."""
    done = run(command, *more, typed=typed)
    assert isinstance(done.exception, LedgerError), done.output
    assert "\n" not in str(done.exception)
    return str(done.exception)
