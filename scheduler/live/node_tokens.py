"""Which agent reports for which node: a YAML file with a token for each, reloaded when it changes.

agents:
  - {node: gpu-1, token_sha256: "..."}     # or token: at least 16 characters
"""

from __future__ import annotations

import hmac
import logging
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ingest.token_file import Reread, Tokened, digest_of
from warehouse.errors import LedgerError
from warehouse.written_files import first_error, read_yaml

log = logging.getLogger(__name__)
HINT = "See docs/scheduler-live.md for an example"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Agent(Tokened, _Part):
    node: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if not self.has_one:
            raise ValueError(f"agent of {self.node}: one of token and token_sha256 is needed")
        return self


class _File(_Part):
    agents: Annotated[tuple[_Agent, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _apart(self) -> Self:
        digests = [agent.digest for agent in self.agents]
        if len(set(digests)) < len(digests):
            raise ValueError("two agents have the same token; give each node its own")
        return self


class NodeTokens:
    """Errors: LedgerError if the file is invalid at the start; later, the previous tokens stay in force."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reread = Reread(path)
        self._nodes = _read(path)

    def may(self, token: str, node: str) -> bool | None:
        """Whether the token is the node's; None if it is no agent's. Compares in constant time."""
        self._reread.if_changed(self._reload)
        digest = digest_of(token)
        owner = None
        for known, its_node in self._nodes:
            if hmac.compare_digest(known, digest):
                owner = its_node
        return None if owner is None else owner == node

    def _reload(self) -> None:
        try:
            self._nodes = _read(self._path)
            log.info("agents: %s read again", self._path)
        except LedgerError as error:
            log.error("%s; the previous agents stay in force", error)


def _read(path: Path) -> list[tuple[bytes, str]]:
    document = read_yaml(path, "a list of agents", HINT, LedgerError)
    try:
        file = _File.model_validate(document)
    except ValidationError as error:
        raise first_error(str(path), error, _File, LedgerError, HINT, secret=True, content=document) from None
    return [(agent.digest, agent.node) for agent in file.agents]
