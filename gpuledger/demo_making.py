"""Makes the demo apart from its server, with a fleet that goes on where that begins."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from access.settings import AccessSettings
from gpuledger import demo
from gpuledger.demo_fleet import Fleet
from gpuledger.making import made_apart
from gpuledger.steps import Steps
from warehouse.store import Store


def make(url: str, seed: int, folder: Path, address: str, access: AccessSettings, fleet: Fleet) -> demo.Demo:
    """The demo as a process of its own made it, with the fleet as its feed if that goes on from there.

    Arguments and errors: as of `demo.build` and `made_apart`.
    """
    build = partial(_build, seed, folder, address, access, fleet.end.fileno())
    made, goes_on = made_apart(url, build, fleet.end)
    return replace(made, feed=fleet.goes_on()) if goes_on else made


def _build(
    seed: int, folder: Path, address: str, access: AccessSettings, fleet: int, store: Store, steps: Steps
) -> tuple[demo.Demo, bool]:
    """The demo, and whether its fleet goes on from there.   fleet: the number of its connection."""
    with contextlib.closing(Fleet(Connection(fleet))) as elsewhere:
        made = demo.build(store, seed, folder, steps, datetime.now(UTC), address, access, elsewhere)
    return replace(made, feed=None), made.feed is not None
