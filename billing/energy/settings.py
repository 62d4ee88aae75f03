"""The energy settings that people apply: carbon intensity and PUE by place and time, idle power by model.

    timezone: Europe/Berlin            # of times without an offset; UTC if absent
    intensity:                         # the first that fits a device's cluster and pool and is in force
      - {region: DE, cluster: "fra*", grams_per_kwh: "380", pue: "1.25", effective_from: 2026-10-01, source: "ENTSO-E"}
      - {region: DE, cluster: "fra*", hourly: ["351", "340.5"], effective_from: 2026-09-30T00:00, source: "metered"}
    idle_power:                        # what a model draws when it does nothing
      - {model: "NVIDIA H100*", watts: "70"}

Times are whole hours UTC, `effective_to` is exclusive and absent = open. `hourly` has a figure for each hour from
`effective_from` on. Figures are decimal strings; one that is absent is not known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Self
from zoneinfo import ZoneInfo

from pydantic import BeforeValidator, Field, ValidationError, field_validator, model_validator

from billing import audit
from billing.applied import add_version
from billing.rates.policies import DecimalText, Name, Part, WholeFile
from billing.rates.reading import before, utc
from warehouse.chain import head
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql
from warehouse.written_files import first_error, read_yaml

HOUR = timedelta(hours=1)


class EnergySettingsError(LedgerError):
    """Energy settings that cannot be used."""


def _instant(value: object) -> object:
    """A date is its first instant; text is read as ISO 8601. Naive ones wait for the settings' zone."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("expected a date or hour such as 2026-10-01 or 2026-10-01T13:00Z") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, datetime) and not 1900 <= value.year < 2300:
        raise ValueError("expected a year from 1900 to 2299")
    return value


Instant = Annotated[datetime, BeforeValidator(_instant)]
PueText = Annotated[DecimalText, Field(ge=1)]


class Dated(Part):
    """In force during [effective_from, effective_to); None = open."""

    effective_from: Instant | None = None
    effective_to: Instant | None = None

    def in_zone(self, zone: ZoneInfo) -> Self:
        """The same with its times in UTC. Errors: ValueError if they are not whole hours, in order."""
        named = {name: getattr(self, name) for name in ("effective_from", "effective_to")}
        times = {name: at and utc(at, zone) for name, at in named.items()}
        for name, at in times.items():
            if at is not None and (at.minute or at.second or at.microsecond):
                raise ValueError(f"{name} {at:%Y-%m-%dT%H:%M:%S}Z is not a whole hour UTC")
        if not before(times["effective_from"], times["effective_to"]):
            raise ValueError(f"effective_to {times['effective_to']:%Y-%m-%dT%H:%M}Z is not after effective_from")
        return self.model_copy(update=times)

    def covers(self, hour: datetime) -> bool:
        return (self.effective_from or hour) <= hour and (self.effective_to is None or hour < self.effective_to)


class Intensity(Dated):
    """Grams of CO2 equivalent per kWh, and PUE, for matching clusters and pools. `source`: where the figures come
    from."""

    region: str = ""
    cluster: str = "*"
    pool: str = "*"
    grams_per_kwh: DecimalText | None = None
    hourly: Annotated[tuple[DecimalText, ...], Field(strict=False)] = ()
    pue: PueText | None = None
    source: Name

    @model_validator(mode="after")
    def _says_something_once(self) -> Self:
        if self.hourly and (self.grams_per_kwh is not None or self.effective_to or not self.effective_from):
            raise ValueError("hourly stands with effective_from, and without grams_per_kwh and effective_to")
        if not self.hourly and self.grams_per_kwh is None and self.pue is None:
            raise ValueError("grams_per_kwh, hourly or pue is missing")
        return self

    def at(self, hour: datetime) -> Decimal | None:
        """Grams per kWh in the hour that starts then, which the rule must cover."""
        if self.hourly and self.effective_from:
            return self.hourly[(hour - self.effective_from) // HOUR]
        return self.grams_per_kwh

    def covers(self, hour: datetime) -> bool:
        within = not self.hourly or self.effective_from is None or hour < self.effective_from + len(self.hourly) * HOUR
        return super().covers(hour) and within

    def fits(self, cluster: str, pool: str) -> bool:
        return fnmatchcase(cluster, self.cluster) and fnmatchcase(pool, self.pool)


class IdlePower(Dated):
    """What a device of the model draws when it does nothing."""

    model: str = "*"
    watts: DecimalText


class EnergySettings(WholeFile):
    """All of it. Of several rules the first that fits and is in force counts; each figure of it by itself."""

    timezone: str = "UTC"
    intensity: Annotated[tuple[Intensity, ...], Field(strict=False)] = ()
    idle_power: Annotated[tuple[IdlePower, ...], Field(strict=False)] = ()

    @field_validator("timezone")
    @classmethod
    def _zone_exists(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (OSError, ValueError, KeyError):
            raise ValueError("expected an IANA time zone such as UTC or Europe/Berlin") from None
        return value

    @model_validator(mode="after")
    def _times_in_zone(self) -> Self:
        zone = ZoneInfo(self.timezone)
        for name in ("intensity", "idle_power"):
            dated = []
            for number, rule in enumerate(getattr(self, name)):
                try:
                    dated.append(rule.in_zone(zone))
                except ValueError as error:
                    raise ValueError(f"{name}[{number}]: {error}") from None
            object.__setattr__(self, name, tuple(dated))
        return self

    def grid(self, cluster: str, pool: str, hour: datetime) -> tuple[Decimal | None, Decimal | None]:
        """(grams per kWh, PUE) of a place in the hour that starts then; each of the first rule that states it."""
        rules = [rule for rule in self.intensity if rule.fits(cluster, pool) and rule.covers(hour)]
        grams = next((figure for rule in rules if (figure := rule.at(hour)) is not None), None)
        return grams, next((rule.pue for rule in rules if rule.pue is not None), None)

    @property
    def idle_version(self) -> str:
        """A hash of the part that the close uses; grids affect only reports. Empty: there is none."""
        rules = [rule.model_dump_json() for rule in self.idle_power]
        return hashlib.sha256("\n".join(rules).encode()).hexdigest()[:12] if rules else ""


@dataclass(frozen=True)
class AppliedSettings:
    """Settings as they were applied, by whom and why."""

    settings: EnergySettings
    version: str
    sequence: int
    applied_at: datetime
    author: str
    reason: str


def load_energy_settings(path: Path | str) -> EnergySettings:
    """Reads settings from YAML. Errors: EnergySettingsError naming the key, what was found there and what fits."""
    content = read_yaml(path, "energy settings", "They have the keys intensity and idle_power", EnergySettingsError)
    return parse_energy_settings(content, str(path))


def parse_energy_settings(content: dict[str, Any], where: str = "energy settings") -> EnergySettings:
    """Settings from what the YAML holds. Errors: EnergySettingsError with the first thing that does not fit."""
    try:
        return EnergySettings.model_validate(content)
    except ValidationError as error:
        raise first_error(
            where, error, EnergySettings, EnergySettingsError, "See docs/energy.md", content=content
        ) from error


def current_energy_settings(store: Store) -> AppliedSettings | None:
    """The settings in force, or None before the first were applied."""
    rows: Sequence[dict[str, Any]] = store.rows(read_sql(__file__, "current_settings"))
    if not rows:
        return None
    row = rows[0]
    settings = EnergySettings.model_validate_json(row.pop("settings"))
    return AppliedSettings(settings, **row)


def apply_energy_settings(store: Store, settings: EnergySettings, author: str, reason: str, now: datetime) -> str:
    """Puts the settings in force and answers their version; those in force already are left as they are.

    Grids change reports at once. Idle power changes whose energy was whose, by the next close.
    """
    last = head(store, "energy_settings")
    current = current_energy_settings(store)
    if current and current.version == settings.version:
        return current.version
    add_version(
        store, "energy_settings", "settings", settings, current.sequence if current else 0, author, reason, now, last
    )
    replaced = {"before": current.version} if current else {}
    audit.record(store, now, author, "energy.apply", settings.version, reason, replaced)
    return settings.version
