"""The format of service profiles: which of a server's metrics are which service levels. docs/services.md explains every
key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from collectors.exporters.profile import Factor, Interval, Patterns, Texts
from collectors.profile_files import Named, ProfileFiles

PROFILES = Path(__file__).with_name("profiles")
Kind = Literal["histogram", "rate", "ratio", "gauge", "summary"]
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


class Rule(_Strict):
    """metric: our name.   names: of the metric there, the preferred first; the first that has a series counts, and of
    several rules with one `metric` and `kind` the first that has any.

    kind: histogram -> mean and quantiles; rate -> gained per second; ratio -> gained per what `per` gained (all of
    its names together); gauge -> as it is; summary -> its own quantiles, which no two series can share.
    factor: ours = theirs x factor.   where: label -> texts (globs) of which it must be one.
    combine: what several series of a gauge make together.   range: what a gauge can be, in the source's unit.
    invert: 1 - value, for a gauge that says the opposite.
    """

    metric: str
    names: Texts = Field(min_length=1)
    kind: Kind
    per: Texts = ()
    factor: Factor = Fraction(1)
    where: Mapping[str, Texts] = Field(default_factory=dict)
    quantiles: tuple[float, ...] = (0.5, 0.9, 0.95, 0.99)
    combine: Literal["sum", "max", "min", "mean"] = "sum"
    range: Interval | None = None
    invert: bool = False

    @field_validator("metric")
    @classmethod
    def _named(cls, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise ValueError("expected a name such as request_latency_seconds")
        return value

    @field_validator("quantiles")
    @classmethod
    def _quantiles(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < quantile < 1 for quantile in value):
            raise ValueError("expected numbers between 0 and 1")
        return value

    @model_validator(mode="after")
    def _fits(self) -> Rule:
        if (self.kind == "ratio") != bool(self.per):
            raise ValueError("`per` belongs to a ratio, and a ratio needs it")
        if self.kind != "gauge" and (self.range is not None or self.invert):
            raise ValueError("`range` and `invert` belong to a gauge")
        return self

    @property
    def read(self) -> tuple[str, ...]:
        """The names of every series that the rule reads."""
        ends = ("_bucket", "_count", "_sum", "") if self.kind == "histogram" else ("",)
        return tuple(name + end for name in (*self.names, *self.per) for end in ends)

    def wants(self, labels: Mapping[str, str]) -> bool:
        return all(
            any(fnmatchcase(labels.get(label, ""), glob) for glob in globs) for label, globs in self.where.items()
        )


class Profile(_Strict, Named):
    """recognise: patterns of metric names that only this server has; none: it is used only where it is named.
    split: labels whose values are services of their own, named SERVICE/VALUE; all other labels are put together."""

    name: str = Field(min_length=1)
    recognise: Patterns = ()
    split: Texts = ()
    metrics: tuple[Rule, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_meaning(self) -> Profile:
        kinds: dict[str, set[str]] = {}
        for rule in self.metrics:
            kinds.setdefault(rule.metric, set()).add(rule.kind)
        for metric, found in kinds.items():
            if len(found - {"summary"}) > 1 or found == {"histogram", "summary"}:
                raise ValueError(f"{metric} is {' and '.join(sorted(found))}: rows of both would have one key")
        return self

    @property
    def names(self) -> frozenset[str]:
        """Of all series that are read."""
        return frozenset(name for rule in self.metrics for name in rule.read)


FILES = ProfileFiles(PROFILES, Profile, "docs/services.md")
read_profile, profile_of = FILES.read, FILES.named


def recognise(names: set[str]) -> Profile | None:
    """The built-in profile that knows most of these metric names; None if no profile knows any."""
    scores = [
        (sum(any(re.search(pattern, name) for pattern in profile.recognise) for name in names), profile)
        for profile in FILES.built_in
    ]
    count, best = max(scores, key=lambda score: score[0])
    return best if count else None
