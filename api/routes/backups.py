"""Backups of an embedded store, in the folder that the server was started with."""

from __future__ import annotations

from fastapi import APIRouter

from api.caller import BackUp, SeeFleet
from api.strict import Body, StrictRoute
from billing import audit
from billing.writers import nobody_writing
from gpuledger import documents
from warehouse.backup import back_up, backups, folder_of
from warehouse.bucket import bucket_of_server

router = APIRouter(tags=["backups"], route_class=StrictRoute)


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
    to the server's bucket, if it has one."""
    bucket = bucket_of_server(caller.store)
    with caller.writing() as store:
        made = back_up(store, caller.now, nobody_writing, wanted.whole, wanted.check)
    audit.record(caller.store, caller.now, caller.principal.actor, "backup.make", made.name)
    if bucket is not None:
        bucket.copy(folder_of(caller.store))
    done = documents.Backup.model_validate(made)
    return done.model_copy(update={"bucket": bucket.url}) if bucket else done
