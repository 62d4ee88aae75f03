"""How far Slurm was read: the next window to ask for, and the state file that survives a restart."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from collectors.errors import CollectorError
from warehouse.json_text import parse_json


@dataclass(frozen=True)
class Pace:
    """How far back to ask: the first time, in each cycle, and once in a while."""

    first: timedelta = timedelta(days=7)
    overlap: timedelta = timedelta(hours=1)
    deep_every: timedelta = timedelta(hours=1)
    deep_overlap: timedelta = timedelta(days=2)


@dataclass(frozen=True)
class ReadState:
    """The persistent state: until when accounting was read, and until when deeply; since when which nodes are
    unavailable."""

    until: datetime | None = None
    deep_until: datetime | None = None
    nodes_at: datetime | None = None
    unavailable: Mapping[str, datetime] = field(default_factory=dict)


def since(now: datetime, kept: ReadState, pace: Pace) -> tuple[datetime, bool]:
    """From when on to ask accounting, and whether that is a deep read. A clock that was set back asks further back, not
    less."""
    if kept.until is None:
        return now - pace.first, True
    until = min(kept.until, now)
    deep_until = min(kept.deep_until or until, now)
    if kept.deep_until is None or now - deep_until >= pace.deep_every:
        return min(until - pace.deep_overlap, deep_until - pace.overlap), True
    return until - pace.overlap, False


def read_state(path: Path) -> ReadState:
    """Errors: CollectorError if the file exists and cannot be read: guessing would lose or repeat a week."""
    try:
        reported = parse_json(path.read_text(encoding="utf-8"))
        return ReadState(
            until=_time(reported, "until"),
            deep_until=_time(reported, "deep_until"),
            nodes_at=_time(reported, "nodes_at"),
            unavailable={
                name: at for name in reported.get("unavailable", {}) if (at := _time(reported["unavailable"], name))
            },
        )
    except FileNotFoundError:
        return ReadState()
    except (OSError, ValueError, AttributeError, TypeError) as mistake:
        raise CollectorError(str(path), f"cannot be read: {mistake}", "Remove it to read from a week ago") from mistake


def _time(reported: Mapping[str, object], name: str) -> datetime | None:
    value = reported.get(name)
    if value is None:
        return None
    at = datetime.fromisoformat(str(value))
    if at.tzinfo is None:
        raise ValueError(f"{name} has no zone")
    return at


def write_state(path: Path, kept: ReadState) -> None:
    """Errors: CollectorError."""
    content = {
        "until": kept.until and kept.until.isoformat(),
        "deep_until": kept.deep_until and kept.deep_until.isoformat(),
        "nodes_at": kept.nodes_at and kept.nodes_at.isoformat(),
        "unavailable": {name: at.isoformat() for name, at in sorted(kept.unavailable.items())},
    }
    beside = path.with_name(path.name + ".new")
    try:
        with beside.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as mistake:
        raise CollectorError(
            str(path), f"cannot be written: {mistake}", "Give a folder that can be written"
        ) from mistake
