"""Attributes energy and memory to holders: a step of the close, over the same hours, published with the same run.

It uses the hourly sums of streams that the close has loaded, and only if any of them has power or memory; it reads
samples only for hours whose sums are not enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from billing.energy.settings import EnergySettings, current_energy_settings
from billing.working_tables import drop_tables
from warehouse.instants import epoch_ms, of_epoch_ms
from warehouse.store import Store, read_sql

TABLES = ("speaking", "measured", "idle_power", "powers", "shares", "energy")
"""The working tables of a portion that this step makes."""
READ_BY_MEASURED = ("reported", "ways", "speaking")
READ_BY_SHARES = ("segments", "holdings", "metered", "measured")
"""The largest working tables, by the last step that reads them."""
RULES = "energy 1"
"""Which rules these are: a change recomputes every hour."""
FOREVER_MS = 1 << 62


def rules_in_force(store: Store) -> str:
    """What besides facts and prices the energy of an hour is computed from; part of the hour's fingerprint."""
    current = current_energy_settings(store)
    return f"{RULES} {current.settings.idle_version if current else ''}"


def measure(store: Store, table: Callable[[str], str], params: Mapping[str, Any]) -> bool:
    """Fills `measured`, if any stream reports power or memory: as far as the streams' hourly sums are enough."""
    if not store.value("SELECT countIf(powered > 0 OR sized > 0) AS speaking FROM {reported:Identifier}", params):
        return False
    names = _named(table, params)
    for step in ("speaking", "ways_of_devices", "measured"):
        store.command(read_sql(__file__, step), names)
    return True


def doubt(store: Store, table: Callable[[str], str], params: Mapping[str, Any]) -> bool:
    """Adds to `doubted` the hours of streams whose sums are not enough. Answers whether there are any."""
    names = _named(table, params)
    if store.value("SELECT countIf(NOT is_since_known) AS unknown FROM {measured:Identifier}", names):
        store.command(read_sql(__file__, "undecided"), names)
    if not store.value("SELECT countIf(is_unclear) AS unclear FROM {measured:Identifier}", names):
        return False
    store.command(read_sql(__file__, "doubted"), names)
    return True


def measure_again(store: Store, table: Callable[[str], str], params: Mapping[str, Any]) -> None:
    """Completes `measured` from `sample_hours`."""
    store.command(read_sql(__file__, "measured_again"), _named(table, params))


def attribute_energy(store: Store, table: Callable[[str], str], params: Mapping[str, Any]) -> dict[int, int]:
    """Divides the energy and memory of a portion's hours, of which `measured` tells.

    table:  names of the close's working tables; segments, whole, holdings, ways, reported, metered, several and prices
            are filled.
    Answers the fingerprint of each hour's entries; an hour that has none is absent. What nothing reads any more is
    dropped at once, for the memory: the close then needs `entries` and `energy` alone.
    """
    names = _named(table, params)
    _stage_idle_power(store, table, names)
    drop_tables(store, map(table, READ_BY_MEASURED))
    for step in ("powers", "shares"):
        store.command(read_sql(__file__, step), names)
    drop_tables(store, map(table, READ_BY_SHARES))
    store.command(read_sql(__file__, "attributed"), names)
    rows = store.rows(read_sql(__file__, "content"), {"energy": table("energy")})
    return {row["hour"]: row["content"] for row in rows}


def publish_energy(store: Store, table: Callable[[str], str], run: int, hours: Sequence[int]) -> None:
    """Writes the energy entries of some hours; to be called where `attribute_energy` found any."""
    names = {"run": run, "hours": list(hours), "energy": table("energy")}
    store.command(read_sql(__file__, "publish"), names, {"max_partitions_per_insert_block": 0})


def _named(table: Callable[[str], str], params: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**params, **{name: table(name) for name in TABLES}}


def _stage_idle_power(store: Store, table: Callable[[str], str], names: Mapping[str, Any]) -> None:
    import pyarrow as pa

    store.command(read_sql(__file__, "stage_idle_power"), names)
    current = current_energy_settings(store)
    if current is None or not current.settings.idle_power:
        return
    models = [row["model"] for row in store.rows("SELECT DISTINCT model FROM {states:Identifier}", names)]
    spans = list(_idle_power(current.settings, models))
    store.insert(
        table("idle_power"),
        pa.table(
            {
                "model": pa.array([span[0] for span in spans], pa.string()),
                "from_ms": pa.array([span[1] for span in spans], pa.int64()),
                "to_ms": pa.array([span[2] for span in spans], pa.int64()),
                "microwatts": pa.array([span[3] for span in spans], pa.int64()),
            }
        ),
    )


def _idle_power(settings: EnergySettings, models: Sequence[str]) -> Iterable[tuple[str, int, int, int]]:
    """(model, from, to in ms, microwatts) without overlap: at each time the first rule that fits."""
    edges = {epoch_ms(at) for rule in settings.idle_power for at in (rule.effective_from, rule.effective_to) if at}
    starts = sorted({0, *edges})
    for model in models:
        rules = [rule for rule in settings.idle_power if fnmatchcase(model, rule.model)]
        for start, end in zip(starts, [*starts[1:], FOREVER_MS], strict=True):
            at = of_epoch_ms(start)
            if rule := next((rule for rule in rules if rule.covers(at)), None):
                yield model, start, end, int(rule.watts * 1_000_000)
