"""The energy report: kWh of devices, kWh with PUE and kgCO2e, by tenant or other dimensions.

kgCO2e = kWh x PUE x grams per kWh / 1000, hour by hour. PUE is that of the energy settings; without one, that of the
rate card's first energy component that fits; without one, 1, which a note says. Unknown intensity is no intensity of
zero: a row's `kgco2e` is None where none of it is known, else the known part, and `kwh_without_intensity` the rest.
"""

from __future__ import annotations

import contextlib
import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing.closed import Closed, closed_part, if_closed, period_document
from billing.energy.components import HOUR_MS, MILLIJOULES_PER_KWH
from billing.energy.settings import EnergySettings, current_energy_settings
from billing.exact import DIGITS, NANO, quotient, rounded
from billing.ledger_report import billing_timezone, check_dimensions
from billing.money import largest_remainder
from billing.periods import Period
from billing.rates import current_rate_card
from billing.rates.policies import in_force
from billing.rates.rate_card import RateCard
from warehouse.store import Store, read_sql

HOLDER_DIMENSIONS = ("tenant", "project", "queue", "workload")
MEASURES = (
    "kwh", "kwh_with_pue", "kgco2e", "kwh_without_intensity", "gpu_hours", "measured_gpu_hours", "coverage",
)  # fmt: skip
"""What a row says after its dimensions. `coverage` is the part of its GPU-hours in which the device's power was
measured; where nothing was, kwh, kwh_with_pue and kgco2e are None."""


@dataclass
class _Sum:
    """GPU-hours as unit-ms over `scale` units; the rest as in report.sql."""

    scale: int
    held: int = 0
    measured: int = 0
    millijoules: int = 0
    with_pue: int = 0
    grams: int = 0
    without_pue: int = 0
    without_intensity: int = 0

    def add(self, row: Mapping[str, Any]) -> None:
        factor = self.scale // row["device_units"]
        self.held += row["held_unit_ms"] * factor
        self.measured += row["measured_unit_ms"] * factor
        for name in ("millijoules", "with_pue", "grams", "without_pue", "without_intensity"):
            setattr(self, name, getattr(self, name) + row[name])

    @property
    def kwh(self) -> Fraction | None:
        return Fraction(self.millijoules, MILLIJOULES_PER_KWH) if self.measured else None

    @property
    def kwh_with_pue(self) -> Fraction | None:
        return Fraction(self.with_pue, MILLIJOULES_PER_KWH * NANO) if self.measured else None

    @property
    def kgco2e(self) -> Fraction | None:
        known = self.measured and (self.without_intensity < self.millijoules or not self.without_intensity)
        return Fraction(self.grams, MILLIJOULES_PER_KWH * NANO * NANO * 1000) if known else None

    @property
    def kwh_without_intensity(self) -> Fraction | None:
        return Fraction(self.without_intensity, MILLIJOULES_PER_KWH) if self.measured else None

    def hours(self) -> dict[str, Any]:
        hour = self.scale * HOUR_MS
        return {
            "gpu_hours": quotient(self.held, hour),
            "measured_gpu_hours": quotient(self.measured, hour),
            "coverage": quotient(self.measured, self.held) if self.held else None,
        }


@dataclass(frozen=True)
class EnergyReport:
    """The answer. `closed` is None when nothing was ever closed. Sums are None where nothing of the period is closed.

    rows:      one for each value of `by`; those of the platform (`held_by` = platform) have None for what is about
               holders. Shown figures of the rows sum to those of `total`, to the last digit.
    unmeasured_gpu_hours: held or not, in which no usable sample reported the device's power.
    """

    closed: Closed | None
    by: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    platform: Mapping[str, Any]
    total: Mapping[str, Any]
    unmeasured_gpu_hours: Decimal | None
    notes: tuple[str, ...] = field(default=())

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.by, "held_by", *MEASURES)

    def document(self) -> dict[str, Any]:
        """The answer in the shape that the command line prints as JSON."""
        return {
            "period": period_document(self.closed),
            "rows": list(self.rows),
            "platform": self.platform,
            "total": self.total,
            "unmeasured_gpu_hours": self.unmeasured_gpu_hours,
            "notes": list(self.notes),
        }


def energy_report(store: Store, period: Period | None, by: Sequence[str]) -> EnergyReport:
    """Energy and carbon of the closed hours of a period (None: all that is closed), cut by the ledger's dimensions.

    Errors: LedgerError if `by` names no dimension.
    """
    dimensions = check_dimensions(by)
    closed = closed_part(store, period)
    found: list[dict[str, Any]] = []
    if closed is not None:
        params = {"start": closed.period.start, "end": closed.period.end, "timezone": billing_timezone(store)}
        with _staged(store, params) as tables:
            found = store.rows(read_sql(__file__, "report"), {**params, **tables, "by": list(dimensions)})
    scale = math.lcm(*(row["device_units"] for row in found)) if found else 1
    sums: dict[tuple[Any, ...], _Sum] = {}
    platform, total = _Sum(scale), _Sum(scale)
    for row in found:
        key = (bool(row["held"]), *(row[f"by_{name}"] for name in dimensions))
        sums.setdefault(key, _Sum(scale)).add(row)
        total.add(row)
        if not row["held"]:
            platform.add(row)
    figures = _figures(list(sums.values()))
    unmeasured = {"gpu_hours": quotient(total.held - total.measured, scale * HOUR_MS)}
    return EnergyReport(
        closed=closed,
        by=dimensions,
        rows=tuple({**_words(key, dimensions), **shown} for key, shown in zip(sums, figures, strict=True)),
        platform=if_closed(closed, _platform(sums, figures, platform)),
        total=if_closed(closed, _total(figures, total)),
        unmeasured_gpu_hours=if_closed(closed, unmeasured)["gpu_hours"],
        notes=tuple(_notes(total)),
    )


def _words(key: tuple[Any, ...], dimensions: Sequence[str]) -> dict[str, Any]:
    held, *values = key
    words = {
        name: value if held or name not in HOLDER_DIMENSIONS else None
        for name, value in zip(dimensions, values, strict=True)
    }
    return {**words, "held_by": "tenant" if held else "platform"}


AMOUNTS = ("kwh", "kwh_with_pue", "kgco2e", "kwh_without_intensity")


def _figures(sums: Sequence[_Sum]) -> list[dict[str, Any]]:
    """The rows as shown: amounts rounded so that they sum to their rounded sum."""
    shown: list[dict[str, Any]] = [{} for _ in sums]
    for name in AMOUNTS:
        exact = [getattr(part, name) for part in sums]
        amounts, _ = largest_remainder([value or Fraction() for value in exact], DIGITS)
        for row, value, amount in zip(shown, exact, amounts, strict=True):
            row[name] = None if value is None else amount
    return [{**row, **part.hours()} for row, part in zip(shown, sums, strict=True)]


def _total(figures: Sequence[Mapping[str, Any]], total: _Sum) -> dict[str, Any]:
    known = {name: [row[name] for row in figures if row[name] is not None] for name in AMOUNTS}
    return {**{name: sum(values, Decimal()) if values else None for name, values in known.items()}, **total.hours()}


def _platform(
    sums: Mapping[tuple[Any, ...], _Sum], figures: Sequence[Mapping[str, Any]], platform: _Sum
) -> dict[str, Any]:
    return _total([shown for key, shown in zip(sums, figures, strict=True) if not key[0]], platform)


def _notes(total: _Sum) -> Iterator[str]:
    def kwh(millijoules: int) -> Decimal:
        return rounded(Fraction(millijoules, MILLIJOULES_PER_KWH), 3)

    if total.held > total.measured:
        hours = quotient(total.held - total.measured, total.scale * HOUR_MS, 2)
        yield f"{hours:,} device-hours are unmeasured: no usable sample reported the power; they are in no kWh."
    if total.without_intensity:
        yield f"{kwh(total.without_intensity):,} kWh have no carbon intensity and are in no kgCO2e."
    if total.without_pue:
        yield f"{kwh(total.without_pue):,} kWh have no PUE and are counted with 1."


@contextlib.contextmanager
def _staged(store: Store, params: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """What people say of grids and PUE as two tables, gone afterwards."""
    token = secrets.token_hex(8)
    tables = {name: f"energy_{name}_{token}" for name in ("grid", "payers")}
    current, card = current_energy_settings(store), current_rate_card(store)
    try:
        for name in tables:
            store.command(read_sql(__file__, f"stage_{name}"), tables)
        if current:
            _fill_grid(store, tables["grid"], current.settings, store.rows(read_sql(__file__, "places"), params))
        if card and any(component.kind == "energy" for component in card.card.components):
            _fill_payers(store, tables["payers"], card.card, store.rows(read_sql(__file__, "payers"), params))
        yield tables
    finally:
        for table in tables.values():
            store.command("DROP TABLE IF EXISTS {table:Identifier}", {"table": table})


def _fill_grid(store: Store, table: str, settings: EnergySettings, places: Sequence[Mapping[str, Any]]) -> None:
    import pyarrow as pa

    if not places:
        return
    figures = [
        settings.grid(row["cluster"], row["pool"], datetime.fromtimestamp(row["epoch_hour"] * 3600, UTC))
        for row in places
    ]
    store.insert(
        table,
        pa.table(
            {
                "epoch_hour": pa.array([row["epoch_hour"] for row in places], pa.uint32()),
                "place_cluster": pa.array([row["cluster"] for row in places], pa.string()),
                "place_pool": pa.array([row["pool"] for row in places], pa.string()),
                "grams_nano": pa.array([_nano(grams) for grams, _ in figures], pa.int64()),
                "pue_nano": pa.array([_nano(pue) for _, pue in figures], pa.int64()),
            }
        ),
    )


def _fill_payers(store: Store, table: str, card: RateCard, payers: Sequence[Mapping[str, Any]]) -> None:
    import pyarrow as pa

    if not payers:
        return
    pues = [
        next(
            (
                component.pue
                for component in in_force(card.components, row["month"])
                if component.kind == "energy" and component.match.matches(row)
            ),
            None,
        )
        for row in payers
    ]
    names = ("tenant", "project", "queue", "sku", "month")
    store.insert(
        table,
        pa.table(
            {
                **{f"payer_{name}": pa.array([row[name] for row in payers], pa.string()) for name in names},
                "payer_preemptible": pa.array([bool(row["preemptible"]) for row in payers], pa.bool_()),
                "pue_nano": pa.array([_nano(pue) for pue in pues], pa.int64()),
            }
        ),
    )


def _nano(value: Decimal | None) -> int | None:
    return None if value is None else int(value * NANO)
