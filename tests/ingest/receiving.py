"""A receiver for tests: real HTTP, a real store, in a thread of this process or in a process of its own.

python -m tests.ingest.receiving STORE TOKENS PORT
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import uvicorn
from starlette.applications import Starlette

from ingest import ingest_tables
from ingest.coalesce import Coalescer
from ingest.known_devices import known_devices_route
from ingest.receive import Receiver
from ingest.senders import Connect, Senders
from tests.patience import PATIENCE_SECONDS, until
from warehouse.records import FINDINGS
from warehouse.store import Store, migrate, open_store

REPO = Path(__file__).resolve().parents[2]
TOKEN = "a token of the tests"
ANYTHING = "records: all, clusters: all, nodes: all, back: all, inventory: true"


def tokens_file(folder: Path, text: str = "") -> Path:
    path = folder / "tokens.yaml"
    path.write_text(text or f"senders: [{{name: agents, token: {TOKEN}, {ANYTHING}}}]\n")
    return path


@dataclass
class Served:
    url: str
    receiver: Receiver
    coalescer: Coalescer


@contextlib.contextmanager
def receiving(
    store: Store,
    tokens: Path,
    linger_seconds: float = 0.05,
    most_waiting: int = 1_000_000,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    connect: Connect | None = None,
) -> Iterator[Served]:
    """The receiver on a free port, in a thread."""
    coalescer = Coalescer(store, linger_seconds, most_waiting)
    receiver = Receiver(coalescer, Senders(tokens, connect), store, now)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = _server(receiver, store)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        until(lambda: server.started)
        try:
            yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}", receiver, coalescer)
        finally:
            server.should_exit = True
            thread.join(PATIENCE_SECONDS)
            coalescer.close()


def _server(receiver: Receiver, store: Store) -> uvicorn.Server:
    app = Starlette(routes=[receiver.route(), known_devices_route(store, receiver.admission.sender)])
    return uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=2))


def receiver_process(store: str, tokens: Path, port: int) -> subprocess.Popen[bytes]:
    """One that can be killed; answers once it is open."""
    command = [sys.executable, "-m", "tests.ingest.receiving", store, str(tokens), str(port)]
    process = subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"open\n"
    return process


def main() -> None:
    url, tokens, port = sys.argv[1:]
    with open_store(url) as store, socket.create_server(("127.0.0.1", int(port))) as listener:
        migrate(store)
        # The first insert imports much; it is not to be waited for.
        about = pa.table(
            {"ts": pa.array([1_790_812_800_000], pa.timestamp("ms", "UTC")), "finding": ["warm"], "severity": ["info"]}
        )
        ingest_tables(store, FINDINGS, "test", [about])
        coalescer = Coalescer(store, 0.01)
        print("open", flush=True)
        _server(Receiver(coalescer, Senders(Path(tokens)), store), store).run(sockets=[listener])
        coalescer.close()


if __name__ == "__main__":
    main()
