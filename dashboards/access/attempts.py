"""How often somebody may try to sign in: so many failures in a while for a name, and more for an address."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

FAILURES_OF_A_NAME = 5
FAILURES_OF_AN_ADDRESS = 30
WITHIN_SECONDS = 300.0
REMEMBERED = 10_000
"""Names and addresses; the oldest are forgotten first."""


class Attempts:
    """Failures of the last minutes, in memory. `now` is any clock that goes on, in seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def wait_seconds(self, name: str, address: str, now: float) -> float:
        """How long until the next attempt is looked at; 0 = now."""
        with self._lock:
            return max(
                self._wait(("name", name.casefold()), FAILURES_OF_A_NAME, now),
                self._wait(("address", address), FAILURES_OF_AN_ADDRESS, now),
            )

    def failed(self, name: str, address: str, now: float) -> None:
        with self._lock:
            for key in (("name", name.casefold()), ("address", address)):
                self._failures.setdefault(key, deque(maxlen=FAILURES_OF_AN_ADDRESS)).append(now)
                self._failures.move_to_end(key)
            while len(self._failures) > REMEMBERED:
                self._failures.popitem(last=False)

    def succeeded(self, name: str) -> None:
        with self._lock:
            self._failures.pop(("name", name.casefold()), None)

    def _wait(self, key: tuple[str, str], allowed: int, now: float) -> float:
        failures = self._failures.get(key)
        while failures and failures[0] <= now - WITHIN_SECONDS:
            failures.popleft()
        if not failures or len(failures) < allowed:
            return 0.0
        return failures[-allowed] + WITHIN_SECONDS - now
