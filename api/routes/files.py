"""Applied files: what another version would change, and applying it (api.stated)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from api import stated
from api.caller import Caller, SetBudgets, SetPrices
from api.strict import Body, StrictRoute
from api.values import plain
from gpuledger import documents

router = APIRouter(route_class=StrictRoute)
Text = Annotated[str, Field(max_length=stated.FILE_CHARACTERS)]


class StatedFile(Body):
    """yaml: the file, as the command line reads it (docs/contracts.md).   reason: kept where it is applied."""

    yaml: Text
    reason: Annotated[str, Field(max_length=1000)] = ""


@router.post("/rates/cards", tags=["rates"], status_code=201)
def apply_card(caller: SetPrices, file: StatedFile) -> documents.Applied:
    """Checks a rate card and puts it in force; the same card again changes nothing."""
    return _apply(caller, stated.RATES, file)


@router.post("/rates/cards/check", tags=["rates"])
def check_card(caller: SetPrices, file: StatedFile) -> documents.Compared:
    """What a rate card would change, in words and in the cost of the closed hours; changes nothing."""
    return _compare(caller, stated.RATES, file)


@router.post("/tenants/mapping", tags=["tenants"], status_code=201)
def apply_tenants(caller: SetPrices, file: StatedFile) -> documents.Applied:
    """Checks a tenants' mapping and puts it in force; the same again changes nothing."""
    return _apply(caller, stated.TENANTS, file)


@router.post("/tenants/mapping/check", tags=["tenants"])
def check_tenants(caller: SetPrices, file: StatedFile) -> documents.Compared:
    """What a tenants' mapping would change, and whose closed hours would go to whom; changes nothing."""
    return _compare(caller, stated.TENANTS, file)


@router.post("/budgets", tags=["budgets"], status_code=201)
def set_budgets(caller: SetBudgets, file: StatedFile) -> documents.Applied:
    """Checks a budgets file and puts it in force; the same again changes nothing."""
    return _apply(caller, stated.BUDGETS, file)


@router.post("/budgets/check", tags=["budgets"])
def check_budgets(caller: SetBudgets, file: StatedFile) -> documents.Compared:
    """What a budgets file would change; changes nothing."""
    return _compare(caller, stated.BUDGETS, file)


@router.post("/objectives", tags=["objectives"], status_code=201)
def set_objectives(caller: SetBudgets, file: StatedFile) -> documents.Applied:
    """Checks a file of objectives and puts it in force; the same again changes nothing."""
    return _apply(caller, stated.OBJECTIVES, file)


@router.post("/objectives/check", tags=["objectives"])
def check_objectives(caller: SetBudgets, file: StatedFile) -> documents.Compared:
    """What a file of objectives would change; changes nothing."""
    return _compare(caller, stated.OBJECTIVES, file)


@router.post("/energy/settings", tags=["ledger"], status_code=201)
def set_energy(caller: SetPrices, file: StatedFile) -> documents.Applied:
    """Checks carbon intensities, PUE and idle power and puts them in force; the same again changes nothing."""
    return _apply(caller, stated.ENERGY, file)


@router.post("/energy/settings/check", tags=["ledger"])
def check_energy(caller: SetPrices, file: StatedFile) -> documents.Compared:
    """What another file of energy settings would change; changes nothing."""
    return _compare(caller, stated.ENERGY, file)


@router.post("/parties", tags=["invoices"], status_code=201)
def set_parties(caller: SetPrices, file: StatedFile) -> documents.Applied:
    """Checks the seller's and the buyers' details and puts them in force; the same again changes nothing."""
    return _apply(caller, stated.PARTIES, file)


@router.post("/parties/check", tags=["invoices"])
def check_parties(caller: SetPrices, file: StatedFile) -> documents.Compared:
    """What other details of the parties would change; changes nothing."""
    return _compare(caller, stated.PARTIES, file)


def _apply(caller: Caller, kind: stated.Kind, file: StatedFile) -> documents.Applied:
    parsed = stated.read(kind, file.yaml)
    with caller.writing() as store:
        new = stated.apply(store, kind, parsed, caller.principal.actor, file.reason, caller.now)
    return documents.Applied(version=parsed.version, new=new)


def _compare(caller: Caller, kind: stated.Kind, file: StatedFile) -> documents.Compared:
    found = stated.compare(caller.store, kind, stated.read(kind, file.yaml))
    effect = [plain(dict(row)) for row in found.effect]
    return documents.Compared(
        version=found.version, before=found.before, new=found.new, diff=list(found.diff), changes=list(found.changes),
        effect=effect,
    )  # fmt: skip
