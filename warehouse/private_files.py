"""Permissions of the files we write: stores, spools, logs and state are readable by their user only; files that a user
asks for (`--out`) get the permissions of that user's umask.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

log = logging.getLogger(__name__)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk, or of what one may have of it."""
HOLDER = "holder"
"""The file in a locked folder that says who has it."""
_users_umask: int | None = None
"""The umask that the process was started with; None: it is still in effect."""


def keep_private() -> None:
    """Sets the umask so that new files are readable by this user only. Call it before anything is opened."""
    global _users_umask
    before = os.umask(0o077)
    if _users_umask is None:
        _users_umask = before


def users_umask() -> int:
    """The user's own umask, for files that they asked for and for processes started on their behalf."""
    if _users_umask is not None:
        return _users_umask
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def private_folder(path: Path) -> None:
    """Makes a folder that its user alone can enter, or closes one that is there.   Errors: OSError."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    mode = path.stat().st_mode & 0o777
    if not mode & 0o077:
        return
    try:
        path.chmod(0o700)
    except PermissionError:
        # A volume's own folder, which a group may share; what we make in it is private all the same.
        if mode & 0o007:
            log.warning("%s is open to every user of this machine. Close it: chmod 700 %s", path, path)


class HeldError(Exception):
    """Another process holds it. holder: which one, if it is known."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


def hold(folder: Path, who: str = "") -> IO[str]:
    """Makes a folder private and locks it for this process, until the file is closed or the process ends.

    who: how other processes' error messages name this one.   Errors: HeldError, OSError.
    """
    private_folder(folder)
    file = (folder / HOLDER).open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        holder = file.read().strip() or "an unknown process"
        file.close()
        raise HeldError(holder) from None
    with contextlib.suppress(OSError):  # a full disk: the lock holds without a name
        os.ftruncate(file.fileno(), 0)
        # Past the file's own buffer, which would try again when it is closed.
        os.write(file.fileno(), f"{who or f'process {os.getpid()}'}\n".encode())
    return file


def users_folder(path: Path) -> None:
    """Makes a folder, and those above it, with the permissions that the user's umask gives.   Errors: OSError."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in missing:
        one.chmod(0o777 & ~users_umask())


def users_file(path: str | os.PathLike[str], flags: int) -> int:
    """For `open(..., opener=users_file)`: a new file gets the permissions that the user's umask gives; one that is
    there keeps its own."""
    is_new = not os.path.exists(path)  # noqa: PTH110 (an opener is given what open was given)
    descriptor = os.open(path, flags, 0o600)
    if is_new:
        os.fchmod(descriptor, 0o666 & ~users_umask())
    return descriptor


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Lets an error in writing a file name it: of a full disk, the system does not say which file it was."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in FULL:
            error.filename = str(path)
        raise


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Writes a user's file atomically: it gets its name once it is complete; a failure leaves the old file in place.

    A terminal or a pipe is written directly.   Errors: OSError, which names the file.
    """
    with naming(path), _whole(path) as file:
        yield file


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    if path.exists() and not path.is_file():
        with open(path, "wb", opener=users_file) as straight:
            yield straight
        return
    target = path.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "wb", opener=users_file) as file:
            if target.exists():
                os.fchmod(file.fileno(), target.stat().st_mode & 0o777)
            yield file
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
