"""Errors as ClickHouse's clients know them."""

from __future__ import annotations

import re

from warehouse.errors import LedgerError

READONLY, ACCESS_DENIED, UNKNOWN_FORMAT, SYNTAX_ERROR, TOO_MANY, BAD_ARGUMENTS = 164, 497, 73, 62, 202, 36
NOT_IMPLEMENTED, TIMEOUT, MEMORY, ENDED = 48, 159, 241, 1002
NAMES = {
    READONLY: "READONLY",
    ACCESS_DENIED: "ACCESS_DENIED",
    UNKNOWN_FORMAT: "UNKNOWN_FORMAT",
    SYNTAX_ERROR: "SYNTAX_ERROR",
    TOO_MANY: "TOO_MANY_SIMULTANEOUS_QUERIES",
    BAD_ARGUMENTS: "BAD_ARGUMENTS",
    NOT_IMPLEMENTED: "NOT_IMPLEMENTED",
    TIMEOUT: "TIMEOUT_EXCEEDED",
    MEMORY: "MEMORY_LIMIT_EXCEEDED",
    ENDED: "UNKNOWN_EXCEPTION",
}
STATUS = {
    READONLY: 403, ACCESS_DENIED: 403, UNKNOWN_FORMAT: 400, SYNTAX_ERROR: 400, TOO_MANY: 503, BAD_ARGUMENTS: 400,
    NOT_IMPLEMENTED: 400, TIMEOUT: 408, MEMORY: 500,
    47: 404, 46: 404, 60: 404, 81: 404, 43: 400, 42: 400, 53: 400, 215: 400, 456: 400, 457: 400,
    396: 400, 307: 400,
}  # fmt: skip
"""Of HTTP, by ClickHouse's code; of others 400, as it is the statement that the engine cannot run."""
OUR_OWN = frozenset({49, 1000, 1001, 1002})
"""Codes of faults that no statement should reach: 500."""

_AGREEMENT = re.compile(r": In scope SELECT ifNull\(formatQuerySingleLine.*?(?=\. \([A-Z_0-9]+\)|$)", re.DOTALL)
"""What the engine's message quotes of the question in agreement_sql, which no client asked."""


class SqlError(LedgerError):
    """A statement that is refused, or that the engine cannot run. code: ClickHouse's."""

    def __init__(self, code: int, what: str, next_step: str = "") -> None:
        super().__init__("sql", what, next_step)
        self.code = code

    @property
    def status(self) -> int:
        return STATUS.get(self.code, 500 if self.code in OUR_OWN else 400)

    def text(self) -> str:
        """As the engine writes its own."""
        if re.match(r"Code: \d+\. DB::Exception", self.what):
            return self.what
        more = f". {self.next_step}" if self.next_step else ""
        return f"Code: {self.code}. DB::Exception: {self.what}{more}. ({NAMES.get(self.code, 'ERROR')})"


def of_engine(message: str) -> SqlError:
    """The engine's own error, with its code."""
    text = message.strip().removeprefix("Streaming query failed: ")
    text = _AGREEMENT.sub("", text)
    found = re.search(r"Code: (\d+)", text)
    return SqlError(int(found[1]) if found else 1002, text[:4000])


def disagreement() -> SqlError:
    """Where the engine reads the text that came in another way than gpuledger does."""
    return SqlError(SYNTAX_ERROR, "the statement can be read in two ways", "Write it more plainly")
