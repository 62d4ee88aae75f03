"""Opens the access store that belongs to a warehouse, and upgrades it."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from access.settings import AccessSettings
from access.store import AccessStore, connect, connect_unmigrated
from access.upgrade import move_from_warehouse
from warehouse.store import EmbeddedStore, Store

log = logging.getLogger(__name__)
VARIABLE = "GPULEDGER_ACCESS_STORE"
PASSWORD_FILE_VARIABLE = "GPULEDGER_ACCESS_STORE_PASSWORD_FILE"  # noqa: S105 (names a file)
FILE = "access.sqlite"


def open_access(warehouse: Store, settings: AccessSettings | None = None) -> AccessStore:
    """The access store of a warehouse, created or upgraded, including data that earlier versions kept in the
    warehouse."""
    access = connect(*_address(warehouse, settings or AccessSettings()), warehouse)
    try:
        move_from_warehouse(access, datetime.now(UTC))
        access.send_notes()
    except BaseException:
        access.close()
        raise
    return access


@contextlib.contextmanager
def opened_read_only(warehouse: Store, settings: AccessSettings | None = None) -> Iterator[AccessStore | None]:
    """The access store as it is, to read from; None: no server has made it yet."""
    access = connect_unmigrated(*_address(warehouse, settings or AccessSettings()), warehouse)
    try:
        yield access
    finally:
        if access is not None:
            access.close()


def _address(warehouse: Store, settings: AccessSettings) -> tuple[str, Path | None]:
    """Where it is, and the file of its password."""
    named = os.environ.get(PASSWORD_FILE_VARIABLE, "")
    address = os.environ.get(VARIABLE, "") or settings.access_store or _default_address(warehouse)
    return address, Path(named) if named else settings.access_store_password_file


def _default_address(warehouse: Store) -> str:
    """The default address of the access store."""
    parts = urlsplit(warehouse.url)
    if isinstance(warehouse, EmbeddedStore):
        if parts.netloc:
            return "sqlite://"
        folder = Path(parts.path)
        folder.chmod(0o700)
        return f"sqlite:///{folder / FILE}"
    state = os.environ.get("STATE_DIRECTORY", "") or str(Path.home() / ".local" / "share" / "gpuledger")
    # A cluster's nodes may be named in another order tomorrow.
    where = warehouse.cluster or f"{parts.hostname}-{parts.port or 8123}"
    of = re.sub(r"[^A-Za-z0-9.-]", "_", f"{where}-{warehouse.database}")
    path = Path(state.partition(":")[0]) / f"access-{of}.sqlite"
    log.warning(
        "access store: %s holds users, tokens and sessions, on this machine alone; where several servers or machines "
        "use this ClickHouse store, set %s=postgresql://... on each (docs/access.md)", path, VARIABLE,
    )  # fmt: skip
    return f"sqlite:///{path}"
