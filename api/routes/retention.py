"""How long rows of the store are kept, and the removal of those that are older."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from api.caller import BackUp, SeeFleet
from api.strict import Body, StrictRoute
from billing import retention
from gpuledger import documents

router = APIRouter(tags=["retention"], route_class=StrictRoute)
EvenInvoiced = Annotated[bool, Query(description="Also samples that issued invoices are verified from.")]


class WantedRetention(Body):
    """keep: by kind of rows, for how many days from their arrival; null: for good."""

    keep: dict[str, int | None] = Field(max_length=10)
    reason: str = Field("", max_length=1000)


class WantedRemoval(Body):
    """even_invoiced: also samples that issued invoices are verified from."""

    even_invoiced: bool = False
    reason: str = Field("", max_length=1000)


@router.get("/retention")
def retention_(caller: SeeFleet, even_invoiced: EvenInvoiced = False) -> documents.Retention:
    """How long rows are kept, and what a removal would take now."""
    with caller.whole_store() as store:
        return documents.Retention.model_validate(retention.retention(store, caller.now, even_invoiced))


@router.post("/retention")
def set_retention(caller: BackUp, wanted: WantedRetention) -> documents.Retention:
    """Sets how long rows are kept; those of kinds that it does not name, as before. Removes no samples."""
    with caller.writing() as store:
        retention.set_days(store, wanted.keep, caller.principal.actor, wanted.reason, caller.now)
        return documents.Retention.model_validate(retention.retention(store, caller.now))


@router.post("/retention/removal")
def remove_old(caller: BackUp, wanted: WantedRemoval) -> documents.Retention:
    """Removes what is due, and answers what that was."""
    with caller.writing() as store:
        actor = caller.principal.actor
        found = retention.remove(store, actor, caller.now, wanted.even_invoiced, wanted.reason)
    return documents.Retention.model_validate(found)
