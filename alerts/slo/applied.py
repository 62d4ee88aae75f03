"""Applies and reads files of objectives, with author and reason; versions are never edited."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from alerts.slo.objectives import ObjectivesFile
from billing import audit
from warehouse.store import Store, read_sql


@dataclass(frozen=True)
class AppliedObjectives:
    """A file as it was applied, by whom and why."""

    file: ObjectivesFile
    version: str
    sequence: int
    applied_at: datetime
    author: str
    reason: str


def apply_objectives(store: Store, file: ObjectivesFile, author: str, reason: str, now: datetime) -> str:
    """Puts the file in force and answers its version; the one in force already is left as it is."""
    import pyarrow as pa

    before = current_objectives(store)
    if before is not None and before.version == file.version:
        return file.version
    audit.record(store, now, author, "slo.apply", file.version, reason, {"before": before and before.version})
    rows = [{"version": file.version, **objective.row()} for objective in file.objectives]
    if rows:
        names = list(dict.fromkeys(name for row in rows for name in row))
        types = {
            "books": pa.bool_(),
            "interpolate": pa.bool_(),
            "quantile": pa.float64(),
            "window_seconds": pa.uint32(),
        }
        types["reasons"] = pa.list_(pa.string())
        defaults = {"interpolate": False, "since": "", "metric": "", "reasons": []}
        store.insert(
            "slo_definitions",
            pa.table({n: pa.array([row.get(n, defaults.get(n)) for row in rows], types.get(n)) for n in names}),
        )
    store.insert(
        "slo_files",
        pa.table(
            {
                "version": pa.array([file.version], pa.string()),
                "sequence": pa.array([before.sequence + 1 if before else 1], pa.uint64()),
                "applied_at": pa.array([now], pa.timestamp("ms", "UTC")),
                "author": pa.array([author], pa.string()),
                "reason": pa.array([reason], pa.string()),
                "objectives": pa.array([file.canonical()], pa.string()),
            }
        ),
    )
    return file.version


def current_objectives(store: Store) -> AppliedObjectives | None:
    """The file in force, for a tenant's connection with its own objectives alone; None before the first was applied."""
    rows = store.rows(read_sql(__file__, "newest_file"))
    if not rows:
        return None
    row = rows[0]
    return AppliedObjectives(
        _seen_by(store, ObjectivesFile.model_validate_json(row["objectives"])),
        row["version"],
        row["sequence"],
        row["applied_at"],
        row["author"],
        row["reason"],
    )


def _seen_by(store: Store, file: ObjectivesFile) -> ObjectivesFile:
    """The file is a single cell, which the engine's filters do not cut; but its objectives are rows as well, of which
    they show a tenant its own."""
    if store.tenants is None:
        return file
    own = {row["name"] for row in store.rows("SELECT name FROM slo_objectives")}
    return file.model_copy(update={"objectives": tuple(one for one in file.objectives if one.name in own)})
