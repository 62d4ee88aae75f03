"""An agent's collecting and delivering in a process that can be killed at any moment.

Reads lines from stdin: `FOLDER URL TICKS`; forks a child for each, which collects that many ticks (0: none) and
delivers until the spool is empty, and says its pid. What it is about to spool is in `tried`, what is spooled in
`kept`; a byte in `answered` says that the receiver has taken a group, which the spool has not forgotten yet.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ingest.deliver import Deliverer
from ingest.spool import Group, Spool
from ingest.targets import Answer, Outcome, ReceiverTarget, Sender
from ingest.wire import pack
from tests.ingest.receiving import TOKEN

START = datetime(2026, 10, 1, tzinfo=UTC)
SAMPLES = 5
"""A tick; their numbers follow each other."""


def sample(number: int) -> dict[str, Any]:
    return {
        "ts": START + timedelta(seconds=10 * number),
        "interval_seconds": 10.0,
        "cluster": "c1",
        "node": "n1",
        "device_id": f"GPU-{number % 8}",
        "state": "ok",
        "utilization": number % 100 / 100,
        "memory_used_bytes": number,
    }


def numbers(path: Path) -> list[int]:
    """The first numbers of the ticks that a journal names; the last line may be cut short."""
    text = path.read_text() if path.exists() else ""
    return [int(line) for line in text.rpartition("\n")[0].splitlines() if line]


def ticks(folder: Path, count: int) -> Iterator[int]:
    tried = numbers(folder / "tried")
    first = tried[-1] + SAMPLES if tried else 0
    yield from range(first, first + count * SAMPLES, SAMPLES)


class Noting(ReceiverTarget):
    """Notes when the receiver has taken samples."""

    noted = -1

    def send(self, group: Group) -> Answer:
        answer = super().send(group)
        if answer.outcome is Outcome.TAKEN and group.record == "samples":
            os.write(self.noted, b".")
        return answer


def run(folder: Path, url: str, count: int) -> None:
    (folder / "token").write_text(TOKEN)
    journal = {
        name: os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT) for name in ("tried", "kept", "answered")
    }
    to = Noting(url, Sender("c1", "n1"), folder / "token")
    to.noted = journal["answered"]
    stop = threading.Event()
    with Spool(folder / "spool") as spool:
        deliverer = Deliverer(spool, to, 0.005, lambda: 0.02)
        thread = threading.Thread(target=deliverer.run, args=(stop,))
        thread.start()
        for first in ticks(folder, count):
            os.write(journal["tried"], f"{first}\n".encode())
            now = sample(first)["ts"]
            finding = {"ts": now, "cluster": "c1", "node": "n1", "finding": "test", "severity": "info"}
            batch = pack("samples", [sample(number) for number in range(first, first + SAMPLES)])
            spool.append([batch, pack("findings", [finding])], now)
            os.write(journal["kept"], f"{first}\n".encode())
            stop.wait(0.03)
        while spool.state().batches:
            stop.wait(0.005)
        stop.set()
        thread.join()


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        folder, url, count = line.split()
        pid = os.fork()
        if pid == 0:
            run(Path(folder), url, int(count))
            os._exit(0)
        print(pid, flush=True)


if __name__ == "__main__":
    main()
