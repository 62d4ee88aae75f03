"""A process that dies in the middle of a command: from some write on, nothing reaches the store any more.

The store itself lives on, so that the next command finds what a kill -9 would have left: what was written before, and
the working tables of the dead. (tests/billing/test_kill.py kills real processes.)
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from warehouse.store import Store


class Death(BaseException):
    """Nothing catches it; what cleans up after it does not reach the store either."""


@dataclass
class Kill:
    """came: the command did not end before."""

    came: bool = False


@contextlib.contextmanager
def dying(store: Store, write: int, done: bool) -> Iterator[Kill]:
    """The block dies at its n-th write to the store. done: that write has reached it."""
    kill, kind, left = Kill(), type(store), [write]
    command, rows, arrow = kind.command, kind.rows, kind.arrow

    def writes(self: Store, *given: Any, **named: Any) -> None:
        left[0] -= 1
        if left[0] < 0 or (left[0] == 0 and not done):
            raise Death
        command(self, *given, **named)
        if left[0] == 0:
            raise Death

    def reads(method: Any) -> Any:
        def read(self: Store, *given: Any, **named: Any) -> Any:
            if left[0] <= 0:
                raise Death
            return method(self, *given, **named)

        return read

    with (
        patch.object(kind, "command", writes),
        patch.object(kind, "rows", reads(rows)),
        patch.object(kind, "arrow", reads(arrow)),
    ):
        try:
            yield kill
        except Death:
            kill.came = True
