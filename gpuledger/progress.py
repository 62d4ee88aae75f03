"""A progress bar on a terminal; nothing in a pipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuledger.output import console

if TYPE_CHECKING:
    from rich.progress import Progress


def bar(unit: str) -> Progress:
    """A progress bar, used as a context manager; its tasks count units such as rows."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    drawn = console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=drawn,
        transient=True,
        disable=not drawn.is_terminal,
    )
