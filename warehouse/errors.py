"""The base error of the product: one line that says where, what and the next step."""

from __future__ import annotations

import re

_NUMBERED = re.compile(r"""\[Errno -?\d+\] ([^:'"]+)(?:: (['"])(.*?)\2)?""")
"""As Python words a failed call: `[Errno 2] No such file or directory: 'prices.yaml'`."""


def _without_numbers(what: str, where: str) -> str:
    """What the system says of a failed call, without its number and the path that `where` has already."""

    def shorter(found: re.Match[str]) -> str:
        said, _, path = found.groups()
        return said if path is None or path in where else f"{said}: {path}"

    return _NUMBERED.sub(shorter, what)


class LedgerError(Exception):
    """Input, configuration or state that gpuledger cannot use.

    The command line prints `where: what. next_step` and exits 2. Every package's own errors derive from this.
    """

    def __init__(self, where: str, what: str, next_step: str = "") -> None:
        what = _without_numbers(what, where)
        self.where, self.what, self.next_step = where, what, next_step
        # What another program said may be a sentence already.
        stop = "" if what.endswith((".", "?", "!")) else "."
        super().__init__(f"{where}: {what}" + (f"{stop} {next_step}" if next_step else ""))


class StoreError(LedgerError):
    """The store cannot be opened or refused a statement."""


class StoreHeldError(StoreError):
    """Another process holds the embedded store."""


class UnansweredError(LedgerError):
    """Another program was asked to do something and did not say whether it did."""
