"""Copies a folder of backups to a bucket of any S3-compatible store, and fetches them again to restore one.

    s3://BUCKET/PREFIX[?endpoint=URL&region=NAME]     one store's backups, in the layout of `warehouse.backup`

The engine's own `BACKUP ... TO S3` waits for minutes on a target that does not answer, and takes its secret from the
statement or from a file that we would have to write. Arrow's client, which is installed anyway, has short timeouts, and
takes credentials from where AWS's own tools do (environment, profile, role), so that none is in an argument, a log or a
table.

A file is uploaded unless one of its name and size is there: backups are never written again. So a copy that was
interrupted continues. A backup's manifest goes last; without it there is no backup.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, urlsplit

from warehouse.backup import (
    CLOCK,
    COPIED,
    MANIFEST,
    WHOLE,
    Backup,
    BackupError,
    backups,
    held,
    leftovers,
    parsed_manifest,
    refuse_mixed,
)
from warehouse.store import EmbeddedStore, Store

if TYPE_CHECKING:
    from pyarrow.fs import S3FileSystem

S = TypeVar("S")
T = TypeVar("T")
CONNECT_SECONDS, CHECK_SECONDS, STALLED_SECONDS = 5, 10, 60
"""How long to wait for a connection, for the answer to the first request, and for the next byte of any other one."""
ATTEMPTS = 3
AT_ONCE = 8
CHUNK = 1 << 20
AWS_ERROR = re.compile(
    r"AWS Error (?P<code>\w+)(?: \(HTTP status \d+\))? during (?P<call>\w+) operation:\s*(?P<text>.*)"
)


@dataclass(frozen=True)
class Bucket:
    """root: BUCKET/PREFIX.   endpoint, region: empty for those of the environment (AWS_ENDPOINT_URL, AWS_REGION)."""

    url: str
    root: str
    endpoint: str = ""
    region: str = ""

    def check(self) -> None:
        """Errors: BackupError if it does not answer at once, is not there, or refuses."""
        with self._errors():
            files = self._opened(CHECK_SECONDS, attempts=1)
            bucket = self.root.partition("/")[0]
            if not files.get_file_info(bucket).type:
                raise BackupError(self.url, f"there is no bucket {bucket}", "Create it, or name another")

    def backups(self) -> list[Backup]:
        """Those that are there, the oldest first.   Errors: BackupError."""
        with self._errors():
            names = sorted(name for name in self._folders() if not name.startswith(WHOLE))
            texts = _at_once(self._manifest, names)
        return [
            parsed_manifest(text, f"{self.root}/{name}/{MANIFEST}", Backup)
            for name, text in zip(names, texts, strict=True)
            if text is not None
        ]

    def copy(self, folder: Path) -> list[Backup]:
        """Copies the backups of a folder that are newer than those in the bucket. Answers which.

        Errors: BackupError, also if those in the bucket are of another store, or newer than all of the folder.
        """
        with held(folder):
            there, here = self.backups(), backups(folder)
            refuse_mixed(there, here[-1].store if here else "", self.url)
            newest = max((one.name for one in there), default="")
            if here and here[-1].name < newest:
                raise BackupError(f"s3://{self.root}/{newest}", "is newer than all in the folder", CLOCK)
            missing = [one for one in here if one.name > newest]
            for one in missing:
                self._upload(folder, one.whole)
                self._upload(folder, one.name)
            if here:
                (folder / COPIED).write_text(f"{self.url} {here[-1].name}\n", encoding="utf-8")
        return missing

    def fetch(self, name: str, folder: Path) -> Backup:
        """Downloads a backup, with the whole copy that it rests on, into a folder.

        name: of the backup; empty: the newest.   Errors: BackupError.
        """
        made = {one.name: one for one in self.backups()}
        if not made:
            raise BackupError(self.url, "holds no backup", "Make one: gpuledger backup FOLDER --bucket URL")
        if name and name not in made:
            raise BackupError(f"backup {name}", "is not there", f"Choose from {', '.join(sorted(made)[-5:])}")
        backup = made[name or max(made)]
        with self._errors():
            for part in (backup.whole, backup.name):
                names = [f"{part}/{name}" for name in self._sizes(part)]
                if not names:
                    raise BackupError(f"{self.root}/{part}", "is gone", "Choose another backup")
                _at_once(partial(self._download, folder), names)
        return backup

    def forget(self, keep: int) -> Sequence[Backup]:
        """Removes all but the newest, and whole copies on which none of those rests. Answers which."""
        made = self.backups()
        old, kept = made[:-keep], made[-keep:]
        with self._errors():
            files = self._files
            for one in old:
                # The manifest first: without it the rest is no backup any more.
                files.delete_file(f"{self.root}/{one.name}/{MANIFEST}")
                files.delete_dir(f"{self.root}/{one.name}")
            for name in leftovers(self._folders(), kept):
                files.delete_dir(f"{self.root}/{name}")
        return old

    def _upload(self, folder: Path, part: str) -> None:
        """One folder of a backup, as far as it is not there."""
        with self._errors():
            there = self._sizes(part)
            paths = [path for path in sorted((folder / part).rglob("*")) if path.is_file()]
            names = {path.relative_to(folder / part).as_posix(): path for path in paths}
            missing = [name for name, path in names.items() if there.get(name) != path.stat().st_size]
            files = self._files

            def put(name: str) -> None:
                with names[name].open("rb") as source, files.open_output_stream(f"{self.root}/{part}/{name}") as target:
                    shutil.copyfileobj(source, target, CHUNK)

            _at_once(put, [name for name in missing if name != MANIFEST])
            if MANIFEST in missing:
                put(MANIFEST)

    def _download(self, folder: Path, name: str) -> None:
        if name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise BackupError(f"{self.root}/{name}", "leads out of its folder", "Remove it: it is no part of a backup")
        path = folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._files.open_input_stream(f"{self.root}/{name}") as source, path.open("wb") as target:
            shutil.copyfileobj(source, target, CHUNK)

    def _manifest(self, name: str) -> str | None:
        path = f"{self.root}/{name}/{MANIFEST}"
        files = self._files
        if not files.get_file_info(path).is_file:
            return None
        with files.open_input_stream(path) as source:
            return bytes(source.read()).decode("utf-8", "replace")

    def _folders(self) -> list[str]:
        return [path.removesuffix("/") for path in self._sizes("", recursive=False)]

    def _sizes(self, part: str, recursive: bool = True) -> dict[str, int]:
        """Bytes of each file below a folder; without `recursive` what is right in it, folders as well."""
        from pyarrow.fs import FileSelector, FileType

        top = f"{self.root}/{part}".removesuffix("/")
        found = self._files.get_file_info(FileSelector(top, allow_not_found=True, recursive=recursive))
        return {
            one.path.removeprefix(f"{top}/"): one.size or 0
            for one in found
            if one.type == FileType.File or not recursive
        }

    @cached_property
    def _files(self) -> S3FileSystem:
        return self._opened(STALLED_SECONDS, ATTEMPTS)

    def _opened(self, stalled_seconds: int, attempts: int) -> S3FileSystem:
        from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

        return S3FileSystem(
            endpoint_override=self.endpoint or None,
            region=self.region or None,
            connect_timeout=CONNECT_SECONDS,
            request_timeout=stalled_seconds,
            background_writes=False,
            # One request for a small file, in place of three.
            allow_delayed_open=True,
            retry_strategy=AwsStandardS3RetryStrategy(max_attempts=attempts),
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Arrow's errors as a line each."""
        try:
            yield
        except OSError as error:
            what, next_step = _told(" ".join(str(error).split()))
            raise BackupError(self.url, what, next_step) from error


def bucket_beside(folder: Path | None, url: str) -> str:
    """The URL of a server's bucket, to which its folder of backups is copied.   Errors: BackupError."""
    if url and folder is None:
        raise BackupError("--backups-bucket", "is a copy of a folder, and there is none", "Name it with --backups")
    if url:
        bucket_of(url)
    return url


def bucket_of_server(store: Store) -> Bucket | None:
    """To which the backups of a server's store are copied."""
    return bucket_of(store.bucket) if isinstance(store, EmbeddedStore) and store.bucket else None


def bucket_of(url: str) -> Bucket:
    """The bucket that a URL names.   Errors: BackupError, which does not repeat a secret."""
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc:
        shown = url if "@" not in url else "--bucket"
        raise BackupError(shown, "is no bucket", "As in s3://BUCKET/PREFIX?endpoint=https://minio:9000")
    if "@" in parts.netloc:
        raise BackupError(
            "--bucket", "has credentials in it, which others would see", "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY"
        )
    options = parse_qsl(parts.query)
    wanted = dict(options)
    if len(wanted) < len(options):
        raise BackupError("--bucket", "has an option twice", "Give endpoint and region once each")
    if unknown := sorted(wanted.keys() - {"endpoint", "region"}):
        raise BackupError("--bucket", f"{unknown[0]} is no option", "Choose from endpoint, region")
    endpoint = wanted.get("endpoint", "")
    if endpoint and urlsplit(endpoint).scheme not in ("http", "https"):
        raise BackupError("--bucket", f"endpoint {endpoint} is no address", "As in endpoint=https://minio:9000")
    root = f"{parts.netloc}{parts.path}".rstrip("/")
    return Bucket(f"s3://{root}", root, endpoint, wanted.get("region", os.environ.get("AWS_REGION", "")))


def _at_once(work: Callable[[S], T], items: Iterable[S]) -> list[T]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, items))


def _told(text: str) -> tuple[str, str]:
    """What went wrong, and the next step."""
    found = AWS_ERROR.search(text)
    if found is None:
        return text[:300], "Try again; what was copied stays"
    code, call, said = found["code"], found["call"], found["text"][:200]
    if code == "NETWORK_CONNECTION":
        return f"cannot be reached ({said})", "Check the endpoint and the network"
    if code in ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_CLIENT_TOKEN_ID"):
        return f"refuses {call} ({code})", "Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and what they may do"
    return f"{call} failed: {code}: {said}", "Try again; what was copied stays"
