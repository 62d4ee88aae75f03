"""Episodes: stretches in which a workload was disturbed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from warehouse.store import Store, read_sql


@dataclass(frozen=True)
class Episode:
    """See the view interference_episodes. ended_at: None while it lasts."""

    cluster: str
    workload_id: str
    service: str
    tenant: str
    identity: str
    started_at: datetime
    raised_at: datetime
    disturbed_until: datetime
    ended_at: datetime | None
    disturbed_windows: int
    mean_slowdown: float | None
    max_slowdown: float | None
    lost_gpu_seconds: float | None
    grade: str
    channels: tuple[str, ...]
    neighbours: tuple[str, ...]
    neighbour_identities: tuple[str, ...]


def episodes(store: Store, since: datetime, until: datetime) -> list[Episode]:
    """Of the windows in (since, until], those that last at `until` first."""
    several = ("channels", "neighbours", "neighbour_identities")
    return [
        Episode(**{**row, **{name: tuple(row[name]) for name in several}})
        for row in store.rows(read_sql(__file__, "episodes"), {"since": since, "until": until})
    ]
