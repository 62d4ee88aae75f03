"""Backups of an embedded store, in the folder that the server was started with."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fastapi import APIRouter

from api.caller import BackUp, Caller, SeeFleet
from api.strict import Body, StrictRoute
from billing import audit
from billing.writers import nobody_writing
from gpuledger import documents
from warehouse.backup import Backup, BackupError, Quiet, back_up, backups, folder_of, forget
from warehouse.bucket import Bucket, bucket_of_server
from warehouse.store import EmbeddedStore, Store

router = APIRouter(tags=["backups"], route_class=StrictRoute)
log = logging.getLogger(__name__)


class WantedBackup(Body):
    """whole: a whole copy, also where little changed since the last one.   check: whether to compare the last one with
    its checksums, before this rests on it."""

    whole: bool = False
    check: bool = True


@router.get("/backups")
def backups_(caller: SeeFleet) -> list[documents.Backup]:
    """The backups in the server's folder, the oldest first."""
    return [documents.Backup.model_validate(one) for one in backups(folder_of(caller.store))]


@router.post("/backups")
def make(caller: BackUp, wanted: WantedBackup) -> documents.Backup:
    """Makes one now; pushes and the close wait while what changed since the last whole one is copied. Then it is copied
    to the server's bucket, if it has one, and old ones are removed, if it keeps so many (--backups-keep)."""
    try:
        bucket = bucket_of_server(caller.store)
        made = back_up(caller.store, caller.now, _quiet(caller), wanted.whole, wanted.check)
        audit.record(caller.store, caller.now, caller.principal.actor, "backup.make", made.name)
        _copy_and_remove(caller, made, bucket)
    except BackupError as error:
        log.error("backup: %s", error)  # whoever asked may be gone by now
        raise
    done = documents.Backup.model_validate(made)
    return done.model_copy(update={"bucket": bucket.url}) if bucket else done


def _quiet(caller: Caller) -> Quiet:
    @contextmanager
    def nobody_changing(store: Store) -> Iterator[None]:
        """Not during a whole copy, which takes long. Who changes rules, rates or silences does so in this process."""
        with caller.writing(), nobody_writing(store):
            yield

    return nobody_changing


def _copy_and_remove(caller: Caller, made: Backup, bucket: Bucket | None) -> None:
    """Errors: BackupError, which says what is there."""
    folder = folder_of(caller.store)
    keep = caller.store.keep_backups if isinstance(caller.store, EmbeddedStore) else 0
    try:
        if bucket is not None:
            bucket.check()
            bucket.copy(folder)
        if keep:
            _log_removed(forget(folder, keep), str(folder))
        if keep and bucket is not None:
            _log_removed(bucket.forget(keep), bucket.url)
    except BackupError as error:
        what = f"{error.what}. {made.name} is in the server's folder"
        raise BackupError(error.where, what, error.next_step) from error


def _log_removed(old: Sequence[Backup], where: str) -> None:
    for one in old:
        log.info("backup: removed %s from %s", one.name, where)
