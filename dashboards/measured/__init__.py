"""What was measured of each device in each closed hour, so that the fleet and a device's page find it in a table in the
order of devices.

A server writes it in the background, for the last two months that are closed. An hour's rows hold while the facts of
which it was closed are the same; of other hours pages read the samples.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from warehouse.store import Store, read_sql

AT_ONCE = 24
"""Hours read by one statement, which bounds its memory."""
Hour = tuple[int, int]
"""Its start in Unix seconds, and the fingerprint of its facts."""


def measure_hours(store: Store, stop: threading.Event | None = None) -> int:
    """Writes the hours that are missing or outdated, the newest first; returns their number."""
    due = [(row["at"], row["inputs"]) for row in store.rows(read_sql(__file__, "due"))]
    done = 0
    for start in range(0, len(due), AT_ONCE):
        if stop is not None and stop.is_set():
            break
        hours = due[start : start + AT_ONCE]
        _measure(store, hours)
        done += len(hours)
    if done:
        store.command(read_sql(__file__, "forget"))
    return done


def _measure(store: Store, hours: Sequence[Hour]) -> None:
    """Marks an hour as complete once its rows are written: a kill in between leaves rows that are written again."""
    params = {"hours": [at for at, _ in hours], "inputs": [inputs for _, inputs in hours]}
    for name in ("measure", "mark"):
        store.command(read_sql(__file__, name), params, {"max_partitions_per_insert_block": 0})
