"""Objectives as people write them in YAML.

objectives:
  - name: train-wait
    kind: queue_wait              # of what is asked for, `target` starts within the bound
    match: {queue: "train-*"}
    within: 30m
    target: "0.95"
    window: 28d
    owner: platform@example.org
    credit: {steps: [{below: "0.95", percent: "5"}, {below: "0.90", percent: "10"}]}
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, Field, ValidationError, model_validator

from alerts.slo.errors import SloError
from billing.rates.globs import expression
from billing.rates.policies import DecimalText, Part, Percent, WholeFile
from warehouse.durations import Seconds
from warehouse.written_files import first_error, read_yaml
from warehouse.written_model import Number

INADMISSIBLE = ("Deactivated", "Inadmissible", "Misconfigured", "NoMatchingFlavor", "OnHold", "Suspended")
"""Reasons for waiting that are the workload's own fault: its request does not count as owed."""
HOUR, DAY = 3600, 86_400
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,79}$")]
Glob = Annotated[str, Field(min_length=1)]
Ratio = Annotated[DecimalText, Field(gt=0, lt=1)]
Below = Annotated[DecimalText, Field(gt=0, le=1)]
Bound = Annotated[Seconds, Field(gt=0, strict=False)]


class Match(Part):
    """Whom an objective is about: a glob for each; absent = any. Services are matched by service, not by queue."""

    cluster: Glob = "*"
    tenant: str = "*"
    queue: str = "*"
    service: Glob = "*"


class Step(Part):
    """So many percent of the month's charges where less than `below` was good."""

    below: Below
    percent: Percent


class Credit(Part):
    """What a tenant is offered for a month in which the objective was missed; the highest step that applies.

    least_coverage: least known part of the month; with less nothing is offered, and the month is listed as not judged.
    """

    steps: Annotated[tuple[Step, ...], Field(strict=False, min_length=1)]
    least_coverage: Below = Decimal("0.9")


class Objective(Part):
    """What all kinds have.

    target: least good part of what is known.        window: over which the error budget is counted.
    at_least: least that must be known (in the kind's unit) before anything is judged; for a burn rate, in its window.
    """

    unit: ClassVar[str]
    books: ClassVar[bool] = False
    """Whether it is measured from the books, and so is known until the last closed hour and no further."""

    name: Name
    kind: str
    match: Match = Match()
    target: Ratio
    window: Annotated[Seconds, Field(ge=HOUR, le=90 * DAY, strict=False)] = 28 * DAY
    at_least: Annotated[Number, Field(ge=0, strict=False)] = 1.0
    owner: str = ""
    credit: Credit | None = None

    def measured(self) -> dict[str, Any]:
        """What decides on the points: without the target, the window and who is notified."""
        return self.model_dump(mode="json", exclude={"target", "window", "at_least", "owner", "credit"})

    @property
    def definition(self) -> str:
        """A hash of what decides on the points: a new target keeps the series, a new bound begins another."""
        return hashlib.sha256(_json(self.measured()).encode()).hexdigest()[:12]

    def row(self) -> dict[str, Any]:
        """A row of slo_definitions."""
        return {
            "definition": self.definition,
            "name": self.name,
            "kind": self.kind,
            "unit": self.unit,
            "books": self.books,
            "cluster": expression(self.match.cluster),
            "tenant": expression(self.match.tenant),
            "queue": expression(self.match.queue),
            "service": expression(self.match.service),
            "target": float(self.target),
            "window_seconds": self.window,
            "at_least": self.at_least,
            "owner": self.owner,
            **self._measures(),
        }

    def _measures(self) -> dict[str, Any]:
        return {}


class QueueWait(Objective):
    """Of what was submitted, how much started within the bound. What was withdrawn before counts for neither."""

    unit = "allocations"
    kind: Literal["queue_wait"]
    within: Bound

    def _measures(self) -> dict[str, Any]:
        return {"bound": float(self.within), "since": "submitted"}


class CompletionTime(Objective):
    """Of what was submitted (or started), how much finished within the bound. What failed or was taken is neither."""

    unit = "allocations"
    kind: Literal["completion_time"]
    within: Bound
    since: Literal["submitted", "started"] = "submitted"

    def _measures(self) -> dict[str, Any]:
        return {"bound": float(self.within), "since": self.since}


class JobSuccess(Objective):
    """Of what ended by itself, how much finished; excluded_reasons: globs of reasons of failure that do not count."""

    unit = "allocations"
    kind: Literal["job_success"]
    excluded_reasons: Annotated[tuple[Glob, ...], Field(strict=False)] = ()

    def _measures(self) -> dict[str, Any]:
        return {"reasons": [expression(glob) for glob in self.excluded_reasons]}


class Latency(Objective):
    """Of the time in which a service had requests, how much its quantile (absent: mean) was at most `at_most_seconds`.

    interpolate: believe the value also where the bound lies within the histogram's bucket; else that is not known.
    """

    unit = "seconds"
    kind: Literal["latency"]
    metric: Glob
    quantile: Annotated[DecimalText, Field(gt=0, lt=1)] | None = None
    at_most_seconds: DecimalText
    interpolate: bool = False

    def _measures(self) -> dict[str, Any]:
        return {
            "bound": float(self.at_most_seconds),
            "metric": self.metric,
            "quantile": None if self.quantile is None else float(self.quantile),
            "interpolate": self.interpolate,
        }


class ErrorRate(Objective):
    """Of a service's requests, how many were answered without an error: target "0.999" allows one in a thousand."""

    unit = "requests"
    kind: Literal["error_rate"]


class QuotaRedemption(Objective):
    """Of what a tenant was entitled to, how much it got. Entitled at an instant: what is guaranteed, but no more than
    it holds and, admissibly, asks for. Tenants are the scheduler's, before the payers' mapping."""

    unit = "GPU-seconds"
    books = True
    kind: Literal["quota_redemption"]
    guaranteed_gpus: Annotated[Number, Field(gt=0, strict=False)]
    inadmissible_reasons: Annotated[tuple[Glob, ...], Field(strict=False)] = INADMISSIBLE

    def _measures(self) -> dict[str, Any]:
        reasons = [expression(glob) for glob in self.inadmissible_reasons]
        return {"bound": self.guaranteed_gpus, "reasons": reasons}


class MeteringCoverage(Objective):
    """Of the GPU-time that a tenant held, how much was metered."""

    unit = "GPU-seconds"
    books = True
    kind: Literal["metering_coverage"]


Kind = QueueWait | CompletionTime | JobSuccess | Latency | ErrorRate | QuotaRedemption | MeteringCoverage
KINDS: dict[str, type[BaseModel]] = {
    "queue_wait": QueueWait,
    "completion_time": CompletionTime,
    "job_success": JobSuccess,
    "latency": Latency,
    "error_rate": ErrorRate,
    "quota_redemption": QuotaRedemption,
    "metering_coverage": MeteringCoverage,
}


class ObjectivesFile(WholeFile):
    """A whole file."""

    objectives: Annotated[tuple[Annotated[Kind, Field(discriminator="kind")], ...], Field(strict=False)]

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        for name, times in Counter(objective.name for objective in self.objectives).items():
            if times > 1:
                raise ValueError(f"two objectives are called {name!r}")
        return self

    def canonical(self) -> str:
        """The content as JSON, keys in order, with its defaults: files of before were hashed with them."""
        return _json(self.model_dump(mode="json"))


def load_objectives(path: Path | str) -> ObjectivesFile:
    """Reads a file from YAML. Errors: SloError naming the key, what was found there and what fits."""
    content = read_yaml(path, "a file of objectives", "It starts with the key objectives", SloError)
    return parse_objectives(content, str(path))


def parse_objectives(content: dict[str, Any], where: str = "objectives") -> ObjectivesFile:
    """Objectives from what the YAML holds. Errors: SloError with the first thing that does not fit."""
    try:
        return ObjectivesFile.model_validate(content)
    except ValidationError as mistake:
        raise first_error(where, mistake, ObjectivesFile, SloError, "See docs/slo.md", content=content) from mistake


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
