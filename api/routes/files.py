"""Applied files: what another version would change, and applying it (api.applied_files)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from api import applied_files
from api.caller import Caller, SetBudgets, SetPrices
from api.strict import Body, StrictRoute
from gpuledger import documents
from warehouse.json_values import as_json

router = APIRouter(route_class=StrictRoute)
Text = Annotated[str, Field(max_length=applied_files.FILE_CHARACTERS)]


class AppliedFile(Body):
    """yaml: the file, as the command line reads it (docs/contracts.md).   reason: kept where it is applied."""

    yaml: Text
    reason: Annotated[str, Field(max_length=1000)] = ""


@router.post("/rates/cards", tags=["rates"], status_code=201)
def apply_card(caller: SetPrices, file: AppliedFile) -> documents.Applied:
    """Checks a rate card and puts it in force; the same card again changes nothing."""
    return _apply(caller, applied_files.RATES, file)


@router.post("/rates/cards/check", tags=["rates"])
def check_card(caller: SetPrices, file: AppliedFile) -> documents.Compared:
    """What a rate card would change, in words and in the cost of the closed hours; changes nothing."""
    return _compare(caller, applied_files.RATES, file)


@router.post("/tenants/mapping", tags=["tenants"], status_code=201)
def apply_tenants(caller: SetPrices, file: AppliedFile) -> documents.Applied:
    """Checks a tenants' mapping and puts it in force; the same again changes nothing."""
    return _apply(caller, applied_files.TENANTS, file)


@router.post("/tenants/mapping/check", tags=["tenants"])
def check_tenants(caller: SetPrices, file: AppliedFile) -> documents.Compared:
    """What another tenant mapping would change, and which closed hours would go to which tenant; changes nothing."""
    return _compare(caller, applied_files.TENANTS, file)


@router.post("/budgets", tags=["budgets"], status_code=201)
def set_budgets(caller: SetBudgets, file: AppliedFile) -> documents.Applied:
    """Checks a budgets file and puts it in force; the same again changes nothing."""
    return _apply(caller, applied_files.BUDGETS, file)


@router.post("/budgets/check", tags=["budgets"])
def check_budgets(caller: SetBudgets, file: AppliedFile) -> documents.Compared:
    """What a budgets file would change; changes nothing."""
    return _compare(caller, applied_files.BUDGETS, file)


@router.post("/objectives", tags=["objectives"], status_code=201)
def set_objectives(caller: SetBudgets, file: AppliedFile) -> documents.Applied:
    """Checks a file of objectives and puts it in force; the same again changes nothing."""
    return _apply(caller, applied_files.OBJECTIVES, file)


@router.post("/objectives/check", tags=["objectives"])
def check_objectives(caller: SetBudgets, file: AppliedFile) -> documents.Compared:
    """What a file of objectives would change; changes nothing."""
    return _compare(caller, applied_files.OBJECTIVES, file)


@router.post("/energy/settings", tags=["ledger"], status_code=201)
def set_energy(caller: SetPrices, file: AppliedFile) -> documents.Applied:
    """Checks carbon intensities, PUE and idle power and puts them in force; the same again changes nothing."""
    return _apply(caller, applied_files.ENERGY, file)


@router.post("/energy/settings/check", tags=["ledger"])
def check_energy(caller: SetPrices, file: AppliedFile) -> documents.Compared:
    """What another file of energy settings would change; changes nothing."""
    return _compare(caller, applied_files.ENERGY, file)


@router.post("/parties", tags=["invoices"], status_code=201)
def set_parties(caller: SetPrices, file: AppliedFile) -> documents.Applied:
    """Checks the seller's and the buyers' details and puts them in force; the same again changes nothing."""
    return _apply(caller, applied_files.PARTIES, file)


@router.post("/parties/check", tags=["invoices"])
def check_parties(caller: SetPrices, file: AppliedFile) -> documents.Compared:
    """What other details of the parties would change; changes nothing."""
    return _compare(caller, applied_files.PARTIES, file)


def _apply(caller: Caller, kind: applied_files.Kind, file: AppliedFile) -> documents.Applied:
    parsed = applied_files.read(kind, file.yaml)
    with caller.writing() as store:
        new = applied_files.apply(store, kind, parsed, caller.principal.actor, file.reason, caller.now)
    return documents.Applied(version=parsed.version, new=new)


def _compare(caller: Caller, kind: applied_files.Kind, file: AppliedFile) -> documents.Compared:
    found = applied_files.compare(caller.store, kind, applied_files.read(kind, file.yaml))
    effect = [as_json(dict(row)) for row in found.effect]
    return documents.Compared(
        version=found.version, before=found.before, new=found.new, diff=list(found.diff), changes=list(found.changes),
        effect=effect,
    )  # fmt: skip
