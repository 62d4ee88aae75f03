"""`gpuledger server` as one of several, which closes every second, and in which a lease lasts seconds.

python -m tests.access.one_server LEASE_SECONDS OPTION...
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import access.leader
import gpuledger.serve
import warehouse.turns
from gpuledger.cli import main
from warehouse.background import repeating
from warehouse.leads import ALONE, Leads
from warehouse.store import Store


@contextlib.contextmanager
def hourly_by_the_second(
    store: Store, work: Callable[[Store, threading.Event], None], leads: Leads = ALONE, **when: Any
) -> Iterator[None]:
    with repeating(store, work, leads, **({"seconds": 1} if "minute" in when else when)):
        yield


if __name__ == "__main__":
    lease = float(sys.argv.pop(1))
    access.leader.LEASE_SECONDS = lease
    # The default of a parameter, bound when the class was made.
    warehouse.turns.TurnsBetween.__init__.__defaults__ = (lease,)
    gpuledger.serve.repeating = hourly_by_the_second  # type: ignore[attr-defined]
    sys.argv.insert(1, "server")
    main()
