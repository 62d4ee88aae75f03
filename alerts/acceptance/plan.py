"""The plan file: what to run and which thresholds apply."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, ValidationError

from alerts.errors import AlertError
from warehouse.written_files import first_error, read_yaml
from warehouse.written_model import Written

BUILT_IN = "builtin:"
STEPS_FOR_P99 = 300
"""A P99 of fewer steps means nothing."""


class Part(Written):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Load(Part):
    """A program. command: `builtin:NAME ARGUMENTS` (alerts.acceptance.load) or the site's own, not through a shell."""

    command: Annotated[tuple[str, ...], Field(min_length=1)]
    environment: Mapping[str, str] = Field(default_factory=dict)

    @property
    def is_built_in(self) -> bool:
        return self.command[0].startswith(BUILT_IN)

    @property
    def arguments(self) -> list[str]:
        """The command as it is started."""
        if self.is_built_in:
            name = self.command[0].removeprefix(BUILT_IN)
            return [sys.executable, "-P", str(Path(__file__).with_name("load.py")), name, *self.command[1:]]
        return list(self.command)


class Loads(Part):
    """victim: what is watched.   neighbours: what disturbs it, by name; each alone too, for its own baseline.
    filler: takes the memory that a tenant is guaranteed.   hog: asks for more memory than its limit; to be refused.
    faulty: ends with an error of the device.   A role that is absent is not checked, and the report says so.
    """

    victim: Load
    neighbours: Annotated[Mapping[str, Load], Field(min_length=1)]
    filler: Load | None = None
    hog: Load | None = None
    faulty: Load | None = None


class Thresholds(Part):
    """Limits of checks; ratios are of medians unless they say otherwise.

    repeatability:     two runs alone differ by this part at most.
    baseline_jitter:   P99/P50 alone.             slowdown: S beside a neighbour (1 = as alone).
    jitter:            J, P99/P50 beside a neighbour to P99/P50 alone.
    quota:             part of its share's throughput that the victim keeps.
    over_quota:        most that a neighbour gets, as a multiple of its share; only where `hard_limit`.
    breach_slowdown:   S while somebody tries to break its limit, and while a neighbour dies.
    recovered:         S after a neighbour was killed.
    regression:        least throughput, as a part of an earlier report's.
    """

    repeatability: Annotated[float, Field(gt=0)] = 0.05
    baseline_jitter: Annotated[float, Field(ge=1)] = 1.5
    slowdown: Annotated[float, Field(ge=1)] = 1.25
    jitter: Annotated[float, Field(ge=1)] = 1.5
    quota: Annotated[float, Field(gt=0, le=1)] = 0.95
    over_quota: Annotated[float, Field(ge=1)] = 1.1
    breach_slowdown: Annotated[float, Field(ge=1)] = 1.25
    recovered: Annotated[float, Field(ge=1)] = 1.1
    regression: Annotated[float, Field(gt=0)] = 0.95


class Plan(Part):
    """name: of the platform under test.   steps: of the victim in a run, after `warmup` that do not count.

    share, neighbour_share: parts of the device that the platform gives the victim and a neighbour.   exclusive_share:
    the part of the device that it has in the runs alone (its share, where a partition stays what it is).
    hard_limit: a neighbour may not use more than its share, even if nobody else does.
    """

    name: Annotated[str, Field(min_length=1)]
    loads: Loads
    steps: Annotated[int, Field(ge=STEPS_FOR_P99)] = 400
    warmup: Annotated[int, Field(ge=0)] = 20
    timeout_seconds: Annotated[float, Field(gt=0)] = 600
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    neighbour_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    exclusive_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    hard_limit: bool = False
    thresholds: Thresholds = Thresholds()

    @property
    def needs_torch(self) -> bool:
        loads = [self.loads.victim, *self.loads.neighbours.values()]
        return any(load.is_built_in for load in loads)


DEFAULT = Path(__file__).with_name("acceptance.yaml")


def load_plan(path: Path = DEFAULT) -> Plan:
    """The plan of a file. Errors: AlertError naming the key and what fits."""
    content = read_yaml(path, "a plan of acceptance", "See docs/acceptance.md", AlertError)
    try:
        return Plan.model_validate(content)
    except ValidationError as error:
        raise first_error(str(path), error, Plan, AlertError, "See docs/acceptance.md", content=content) from error
