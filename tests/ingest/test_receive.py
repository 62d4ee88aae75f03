"""The receiver over real HTTP, with a real store behind it."""

from __future__ import annotations

import gc
import gzip
import http.client
import json
import threading
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import httpx
import pytest

from ingest import body, receive
from ingest.body import TooLargeError, decompressed
from ingest.errors import IngestError
from ingest.senders import Senders
from ingest.wire import BATCH_HEADER, batch_id, pack
from tests.draws import seldom
from tests.ingest.receiving import ANYTHING, TOKEN, Served, receiving, tokens_file
from tests.patience import slowness, until
from warehouse.errors import StoreError
from warehouse.store import Store

NOW = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
AUTHORIZATION = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def served(store: Store, tmp_path: Path) -> Iterator[Served]:
    with receiving(store, tokens_file(tmp_path)) as running:
        yield running


def sample(number: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "ts": NOW + timedelta(seconds=10 * number),
        "interval_seconds": 10.0,
        "cluster": "c1",
        "device_id": "GPU-0",
        "state": "ok",
        "utilization": 0.5,
        **changes,
    }


def post(served: Served, record: str, content: bytes, **headers: str) -> httpx.Response:
    given = {**AUTHORIZATION, "Content-Type": "application/x-ndjson", **headers}
    return httpx.post(f"{served.url}/api/v1/records/{record}", content=content, headers=given)


def push(served: Served, rows: list[dict[str, Any]], record: str = "samples", **headers: str) -> httpx.Response:
    packed = pack(record, rows).body
    given = {"Content-Encoding": "gzip", BATCH_HEADER: batch_id(record, packed), **headers}
    return post(served, record, packed, **given)


def test_a_batch_is_in_the_store_when_it_is_answered(served: Served, store: Store) -> None:
    answer = push(served, [sample(number) for number in range(100)])
    assert answer.status_code == 200
    assert answer.json() | {"batch": ""} == {
        **{"batch": "", "read": 100, "stored": 100, "quarantined": {}, "held": {}, "refused": 0, "known": False}
    }
    assert store.value("SELECT count() FROM samples") == 100
    assert store.value("SELECT sum(rows) FROM touched_hours") == 100


def test_a_batch_sent_again_changes_nothing(served: Served, store: Store) -> None:
    rows = [sample(number) for number in range(10)]
    assert not push(served, rows).json()["known"]
    assert push(served, rows).json()["known"]
    with receiving(store, served.receiver.senders._path) as restarted:
        assert push(restarted, rows).json()["read"] == 10
    assert store.value("SELECT count() FROM samples") == 10


def test_events_are_pushed_as_plain_json_by_the_same_door(served: Served, store: Store) -> None:
    event = {"ts": NOW.isoformat(), "allocation_id": "a1", "event": "started", "tenant": "chem", "gpus": 1}
    one = post(served, "events", json.dumps(event).encode(), **{"Content-Type": "application/json"})
    several = [event | {"event": "finished"}, event | {"allocation_id": "a2"}]
    array = post(served, "events", json.dumps(several, indent=1).encode(), **{"Content-Type": "application/json"})
    lines = post(served, "events", b"\n" + json.dumps(event | {"allocation_id": "a3"}).encode() + b"\r\n\n")
    assert [answer.json()["stored"] for answer in (one, array, lines)] == [1, 2, 1]
    found = store.rows("SELECT allocation_id, event FROM events ORDER BY ALL")
    assert [tuple(row.values()) for row in found] == [
        ("a1", "finished"),
        ("a1", "started"),
        ("a2", "started"),
        ("a3", "started"),
    ]


def test_bad_rows_go_to_quarantine_under_their_sender_and_good_ones_are_stored(served: Served, store: Store) -> None:
    rows = [sample(0), sample(1, utilization=45.0), sample(2, state="busy")]
    headers = {"Gpuledger-Cluster": "c1", "Gpuledger-Node": "gpu-7"}
    answer = push(served, rows, **headers).json()
    assert answer["quarantined"] == {"out_of_range_utilization": 1, "unknown_state": 1}
    assert answer["stored"] == store.value("SELECT count() FROM samples") == 1
    found = store.rows("SELECT DISTINCT source, record_type FROM quarantine")
    assert found == [{"source": "push:agents c1/gpu-7", "record_type": "samples"}]
    assert store.value("SELECT count() FROM quarantine WHERE JSONExtractFloat(raw, 'utilization') = 45") == 1


@pytest.mark.parametrize("units", [1025, 2**53 + 1, 2**64 - 1])
def test_a_whole_number_beyond_its_range_is_quarantined_however_large(served: Served, units: int) -> None:
    device = {"ts": NOW, "device_id": "GPU-0", "model": "H100", "state": "available"}
    answer = push(served, [device, device | {"units": units}], "devices").json()
    assert (answer["stored"], answer["quarantined"]) == (1, {"out_of_range_units": 1})


def test_lines_that_are_not_json_are_quarantined_whatever_they_are(served: Served, store: Store) -> None:
    lines = [b"null", b"[1]", b"{", b'"x"', b'{"a":1}{"b":2}', b"\xff\xfe", b'{"device_id":"\\ud800"}', b"[" * 5000]
    answer = post(served, "samples", b"\n".join(lines))
    assert answer.status_code == 200
    assert answer.json()["quarantined"] == {"bad_json": len(lines)}
    assert store.value("SELECT count() FROM quarantine") == len(lines)


def test_many_small_batches_become_few_inserts_each_answered_for_itself(store: Store, tmp_path: Path) -> None:
    with receiving(store, tokens_file(tmp_path), linger_seconds=600) as served:

        def agent(number: int) -> dict[str, Any]:
            rows = [sample(tick, device_id=f"GPU-{number}") for tick in range(5)]
            if number == 7:
                rows.append(sample(9, device_id="GPU-7", utilization=7))
            return push(served, rows, **{"Gpuledger-Node": f"n{number}"}).json()

        with ThreadPoolExecutor(15) as pool:
            answers = [pool.submit(agent, number) for number in range(15)]
            until(lambda: served.coalescer.waiting_rows >= 75)
            served.coalescer.close()
            assert sorted(answer.result()["read"] for answer in answers) == [5] * 14 + [6]
        assert served.coalescer.inserts <= 2
    assert store.value("SELECT count() FROM samples") == 75
    assert store.value("SELECT source FROM quarantine") == "push:agents /n7"


def test_a_body_that_waits_for_the_store_is_held_as_it_was_sent_alone(store: Store, tmp_path: Path) -> None:
    def unpacked() -> list[str]:
        waiting = [one for one in gc.get_objects() if isinstance(one, receive._Body)]
        assert len(waiting) >= 3
        return [name for one in waiting for name in ("text", "lines", "joined") if name in vars(one)]

    with receiving(store, tokens_file(tmp_path), linger_seconds=600) as served, ThreadPoolExecutor(3) as pool:
        answers = [
            pool.submit(push, served, [sample(number, state=state)]) for number, state in enumerate(("ok", "ok", "?"))
        ]
        until(lambda: served.coalescer.waiting_rows == 3 and not unpacked())
        served.coalescer.close()
        assert [answer.result().json()["stored"] for answer in answers] == [1, 1, 0]


def test_a_group_that_is_due_waits_for_batches_that_are_being_judged(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.coalesce.ENOUGH_ROWS", 2)
    with receiving(store, tokens_file(tmp_path), linger_seconds=600) as served, ThreadPoolExecutor(3) as pool:
        with served.coalescer.coming():
            answers = [pool.submit(push, served, [sample(device_id=f"GPU-{number}")]) for number in range(3)]
            until(lambda: served.coalescer.waiting_rows == 3)
            time.sleep(0.1)  # by then it would have been written
            assert served.coalescer.inserts == 0
        assert [answer.result().status_code for answer in answers] == [200] * 3
        assert served.coalescer.inserts == 1


def test_a_group_does_not_wait_long_for_batches_that_are_being_judged(store: Store, tmp_path: Path) -> None:
    with receiving(store, tokens_file(tmp_path), linger_seconds=0.1) as served, served.coalescer.coming():
        assert push(served, [sample()]).status_code == 200


def test_who_has_no_token_gets_no_further(served: Served) -> None:
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
    ):
        answer = httpx.post(f"{served.url}/api/v1/records/samples", content=b"{}", headers=headers)
        assert answer.status_code == 401
        assert TOKEN not in answer.text


def test_a_sender_may_send_what_its_entry_says(store: Store, tmp_path: Path) -> None:
    text = f"senders: [{{name: a, token: {TOKEN}, records: [samples], clusters: [c1], nodes: all}}]"
    with receiving(store, tokens_file(tmp_path, text)) as served:
        assert push(served, [sample()]).status_code == 200
        other = push(served, [sample(), sample(cluster="c2")])
        assert (other.status_code, "'c2'" in other.json()["error"]) == (403, True)
        assert push(served, [sample(cluster=None)]).status_code == 403
        assert post(served, "events", b"{}").status_code == 403
    assert store.value("SELECT count() FROM samples") == 1


def test_a_token_that_is_changed_in_the_file_holds_from_then_on(tmp_path: Path) -> None:
    path = tokens_file(tmp_path)
    senders = Senders(path)
    assert senders.of(TOKEN)
    tokens_file(tmp_path, f"senders: [{{name: agents, token: another token of the tests, {ANYTHING}}}]")
    assert senders.of(TOKEN) is None
    assert senders.of("another token of the tests")
    path.write_text("senders: [")
    assert senders.of("another token of the tests"), "a broken file changes nothing"
    path.write_text("senders: []")
    assert senders.of("another token of the tests") is None, "nobody may any more"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a list of senders"),
        ("senders: []", "senders: "),
        (f"senders: [{{name: a, token: short, {ANYTHING}}}]", r"senders\[0\].token"),
        (f"senders: [{{name: a, {ANYTHING}}}]", "one of token and token_sha256"),
        (
            f"senders: [{{name: a, token: {TOKEN}, records: [sample], clusters: all, nodes: all}}]",
            "no record type sample",
        ),
        (
            f"senders: [{{name: a, token: {TOKEN}, {ANYTHING}}}, {{name: b, token: {TOKEN}, {ANYTHING}}}]",
            "the same token",
        ),
    ],
)
def test_a_tokens_file_of_no_use_is_one_line_that_names_the_key(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "tokens.yaml"
    path.write_text(text)
    with pytest.raises(IngestError, match=said) as raised:
        Senders(path)
    assert TOKEN not in str(raised.value)


def test_unknown_records_wrong_hashes_and_broken_bodies_are_told_apart(served: Served, store: Store) -> None:
    whole = pack("samples", [sample()]).body
    assert post(served, "sampels", b"{}").status_code == 404
    assert post(served, "samples", whole, **{"Content-Encoding": "gzip", BATCH_HEADER: "0" * 32}).status_code == 409
    assert post(served, "samples", whole[:-5], **{"Content-Encoding": "gzip"}).status_code == 422
    assert post(served, "samples", b"no gzip", **{"Content-Encoding": "gzip"}).status_code == 422
    assert post(served, "samples", whole, **{"Content-Encoding": "br"}).status_code == 422
    assert post(served, "samples", b"{", **{"Content-Type": "application/json"}).status_code == 422
    assert store.value("SELECT count() FROM samples") == 0


@pytest.mark.parametrize(
    ("content", "headers", "said"),
    [
        (b"no gzip", {"Content-Encoding": "gzip"}, "not gzip"),
        (b'[{"a": 1}, {', {"Content-Type": "application/json"}, "not JSON"),
        (b'{"a": 1, "a": 2}', {"Content-Type": "application/json"}, "the key 'a' appears twice"),
    ],
)
def test_a_body_that_cannot_be_read_is_tried_once(
    served: Served, content: bytes, headers: dict[str, str], said: str
) -> None:
    with (
        patch.object(receive, "decompressed", wraps=receive.decompressed) as unpacked,
        patch.object(receive, "body_lines", wraps=receive.body_lines) as parsed,
    ):
        answer = post(served, "samples", content, **headers)
    assert (answer.status_code, said in answer.text) == (422, True), answer.text
    assert (unpacked.call_count, parsed.call_count) == (1, int("Content-Type" in headers))


def test_a_body_that_is_too_large_is_not_read_to_its_end(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receive, "BODY_BYTES", 1000)
    assert post(served, "samples", b"x" * 1001).status_code == 413

    def parts() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * 100

    chunked = httpx.post(f"{served.url}/api/v1/records/samples", content=parts(), headers=AUTHORIZATION)
    assert chunked.status_code == 413


def test_a_bomb_is_not_unpacked(served: Served) -> None:
    bomb = gzip.compress(b"\n" * (160 << 20), 1)
    assert len(bomb) < 1_000_000
    assert post(served, "samples", bomb, **{"Content-Encoding": "gzip"}).status_code == 413
    with pytest.raises(TooLargeError):
        decompressed(gzip.compress(b"x" * 600) * 2, "gzip", 1000)
    assert decompressed(gzip.compress(b"x" * 500) * 2, "gzip", 1000) == b"x" * 1000


def test_rows_of_a_document_are_counted_before_they_are_made_into_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(json, "dumps", lambda row, **_: made.append(row))
    with pytest.raises(TooLargeError, match="200,001 rows: at most 200,000"):
        body.body_lines(b"[" + b"{}," * body.BODY_ROWS + b"{}]", document=True)
    assert not made


def test_one_gzip_stream_of_many_members_is_read_whole() -> None:
    members = [gzip.compress(str(number).encode()) for number in range(500)]
    assert decompressed(b"".join(members), "gzip", 1 << 20) == "".join(map(str, range(500))).encode()
    for more in (b"\n", b"\0", b"tail", b"x" * 9000):
        with pytest.raises(IngestError, match=f"{len(more):,} bytes after the end of its gzip data"):
            decompressed(b"".join(members) + more, "gzip", 1 << 20)
    for cut in (b"\x1f", members[0][:5], members[0][:-1]):
        with pytest.raises(IngestError, match="its gzip data is truncated"):
            decompressed(b"".join(members) + cut, "gzip", 1 << 20)
    with pytest.raises(IngestError, match="not gzip"):
        decompressed(zlib.compress(b"x"), "gzip", 1 << 20)
    assert body.decompressed(b"", "gzip", 10) == b""
    nothing_but_ends = gzip.compress(b"", mtime=0) * 100_000
    began = time.process_time()
    assert decompressed(nothing_but_ends, "gzip", 1 << 20) == b""
    assert time.process_time() - began < 5 * slowness(), "the time grows with the bytes, not with their square"


def test_when_much_waits_the_sender_is_told_to_come_later(store: Store, tmp_path: Path) -> None:
    with (
        receiving(store, tokens_file(tmp_path), linger_seconds=0.0, most_waiting=10) as served,
        ThreadPoolExecutor(1) as pool,
    ):
        with store.turn():  # what waits is not written
            first = pool.submit(push, served, [sample(number) for number in range(20)])
            until(lambda: served.coalescer.waiting_rows)
            refused = push(served, [sample(100)])
            assert refused.status_code == 429
            assert int(refused.headers["Retry-After"]) > 0
        assert first.result().status_code == 200
        assert push(served, [sample(100)]).status_code == 200


def test_a_store_that_fails_takes_nothing_and_is_asked_again(
    served: Served, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StoreError("store", "away")

    with monkeypatch.context() as broken:
        broken.setattr("ingest.coalesce.write", away)
        refused = push(served, [sample()])
    assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)
    assert push(served, [sample()]).json()["stored"] == 1
    assert store.value("SELECT count() FROM samples") == 1


def test_one_batch_that_the_store_cannot_take_keeps_no_other_out(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingest import coalesce

    real = coalesce.write

    def picky(store: Store, record: Any, source: str, batch: Any, sender: str) -> Any:
        if "GPU-3" in batch.table["device_id"].to_pylist():
            raise StoreError("store", "cannot take GPU-3")
        return real(store, record, source, batch, sender)

    monkeypatch.setattr("ingest.coalesce.write", picky)
    with (
        receiving(store, tokens_file(tmp_path), linger_seconds=0.3) as served,
        ThreadPoolExecutor(6) as pool,
    ):
        answers = list(pool.map(lambda n: push(served, [sample(device_id=f"GPU-{n}")]).status_code, range(6)))
    assert answers == [200, 200, 200, 503, 200, 200]
    assert store.value("SELECT count() FROM samples") == 5


def test_a_sender_that_hangs_up_and_sends_again_waits_for_the_same_rows(store: Store, tmp_path: Path) -> None:
    packed = pack("samples", [sample()]).body
    with receiving(store, tokens_file(tmp_path), linger_seconds=0.0) as served, ThreadPoolExecutor(1) as pool:
        url, headers = f"{served.url}/api/v1/records/samples", {**AUTHORIZATION, "Content-Encoding": "gzip"}
        with store.turn():  # what waits is not written
            first = http.client.HTTPConnection(urlsplit(url).netloc)
            first.request("POST", url, packed, headers)
            until(lambda: served.coalescer.waiting_rows)
            first.close()
            again = pool.submit(httpx.post, url, content=packed, headers=headers)
            time.sleep(0.2)  # mostly it is there by then
            assert served.coalescer.waiting_rows == 1
        assert again.result().json()["read"] == 1
        assert served.coalescer.inserts == 1


def test_what_waits_at_the_end_is_written(store: Store, tmp_path: Path) -> None:
    with receiving(store, tokens_file(tmp_path), linger_seconds=600) as served:
        threading.Thread(target=push, args=(served, [sample()]), daemon=True).start()
        until(lambda: served.coalescer.waiting_rows)
    assert store.value("SELECT count() FROM samples") == 1


# Small bodies that would become much.
def gzipped(text: bytes) -> dict[str, Any]:
    return {"content": gzip.compress(text, 1), "Content-Encoding": "gzip"}


@seldom(5, "a small body that would become much")
@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (b"x\n" * 1_000_000, 413, "rows"),
        (b"\n" * 5_000_000, 413, "rows"),
        (b"x\r" * 200_001, 413, "200,001 rows"),
        (b"{}\n" * 10_001, 422, "missing_ts: 10,001"),
        (b"x\n" * 200_000, 422, "bad_json: 200,000"),
        (b'{"a":[' + b"[]," * 100_000 + b"[]]}\n", 422, "values in 1 rows"),
        (b'{"a":"' + b"x" * 120_000_000 + b'"}', 200, "row_too_large"),
        (b"[" * 65_000, 422, "values in 1 rows"),
        (b"[" * 5_000, 200, "bad_json"),
    ],
)
def test_a_small_body_that_would_become_much_costs_little(
    served: Served, store: Store, text: bytes, status: int, said: str
) -> None:
    began = time.process_time()
    answer = post(served, "samples", **gzipped(text))
    assert time.process_time() - began < 6 * slowness()
    assert (answer.status_code, said in answer.text) == (status, True), answer.text[:300]
    assert store.value("SELECT count() FROM quarantine") <= body.EXAMPLES
    assert store.value("SELECT max(length(raw)) FROM quarantine") <= 10_000


@seldom(5, "a document that would become much")
@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"[" + b"{}," * 250_000 + b"{}]", 413),
        (b"[" * 5_000_000, 422),
        (b"[" + b"[]," * 1_000_000 + b"[]]", 422),
        (b"[" + b" " * (9 << 20) + b"]", 413),
        (b'{"a":' * 5_000, 422),
    ],
)
def test_a_document_that_would_become_much_is_refused(served: Served, text: bytes, status: int) -> None:
    answer = post(served, "samples", **gzipped(text), **{"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text[:300]


def test_a_body_with_too_many_bad_rows_is_refused_with_the_good_ones(served: Served, store: Store) -> None:
    good = pack("samples", [sample(number) for number in range(10)]).body
    bad = b'{"ts": "never"}\n' * (body.BODY_REJECTS + 1)
    answer = post(served, "samples", gzip.compress(gzip.decompress(good) + bad), **{"Content-Encoding": "gzip"})
    assert (answer.status_code, "bad_time" in answer.text, "nothing was stored" in answer.text) == (422, True, True)
    assert store.value("SELECT count() FROM samples") == 0
    assert store.value("SELECT groupUniqArray(source) FROM quarantine") == ["push:agents"]
    assert store.value("SELECT count() FROM quarantine") == body.EXAMPLES


def test_as_many_rows_as_an_agent_sends_at_once_are_taken(served: Served, store: Store) -> None:
    rows = [json.dumps({**sample(), "ts": (NOW - timedelta(seconds=n)).isoformat()}).encode() for n in range(2000)]
    answer = post(served, "samples", **gzipped(b"\n".join(rows * (body.BODY_ROWS // 2000))))
    assert answer.json()["read"] == body.BODY_ROWS


def test_a_device_that_has_just_come_is_known_to_the_next_push(store: Store, tmp_path: Path) -> None:
    place = "records: all, clusters: all, nodes: all"
    row = {"cluster": "c1", "node": "n1", "device_id": "new", "state": "available"}
    with receiving(store, tokens_file(tmp_path, f"senders: [{{name: a, token: {TOKEN}, {place}}}]\n")) as served:
        fates = []
        for model in ("H100", "A100"):
            reported = {**row, "model": model, "ts": datetime.now(UTC).isoformat()}
            answer = post(served, "devices", json.dumps(reported).encode())
            fates.append((answer.json()["stored"], answer.json()["held"]))
    assert fates == [(1, {}), (0, {"device_changed": 1})]
