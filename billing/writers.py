"""Makes writers of a store wait while something must see it unchanged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from collectors.receivers.assembler import ASSEMBLING
from ingest.held import DECISIONS
from warehouse.store import Store


@contextlib.contextmanager
def nobody_writing(store: Store) -> Iterator[None]:
    """While no pushed row is written, no hour is closed, and nothing is issued or decided."""
    with store.turn(f"close {store.database}"), store.turn(ASSEMBLING), store.turn(DECISIONS), store.turn():
        yield
