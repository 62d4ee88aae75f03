"""Delivery: answers judged, pauses, poison, order; to a real receiver and to ClickHouse's HTTP interface."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError
from hypothesis import given
from hypothesis import strategies as st

from ingest.body import decompressed
from ingest.deliver import GROUP_ROWS, HOLD_SECONDS, LONGEST_PAUSE_SECONDS, Deliverer, pause
from ingest.errors import IngestError
from ingest.http_post import Response, retry_after
from ingest.spool import Group, Spool
from ingest.targets import (
    LONGEST_ASKED_SECONDS,
    Answer,
    ClickHouseTarget,
    Outcome,
    ReceiverTarget,
    Sender,
    judged,
    judged_insert,
    target,
)
from ingest.wire import pack
from tests.certificates import self_signed
from tests.ingest.receiving import TOKEN, receiving, tokens_file
from tests.patience import PATIENCE_SECONDS
from warehouse.store import Store

NOW = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)


def sample(number: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "ts": NOW + timedelta(seconds=number),
        "interval_seconds": 1.0,
        "cluster": "c1",
        "node": "n1",
        "device_id": "GPU-0",
        "state": "ok",
        "utilization": 0.25,
        "memory_used_bytes": number,
        **changes,
    }


class Rights:
    """A target that answers as it is told, and remembers what it was sent."""

    url = "reported"

    def __init__(self, answer: Callable[[Group], Answer]) -> None:
        self.answer, self.sent, self.closed = answer, list[Group](), False

    def send(self, group: Group) -> Answer:
        self.sent.append(group)
        return self.answer(group)

    def close(self) -> None:
        self.closed = True


def fill(spool: Spool, count: int, record: str = "samples", first: int = 0) -> None:
    for number in range(first, first + count):
        spool.append([pack(record, [sample(number)])], NOW)


def steps(deliverer: Deliverer, most: int = 100) -> float:
    """Steps until it waits; how long it would wait."""
    for _ in range(most):
        wait = deliverer.step(0.0, NOW)
        if wait:
            return wait
    raise AssertionError("it does not come to an end")


def numbers(group: Group) -> list[int]:
    lines = decompressed(group.body, "gzip", 1 << 20).splitlines()
    return [json.loads(line)["memory_used_bytes"] for line in lines]


TAKEN, WAIT = Answer(Outcome.TAKEN), Answer(Outcome.WAIT, "away")


def test_what_waits_is_sent_together_and_gone_once_it_was_taken(tmp_path: Path) -> None:
    to = Rights(lambda group: TAKEN)
    with Spool(tmp_path) as spool:
        fill(spool, 3)
        deliverer = Deliverer(spool, to, every_seconds=7)
        assert steps(deliverer) == 7
        assert [numbers(group) for group in to.sent] == [[0, 1, 2]]
        assert spool.state().batches == 0
        assert (deliverer.state.batches, deliverer.state.rows, deliverer.state.last_taken_at) == (3, 3, NOW)


def test_a_group_whose_fate_is_not_known_is_sent_again_as_it_was(tmp_path: Path) -> None:
    answers = iter([WAIT, WAIT, TAKEN, TAKEN])
    to = Rights(lambda group: next(answers))
    with Spool(tmp_path) as spool:
        fill(spool, 2)
        deliverer = Deliverer(spool, to, chance=lambda: 0.5)
        assert deliverer.step(0, NOW) == 0.5
        fill(spool, 1, first=2)
        assert deliverer.step(0, NOW) == 1.0
        assert deliverer.state.failing_since == NOW
        assert deliverer.state.problem == "away"
        steps(deliverer)
        assert deliverer.state.failing_since is None
    assert to.sent[0] == to.sent[1] == to.sent[2]
    assert numbers(to.sent[3]) == [2]


def test_one_batch_that_is_refused_is_set_aside_and_its_neighbours_are_delivered(tmp_path: Path) -> None:
    to = Rights(lambda group: Answer(Outcome.REFUSED, "no") if 2 in numbers(group) else TAKEN)
    with Spool(tmp_path) as spool:
        fill(spool, 5)
        deliverer = Deliverer(spool, to)
        steps(deliverer)
        fill(spool, 3, first=5)
        steps(deliverer)
        assert [numbers(group) for group in to.sent] == [[0, 1, 2, 3, 4], [0], [1], [2], [3], [4], [5, 6, 7]]
        assert (spool.state().batches, spool.state().set_aside) == (0, 1)
        (loss,) = spool.unreported()
        assert (loss.reason, loss.rows) == ("refused", 1)


def test_what_was_set_aside_is_delivered_after_a_start_once_nothing_refuses_it(tmp_path: Path) -> None:
    refuses = Rights(lambda group: Answer(Outcome.REFUSED, "no") if group.rows else TAKEN)
    with Spool(tmp_path) as spool:
        fill(spool, 3)
        steps(Deliverer(spool, refuses))
        assert (spool.state().batches, spool.state().set_aside) == (0, 3)
    takes = Rights(lambda group: TAKEN)
    with Spool(tmp_path) as spool:
        fill(spool, 1, first=3)
        assert spool.take_up_again() == 3
        assert (spool.state().batches, spool.state().set_aside) == (4, 0)
        steps(Deliverer(spool, takes))
        assert sorted(number for group in takes.sent for number in numbers(group)) == [0, 1, 2, 3]
        assert spool.take_up_again() == 0


def test_a_group_that_is_too_large_is_halved_until_it_fits(tmp_path: Path) -> None:
    to = Rights(lambda group: Answer(Outcome.SMALLER, "413") if group.rows > 2 else TAKEN)
    with Spool(tmp_path) as spool:
        fill(spool, 9)
        steps(Deliverer(spool, to))
        assert spool.state().batches == 0
    taken = [number for group in to.sent if group.rows <= 2 for number in numbers(group)]
    assert taken == list(range(9))
    assert len(to.sent) <= 12


def test_a_record_type_that_is_not_wanted_waits_and_the_others_go_on(tmp_path: Path) -> None:
    to = Rights(lambda group: Answer(Outcome.HOLD, "403") if group.record == "findings" else TAKEN)
    with Spool(tmp_path) as spool:
        fill(spool, 1, "findings")
        fill(spool, 2)
        deliverer = Deliverer(spool, to)
        steps(deliverer)
        assert [group.record for group in to.sent] == ["findings", "samples"]
        assert deliverer.state.problem == "403"
        deliverer.step(HOLD_SECONDS + 1, NOW)
        assert [group.record for group in to.sent] == ["findings", "samples", "findings"]
        assert spool.state().batches == 1


def test_a_group_is_bounded(tmp_path: Path) -> None:
    to = Rights(lambda group: TAKEN)
    with Spool(tmp_path, synced=False) as spool:
        big = pack("samples", [sample(number) for number in range(GROUP_ROWS // 2)])
        for _ in range(5):
            spool.append([big], NOW)
        steps(Deliverer(spool, to))
    assert [group.rows for group in to.sent] == [GROUP_ROWS, GROUP_ROWS, GROUP_ROWS // 2]


def test_delivery_stops_when_told(tmp_path: Path) -> None:
    to, stop = Rights(lambda group: WAIT), threading.Event()
    with Spool(tmp_path) as spool:
        fill(spool, 1)
        thread = threading.Thread(target=Deliverer(spool, to, 0.01).run, args=(stop,))
        thread.start()
        stop.set()
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    assert to.closed


def test_an_error_of_our_own_does_not_end_delivery(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stop, answers = threading.Event(), iter([ZeroDivisionError("a bug"), TAKEN])

    def answer(group: Group) -> Answer:
        reported = next(answers)
        if isinstance(reported, Exception):
            raise reported
        stop.set()
        return reported

    with Spool(tmp_path) as spool:
        fill(spool, 1)
        Deliverer(spool, Rights(answer), 0.01, chance=lambda: 0.0).run(stop)
        assert spool.state().batches == 0
    assert "an internal error" in caplog.text


@given(st.integers(1, 10_000), st.none() | st.floats(0, 3600), st.floats(0, 1))
def test_a_pause_is_at_least_what_is_asked_for_and_bounded(
    failures: int, retry_after: float | None, chance: float
) -> None:
    waited = pause(failures, retry_after, chance)
    assert (retry_after or 0) <= waited <= (retry_after or 0) + LONGEST_PAUSE_SECONDS
    assert pause(failures, None, 0.0) == 0.0
    assert pause(1, None, 1.0) <= pause(2, None, 1.0)


REPORT = json.dumps({"batch": "b", "read": 3, "quarantined": {"bad_time": 1}})


@pytest.mark.parametrize(
    ("status", "text", "outcome"),
    [
        (200, REPORT, Outcome.TAKEN),
        (200, "<html>welcome to the hotel's network</html>", Outcome.WAIT),
        (200, json.dumps({"read": 2, "quarantined": {}}), Outcome.WAIT),
        (204, "", Outcome.WAIT),
        (302, "", Outcome.WAIT),
        (400, "bad", Outcome.REFUSED),
        (422, "bad", Outcome.REFUSED),
        (401, "who?", Outcome.WAIT),
        (403, "not you", Outcome.HOLD),
        (404, "", Outcome.WAIT),
        (409, "", Outcome.WAIT),
        (413, "", Outcome.SMALLER),
        (415, "a proxy's word", Outcome.WAIT),
        (429, "", Outcome.WAIT),
        (500, "", Outcome.WAIT),
        (503, "", Outcome.WAIT),
    ],
)
def test_only_a_report_on_these_rows_acknowledges_them(status: int, text: str, outcome: Outcome) -> None:
    answer = judged(Response(status, {"retry-after": "17"}, text), 3)
    assert answer.outcome is outcome
    if status in (429, 503):
        assert answer.retry_after == 17
    if outcome is Outcome.TAKEN:
        assert answer.quarantined == 1


@given(
    st.integers(946_684_800, 4_102_444_800),
    st.integers(-100_000, 100_000),
    st.none() | st.integers(-100_000, 100_000),
)
def test_what_is_asked_for_is_waited_as_seconds_or_as_a_date_up_to_a_bound(
    epoch: int, seconds: int, skew: int | None
) -> None:
    now = datetime.fromtimestamp(epoch, UTC)
    waited = min(max(seconds, 0), LONGEST_ASKED_SECONDS)
    # The other side's clock may be another one; where it tells it, it is the one that counts.
    theirs = now + timedelta(seconds=skew or 0)
    date = {"date": format_datetime(theirs, usegmt=True)} if skew is not None else {}
    until = format_datetime(theirs + timedelta(seconds=seconds), usegmt=True)
    assert retry_after({"retry-after": until, **date}, LONGEST_ASKED_SECONDS, now) == waited
    if seconds >= 0:
        assert retry_after({"retry-after": f" {seconds} ", **date}, LONGEST_ASKED_SECONDS, now) == waited
    else:
        assert retry_after({"retry-after": str(seconds)}, LONGEST_ASKED_SECONDS, now) is None
    for status in (429, 503, 502):
        answer = judged(Response(status, {"retry-after": "9" * 5000}, ""), 1)
        assert (answer.outcome, answer.retry_after) == (Outcome.WAIT, LONGEST_ASKED_SECONDS)


@given(st.text() | st.text("0123456789:, +-GMTFriDec²٣", max_size=40))
def test_what_is_neither_seconds_nor_a_date_asks_for_nothing(text: str) -> None:
    waited = retry_after({"retry-after": text, "date": text}, LONGEST_ASKED_SECONDS)
    assert waited is None or 0 <= waited <= LONGEST_ASKED_SECONDS
    assert retry_after({}, LONGEST_ASKED_SECONDS) is None
    assert retry_after({"retry-after": "later"}, LONGEST_ASKED_SECONDS) is None


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [
        (200, None, Outcome.TAKEN),
        (200, "241", Outcome.WAIT),
        (400, "27", Outcome.REFUSED),
        (400, "26", Outcome.REFUSED),
        (500, "241", Outcome.WAIT),
        (500, "252", Outcome.WAIT),
        (403, "516", Outcome.WAIT),
        (404, "60", Outcome.WAIT),
        (502, None, Outcome.WAIT),
    ],
)
def test_clickhouse_refuses_rows_only_if_it_says_that_they_are_bad(
    status: int, code: str | None, outcome: Outcome
) -> None:
    headers = {"x-clickhouse-query-id": "q"} | ({"x-clickhouse-exception-code": code} if code else {})
    assert judged_insert(Response(status, headers, "Code: ...")).outcome is outcome
    assert judged_insert(Response(200, {}, "hello")).outcome is Outcome.WAIT
    late = "Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)"
    assert judged_insert(Response(200, {"x-clickhouse-query-id": "q"}, late)).outcome is Outcome.WAIT


# --- over real HTTP ---


def test_a_spool_is_drained_into_a_real_store_in_order(store: Store, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN + "\n")
    with receiving(store, tokens_file(tmp_path)) as served, Spool(tmp_path / "spool", synced=False) as spool:
        fill(spool, 50)
        spool.append([pack("findings", [{"ts": NOW, "finding": "xid", "severity": "info", "message": "Größe €"}])], NOW)
        spool.append([pack("samples", [sample(99, state="odd")], suspect=True)], NOW)
        to = ReceiverTarget(served.url, Sender("c1", "gpu-ü"), tmp_path / "token")
        deliverer = Deliverer(spool, to)
        steps(deliverer)
        to.close()
        assert spool.state().batches == 0
        assert deliverer.state.quarantined == 1
    assert store.value("SELECT count() FROM samples") == 50
    assert store.value("SELECT message FROM findings") == "Größe €"
    assert store.value("SELECT reason FROM quarantine") == "unknown_state"


def test_a_wrong_token_a_server_that_is_away_and_a_token_file_that_is_not_there_lose_nothing(
    store: Store, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    with Spool(tmp_path / "spool", synced=False) as spool:
        fill(spool, 2)
        with receiving(store, tokens_file(tmp_path)) as served:
            to = ReceiverTarget(served.url, Sender(), token)
            deliverer = Deliverer(spool, to)
            assert deliverer.step(0, NOW) >= 0
            assert "Put the token into that file" in deliverer.state.problem
            token.write_text("wrong")
            deliverer.step(0, NOW)
            assert "401" in deliverer.state.problem
        deliverer.step(0, NOW)
        assert "refused" in deliverer.state.problem.lower()
        assert spool.state().batches == 2
        with receiving(store, tokens_file(tmp_path)) as served:
            token.write_text(TOKEN)
            steps(Deliverer(spool, ReceiverTarget(served.url, Sender(), token)))
        assert spool.state().batches == 0


@contextlib.contextmanager
def web(
    answer: Callable[[BaseHTTPRequestHandler, bytes], tuple[int, dict[str, str], bytes]],
) -> Iterator[ThreadingHTTPServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            status, headers, body = answer(self, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            for name, value in (*headers.items(), ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def one_group(spool: Spool) -> Group:
    group = spool.oldest(100, 1 << 20)
    assert group is not None
    return group


def test_tls_is_checked_against_the_authority_given(tmp_path: Path) -> None:
    made, key = self_signed(tmp_path, "localhost")
    other, _ = self_signed(tmp_path, "elsewhere")
    with Spool(tmp_path / "spool") as spool, web(lambda *_: (200, {}, b'{"read": 1, "quarantined": {}}')) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        fill(spool, 1)
        url = f"https://localhost:{server.server_port}"
        assert ReceiverTarget(url, Sender(), ca_file=made).send(one_group(spool)).outcome is Outcome.TAKEN
        refused = ReceiverTarget(url, Sender(), ca_file=other).send(one_group(spool))
        assert (refused.outcome, refused.message.startswith(f"{url}: certificate verify failed: ")) == (
            Outcome.WAIT, True
        )  # fmt: skip
        assert refused.message.endswith("(--ca-file or ca_file names the authority of its certificate)")
    with pytest.raises(IngestError, match="cannot be read as certificates"):
        ReceiverTarget(url, Sender(), ca_file=tmp_path / "none.pem")


def test_a_kept_connection_that_the_server_has_closed_is_opened_again(tmp_path: Path) -> None:
    seen = []

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        seen.append(handler.client_address[1])
        handler.close_connection = True
        return 200, {}, b'{"read": 1, "quarantined": {}}'

    with Spool(tmp_path / "spool") as spool, web(answer) as server:
        fill(spool, 1)
        to = ReceiverTarget(f"http://127.0.0.1:{server.server_port}", Sender())
        assert [to.send(one_group(spool)).outcome for _ in range(3)] == [Outcome.TAKEN] * 3
    assert len(set(seen)) == 3


def test_a_url_of_no_use_is_one_line() -> None:
    for url in ("", "ledger.example", "ftp://x", "https://"):
        with pytest.raises(IngestError):
            target(url, Sender())


# --- ClickHouse's HTTP interface, by the embedded engine ---


def clickhouse(
    store: Store, folder: Path
) -> Callable[[BaseHTTPRequestHandler, bytes], tuple[int, dict[str, str], bytes]]:
    """Runs what is posted on the engine, as a ClickHouse server does: settings in the URL, the body as input().

    The embedded engine has no input(); a file of the same format and structure stands in for it.
    """
    known = {"query", "database", "wait_end_of_query"}

    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        given = {name: values[0] for name, values in parse_qs(urlsplit(handler.path).query).items()}
        if handler.headers["X-ClickHouse-Key"] != "secret" or handler.headers["X-ClickHouse-User"] != "agent":
            return 403, {"X-ClickHouse-Exception-Code": "516"}, b"Code: 516. DB::Exception: Authentication failed"
        query = given["query"]
        for name, value in given.items():
            if name.startswith("param_"):
                kind = "UInt64" if value.isdigit() else "String"
                query = query.replace(f"{{{name[6:]}:{kind}}}", value if kind == "UInt64" else f"'{value}'")
        settings = ", ".join(
            f"{name} = '{value}'"
            for name, value in given.items()
            if name not in known and not name.startswith("param_")
        )
        if "FORMAT " not in query:
            store.command(query)
            return 200, {"X-ClickHouse-Summary": "{}", "X-ClickHouse-Query-Id": "q"}, b""
        head, form = query.rsplit("FORMAT ", 1)
        path = folder / "posted"
        path.write_bytes(decompressed(body, handler.headers.get("Content-Encoding", ""), 1 << 24))
        select = head.replace("input(", f"file('{path}', {form.strip()}, ")
        try:
            store._client.command(f"{select} SETTINGS {settings}")
        except ClickHouseError as error:
            code = str(error).split("Code: ", 1)[-1].split(".", 1)[0]
            return 500, {"X-ClickHouse-Exception-Code": code}, str(error).encode()
        return 200, {"X-ClickHouse-Summary": "{}", "X-ClickHouse-Query-Id": "q"}, b""

    return answer


@pytest.fixture
def straight(store: Store, tmp_path: Path) -> Iterator[ClickHouseTarget]:
    (tmp_path / "password").write_text("secret\n")
    with web(clickhouse(store, tmp_path)) as server:
        url = f"clickhouse://agent@127.0.0.1:{server.server_port}/gpuledger"
        made = ClickHouseTarget(url, Sender("c1", "n1"), tmp_path / "password")
        yield made
        made.close()


def test_rows_go_straight_to_clickhouse_and_sent_again_they_are_dropped(
    straight: ClickHouseTarget, store: Store, tmp_path: Path
) -> None:
    with Spool(tmp_path / "spool") as spool:
        rows = [sample(0), sample(1, state="blank", utilization=None), sample(2, state="stale", utilization=0.5)]
        spool.append([pack("samples", rows), pack("samples", [sample(3, unknown_column=5)])], NOW)
        group = one_group(spool)
        for _ in range(2):
            answer = straight.send(group)
            assert answer.outcome is Outcome.TAKEN, answer.message
    found = store.rows("SELECT memory_used_bytes AS n, state, utilization, batch FROM samples ORDER BY n")
    assert [(row["n"], row["state"], row["utilization"]) for row in found] == [
        (0, "ok", 0.25),
        (1, "blank", None),
        (2, "stale", None),
        (3, "ok", 0.25),
    ]
    batch = int(group.id[:16], 16)
    assert {row["batch"] for row in found} == {batch}
    assert store.rows("SELECT DISTINCT batch FROM touched_hours") == [{"batch": batch}]
    assert store.value("SELECT sum(rows) FROM touched_hours") == 4
    # Without it no close would read them.
    assert store.rows("SELECT batch, record_type, source FROM ingest_batches FINAL") == [
        {"batch": batch, "record_type": "samples", "source": "c1/n1"}
    ]


@pytest.mark.parametrize(
    ("record", "row", "query"),
    [
        (
            "events",
            {"ts": NOW, "allocation_id": "a", "event": "started", "preemptible": True, "units": 3, "priority": -2},
            "SELECT preemptible, units, priority, tenant FROM events",
        ),
        (
            "devices",
            {"ts": NOW, "device_id": "d", "model": "m", "state": "available"},
            "SELECT units, state FROM devices",
        ),
        (
            "service_levels",
            {"ts": NOW, "interval_seconds": 60, "service": "s", "metric": "m", "quantile": 0.9, "value": 1.5},
            "SELECT quantile, value, value_low FROM service_levels",
        ),
        (
            "metrics",
            {"ts": NOW, "interval_seconds": 10, "device_id": "d", "metric": "m", "state": "no_permission"},
            "SELECT state, value FROM metrics",
        ),
        (
            "findings",
            {"ts": NOW, "finding": "xid", "severity": "critical", "message": "it's"},
            "SELECT message FROM findings",
        ),
    ],
)
def test_each_record_type_goes_straight_as_through_the_receiver(
    straight: ClickHouseTarget, store: Store, tmp_path: Path, record: str, row: dict[str, Any], query: str
) -> None:
    from ingest import ingest_tables
    from ingest.json_files import lines_piece
    from warehouse.records import RECORD_TYPES

    with Spool(tmp_path / "spool") as spool:
        spool.append([pack(record, [row])], NOW)
        group = one_group(spool)
    answer = straight.send(group)
    assert answer.outcome is Outcome.TAKEN, answer.message
    by_clickhouse = store.rows(query)
    store.command(f"TRUNCATE TABLE {record}")
    lines = decompressed(group.body, "gzip", 1 << 20).splitlines()
    ingest_tables(store, RECORD_TYPES[record], "test", [lines_piece(RECORD_TYPES[record], lines)[0].table])
    assert store.rows(query) == by_clickhouse
    assert len(by_clickhouse) == 1


def test_what_does_not_fit_goes_straight_to_quarantine(
    straight: ClickHouseTarget, store: Store, tmp_path: Path
) -> None:
    with Spool(tmp_path / "spool") as spool:
        spool.append([pack("samples", [sample(utilization=7), sample(state="odd")], suspect=True)], NOW)
        answer = straight.send(one_group(spool))
    assert (answer.outcome, answer.quarantined) == (Outcome.TAKEN, 2)
    found = store.rows("SELECT record_type, source, row, raw FROM quarantine ORDER BY row")
    assert [(row["record_type"], row["source"], row["row"]) for row in found] == [
        ("samples", "c1/n1", 1),
        ("samples", "c1/n1", 2),
    ]
    assert json.loads(found[1]["raw"])["state"] == "odd"


def test_rows_that_clickhouse_cannot_read_are_refused_and_a_wrong_password_waits(
    straight: ClickHouseTarget, store: Store, tmp_path: Path
) -> None:
    with Spool(tmp_path / "spool") as spool:
        spool.append([pack("samples", [sample(utilization="a lot")])], NOW)
        refused = straight.send(one_group(spool))
        assert refused.outcome is Outcome.REFUSED, refused.message
        (tmp_path / "password").write_text("wrong")
        assert straight.send(one_group(spool)).outcome is Outcome.WAIT
    assert store.value("SELECT count() FROM samples") == 0


def test_a_connection_error_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise http.client.IncompleteRead(b"")

    with Spool(tmp_path / "spool") as spool:
        fill(spool, 1)
        to = ClickHouseTarget("clickhouse://127.0.0.1:1", Sender())
        assert to.send(one_group(spool)).outcome is Outcome.WAIT
        monkeypatch.setattr("ingest.http_post.Poster.post", broken)
        assert to.send(one_group(spool)).message == "clickhouse://127.0.0.1:1: the answer was cut off"
