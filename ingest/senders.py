"""Who may push what: a YAML file of senders, each with a token; read again when it changes.

senders:
  - name: agents-c1
    token: "at least 16 characters"        # or token_sha256: its hash, so that the file is no secret
    records: [samples, metrics, findings, devices]     # absent: all
    clusters: [c1]                                      # absent: any
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import threading
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ingest.errors import IngestError
from warehouse.records import RECORD_TYPES
from warehouse.written_files import read_yaml

log = logging.getLogger(__name__)
HINT = "See docs/agent.md for an example"
MODE = ConfigDict(extra="forbid", frozen=True)


class Sender(BaseModel):
    """name: shown as the source of what it sent.   records, clusters: what it may send; None: any."""

    model_config = MODE

    name: Annotated[str, Field(min_length=1, max_length=100)]
    token: Annotated[str, Field(min_length=16)] | None = Field(None, repr=False)
    token_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    records: tuple[str, ...] | None = None
    clusters: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _whole(self) -> Sender:
        if (self.token is None) == (self.token_sha256 is None):
            raise ValueError("one of token and token_sha256 is needed")
        unknown = sorted(set(self.records or ()) - set(RECORD_TYPES))
        if unknown:
            raise ValueError(f"no record type {', '.join(unknown)}; there are {', '.join(RECORD_TYPES)}")
        return self

    @property
    def digest(self) -> bytes:
        if self.token_sha256 is not None:
            return bytes.fromhex(self.token_sha256)
        return _digest(self.token or "")


class _File(BaseModel):
    model_config = MODE

    senders: Annotated[tuple[Sender, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _distinct(self) -> _File:
        for values, what in (([s.name for s in self.senders], "name"), ([s.digest for s in self.senders], "token")):
            if len(set(values)) < len(values):
                raise ValueError(f"two senders have the same {what}")
        return self


class Senders:
    """The senders of a file. A change that cannot be read leaves those in force that were.

    Errors: IngestError if the file cannot be read at first.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp = _stamp(path)
        self._senders = _read(path)

    def of(self, token: str) -> Sender | None:
        """Whose token it is. Takes as long for a wrong one as for a right one, wherever it differs."""
        self._refresh()
        digest = _digest(token)
        found = None
        for sender in self._senders:
            if hmac.compare_digest(sender.digest, digest):
                found = sender
        return found

    def _refresh(self) -> None:
        with self._lock:
            stamp = _stamp(self._path)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                self._senders = _read(self._path)
                log.info("receive: %s read again: %d senders", self._path, len(self._senders))
            except IngestError as error:
                log.error("receive: %s; the senders of before stay in force", error)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", errors="surrogateescape")).digest()


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: Path) -> tuple[Sender, ...]:
    document = read_yaml(path, "a list of senders", HINT, IngestError)
    try:
        return _File.model_validate(document).senders
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        # Without what was found there: it may be a token.
        raise IngestError(str(path), f"{at + ': ' if at else ''}{first['msg']}", HINT) from None
