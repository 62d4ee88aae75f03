"""What routes and pages reach beyond the store: who is notified of alerts, and the scheduler whose jobs can be
reclaimed. Set when the server starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from alerts.routing import Routing, load_routing
from scheduler.live.client import Client, read_token

ANSWER_SECONDS = 5.0
"""For each read from the scheduler: somebody looks at a page meanwhile."""


@dataclass(frozen=True)
class Reach:
    """routing: the routing file, read anew each time.   rules: the site's own alert rules, whose texts alerts are shown
    with in another language; None: the shipped ones.   scheduler: address of a live scheduler or operator, '' = none.
    scheduler_token_file: holds its token."""

    routing: Path | None = None
    scheduler: str = ""
    scheduler_token_file: Path | None = None
    rules: Path | None = None

    def receivers(self) -> Routing:
        """Who can be notified; nobody without a file. Errors: AlertError if the file is not valid."""
        return load_routing(self.routing) if self.routing else Routing()

    def jobs(self, actor: str) -> Client | None:
        """The scheduler, asked in the name of `actor`, to be closed; None: there is none. Errors: LedgerError without
        a token."""
        if not self.scheduler:
            return None
        token = read_token(self.scheduler_token_file)
        return Client(
            self.scheduler, token, actor, ANSWER_SECONDS, unanswered="Start it, or correct this server's --scheduler"
        )


NOWHERE = Reach()
