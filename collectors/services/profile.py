"""A server's metrics as data: which of them are which service levels. docs/services.md explains every key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from collectors.errors import CollectorError
from collectors.exporters.profile import Factor, Interval, Texts

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
            raise ValueError("a name such as request_latency_seconds fits")
        return value

    @field_validator("quantiles")
    @classmethod
    def _quantiles(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < quantile < 1 for quantile in value):
            raise ValueError("numbers between 0 and 1 fit")
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


class Profile(_Strict):
    """recognise: patterns of metric names that only this server has; none: it is used only where it is named.
    split: labels whose values are services of their own, named SERVICE/VALUE; all other labels are put together."""

    name: str = Field(min_length=1)
    recognise: Texts = ()
    split: Texts = ()
    metrics: tuple[Rule, ...] = Field(min_length=1)

    @field_validator("recognise")
    @classmethod
    def _patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            try:
                re.compile(pattern)
            except re.error as mistake:
                raise ValueError(f"{pattern!r} is no pattern: {mistake}") from None
        return value

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


def read_profile(path: Path | str) -> Profile:
    """Errors: CollectorError in one line that names the file, the key, what was found there and what fits."""
    where = str(path)
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as mistake:
        raise CollectorError(where, "not YAML: " + " ".join(str(mistake).split()), "Check its indentation") from mistake
    except OSError as mistake:
        raise CollectorError(where, f"cannot be read: {mistake.strerror}", _hint()) from mistake
    if not isinstance(content, dict):
        raise CollectorError(where, "not a profile", "It has the keys " + ", ".join(Profile.model_fields))
    try:
        return Profile.model_validate(content)
    except ValidationError as mistake:
        raise _first_error(where, mistake.errors()[0]) from mistake


@cache
def built_in() -> tuple[Profile, ...]:
    """The profiles that come with gpuledger, by name."""
    return tuple(read_profile(path) for path in sorted(PROFILES.glob("*.yaml")))


def profile_of(name: str) -> Profile:
    """A profile by its name, or the one in a file of the user's: whatever has a dot or a slash is a file."""
    if "/" in name or "." in name:
        return read_profile(name)
    for profile in built_in():
        if profile.name == name:
            return profile
    raise CollectorError(f"profile {name!r}", "unknown", _hint())


def recognise(names: set[str]) -> Profile | None:
    """The built-in profile to which most of these metric names belong; None where none knows any."""
    scores = [
        (sum(any(re.search(pattern, name) for pattern in profile.recognise) for name in names), profile)
        for profile in built_in()
    ]
    count, best = max(scores, key=lambda score: score[0])
    return best if count else None


def _hint() -> str:
    known = ", ".join(path.stem for path in sorted(PROFILES.glob("*.yaml")))
    return f"Known: {known}; or the path of a file such as ./mine.yaml"


def _first_error(where: str, first: Any) -> CollectorError:
    key = ""
    for step in first["loc"]:
        key += f"[{step}]" if isinstance(step, int) else f".{step}" if key else str(step)
    found = "" if isinstance(first["input"], dict | list | tuple | BaseModel) else f"found {first['input']!r}; "
    if first["type"] == "extra_forbidden":
        return CollectorError(f"{where}: {key}", "unknown key", "docs/services.md lists the keys")
    what = "missing" if first["type"] == "missing" else found + first["msg"].removeprefix("Value error, ")
    return CollectorError(f"{where}: {key}" if key else where, what)
