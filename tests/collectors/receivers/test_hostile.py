"""Bodies that nobody honest sends: read or refused, in bounded memory, and never taken for what they are not."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from collectors.exporters.exposition import MOST_LABELS, MOST_TEXT
from collectors.receivers import otlp, remote_write, snappy
from collectors.receivers.assemble import Memory, Names, assemble, instants
from collectors.receivers.points import MOST_POINTS, Push, Target, Terms
from ingest.body import TooLargeError
from ingest.errors import IngestError
from tests.collectors.receivers import pushing, test_otlp, test_remote_write
from tests.collectors.receivers.pushing import part, varint
from tests.draws import drawn, seldom
from tests.ingest.receiving import REPO

TERMS = Terms(Names().wanted, Names().reads, lambda _: True, "", 0, 1 << 45)
SERIES = [test_remote_write.util([(0, 50), (15, 60)]), test_remote_write.memory([(0, 1024)], pod="p")]
EXPORT = test_otlp.request(
    [("hw.gpu.utilization", 0.5, {"hw.id": "GPU-0"}), ("hw.energy", 7.0, {"hw.id": "GPU-0", "hw.type": "gpu"})]
)
HONEST: dict[str, bytes] = {
    "v1": pushing.write_v1(SERIES),
    "v2": pushing.write_v2(SERIES),
    "otlp": ParseDict(EXPORT, ExportMetricsServiceRequest()).SerializeToString(),
    "json": json.dumps(EXPORT).encode(),
}
READ: dict[str, Callable[[bytes], Push]] = {
    "v1": partial(remote_write.read, message=remote_write.V1, terms=TERMS),
    "v2": partial(remote_write.read, message=remote_write.V2, terms=TERMS),
    "otlp": partial(otlp.read, terms=TERMS),
    "json": partial(otlp.read_json, terms=TERMS),
}


def read_or_refused(kind: str, text: bytes) -> Push | None:
    """And what is read can be assembled."""
    try:
        push = READ[kind](text)
    except IngestError as refusal:
        assert str(refusal).isprintable() or "\n" in str(refusal)
        return None
    by_target: dict[Target, list[tuple[datetime, str, dict[str, str], float, bool]]] = {}
    for one in push.points:
        at = datetime.fromtimestamp(one.ts / 1000, UTC)
        by_target.setdefault(one.target, []).append((at, one.name, dict(one.labels), one.value, one.stale))
    for target, points in by_target.items():
        assemble(target, Memory(), instants(points, 0.0))
    return push


@pytest.mark.parametrize("kind", READ)
@settings(max_examples=40)
@given(text=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(kind: str, text: bytes) -> None:
    push = read_or_refused(kind, text)
    assert push is None or not text or push.accepted or push.refused or kind == "v1" or not push.points


@pytest.mark.parametrize("kind", READ)
@settings(max_examples=60)
@given(edits=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=4), end=st.floats(0, 1))
def test_a_body_that_was_damaged_is_read_or_refused(kind: str, edits: list[tuple[float, int]], end: float) -> None:
    text = bytearray(HONEST[kind])
    for place, byte in edits:
        text[min(int(place * len(text)), len(text) - 1)] = byte
    read_or_refused(kind, bytes(text[: int(end * len(text)) + 1]))


@pytest.mark.parametrize("kind", ["v1", "v2", "otlp", "json"])
def test_no_part_of_a_body_is_taken_for_the_whole(kind: str) -> None:
    """A request that was cut off is refused, or has fewer points: it never has others."""
    whole = READ[kind](HONEST[kind]).points
    for end in range(len(HONEST[kind])):
        push = read_or_refused(kind, HONEST[kind][:end])
        assert push is None or push.points == whole[: len(push.points)]
        assert push is None or len(push.points) < len(whole)


@given(text=st.binary(max_size=300), size=st.integers(0, 1 << 33))
def test_snappy_is_what_it_says_or_refused(text: bytes, size: int) -> None:
    assert snappy.decompressed(pushing.snappy(text), 1000) == text
    for body in (text, varint(size) + text, pushing.snappy(text)[:-1]):
        try:
            assert len(snappy.decompressed(body, 1000)) <= 1000
        except IngestError as refusal:
            assert str(refusal)


def test_a_bomb_is_refused_before_room_is_made_for_it() -> None:
    bomb = pushing.snappy(b"\x00" * (64 << 20))
    assert len(bomb) < 4 << 20
    with pytest.raises(TooLargeError, match="67108864 bytes when decompressed: at most 33554432"):
        snappy.decompressed(bomb, 32 << 20)


EMPTY_SERIES, EMPTY_LABEL = part(1, b""), part(1, b"")
FLOODS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "series of nothing": ("v1", lambda: EMPTY_SERIES * (8 << 20)),
    "labels of nothing": ("v1", lambda: part(1, EMPTY_LABEL * 30_000) * 500),
    "samples of nothing": ("v1", lambda: part(1, part(2, b"") * 30_000) * 500),
    "symbols of nothing": ("v2", lambda: part(4, b"") * (8 << 20)),
    "series of no symbols": ("v2", lambda: part(5, b"") * (8 << 20)),
    "references to one symbol": ("v2", lambda: part(4, b"x") + part(5, part(1, b"\x00" * 60_000)) * 250),
    "resources of nothing": ("otlp", lambda: part(1, b"") * (4 << 20)),
    "scopes of nothing": ("otlp", lambda: part(1, part(2, b"") * (4 << 20))),
    "metrics of nothing": ("otlp", lambda: part(1, part(2, part(2, b"") * (4 << 20)))),
    "points of nothing": (
        "otlp", lambda: part(1, part(2, part(2, part(1, b"hw.power") + part(5, part(1, b"") * 400_000)) * 20)),
    ),
    "attributes of nothing": (
        "otlp", lambda: part(1, part(2, part(2, part(1, b"hw.power") + part(5, part(1, part(7, b"") * 400_000))) * 20)),
    ),
    "json of nothing": ("json", lambda: b'{"resourceMetrics":[' + b"{}," * 2_000_000 + b"{}]}"),
}  # fmt: skip


def flood(name: str) -> None:
    """In a process of its own: `python -m ... NAME` says how much memory and time it took."""
    kind, make = FLOODS[name]
    text = make()
    before, began = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_SELF).ru_utime
    try:
        READ[kind](text)
        print("read", end=" ")
    except IngestError:
        print("refused", end=" ")
    after = resource.getrusage(resource.RUSAGE_SELF)
    print((after.ru_maxrss - before.ru_maxrss) // 1024, round(after.ru_utime - began, 2))


@seldom(6, "floods")
@pytest.mark.parametrize("name", drawn(sorted(FLOODS), 0.1))
def test_a_flood_of_nothing_costs_little(name: str) -> None:
    command = [sys.executable, "-m", "tests.collectors.receivers.test_hostile", name]
    said = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True).stdout.split()
    assert said[0] in ("read", "refused") and int(said[1]) < 400


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_labels_that_a_pods_user_may_write_do_not_hide_its_device(version: str) -> None:
    """dcgm-exporter repeats a pod's labels, as many as there are; a profile reads few of them."""
    many = [(f"a{n}", "x" * (2000 if n == 7 else 1)) for n in range(3 * MOST_LABELS)]
    own = [
        ("__name__", "DCGM_FI_DEV_GPU_UTIL"),
        ("UUID", "GPU-1"),
        ("modelName", "H100"),
        ("pod_uid", "uid-1"),
        ("job", "d"),
    ]
    push = READ[version](series(version, [*many, *own]))
    assert not push.refused and [dict(point.labels) for point in push.points] == [dict(own[1:])]
    for wrong in ([("UUID", "GPU-2")], [("", "x")]):
        assert READ[version](series(version, [*many, *own, *wrong])).refused == {
            "a label without a name, or there twice": 1
        }
    assert READ[version](series(version, [*own, ("pod", "p" * 2000)])).refused == {
        f"a label of more than {MOST_TEXT} characters": 1
    }


def series(version: str, labels: list[tuple[str, str]]) -> bytes:
    """A request with one series, which has one sample."""
    sample = b"\x10" + varint(1_700_000_000_000)
    if version == "v1":
        pairs = b"".join(part(1, part(1, name.encode()) + part(2, text.encode())) for name, text in labels)
        return part(1, pairs + part(2, sample))
    words = [word for pair in labels for word in pair]
    symbols = b"".join(part(4, word.encode()) for word in words)
    return symbols + part(5, part(1, b"".join(varint(n) for n in range(len(words)))) + part(2, sample))


def test_more_points_than_anybody_has_are_refused() -> None:
    name = part(1, part(1, b"__name__") + part(2, b"DCGM_FI_DEV_GPU_UTIL"))
    sample = part(2, b"\x10" + varint(1_700_000_000_000))
    with pytest.raises(IngestError, match=f"more than {MOST_POINTS:,} points"):
        READ["v1"](part(1, name + sample * 6000) * (MOST_POINTS // 6000 + 1))


if __name__ == "__main__":
    flood(sys.argv[1])
