"""Limits failed sign-ins by name and address.

    (name, address)   5 failures in 5 minutes: stops a guesser, but nobody at another address
    address           30 failures: stops one address that tries many names
    name              from 20 failures on, from any address, each (name, address) has only 1: slows down a botnet
    device            5 failures, and none of the limits above: a browser that the user has signed in with before

The *device* is a signed cookie of a browser. Thanks to it, other people's guesses never lock a user out, not even those
from the same address.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque

from warehouse.addresses import rate_limit_key

FAILURES = 5
FAILURES_WHEN_ATTACKED = 1
FAILURES_OF_AN_ADDRESS = 30
ATTACKED = 20
WITHIN_SECONDS = 300.0
REMEMBERED = 10_000
"""Keys; the oldest are forgotten first."""
Key = tuple[str, ...]


class Attempts:
    """Recent failures, in memory. now: seconds of a monotonic clock.   device: '' if the browser is not known."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures: OrderedDict[Key, deque[float]] = OrderedDict()

    def wait_seconds(self, name: str, address: str, device: str, now: float) -> float:
        """How long until another attempt is allowed; 0 = now."""
        with self._lock:
            if device:
                return self._wait(("device", device), FAILURES, now)
            is_attacked = self._wait(("name", name), ATTACKED, now) > 0
            by = rate_limit_key(address)
            return max(
                self._wait(("both", name, by), FAILURES_WHEN_ATTACKED if is_attacked else FAILURES, now),
                self._wait(("address", by), FAILURES_OF_AN_ADDRESS, now),
            )

    def failed(self, name: str, address: str, device: str, now: float) -> None:
        with self._lock:
            for key in _keys(name, address, device):
                self._failures.setdefault(key, deque(maxlen=FAILURES_OF_AN_ADDRESS)).append(now)
                self._failures.move_to_end(key)
            while len(self._failures) > REMEMBERED:
                self._failures.popitem(last=False)

    def succeeded(self, name: str, address: str, device: str) -> None:
        """Uncounts this attempt, counted as a failure before, and earlier failures of the name from the same place."""
        with self._lock:
            for key in _keys(name, address, device):
                if key[0] in ("both", "device"):
                    self._failures.pop(key, None)
                elif self._failures.get(key):
                    self._failures[key].pop()

    def _wait(self, key: Key, allowed: int, now: float) -> float:
        failures = self._failures.get(key)
        while failures and failures[0] <= now - WITHIN_SECONDS:
            failures.popleft()
        if not failures or len(failures) < allowed:
            return 0.0
        return failures[-allowed] + WITHIN_SECONDS - now


def _keys(name: str, address: str, device: str) -> list[Key]:
    if device:
        return [("device", device)]
    by = rate_limit_key(address)
    return [("both", name, by), ("address", by), ("name", name)]
