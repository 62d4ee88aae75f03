"""The format of the tenant mapping: rules that say who pays for an allocation, in YAML.

    timezone: Europe/Berlin
    unmapped_owner: platform
    rules:
      - {match: {namespace: "chem-*", cluster: c1}, tenant: chem, cost_center: "4711", effective_from: 2026-10-01}

Patterns are globs over what the source reported, case-sensitive; a key that is absent matches anything, and the most
specific rule wins. What a rule does not name (tenant, project) stays as reported. Dates are as in a rate card.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo

from pydantic import AliasChoices, Field, ValidationError, ValidationInfo, field_validator, model_validator

from billing.rates.globs import expression
from billing.rates.matching import Pattern, can_both_fit, first_tie, specificity
from billing.rates.policies import Part, WholeFile
from billing.rates.reading import Instant, before, utc, zone_that_exists
from warehouse.errors import LedgerError
from warehouse.written_files import first_error, read_yaml

MATCH_KEYS = ("workload", "project", "tenant", "queue", "source", "cluster")
"""What a rule can match, the most telling first."""


class TenantError(LedgerError):
    """A tenants' mapping that cannot be used, or not now."""


class OwnerMatch(Part):
    """What a rule is about: a glob over each word as the source reported it; None = anything, '' = it reported none.

    `workload` is the pod's UID or the job's id. Labels are not in events, so there is nothing to match them by.
    """

    tenant: str | None = None
    project: Annotated[str | None, Field(validation_alias=AliasChoices("project", "namespace"))] = None
    queue: str | None = None
    cluster: str | None = None
    source: str | None = None
    workload: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _namespace_is_project(cls, value: object) -> object:
        if isinstance(value, dict) and {"project", "namespace"} <= value.keys():
            raise ValueError("namespace and project are the same thing; leave one out")
        return value


class OwnerRule(Part):
    """What fits is this tenant's during [effective_from, effective_to); None = open. None = as reported."""

    match: OwnerMatch
    tenant: Annotated[str, Field(min_length=1)] | None = None
    project: str | None = None
    cost_center: str = ""
    effective_from: Instant = None
    effective_to: Instant = None

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """What it matches, in the order of MATCH_KEYS."""
        return tuple(getattr(self.match, key) for key in MATCH_KEYS)

    @property
    def specificity(self) -> tuple[object, ...]:
        return specificity(self.patterns)

    @property
    def words(self) -> str:
        """Like `project chem-*, cluster c1`."""
        given = [
            f"{key} {value!r}" if not value else f"{key} {value}"
            for key, value in zip(MATCH_KEYS, self.patterns, strict=True)
            if value is not None
        ]
        return ", ".join(given) or "anything"

    @property
    def besides(self) -> tuple[object, ...]:
        """Its patterns and dates alone decide where it fits."""
        return ()

    def overlaps(self, other: OwnerRule) -> bool:
        """Whether something at some time could match both rules."""
        return (
            before(self.effective_from, other.effective_to)
            and before(other.effective_from, self.effective_to)
            and can_both_fit(self.patterns, other.patterns)
        )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.tenant is None and self.project is None and not self.cost_center:
            raise ValueError("a rule names a tenant, a project, a cost_center or several of them")
        return self


class TenantMapping(WholeFile):
    """A whole mapping. What no rule fits is the reported tenant's; where none was reported, `unmapped_owner`'s."""

    timezone: str = "UTC"
    unmapped_owner: str = ""
    rules: Annotated[tuple[OwnerRule, ...], Field(strict=False)]

    @field_validator("timezone")
    @classmethod
    def _zone_exists(cls, value: str) -> str:
        return zone_that_exists(value)

    @field_validator("rules")
    @classmethod
    def _rules_in_zone_without_ties(cls, rules: tuple[OwnerRule, ...], info: ValidationInfo) -> tuple[OwnerRule, ...]:
        if "timezone" not in info.data:  # already refused
            return rules
        zone = ZoneInfo(info.data["timezone"])
        times = ("effective_from", "effective_to")
        dated = tuple(
            rule.model_copy(update={n: getattr(rule, n) and utc(getattr(rule, n), zone) for n in times})
            for rule in rules
        )
        for number, rule in enumerate(dated):
            if not before(rule.effective_from, rule.effective_to):
                raise ValueError(f"rules[{number}] ({rule.words}) ends before it starts; effective_to is exclusive")
        _refuse_ties(dated, zone)
        return dated

    @property
    def workload_patterns(self) -> tuple[str, ...]:
        """The different globs over workloads, in the order of the rules."""
        return tuple(dict.fromkeys(rule.match.workload for rule in self.rules if rule.match.workload is not None))

    @property
    def workload_expressions(self) -> tuple[str, ...]:
        """The same as regular expressions for the engine, where there may be a great many workloads."""
        return tuple(expression(pattern) for pattern in self.workload_patterns)


def load_mapping(path: Path | str) -> TenantMapping:
    """Reads a mapping from YAML. Errors: TenantError naming the key, what was found there and what fits."""
    return parse_mapping(
        read_yaml(path, "a tenants' mapping", "It starts with the keys unmapped_owner and rules", TenantError),
        str(path),
    )


def parse_mapping(content: dict[str, Any], where: str = "tenants' mapping") -> TenantMapping:
    """A mapping from what the YAML holds. Errors: TenantError with the first thing that does not fit."""
    try:
        return TenantMapping.model_validate(content)
    except ValidationError as error:
        raise first_error(where, error, TenantMapping, TenantError, "See docs/tenants.md", content=content) from error


def _refuse_ties(rules: Sequence[OwnerRule], zone: ZoneInfo) -> None:
    if tie := first_tie(MATCH_KEYS, rules, zone):
        earlier, number, why = tie
        raise ValueError(
            f"rules[{earlier}] ({rules[earlier].words}) and rules[{number}] ({rules[number].words}) are equally "
            f"specific and could match the same thing at the same time{why}; end one where the other starts, or add a "
            "key to match"
        )
