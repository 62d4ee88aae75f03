"""Where metrics are pushed, for tests: real HTTP, a real store; and bodies as Prometheus makes them.

python -m tests.collectors.receivers.pushing STORE TOKENS   takes pushes in until it is killed, and assembles none
"""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pyarrow as pa
import uvicorn
from starlette.applications import Starlette

from collectors.receivers.assembler import Assembler
from collectors.receivers.endpoint import MetricsEndpoint
from collectors.receivers.log import PointLog
from collectors.receivers.remote_write import STALE
from collectors.receivers.remote_write_pb2 import Label, Sample, TimeSeries, TimeSeriesV2
from ingest.coalesce import Coalescer
from ingest.receive import Receiver
from ingest.senders import Senders
from tests.ingest.receiving import REPO, TOKEN
from tests.patience import PATIENCE_SECONDS, until
from warehouse.store import Store, open_store

ONE_NODE = "a token of one node alone"
SENDERS = f"""
senders:
  - {{name: agents, token: {TOKEN}, records: all, clusters: all, nodes: all}}
  - {{name: c1-n1, token: {ONE_NODE}, records: [samples, metrics], clusters: [c1], nodes: [n1]}}
  - {{name: scheduler, token: a token that tells events, records: [events], clusters: all, nodes: all}}
"""
V1 = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
V2 = {"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request", "Content-Encoding": "snappy"}
STALE_NAN = struct.unpack("<d", struct.pack("<Q", STALE))[0]

Given = tuple[Mapping[str, str], Sequence[tuple[int, float]]]
"""A series: its labels with __name__, and (milliseconds, value)."""


@dataclass
class Pushed:
    """client: with the token of the sender who may send anything."""

    url: str
    client: httpx.Client
    receiver: Receiver
    log: PointLog
    assembler: Assembler
    store: Store

    def write(self, body: bytes, headers: Mapping[str, str] = V1, token: str = TOKEN) -> httpx.Response:
        given = {**headers, "Authorization": f"Bearer {token}"} if token else dict(headers)
        return self.client.post("/api/v1/write", content=body, headers=given)

    def otlp(self, body: bytes, token: str = TOKEN, **headers: str) -> httpx.Response:
        given = {"Content-Type": "application/x-protobuf", **headers, "Authorization": f"Bearer {token}"}
        return self.client.post("/v1/metrics", content=body, headers=given)

    def assemble(self) -> None:
        """One pass, over all that was acknowledged."""
        self.assembler.run(self.store, threading.Event())
        waiting = self.store.value(
            "SELECT countIf(NOT done) FROM (SELECT max(assembled) AS done FROM pushed_instants"
            " GROUP BY sender, target, ts, push)"
        )
        assert waiting == 0


@contextlib.contextmanager
def receiving(
    store: Store, tokens: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC), settle_seconds: float = 0.0
) -> Iterator[Pushed]:
    with store.another() as own, store.another() as judging, store.another() as logging:
        coalescer = Coalescer(own, 0.01)
        receiver = Receiver(coalescer, Senders(tokens), judging, now)
        log = PointLog(logging)
        routes = [receiver.route(), *MetricsEndpoint(receiver.admission, receiver.tally, log, now).routes()]
        config = uvicorn.Config(Starlette(routes=routes), log_level="error", timeout_graceful_shutdown=2)
        server = uvicorn.Server(config)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
            thread.start()
            until(lambda: server.started)
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            try:
                with httpx.Client(base_url=url) as client:
                    yield Pushed(url, client, receiver, log, Assembler(receiver, log, settle_seconds, 0.0), store)
            finally:
                server.should_exit = True
                thread.join(PATIENCE_SECONDS)
                log.close()
                coalescer.close()


def snappy(text: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(text, asbytes=True)
    return packed


def part(number: int, content: bytes) -> bytes:
    """A field with a length, as protobuf writes it."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def write_v1(series: Sequence[Given]) -> bytes:
    """A prometheus.WriteRequest, not compressed."""
    return b"".join(
        part(
            1,
            TimeSeries(
                labels=[Label(name=name, value=text) for name, text in sorted(labels.items())],
                samples=[Sample(timestamp=ts, value=value) for ts, value in samples],
            ).SerializeToString(),
        )
        for labels, samples in series
    )


def write_v2(series: Sequence[Given]) -> bytes:
    """An io.prometheus.write.v2.Request, not compressed."""
    texts = {"": 0}
    found = []
    for labels, samples in series:
        places = [texts.setdefault(text, len(texts)) for pair in sorted(labels.items()) for text in pair]
        reported = [Sample(timestamp=ts, value=value) for ts, value in samples]
        found.append(part(5, TimeSeriesV2(labels_refs=places, samples=reported).SerializeToString()))
    return b"".join(part(4, text.encode()) for text in texts) + b"".join(found)


def receiver_process(store: str, tokens: Path) -> tuple[subprocess.Popen[str], str]:
    """One that can be killed, and its address."""
    command = [sys.executable, "-m", "tests.collectors.receivers.pushing", store, str(tokens)]
    process = subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def main() -> None:
    url, tokens = sys.argv[1:]
    with open_store(url) as store, receiving(store, Path(tokens)) as pushed:
        print(pushed.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
