"""Shared by files with tokens: a token or its hash for each entry, and reloading when the file changes."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field


class Tokened(BaseModel):
    """An entry with a token, or with its SHA-256."""

    token: Annotated[str, Field(min_length=16)] | None = Field(None, repr=False)
    token_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None

    @property
    def has_one(self) -> bool:
        """Whether it says one of them, not both."""
        return (self.token is None) != (self.token_sha256 is None)

    @property
    def digest(self) -> bytes:
        return bytes.fromhex(self.token_sha256) if self.token_sha256 is not None else digest_of(self.token or "")


def digest_of(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", errors="surrogateescape")).digest()


class Reread:
    """Notices when a file has changed. Create it before the first read; safe to use from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp = self._now()

    def if_changed(self, read: Callable[[], None]) -> None:
        """Calls `read` once after each change, and again where that fails; others wait for it meanwhile."""
        with self._lock:
            stamp = self._now()
            if stamp != self._stamp:
                read()
                self._stamp = stamp

    def _now(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino
