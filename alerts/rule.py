"""A rule as its YAML file defines it; its query is a .sql file beside it.

name: idle-holder
query: idle_holder.sql              # or source: budgets (alerts/sources.py)
parameters: {window_seconds: 3h, idle_below: 0.01}
interval: 5m                        # of data time, on a grid
identity: [cluster, allocation_id]  # columns that tell instances apart
labels: [tenant, queue]             # further columns that become labels
condition: ">= 1h"                  # of the column `value`; a number, a duration or a parameter
unit: s                             # of the value; a duration has it by itself
for: 0s
keep_firing_for: 10m
severity: warning
owner: "{{ labels.tenant }}"
summary: "{{ labels.workload_id }} has held {{ evidence.gpus }} GPUs idle for {{ value | duration }}"
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from jinja2 import TemplateError
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from alerts.matchers import Match, fits
from alerts.templates import compiled
from warehouse.durations import Seconds, is_duration, parse_duration, parse_if_duration, seconds_of, write_duration
from warehouse.written_model import Written

Severity = Literal["info", "warning", "critical"]
ParameterValue = bool | int | float | str | list[str] | list[int] | dict[str, float]
BUILT_IN = ("at", "previous_at")
"""Placeholders that the engine fills: the instant of data time, and the one an interval before it."""
FACTS = ("samples", "events", "devices", "service_levels", "metrics", "findings", "ledger")
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
SECONDS, SHARE = "s", "%"
"""Units that a threshold is converted to for people: a duration, and parts of a hundred."""
_CONDITION = re.compile(r"(>=|<=|==|!=|>|<)\s*(\S+)")
_PLACEHOLDER = re.compile(r"\{(\w+)\s*:\s*([^{}]+)\}")
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,79}$")]
Label = Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]*$")]


class Part(Written):
    """The base of models that people write in files: an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


class Condition(Part):
    """What of a value makes an alert. threshold: a number, or the name of a parameter."""

    compare: str
    threshold: float | str


def _condition(value: object) -> object:
    if not isinstance(value, str):
        return value
    found = _CONDITION.fullmatch(value.strip())
    if found is None:
        raise ValueError('expected a comparison, like ">= 1h", "< 0.5" or "> limit" (a parameter)')
    return {"compare": found[1], "threshold": _threshold(found[2])}


def _threshold(text: str) -> float | str:
    if is_duration(text):
        return float(seconds_of(text))
    try:
        return float(text)
    except ValueError:
        return text


class Override(Part):
    """Another threshold where labels fit; the first that fits counts."""

    match: Match
    threshold: Annotated[float, BeforeValidator(parse_duration)]


class PrometheusRule(Part):
    """The same, as far as Prometheus can tell it from our exporters' metrics. record: a recording rule's name; else
    it is an alerting rule."""

    expr: str
    record: str = ""
    alert: str = ""
    for_: Annotated[Seconds, Field(alias="for")] = 0
    keep_firing_for: Seconds = 0
    summary: str = ""
    description: str = ""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if bool(self.record) == bool(self.alert):
            raise ValueError("give record or alert, one of them")
        return self


class Texts(Part):
    """A rule's texts in another language, as templates; empty: that of the rule is shown."""

    summary: str = ""
    description: str = ""
    action: str = ""


class Rule(Part):
    """One rule. Durations are in whole seconds here.

    identity:  columns that tell instances apart.     labels: columns that become labels.   tags: fixed labels.
    owner:     template: who has to act.              action: template: what to do; nothing is done automatically.
    exclude:   instances that never alert.            needs: facts, and how old their newest may be.
    languages: its texts in other languages; a receiver or a page has them in its own.
    sql:       the query's text (from the file), empty where `source` names a function of alerts.sources.
    unit:      of the value, for people: s where the condition is a duration; % where a value of 1 is 100%; or a word.

    Where the query takes an Array(String) and the rule gives one text, that is its `batch_parameter`: rules that differ
    in it alone share a query, and each gets the rows with its text in the column of that name.
    """

    name: Name
    query: str = ""
    source: str = ""
    sql: str = ""
    parameters: Mapping[str, ParameterValue] = Field(default_factory=dict)
    unit: str = ""
    interval: Annotated[Seconds, Field(ge=60)] = 60
    identity: Annotated[tuple[Label, ...], Field(min_length=1)]
    labels: tuple[Label, ...] = ()
    tags: Mapping[Label, str] = Field(default_factory=dict)
    condition: Annotated[Condition, BeforeValidator(_condition)]
    for_: Annotated[Seconds, Field(alias="for", ge=0)] = 0
    keep_firing_for: Annotated[Seconds, Field(ge=0)] = 0
    severity: Severity = "warning"
    owner: str = ""
    summary: str
    description: str = ""
    action: str = ""
    runbook: str = ""
    languages: Mapping[Literal["zh"], Texts] = Field(default_factory=dict)
    exclude: tuple[Match, ...] = ()
    overrides: tuple[Override, ...] = ()
    needs: Mapping[str, Seconds] = Field(default_factory=dict)
    prometheus: tuple[PrometheusRule, ...] = ()
    enabled: bool = True

    @model_validator(mode="before")
    @classmethod
    def _seconds_by_themselves(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and not given.get("unit") and isinstance(given.get("condition"), str):
            threshold, parameters = given["condition"].split()[-1:], given.get("parameters")
            named = [parameters.get(name) for name in threshold] if isinstance(parameters, Mapping) else []
            if any(map(is_duration, (*threshold, *named))):
                return {**given, "unit": SECONDS}
        return given

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if bool(self.query) == bool(self.source):
            raise ValueError("give query (a .sql file) or source, one of them")
        for table in self.needs:
            if table not in FACTS:
                raise ValueError(f"needs names {table!r}; facts are {', '.join(FACTS)}")
        if isinstance(self.condition.threshold, str):
            _number_of(self.parameters, self.condition.threshold)
        if self.sql:
            self._check_placeholders()
        texts = [("en", text) for text in (self.owner, self.summary, self.description, self.action)]
        texts += [
            (code, text) for code, one in self.languages.items() for text in (one.summary, one.description, one.action)
        ]
        for code, text in texts:
            try:
                compiled(text, code)
            except TemplateError as error:
                raise ValueError(f"template {text!r}: {error}") from error
        return self

    def _check_placeholders(self) -> None:
        asked = set(_placeholders(self.sql)) - set(BUILT_IN)
        given = set(self.parameters)
        if asked - given:
            raise ValueError(f"{self.query} asks for {', '.join(sorted(asked - given))}: say it under parameters")
        unused = given - asked - {str(self.condition.threshold)}
        if unused:
            raise ValueError(f"{self.query} asks for no {', '.join(sorted(unused))}; it knows {_listed(asked)}")
        if len(texts := self._texts_for_arrays()) > 1:
            raise ValueError(f"{self.query} takes several of {', '.join(texts)}: use one text, or lists")

    def _texts_for_arrays(self) -> list[str]:
        types = _placeholders(self.sql)
        return [
            name
            for name, value in self.parameters.items()
            if isinstance(value, str) and types.get(name) == "Array(String)"
        ]

    @property
    def batch_parameter(self) -> str:
        """The parameter in which rules that share a query differ; empty: none."""
        return next(iter(self._texts_for_arrays()), "")

    def bound(self) -> dict[str, Any]:
        """Parameters of the query, without the `batch_parameter`: durations in seconds, keys and values as JSON."""
        from json import dumps

        asked = {name for name in _placeholders(self.sql) if name != self.batch_parameter}
        return {
            name: dumps(value, ensure_ascii=False) if isinstance(value, dict) else parse_if_duration(value)
            for name, value in self.parameters.items()
            if name in asked or not self.sql
        }

    def threshold(self, labels: Mapping[str, str]) -> float:
        """The threshold for an instance with these labels."""
        for override in self.overrides:
            if fits(override.match, labels):
                return override.threshold
        threshold = self.condition.threshold
        return _number_of(self.parameters, threshold) if isinstance(threshold, str) else threshold

    def condition_text(self) -> str:
        """The condition as people read it: `>= 1h`, `< 50%`, `>= 95 °C`; or `> limit (8 GPUs)` by a parameter."""
        named = self.condition.threshold
        threshold = _number_of(self.parameters, named) if isinstance(named, str) else named
        shown = _with_unit(threshold, self.unit)
        return f"{self.condition.compare} {f'{named} ({shown})' if isinstance(named, str) else shown}"

    def holds(self, value: float | None, labels: Mapping[str, str]) -> bool | None:
        """Whether the condition is true of a value; None: unknown."""
        if value is None or value != value:
            return None
        return COMPARISONS[self.condition.compare](value, self.threshold(labels))

    def excluded(self, labels: Mapping[str, str]) -> bool:
        return any(fits(match, labels) for match in self.exclude)


@lru_cache(1024)
def _placeholders(sql: str) -> Mapping[str, str]:
    """Name to type."""
    return {name: kind.replace(" ", "") for name, kind in _PLACEHOLDER.findall(sql)}


def _with_unit(value: float, unit: str) -> str:
    if unit == SECONDS and value >= 0 and value == int(value):
        return write_duration(int(value))
    if unit == SHARE:
        return f"{100 * value:.10g}%"
    return f"{value:.10g}{'' if unit.startswith(SHARE) else ' '}{unit}".strip()


def _number_of(parameters: Mapping[str, ParameterValue], name: str) -> float:
    value = parse_if_duration(parameters.get(name))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"condition: {name!r} is not a number, a duration or a parameter with one")
    return float(value)


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
