"""Asks a gpuledger server which allocations are idle, for the scheduler (scheduler.live.idle), and how used they are,
for its jobs with a scaling policy (scheduler.live.scaled_jobs)."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

from gpuledger.client import ApiError, Client
from gpuledger.documents import Alert
from ingest.prompt_client import PromptClient
from scheduler.live.idle import RULE, Feed, Reading
from scheduler.live.scaled_jobs import Measured
from scheduler.live.scaled_jobs import Reading as Use
from warehouse.errors import LedgerError

EVERY_SECONDS, MOST_SECONDS = 60.0, 180.0
"""How often it is asked, and how seldom at most: an answer counts for five minutes."""


class IdleFeed:
    """url: of the server.   token_file: read anew each time, with a token that sees the alerts of all tenants.
    cluster: as the books call it; alerts of others are left out.   clock: seconds since the epoch.

    Errors: LedgerError if the address is none, or the file cannot be read.
    """

    def __init__(self, url: str, token_file: Path | None, cluster: str, clock: Callable[[], float]) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise LedgerError(f"--idle-from {url}", "is not the address of a server", "Use https://server:8443")
        self._url, self._token_file, self._cluster, self._clock = url, token_file, cluster, clock
        self._token()

    def ask(self) -> Feed:
        """The server's current answer, or why there is none."""
        try:
            with Client(self._url, self._token(), http=PromptClient) as client:
                found = {
                    row.labels["allocation_id"]: reading_of(row)
                    for row in client.alerts(["firing"], RULE)
                    if row.labels.get("cluster", "") == self._cluster and "allocation_id" in row.labels
                }
        except (ApiError, LedgerError) as error:
            return Feed(self._clock(), problem=str(error))
        return Feed(self._clock(), found)

    def ask_use(self, seconds: float) -> Measured:
        """How used allocations were over so many seconds, or why there is no answer."""
        try:
            with Client(self._url, self._token(), http=PromptClient) as client:
                found = client.utilization(int(seconds), self._cluster)
        except (ApiError, LedgerError) as error:
            return Measured(self._clock(), problem=str(error))
        readings = {
            one.allocation_id: Use(one.utilization, one.gpus)
            for one in found.allocations
            if one.cluster == self._cluster
        }
        return Measured(self._clock(), None if found.at is None else found.at.timestamp(), readings)

    def _token(self) -> str:
        if self._token_file is None:
            return ""
        try:
            return self._token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise LedgerError(
                f"--idle-token-file {self._token_file}", f"cannot be read ({error})", "It holds an API token"
            ) from error


def reading_of(alert: Alert) -> Reading:
    """The idleness that an alert found. Its `at` is that of its last change of state, but every evaluation with data
    renews its evidence; so the last evaluation was when the idleness in that evidence ends."""
    since = _instant(alert.evidence.get("idle_since"))
    if alert.value is None or since is None or alert.keep_firing_since is not None:
        return Reading(None, alert.at.timestamp())
    return Reading.of(alert.value, since.timestamp() + alert.value)


def _instant(text: object) -> datetime | None:
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def follow(
    feed: IdleFeed,
    receive: Callable[[Feed], None],
    stop: threading.Event,
    seconds: float = EVERY_SECONDS,
    windows: Callable[[], Sequence[float]] = tuple,
    receive_use: Callable[[float, Measured], None] = lambda seconds, found: None,
) -> None:
    """Passes the server's answers on, every `seconds`, until it is stopped. windows: seconds of those over which
    somebody wants to know how used allocations were; about long ones it is asked less often."""
    asked_at: dict[float, float] = {}
    while not stop.is_set():
        receive(feed.ask())
        for window in windows():
            due = asked_at.get(window, -math.inf) + min(MOST_SECONDS, window / 20)
            if time.monotonic() >= due and not stop.is_set():
                asked_at[window] = time.monotonic()
                receive_use(window, feed.ask_use(window))
        stop.wait(seconds)
