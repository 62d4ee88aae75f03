"""To Python, true is 1 and false 0; to whoever writes a number in a file or a request, neither is one."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import access.settings
import alerts.acceptance.plan
import alerts.routing
import alerts.slo.objectives
import api.app
import billing.accounts.budget_file
import billing.rates
import collectors.agent.settings
import collectors.exporters.profile
import collectors.jobs.wire
import collectors.services.profile
import dashboards.reports.schedule
import ingest.senders
import scheduler.settings
from api.routes.access import WantedToken
from api.routes.alerts import Acknowledgement
from api.routes.retention import WantedRetention
from gpuledger.documents import Amount, Document, NowTotal, Number
from warehouse.durations import Seconds

READ = (access, alerts, api, billing, collectors, dashboards, ingest, scheduler)
"""Packages of which the models read what others wrote; all that are loaded here are tried."""
OUTPUT = ("api.paging", "api.problems", "api.routes")
"""Modules of which models that are no bodies are answers."""
NUMBERS = {int, float, Decimal, Fraction, timedelta}


def kinds(annotation: object) -> set[object]:
    if typing.get_origin(annotation) is typing.Literal:
        return {type(one) for one in typing.get_args(annotation)}
    arguments = typing.get_args(annotation)
    return set[object]().union(*map(kinds, arguments)) if arguments else {annotation}


def models(base: type[BaseModel] = BaseModel) -> Iterator[type[BaseModel]]:
    for one in base.__subclasses__():
        yield one
        yield from models(one)


def read_models() -> Iterator[type[BaseModel]]:
    packages = {one.__name__.partition(".")[0] for one in READ}
    for one in set(models()):
        is_body = issubclass(one, api.strict.Body) if one.__module__.startswith(OUTPUT) else True
        if one.__module__.partition(".")[0] in packages and is_body and not issubclass(one, Document):
            yield one


def test_no_field_of_a_request_or_a_file_takes_true_for_a_number() -> None:
    tried, taken = set(), []
    for model in read_models():
        for name, field in model.model_fields.items():
            of = kinds(field.annotation)
            if not of & NUMBERS or bool in of:
                continue
            tried.add((model, name))
            for value in (True, False, [True], {"a": False}):
                try:
                    model.__pydantic_validator__.validate_assignment(model.model_construct(), name, value)
                except ValidationError:
                    continue
                taken.append(f"{model.__module__}.{model.__name__}.{name} = {value}")
    assert taken == []
    assert {(Acknowledgement, "hours"), (WantedToken, "days"), (WantedRetention, "keep")} <= tried
    assert len(tried) > 100


@pytest.mark.parametrize(
    ("model", "given"),
    [(Acknowledgement, {"hours": True}), (WantedToken, {"name": "a", "days": True}),
     (WantedRetention, {"keep": {"samples": True}, "reason": "r"})],
)  # fmt: skip
def test_the_error_is_one_line_that_names_the_field(model: type[BaseModel], given: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(given)
    (error,) = caught.value.errors()
    assert (error["loc"][0] in given, error["msg"]) == (True, "expected a number, neither true nor false")


def test_a_duration_is_no_boolean() -> None:
    with pytest.raises(ValidationError, match="expected a duration like 90s"):
        TypeAdapter(Seconds).validate_python(True)


def test_an_answer_has_nine_digits_after_the_point_at_most() -> None:
    """Of GPU-hours, money, and what was measured; what has fewer keeps them."""
    waste, third = Decimal("8114.783581809903297"), 1 / 3
    found = NowTotal(waste=waste, billed_hour=Decimal("64.58"), gpus=3 * third, idle_gpus=37.892857142857146)
    shown = found.model_dump(mode="json")
    assert (shown["waste"], shown["billed_hour"], shown["list_hour"]) == ("8114.783581810", "64.58", None)
    assert (shown["gpus"], shown["idle_gpus"]) == (1.0, 37.892857143)
    assert found.waste == waste, "what is computed from it is computed from all of it"
    half, huge = Decimal("0.0000000025"), Decimal(f"{'9' * 29}.0000000001")
    assert NowTotal(waste=half).model_dump(mode="json")["waste"] == "0.000000002"
    assert NowTotal(waste=huge).model_dump(mode="json")["waste"] == f"{'9' * 29}.000000000"


def test_every_number_of_an_answer_is_one_of_the_two_kinds() -> None:
    found, bare = set(), []
    for model in models(Document):
        for name, hint in typing.get_type_hints(model, include_extras=True).items():
            given = {hint, *typing.get_args(hint)}
            found |= given & {Amount, Number}
            if given & {float, Decimal} and not given & {Amount, Number}:
                bare.append(f"{model.__name__}.{name}")
    assert (bare, found) == ([], {Amount, Number})
