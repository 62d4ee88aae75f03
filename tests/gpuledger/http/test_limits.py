"""Each limit of the HTTP server, with somebody who sends more than it over a real socket."""

from __future__ import annotations

import contextlib
import ipaddress
import resource
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.agent.settings import DeliverSettings
from gpuledger.http.limits import HttpLimits
from tests.certificates import self_signed
from tests.gpuledger.http.serving import QUICK, Served, answer, is_ended, over_tls, serving
from tests.patience import PATIENCE_SECONDS, until
from warehouse.addresses import rate_limit_key

LIMITS = HttpLimits(
    connections=20, per_address=10, tls_seconds=1, head_seconds=0.6, idle_seconds=1, head_bytes=4096, url_bytes=1024,
    headers=20, pipelined=4, body_bytes=10_000, own_body_bytes={"/echo/more": 20_000}, bodies_bytes=25_000,
    body_grace_seconds=1, body_rate=1000, body_framing=1000, rest_seconds=1, answer_bytes=100_000, answer_seconds=2,
    answer_rate=1024,
)  # fmt: skip
OTHER = "127.0.0.2"


LONG: dict[str, int] = {"tls_seconds": 300, "head_seconds": 300, "idle_seconds": 300, "body_grace_seconds": 300,
                        "rest_seconds": 300, "answer_seconds": 300}  # fmt: skip
PATIENT = replace(LIMITS, **LONG)
ENDS_SECONDS = 30
"""In which a short limit has run out on any machine; a long one would not."""


@pytest.fixture(scope="module")
def hasty() -> Iterator[Served]:
    with serving(LIMITS) as found:
        yield found


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(PATIENT) as found:
        yield found


def test_a_connection_outlasts_the_pause_between_two_pushes() -> None:
    """As found: Prometheus sends what it has every 5 s, on a connection that was closed after 5 s: a reset a minute."""
    prometheus_sends_seconds = 5  # batch_send_deadline, by default
    assert HttpLimits().idle_seconds > max(prometheus_sends_seconds, DeliverSettings().every_seconds)


def post(path: str, body: bytes, *more: str, length: int | None = None) -> bytes:
    declared = len(body) if length is None else length
    head = [f"POST {path} HTTP/1.1", "host: x", f"content-length: {declared}", *more]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def chunked(path: str, chunks: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode() + chunks


def status(found: bytes) -> int:
    assert found.startswith(b"HTTP/1.1 "), found[:100]
    return int(found[9:12])


def test_a_request_within_the_limits_is_answered_and_the_connection_serves_the_next(served: Served) -> None:
    with served.connect() as one:
        for _ in range(3):
            one.sendall(QUICK)
            assert b"200 OK" in answer(one)
        one.sendall(post("/echo", b"x" * 10_000))
        assert answer(one).endswith(b"10000")


# Time.
@pytest.mark.parametrize("begun", [b"", b"GET /quick HTT", b"GET /quick HTTP/1.1\r\nhost: x\r\n", b"\r\n"])
def test_a_head_that_does_not_end_is_waited_for_no_longer(hasty: Served, begun: bytes) -> None:
    with hasty.connect() as one:
        began = time.monotonic()
        one.sendall(begun)
        assert is_ended(one, ENDS_SECONDS)
        assert time.monotonic() - began > 0.5


def test_a_head_that_comes_byte_by_byte_is_waited_for_no_longer(hasty: Served) -> None:
    with hasty.connect() as one, pytest.raises(OSError):
        for byte in QUICK * 10:
            one.sendall(bytes([byte]))
            time.sleep(0.1)


def test_blank_lines_between_requests_keep_no_connection(hasty: Served) -> None:
    with hasty.connect() as one:
        one.sendall(QUICK)
        assert answer(one)
        with pytest.raises(OSError):
            began = time.monotonic()
            while time.monotonic() - began < ENDS_SECONDS:
                one.sendall(b"\r\n")
                time.sleep(0.1)


def test_a_slow_head_is_told_so(hasty: Served) -> None:
    assert status(hasty.ask(b"GET /quick HTTP/1.1\r\n")) == 408


def test_a_connection_that_asks_nothing_more_is_ended(hasty: Served) -> None:
    with hasty.connect() as one:
        one.sendall(QUICK)
        assert is_ended(one, ENDS_SECONDS)


def test_a_body_that_stops_is_waited_for_no_longer(hasty: Served) -> None:
    with hasty.connect() as one:
        one.sendall(post("/echo", b"x" * 10, length=100))
        assert status(answer(one, ENDS_SECONDS)) == 408


def test_a_body_that_comes_slowly_but_surely_is_waited_for() -> None:
    limits = replace(PATIENT, body_grace_seconds=1, body_rate=50)
    with serving(limits) as served, served.connect() as one:
        one.sendall(post("/echo", b"", length=8_000))
        for _ in range(20):  # two seconds, twice the grace; by the rate there are more than two minutes
            one.sendall(b"x" * 400)
            time.sleep(0.1)
        assert status(answer(one)) == 200


def test_a_body_below_the_rate_is_not(hasty: Served) -> None:
    with hasty.connect() as one:
        one.sendall(post("/echo", b"", length=8_000))
        with contextlib.suppress(OSError):
            for _ in range(30):
                one.sendall(b"x" * 20)
                time.sleep(0.1)
        assert status(answer(one)) == 408


def test_frames_of_chunks_are_no_progress(hasty: Served) -> None:
    with hasty.connect() as one:
        one.sendall(chunked("/echo", b"1;a"))
        with contextlib.suppress(OSError):
            for _ in range(30):
                one.sendall(b"b" * 20)
                time.sleep(0.1)
        assert status(answer(one)) == 408


def test_the_rest_of_a_body_that_nobody_wants_is_not_waited_for(hasty: Served) -> None:
    with hasty.connect() as one:
        one.sendall(chunked("/unread", b"1\r\nx\r\n"))
        with pytest.raises(OSError):
            began = time.monotonic()
            while time.monotonic() - began < ENDS_SECONDS:
                one.sendall(b"1\r\nx\r\n")
                time.sleep(0.1)


def test_a_body_that_was_not_wanted_but_comes_whole_costs_the_client_no_connection(served: Served) -> None:
    with served.connect() as one:
        one.sendall(post("/unread", b"x" * 10, length=20))
        assert status(answer(one)) == 401
        one.sendall(b"x" * 10 + QUICK)
        assert status(answer(one)) == 200


@pytest.mark.parametrize("path", ["/stream?parts=2000", "/large?bytes=99000"])
def test_an_answer_that_nobody_reads_is_broken_off(hasty: Served, path: str) -> None:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", hasty.port))
        # Enough of them to fill what the kernel holds for us.
        one.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode() * 4)
        hasty.wait_for(1)
        hasty.wait_for(0)


def test_an_answer_that_is_read_slowly_but_surely_arrives(hasty: Served) -> None:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(PATIENCE_SECONDS)
        one.connect(("127.0.0.1", hasty.port))
        one.sendall(b"GET /stream?parts=100 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        began, size = time.monotonic(), 0
        while part := one.recv(131_072):
            size += len(part)
            if time.monotonic() - began < 4:
                time.sleep(0.02)
        assert size > 100 * 65536


# Size.
def test_a_long_url_is_refused(served: Served) -> None:
    assert status(served.ask(b"GET /quick?" + b"x" * 1100 + b" HTTP/1.1\r\nhost: x\r\n\r\n")) == 414


@pytest.mark.parametrize("size", [5_000, 50_000, 70_000, 1_000_000])
def test_a_huge_head_is_refused_whichever_part_of_it_is_huge(served: Served, size: int) -> None:
    for head in (b"GET /?%s HTTP/1.1\r\nhost: x\r\n", b"GET / HTTP/1.1\r\nx: %s\r\n", b"GET / HTTP/1.1\r\n%s: x\r\n"):
        with served.connect() as one:
            with contextlib.suppress(OSError):
                one.sendall(head % (b"x" * size) + b"\r\n")
            found = answer(one)
            assert not found or status(found) in (400, 414, 431)
            assert b"200 OK" not in found


def test_many_headers_are_refused(served: Served) -> None:
    head = b"GET /quick HTTP/1.1\r\n" + b"".join(b"h%d: x\r\n" % n for n in range(21))
    assert status(served.ask(head + b"\r\n")) == 431


@pytest.mark.parametrize("sent", [post("/echo", b"x" * 10_001), post("/echo", b"", length=10_001)])
def test_a_large_body_is_refused(served: Served, sent: bytes) -> None:
    assert status(served.ask(sent)) == 413


def test_a_large_body_without_a_length_is_refused(served: Served) -> None:
    assert status(served.ask(chunked("/echo", b"400\r\n" + b"x" * 1024 + b"\r\n" + b"2800\r\n" + b"x" * 10240))) == 413


def test_a_large_body_is_not_asked_for(served: Served) -> None:
    found = served.ask(post("/echo", b"", "expect: 100-continue", length=1_000_000))
    assert status(found) == 413
    assert b"100 Continue" not in found


def test_a_body_is_asked_for_where_its_client_waits_for_that(served: Served) -> None:
    with served.connect() as one:
        one.sendall(post("/echo", b"", "expect: 100-continue", length=5))
        assert b"100 Continue" in one.recv(1000)
        one.sendall(b"12345")
        assert status(answer(one)) == 200


def test_bodies_that_are_held_at_the_same_time_are_counted_together(served: Served) -> None:
    def held() -> int:
        return int(served.server.config.app.bytes_held)  # type: ignore[union-attr]

    with contextlib.ExitStack() as stack:
        for _ in range(3):
            one = stack.enter_context(served.connect())
            one.sendall(post("/echo", b"x" * 8_000, length=9_000))
        until(lambda: held() == 24_000)
        assert status(served.ask(post("/echo", b"x" * 9_000))) == 503
    until(lambda: not held())
    assert status(served.ask(post("/echo", b"x" * 9_000))) == 200
    until(lambda: not held())


def test_chunks_that_are_nothing_but_frames_are_refused(served: Served) -> None:
    with served.connect() as one:
        one.sendall(chunked("/echo", b""))
        time.sleep(0.1)
        one.sendall((b"1;" + b"e" * 30 + b"\r\nx\r\n") * 100)
        assert status(answer(one)) == 400


def test_a_large_answer_is_not_sent(served: Served) -> None:
    assert status(served.ask(b"GET /large?bytes=100000 HTTP/1.1\r\nhost: x\r\n\r\n")) == 200
    found = served.ask(b"GET /large?bytes=100001 HTTP/1.1\r\nhost: x\r\n\r\n")
    assert status(found) == 413
    assert len(found) < 1000


def test_a_file_that_is_larger_than_an_answer_made_in_memory_is_sent_piece_by_piece(served: Served) -> None:
    found = served.ask(b"GET /file?parts=4 HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (status(found), found.count(b"x")) == (200, 4 * 65536 + found.partition(b"\r\n\r\n")[0].count(b"x"))


# Tricks.
@pytest.fixture
def logging_served(capfd: pytest.CaptureFixture[str]) -> Iterator[Served]:
    """It logs what `up` and `server` do; and said nothing in the end."""
    with serving(PATIENT, log_level="warning") as found:
        yield found
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("sent", [b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00"])
def test_what_is_no_request_is_not_logged(logging_served: Served, sent: bytes) -> None:
    logging_served.ask(sent)
    assert status(logging_served.ask(QUICK)) == 200


def test_who_leaves_before_answers_to_requests_sent_ahead_is_no_error(
    logging_served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served = logging_served
    with served.connect() as one:
        one.sendall(QUICK + QUICK.replace(b"quick", b"held") * 2)
        assert status(answer(one)) == 200
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    served.wait_for(0)
    served.hold.set()
    time.sleep(0.3)
    assert status(served.ask(QUICK)) == 200
    assert caplog.records == []


def test_requests_sent_far_ahead_end_the_connection(served: Served, hasty: Served) -> None:
    with served.connect() as one:
        one.sendall(QUICK * 4)
        found = b""
        while found.count(b"200 OK") < 4 and (part := answer(one)):
            found += part
        assert found.count(b"200 OK") == 4
    before = len(hasty.seen)
    hasty.ask(QUICK * 2000)
    assert len(hasty.seen) - before < 50


@pytest.mark.parametrize(
    "head",
    [
        b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\n12345",
        b"POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
        b"POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n",
        b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length : 4\r\n\r\n1234",
        b"GET /quick HTTP/1.1\r\nhost: x\r\n folded: y\r\n\r\n",
        b"CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_two_servers_could_read_differently_is_no_request(hasty: Served, head: bytes) -> None:
    hasty.wait_for(0)  # another test's last requests are over
    before = len(hasty.seen)
    found = hasty.ask(head)
    assert not found or status(found) in (400, 501)
    assert len(hasty.seen) == before


def test_a_trailer_is_no_header_of_the_request(served: Served) -> None:
    assert status(served.ask(chunked("/echo", b"1\r\nx\r\n0\r\nauthorization: Bearer stolen\r\n\r\n"))) == 200
    assert "authorization" not in served.seen[-1]


def test_an_upgrade_to_a_websocket_is_an_ordinary_request(served: Served) -> None:
    head = (
        b"GET /quick HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
    )
    assert status(served.ask(head + b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")) == 200


# Connections.
def test_more_connections_than_an_address_may_have_push_out_their_own(served: Served) -> None:
    with contextlib.ExitStack() as stack:
        mine = [stack.enter_context(served.connect()) for _ in range(10)]
        theirs = stack.enter_context(served.connect(OTHER))
        served.wait_for(11)
        for _ in range(30):
            one = stack.enter_context(served.connect())
            one.sendall(QUICK)
            assert b"200 OK" in answer(one)
        assert served.server.peers.count <= 11
        assert is_ended(mine[0], ENDS_SECONDS)
        theirs.sendall(QUICK)
        assert status(answer(theirs)) == 200
    served.wait_for(0)


def test_of_too_many_connections_those_of_the_greediest_address_give_way(served: Served) -> None:
    with contextlib.ExitStack() as stack:
        for address, count in (("127.0.0.3", 9), ("127.0.0.4", 6), ("127.0.0.5", 5)):
            for _ in range(count):
                stack.enter_context(served.connect(address))
        served.wait_for(20)
        assert status(served.ask(QUICK, OTHER)) == 200
        counts = {address: len(peers) for address, peers in served.server.peers.by_address.items()}
        assert (counts["127.0.0.3"], counts["127.0.0.4"], counts["127.0.0.5"]) == (8, 6, 5)
    served.wait_for(0)


def test_what_is_being_answered_gives_way_to_nobody() -> None:
    with serving(replace(PATIENT, connections=4, per_address=4)) as served, contextlib.ExitStack() as stack:
        asked = [stack.enter_context(served.connect()) for _ in range(4)]
        for one in asked:
            one.sendall(b"GET /held HTTP/1.1\r\nhost: x\r\n\r\n")
        until(lambda: len(served.seen) == 4)
        assert status(served.ask(QUICK)) == 503
        assert status(served.ask(QUICK, OTHER)) == 503
        served.hold.set()
        for one in asked:
            assert status(answer(one)) == 200


def test_many_people_behind_a_trusted_proxy_are_no_single_address() -> None:
    proxy = ipaddress.ip_network("127.0.0.0/30")
    with (
        serving(replace(PATIENT, connections=12, per_address=2, trusted=(proxy,))) as served,
        contextlib.ExitStack() as stack,
    ):
        asked = [stack.enter_context(served.connect()) for _ in range(8)]
        served.wait_for(8)
        for one in asked:
            one.sendall(QUICK)
            assert status(answer(one)) == 200
        for _ in range(8):
            stack.enter_context(served.connect("127.0.0.9"))
        served.wait_for(10)


@pytest.mark.parametrize(
    ("host", "counted"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_an_ipv6_network_counts_as_one_address(host: str, counted: str) -> None:
    assert rate_limit_key(host) == counted


def test_a_handshake_that_does_not_end_is_counted_and_ended(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path, "127.0.0.1")
    with (
        serving(replace(PATIENT, per_address=3, tls_seconds=5), str(certificate), str(key)) as served,
        contextlib.ExitStack() as stack,
    ):
        waiting = [stack.enter_context(served.connect()) for _ in range(3)]
        served.wait_for(3)
        with over_tls(served.connect()) as one:
            one.sendall(QUICK)
            assert status(answer(one)) == 200
        assert is_ended(waiting[0], ENDS_SECONDS)
        assert all(is_ended(one, ENDS_SECONDS) for one in waiting)
        served.wait_for(0)


def test_whoever_waits_when_a_server_stops_is_asked_to_try_again(caplog: pytest.LogCaptureFixture) -> None:
    with serving(PATIENT, log_level="warning") as stopping, stopping.connect() as one:
        one.sendall(b"GET /waits HTTP/1.1\r\nhost: x\r\n\r\n")
        until(lambda: stopping.seen)
        stopping.server.should_exit = True
        said = answer(one)
    assert said.startswith(b"HTTP/1.1 503 ") and b"retry-after: 5" in said and b"the server stops" in said
    assert not [record for record in caplog.records if record.exc_info]


def test_half_of_the_descriptors_are_kept_for_the_engine() -> None:
    asked = (
        "import resource, sys\nresource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))\n"
        "from gpuledger.http.limits import limits_here\nfound = limits_here()\n"
        "print(found.connections, found.per_address, resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for limits, expected in (((256, 1024), "512 256 1024"), ((400, 400), "200 100 400"), ((64, hard), None)):
        found = subprocess.run(
            [sys.executable, "-c", asked, *map(str, limits)],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_SECONDS,
        )
        connections, each, soft = map(int, found.stdout.split())
        assert expected is None or found.stdout.split() == expected.split()
        assert connections <= soft // 2
        assert each == connections // 2
