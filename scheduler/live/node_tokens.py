"""Which agent speaks for which node: a YAML file with a token for each, read again when it changes.

agents:
  - {node: gpu-1, token_sha256: "..."}     # or token: at least 16 characters
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import threading
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from warehouse.errors import LedgerError
from warehouse.written_files import first_error, read_yaml

log = logging.getLogger(__name__)
HINT = "See docs/scheduler-live.md for an example"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Agent(_Part):
    node: Annotated[str, Field(min_length=1)]
    token: Annotated[str, Field(min_length=16)] | None = Field(None, repr=False)
    token_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if (self.token is None) == (self.token_sha256 is None):
            raise ValueError(f"agent of {self.node}: one of token and token_sha256 is needed")
        return self

    @property
    def digest(self) -> bytes:
        return bytes.fromhex(self.token_sha256) if self.token_sha256 is not None else _digest(self.token or "")


class _File(_Part):
    agents: Annotated[tuple[_Agent, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _apart(self) -> Self:
        digests = [agent.digest for agent in self.agents]
        if len(set(digests)) < len(digests):
            raise ValueError("two agents have the same token; give each node its own")
        return self


class NodeTokens:
    """Errors: LedgerError if the file says nothing that can be used at the start; later the one before stays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp = _stamp(path)
        self._nodes = _read(path)

    def may(self, token: str, node: str) -> bool | None:
        """Whether the token is the node's; None: it is nobody's. Takes as long for a wrong one as for a right one."""
        self._refresh()
        digest = _digest(token)
        owner = None
        for known, its_node in self._nodes:
            if hmac.compare_digest(known, digest):
                owner = its_node
        return None if owner is None else owner == node

    def _refresh(self) -> None:
        with self._lock:
            stamp = _stamp(self._path)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            try:
                self._nodes = _read(self._path)
                log.info("agents: %s read again", self._path)
            except LedgerError as error:
                log.error("%s; the agents of before stay in force", error)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", errors="surrogateescape")).digest()


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: Path) -> list[tuple[bytes, str]]:
    document = read_yaml(path, "a list of agents", HINT, LedgerError)
    try:
        file = _File.model_validate(document)
    except ValidationError as error:
        raise first_error(str(path), error, _File, LedgerError, HINT, secret=True) from None
    return [(agent.digest, agent.node) for agent in file.agents]
