"""How people sign in: a YAML file.

url: https://gpuledger.example.org          # how browsers reach us; the provider sends them back there
session_hours: 8
session_key_file: /etc/gpuledger/session.key  # 32 bytes or more; absent: one that the access store keeps
local_users: true                           # those of `gpuledger users`
owner_seen_days: 90                         # tokens of single-sign-on users who have not signed in for longer stop
trusted_proxies: [10.0.0.0/8]               # whose X-Forwarded-For and X-Forwarded-Proto are trusted
access_store: postgresql://gpuledger@db.example.org/access   # absent: a file of SQLite
access_store_password_file: /etc/gpuledger/access.password
oidc:
  issuer: https://login.example.org/realms/main
  client_id: gpuledger
  client_secret_file: /etc/gpuledger/oidc.secret
  scopes: [openid, profile, email]
  name_claim: email
  groups_claim: groups
  roles: {gpu-admins: admin, controlling: finance, gpu-users: tenant}    # by group
  tenants: {vision-team: [vision]}            # by group
  tenant_prefix: "tenant-"                    # and: group tenant-speech sees speech
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from access.roles import AccessError, Role
from warehouse.written_files import first_error, read_yaml
from warehouse.written_model import Written

HINT = "See docs/access.md for an example"
MODE = ConfigDict(extra="forbid", frozen=True)
SHORTEST_KEY = 32


def network(text: str) -> str:
    """An address or a network in CIDR, as it was given. Errors: ValueError for anything else."""
    try:
        ip_network(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither an address nor a network, such as 10.0.0.7 or 10.0.0.0/8") from None
    return text


class Oidc(BaseModel):
    """The provider, and what its groups mean here."""

    model_config = MODE

    issuer: str
    client_id: Annotated[str, Field(min_length=1)]
    client_secret_file: Path | None = None
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = "email"
    groups_claim: str = "groups"
    roles: dict[str, Role]
    tenants: dict[str, tuple[str, ...]] = {}
    tenant_prefix: str = ""

    @field_validator("issuer")
    @classmethod
    def _reachable(cls, issuer: str) -> str:
        parts = urlsplit(issuer)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost")):
            raise ValueError("an https:// address (http:// on this machine alone)")
        return issuer.rstrip("/")

    def roles_of(self, groups: Iterable[str]) -> frozenset[Role]:
        return frozenset(self.roles[group] for group in groups if group in self.roles)

    def tenants_of(self, groups: Iterable[str]) -> frozenset[str]:
        groups = list(groups)
        read = {tenant for group in groups for tenant in self.tenants.get(group, ())}
        prefix = self.tenant_prefix
        named = {group.removeprefix(prefix) for group in groups if prefix and group.startswith(prefix)}
        return frozenset((read | named) - {""})


class _File(Written):
    model_config = MODE

    url: str = ""
    session_hours: Annotated[float, Field(gt=0, le=24 * 30)] = 8
    session_key_file: Path | None = None
    local_users: bool = True
    owner_seen_days: Annotated[float, Field(gt=0, le=3660)] = 90
    trusted_proxies: tuple[Annotated[str, AfterValidator(network)], ...] = ()
    access_store: str = ""
    access_store_password_file: Path | None = None
    oidc: Oidc | None = None

    @model_validator(mode="after")
    def _some_way_in(self) -> _File:
        if not self.local_users and self.oidc is None:
            raise ValueError("nobody could sign in: local_users is false and there is no oidc")
        if self.oidc is not None and urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError("oidc needs url: how browsers reach us, such as https://gpuledger.example.org")
        return self


@dataclass(frozen=True)
class AccessSettings:
    """sign_in False: anybody who reaches the server may do everything (for a server on loopback).

    url: how browsers reach us; empty: as their requests say.   key: of signed cookies; None: one in the access store.
    owner_seen: how long tokens of single-sign-on users stay valid after their owner's last sign-in.
    trusted_proxies: addresses and networks whose X-Forwarded-For and X-Forwarded-Proto are trusted.
    access_store: its address; empty: a file.
    """

    sign_in: bool = False
    url: str = ""
    session: timedelta = timedelta(hours=8)
    key: bytes | None = field(default=None, repr=False)
    local_users: bool = True
    oidc: Oidc | None = None
    client_secret: str = field(default="", repr=False)
    owner_seen: timedelta = timedelta(days=90)
    trusted_proxies: tuple[str, ...] = ()
    access_store: str = ""
    access_store_password_file: Path | None = None


def load_access(path: Path) -> AccessSettings:
    """The settings of a file. Errors: AccessError naming the key and what fits."""
    document = read_yaml(path, "sign-in settings", HINT, AccessError)
    try:
        read = _File.model_validate(document)
    except ValidationError as error:
        raise first_error(str(path), error, _File, AccessError, HINT, secret=True, content=document) from None
    key = _secret(read.session_key_file, path)
    if key is not None and len(key) < SHORTEST_KEY:
        raise AccessError(str(read.session_key_file), f"has {len(key)} bytes", f"A key has {SHORTEST_KEY} or more")
    secret = _secret(read.oidc.client_secret_file, path) if read.oidc else None
    return AccessSettings(
        sign_in=True,
        url=read.url.rstrip("/"),
        session=timedelta(hours=read.session_hours),
        key=key,
        local_users=read.local_users,
        oidc=read.oidc,
        client_secret=(secret or b"").decode().strip(),
        owner_seen=timedelta(days=read.owner_seen_days),
        trusted_proxies=read.trusted_proxies,
        access_store=read.access_store,
        access_store_password_file=path.parent / password if (password := read.access_store_password_file) else None,
    )


def with_trusted_proxies(settings: AccessSettings, proxies: Sequence[str]) -> AccessSettings:
    """The settings with further trusted proxies. Errors: AccessError for what is no address and no network."""
    try:
        more = tuple(network(one) for one in proxies)
    except ValueError as error:
        raise AccessError("--trusted-proxy", str(error), "Give the addresses of your own proxies alone") from None
    return replace(settings, trusted_proxies=(*settings.trusted_proxies, *more))


def _secret(path: Path | None, beside: Path) -> bytes | None:
    if path is None:
        return None
    try:
        return (beside.parent / path).read_bytes().strip()
    except OSError as error:
        raise AccessError(
            str(path), f"cannot be read ({error.strerror})", "It holds a secret; see docs/access.md"
        ) from error
