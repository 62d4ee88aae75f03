"""Two servers on one ClickHouse store, killed and paused at any moment: one leads, and nothing is lost or doubled.

The engine is the real one behind HTTP; the servers are processes as a person starts them, with leases of seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from billing.close import close
from billing.rates import apply_rate_card, parse_rate_card
from billing.verify import verify
from ingest.wire import plain
from tests.access.postgres import Cluster
from tests.billing.facts import Facts, devices, job, put_all, samples
from tests.conftest import REPO
from tests.draws import drawn, keep_seed, seldom
from tests.ingest.receiving import TOKEN, tokens_file
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_port
from tests.stores import fresh_store
from tests.warehouse.engine_over_http import served
from warehouse.store import Store, migrate, open_store

LEASE_SECONDS = 4.0
STEPS = int(os.environ.get("GPULEDGER_STEPS", "3"))
"""Kills and pauses; ad hoc many more."""
NOON = (datetime.now(UTC) - timedelta(days=3)).replace(hour=12, minute=0, second=0, microsecond=0)
UNTIL = NOON + timedelta(hours=10)
CARD = {
    "currency": "EUR",
    "minimum_seconds": 0,
    "rates": [{"sku": "h100", "match": {"model": "H100"}, "price_per_gpu_hour": "2.00"}],
}
LEDGER = "SELECT * EXCEPT run FROM ledger ORDER BY ALL"


@pytest.fixture(params=drawn(["sqlite", "postgresql"], 0.5))
def access_of(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment that says where both servers have their users and leases."""
    if request.param == "sqlite":
        return {"GPULEDGER_ACCESS_STORE": f"sqlite:///{tmp_path / 'access.sqlite'}"}
    cluster: Cluster = request.getfixturevalue("postgres")
    return {
        "GPULEDGER_ACCESS_STORE": cluster.database(),
        "GPULEDGER_ACCESS_STORE_PASSWORD_FILE": str(cluster.password_file),
    }


@dataclass
class Server:
    """One of two.   paused: it stands still."""

    store: str
    tokens: Path
    environment: dict[str, str]
    log: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    paused: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.access.one_server", str(LEASE_SECONDS)]
        command += ["--store", self.store, "--tokens", str(self.tokens), "--port", str(self.port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=REPO, env={**os.environ, **self.environment}, stderr=log, stdout=log
            )

    def signal(self, what: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(what)
        self.paused = what == signal.SIGSTOP or (self.paused and what != signal.SIGCONT)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(PATIENCE_SECONDS)
        self.process, self.paused = None, False

    def leads(self) -> bool:
        """False also where it does not answer."""
        with contextlib.suppress(httpx.HTTPError):
            return bool(httpx.get(f"{self.url}/readyz", timeout=1.0).json()["leader"])
        return False

    def stop(self) -> int:
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        assert self.process is not None
        return self.process.wait(PATIENCE_SECONDS)


@contextlib.contextmanager
def two(store: str, folder: Path, environment: dict[str, str]) -> Iterator[list[Server]]:
    tokens = tokens_file(folder)
    servers = [Server(store, tokens, environment, folder / f"server-{name}.log") for name in "ab"]
    try:
        for one in servers:
            one.start()
        until(lambda: any(one.leads() for one in servers), "nobody leads", every=0.2)
        yield servers
    finally:
        for one in servers:
            if one.process is not None:
                one.kill()


def facts(dice: random.Random) -> Facts:
    """Two days of work on four devices, some of it told late, out of order, or twice."""
    names = [f"g{number}" for number in range(4)]
    found: Facts = {"devices": devices(text(NOON - timedelta(hours=1)), *names), "events": [], "samples": []}
    for name in names:
        minute = dice.randrange(50)
        for number in range(6):
            length = dice.randrange(20, 110)
            begun, ended = (NOON + timedelta(minutes=minute + at) for at in (0, length))
            found["events"] += job(f"{name}-{number}", dice.choice("xyz"), name, text(begun), text(ended))
            found["samples"] += samples(name, text(begun), range(length), dice.choice([0.0, 0.25, 0.75]))
            minute += length + dice.randrange(10)
    return found


def text(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"


def bodies(found: Facts, dice: random.Random) -> list[tuple[str, str]]:
    """(record, lines) to push, in an odd order; some come twice."""
    made = []
    for record, rows in found.items():
        size = {"devices": 4, "events": 7, "samples": 150}[record]
        for first in range(0, len(rows), size):
            lines = "\n".join(json.dumps(plain(row)) for row in rows[first : first + size])
            made += [(record, lines)] * dice.choice([1, 1, 1, 2])
    dice.shuffle(made)
    return made


def push(servers: list[Server], record: str, lines: str, dice: random.Random) -> None:
    """To either, until one says that it has it."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/x-ndjson"}

    def acknowledged() -> bool:
        there = [one for one in servers if one.process is not None and not one.paused]
        with contextlib.suppress(httpx.HTTPError):
            url = f"{dice.choice(there).url}/api/v1/records/{record}"
            answer = httpx.post(url, content=lines, headers=headers, timeout=5.0)
            assert answer.status_code < 400 or answer.status_code >= 500, answer.text
            return answer.status_code < 300
        return False

    until(acknowledged, f"no server takes {record}", every=0.1)


def prepared(store: Store) -> None:
    migrate(store)
    apply_rate_card(store, parse_rate_card(CARD), "me", "", NOON - timedelta(days=30))


def disturb(servers: list[Server], dice: random.Random) -> str:
    """Kills one and starts it again, or lets it stand still for up to two leases; more often the one that leads."""
    leading = [one for one in servers if one.leads()]
    assert len(leading) <= 1, "two lead"
    one = leading[0] if leading and dice.random() < 0.7 else dice.choice(servers)
    what = f"{'the leader' if one in leading else 'the other'}, {one.log.name}"
    if dice.random() < 0.5:
        one.kill()
        one.start()
        return f"killed {what}"
    one.signal(signal.SIGSTOP)
    seconds = dice.uniform(0.2, 2.0) * LEASE_SECONDS
    time.sleep(seconds)
    one.signal(signal.SIGCONT)
    return f"{what} stood still for {seconds:.1f} s"


@seldom(6, "two servers lead by turns")
def test_killed_and_paused_servers_leave_the_books_as_one_would_have(tmp_path: Path, access_of: dict[str, str]) -> None:
    seed = os.environ.get("GPULEDGER_SEED") or f"{keep_seed()} two lead"
    print(f"seed: {seed}")
    dice = random.Random(seed)
    found, done = facts(dice), []
    pushes = bodies(found, dice)
    stops = sorted(dice.sample(range(1, len(pushes)), STEPS))
    (tmp_path / "engine").mkdir()
    with served(tmp_path / "engine") as url:
        with open_store(url) as store:
            prepared(store)
        with two(url, tmp_path, access_of) as servers:
            for number, (record, lines) in enumerate(pushes):
                if number in stops:
                    done.append(disturb(servers, dice))
                push(servers, record, lines, dice)
            until(lambda: sum(one.leads() for one in servers) == 1, "one leads again", every=0.2)
            codes = [one.stop() for one in servers]
            logs = "\n".join(one.log.read_text() for one in servers)
            assert codes == [0, 0], f"{done}\n{logs}"
        with open_store(url) as store:
            counted = {name: store.value(f"SELECT count() AS n FROM {name}") for name in found}
            closed_by_itself = store.value("SELECT count() AS n FROM closed_hours")
            close(store, UNTIL)
            ledger, balanced = store.rows(LEDGER), verify(store).balanced
    with fresh_store(tmp_path / "alone") as store:
        prepared(store)
        put_all(store, found)
        close(store, UNTIL)
        assert counted == {name: len({json.dumps(plain(row)) for row in rows}) for name, rows in found.items()}, done
        assert ledger == store.rows(LEDGER), done
    assert balanced and closed_by_itself, f"{done}\n{logs}"
    assert "Traceback" not in logs, logs
