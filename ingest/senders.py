"""Who may push what: a YAML file of senders, each with a token and permissions; reloaded when it changes.

senders:
  - name: gpu-1
    token: "at least 16 characters"        # or token_sha256: its hash, so that the file is no secret
    records: [samples, metrics, findings, devices]     # or all
    clusters: [c1]                                      # or all
    nodes: [gpu-1]                                      # names or patterns, or all
    services: [chat-*]                                  # of service_levels; absent: none, or all with nodes: all
    back: 7d                                            # or all; absent: 7d, of events 31d
    past: held                                          # or refused: rows of the past that it may not write by itself
    inventory: false                                    # true: it may say where devices stand, their model and pool
kubernetes:
  audience: gpuledger
  kubeconfig: admin.conf                                # absent: this pod's service account
  accounts:
    - account: gpuledger/gpuledger-agent                # namespace/name of a service account
      records: [samples, metrics, findings, devices]
      clusters: [c1]
      nodes: own                                        # the node that its token is bound to
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ingest.errors import IngestError
from ingest.permissions import ALL, Names, Permissions
from ingest.reviews import Account, Reviewer, Reviews, is_web_token
from ingest.token_file import Reread, Tokened, digest_of
from warehouse.durations import seconds_of
from warehouse.records import RECORD_TYPES
from warehouse.written_files import first_error, read_yaml

log = logging.getLogger(__name__)
HINT = "See docs/agent.md for an example"
MODE = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
LONGEST = 99_999 * timedelta(days=1)


def _span(value: Any) -> Any:
    """`12h` or `2d` as a duration."""
    if value == ALL or value is None:
        return value
    with contextlib.suppress(ValueError):
        if 0 < (seconds := seconds_of(str(value))) <= LONGEST.total_seconds():
            return timedelta(seconds=seconds)
    raise ValueError(f"found {str(value)[:40]!r}; expected 12h, 2d or all")


Some = tuple[Annotated[str, Field(min_length=1, max_length=300)], ...]
OneOrMore = Annotated[Some, Field(min_length=1)]
"""Not empty: an empty list would refuse everything that the sender pushes."""


class Rights(BaseModel):
    """The permissions of a sender as the file states them. What is not stated is not allowed."""

    model_config = MODE

    records: OneOrMore | Literal["all"]
    clusters: OneOrMore | Literal["all"]
    nodes: OneOrMore | Literal["all", "own"]
    services: Some | Literal["all"] = ()
    back: Annotated[timedelta | Literal["all"] | None, BeforeValidator(_span)] = None
    past: Literal["held", "refused"] = "held"
    inventory: bool = False

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        for name, before in (("records", "all"), ("clusters", "all"), ("nodes", "all")):
            if isinstance(given, dict) and name not in given:
                raise ValueError(f"{name} is missing; it used to default to {before}. List them, or write all")
        return given

    @model_validator(mode="after")
    def _known(self) -> Rights:
        unknown = sorted(set(self.records) - set(RECORD_TYPES)) if self.records != ALL else []
        if unknown:
            raise ValueError(f"no record type {', '.join(unknown)}; there are {', '.join(RECORD_TYPES)}")
        return self

    @property
    def permissions(self) -> Permissions:
        nodes: Names = () if self.nodes == "own" else self.nodes
        return Permissions(self.records, self.clusters, nodes, self.services, self.back, self.past, self.inventory)


class _Entry(Tokened, Rights):
    name: Annotated[str, Field(min_length=1, max_length=100)]

    @model_validator(mode="after")
    def _whole(self) -> _Entry:
        if not self.has_one:
            raise ValueError("one of token and token_sha256 is needed")
        if self.nodes == "own":
            raise ValueError("nodes: own is for kubernetes accounts, whose tokens name a node; name the node here")
        return self


class _Account(Rights):
    account: Annotated[str, Field(pattern=r"^[a-z0-9.-]{1,63}/[a-z0-9.-]{1,253}$")]


class Kubernetes(BaseModel):
    """How tokens of service accounts are reviewed. kubeconfig: of the API server; None: this pod's own account."""

    model_config = MODE

    audience: Annotated[str, Field(min_length=1, max_length=300)]
    kubeconfig: Path | None = None
    context: str = ""
    accounts: Annotated[tuple[_Account, ...], Field(min_length=1)]


class _File(BaseModel):
    model_config = MODE

    senders: tuple[_Entry, ...] = ()
    kubernetes: Kubernetes | None = None

    @model_validator(mode="after")
    def _distinct(self) -> _File:
        accounts = [] if self.kubernetes is None else [one.account for one in self.kubernetes.accounts]
        names = [*(one.name for one in self.senders), *accounts]
        for values, what in ((names, "name"), ([s.digest for s in self.senders], "token")):
            if len(set(values)) < len(values):
                raise ValueError(f"two senders have the same {what}")
        return self


@dataclass(frozen=True)
class Sender:
    """name: shown as the source of its rows.   permissions: what it may write."""

    name: str
    permissions: Permissions


Connect = Callable[[Kubernetes], Reviewer]
"""Makes what asks an API server about tokens."""


class Senders:
    """The senders of a file, reloaded when it changes. If the new version is invalid, the old one stays in force; an
    empty one has no senders.

    connect: called if the file has a kubernetes section.
    Errors: IngestError if the file cannot be read the first time.
    """

    def __init__(self, path: Path, connect: Connect | None = None) -> None:
        self._path, self._connect = path, connect
        self._reread = Reread(path)
        file = _read(path)
        if not file.senders and file.kubernetes is None:
            what = "nobody may send anything; name at least one, or kubernetes accounts"
            raise IngestError(str(path), f"senders: {what}", HINT)
        self._take(file)

    def of(self, token: str) -> Sender | None:
        """The sender with this token, among those with tokens in the file. Looked up by hash, so timing reveals
        nothing."""
        self._refresh()
        return self._tokens.get(digest_of(token))

    def named(self, name: str) -> Sender | None:
        """The current permissions of a sender, for rows that it sent earlier; None if it may no longer send."""
        self._refresh()
        for sender in self._tokens.values():
            if sender.name == name:
                return sender
        account, _, node = name.partition("@")
        entry = self._accounts.get(account)
        if entry is None or (entry.nodes == "own") != bool(node):
            return None
        return Sender(name, entry.permissions.on_node(node) if node else entry.permissions)

    def reviewable(self, token: str) -> bool:
        """Whether an API server can review this token."""
        return self._reviews is not None and is_web_token(token)

    async def reviewed(self, token: str, address: str) -> Sender | None:
        """The service account with this token, as the API server confirms; None: none. May take seconds, unless the
        answer is cached.

        address: of the client.   Errors: ReviewError if it may not send, or if the API server cannot be asked now.
        """
        reviews, accounts = self._reviews, self._accounts
        account = None if reviews is None else await reviews.of(token, address)
        return None if account is None else _sender(accounts[account.name], account)

    def _refresh(self) -> None:
        self._reread.if_changed(self._read_again)

    def _read_again(self) -> None:
        try:
            self._take(_read(self._path))
            log.info("receive: %s read again: %d senders", self._path, len(self._tokens) + len(self._accounts))
        except IngestError as error:
            log.error("receive: %s; the previous senders stay in force", error)

    def _take(self, file: _File) -> None:
        reviews = None
        accounts: Mapping[str, _Account] = {}
        if file.kubernetes is not None:
            if self._connect is None:
                raise IngestError(str(self._path), "kubernetes: cannot be used here", HINT)
            accounts = {one.account: one for one in file.kubernetes.accounts}
            reviews = Reviews(self._connect(file.kubernetes), accounts)
        self._tokens = {one.digest: Sender(one.name, one.permissions) for one in file.senders}
        self._reviews, self._accounts = reviews, accounts


def _sender(entry: _Account, account: Account) -> Sender:
    """Errors: ReviewError if it may write about its own node only, and its token is not bound to one."""
    if entry.nodes != "own":
        return Sender(entry.account, entry.permissions)
    return Sender(f"{entry.account}@{account.known_node}", entry.permissions.on_node(account.known_node))


def _read(path: Path) -> _File:
    document = read_yaml(path, "a list of senders", HINT, IngestError)
    try:
        return _File.model_validate(document)
    except ValidationError as error:
        raise first_error(str(path), error, _File, IngestError, HINT, secret=True, content=document) from None
