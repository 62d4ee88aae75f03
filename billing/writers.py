"""Makes writers of a store wait while something must see it unchanged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from collectors.receivers.assembler import ASSEMBLING
from ingest.held import DECISIONS
from warehouse.store import Store
from warehouse.turns import Held, HeldTogether


@contextlib.contextmanager
def nobody_writing(store: Store) -> Iterator[Held]:
    """While no pushed row is written, no hour is closed, and nothing is issued or decided."""
    with (
        store.turn(f"close {store.database}") as closing,
        store.turn(ASSEMBLING) as assembling,
        store.turn(DECISIONS) as deciding,
        store.turn() as writing,
    ):
        yield HeldTogether(closing, assembling, deciding, writing)
