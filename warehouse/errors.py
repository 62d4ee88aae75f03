"""The base error of the product: one line that says where, what and the next step."""

from __future__ import annotations


class LedgerError(Exception):
    """Input, configuration or state that gpuledger cannot use.

    The command line prints `where: what. next_step` and exits 2. Every package's own errors derive from this.
    """

    def __init__(self, where: str, what: str, next_step: str = "") -> None:
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
