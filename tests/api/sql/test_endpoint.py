"""The endpoint over real HTTP, asked by ClickHouse's own client, by curl's ways and by those who hang up."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import clickhouse_connect
import httpx
import pytest
from clickhouse_connect.driver.exceptions import ClickHouseError

from api.sql.process import Process
from api.sql.workers import Workers
from tests.dashboards.site import Site
from tests.draws import seldom
from tests.patience import PATIENCE_SECONDS, until
from warehouse.store import EmbeddedStore

pytestmark = seldom(6, "all of endpoint")

ROWS = 250_000
MANY = f"SELECT number AS n, toString(number % 7) AS s FROM numbers({ROWS})"


def post(site: Site, role: str, text: str, **params: str) -> httpx.Response:
    auth = ("anybody", site.tokens[role])
    return httpx.post(f"{site.url}/", content=text, params=params, auth=auth)


@pytest.mark.parametrize("codec", [False, "lz4", "zstd", "gzip"])
def test_clickhouse_connect_reads_every_row_with_every_codec(served_site: Site, codec: str | bool) -> None:
    port = urlsplit(served_site.url).port
    token = served_site.tokens["analyst"]
    with clickhouse_connect.get_client(host="127.0.0.1", port=port, password=token, compress=codec) as client:
        rows = client.query(MANY).result_rows
        assert (len(rows), sum(row[0] for row in rows)) == (ROWS, ROWS * (ROWS - 1) // 2)
        arrow = client.query_arrow(MANY)
        assert (arrow.num_rows, sum(arrow["n"].to_pylist())) == (ROWS, ROWS * (ROWS - 1) // 2)
        with client.query_row_block_stream(MANY) as blocks:
            assert sum(len(block) for block in blocks) == ROWS
        assert client.command("SELECT count() FROM v_charges") == 96
        text = "o'brien \\ \n"
        assert client.query("SELECT {a:String} AS a", parameters={"a": text}).first_row[0] == text
        with pytest.raises(ClickHouseError, match="reads only"):
            client.insert("samples", [["x"]], column_names=["cluster"])
        with pytest.raises(ClickHouseError, match="url is not allowed"):
            client.query("SELECT * FROM url('http://127.0.0.1', 'CSV')")


def test_parameters_that_no_address_holds_come_as_a_form(served_site: Site) -> None:
    many = [f"学术 o'brien \\ \r\n {number}" for number in range(2000)]
    token = served_site.tokens["analyst"]
    with clickhouse_connect.get_client(host="127.0.0.1", port=urlsplit(served_site.url).port, password=token) as client:
        asked = "SELECT length({a:Array(String)}) AS n, {a:Array(String)}[2000] AS last"
        assert client.query(asked, parameters={"a": many}).first_row == (2000, many[-1])
        with pytest.raises(ClickHouseError, match="url is not allowed"):
            client.query("SELECT * FROM url({a:Array(String)}[1], 'CSV')", parameters={"a": many})
    auth = ("anybody", token)
    for files in ({"query": (None, "SELECT 1"), "t": ("t.csv", "1")}, {"query": (None, b"SELECT '\xff'")}):
        refused = httpx.post(f"{served_site.url}/", files=files, auth=auth)
        assert (refused.status_code, "Traceback" in refused.text) == (400, False), refused.text
    odd = httpx.post(f"{served_site.url}/", content=b"x", headers={"content-type": "multipart/form-data"}, auth=auth)
    assert (odd.status_code, "this form is not accepted" in odd.text) == (400, True), odd.text


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "identity"])
def test_an_answer_over_plain_http_is_whole_in_every_encoding(served_site: Site, encoding: str) -> None:
    headers = {"X-ClickHouse-Key": served_site.tokens["analyst"], "Accept-Encoding": encoding}
    answer = httpx.get(f"{served_site.url}/", params={"query": MANY}, headers=headers)
    packed = answer.headers.get("content-encoding", "identity")
    assert packed == encoding
    if encoding in ("gzip", "identity"):
        assert sum(int(line.split("\t")[0]) for line in answer.text.splitlines()) == ROWS * (ROWS - 1) // 2


def test_the_interface_is_clickhouses(served_site: Site) -> None:
    assert httpx.get(f"{served_site.url}/ping").text == "Ok.\n"
    answer = post(served_site, "analyst", "SELECT 1 AS one", default_format="JSONCompact")
    assert answer.headers["x-clickhouse-format"] == "JSONCompact"
    assert answer.json()["data"] == [[1]]
    split = httpx.post(
        f"{served_site.url}/sql",
        params={"query": "SELECT tenant, count() FROM v_charges", "param_t": "vision"},
        content="WHERE tenant = {t:String} GROUP BY tenant FORMAT CSV",
        headers={"Authorization": f"Bearer {served_site.tokens['operator']}"},
    )
    assert split.text == '"vision",48\n'


@pytest.mark.parametrize(
    ("text", "status", "code"),
    [("SELECT nope", 404, "47"), ("SELEC 1", 400, "62"), ("SELECT * FROM file('x')", 403, "497"),
     ("DROP TABLE samples", 403, "164"), ("SELECT 1 FORMAT Nope", 400, "73")],
)  # fmt: skip
def test_an_error_has_clickhouses_code_and_a_line(served_site: Site, text: str, status: int, code: str) -> None:
    answer = post(served_site, "analyst", text)
    assert (answer.status_code, answer.headers["x-clickhouse-exception-code"]) == (status, code)
    assert answer.text.startswith(f"Code: {code}. DB::Exception: ")


def test_tenants_and_strangers_get_no_sql(served_site: Site) -> None:
    for role in ("vision", "speech"):
        answer = post(served_site, role, "SELECT 1")
        assert (answer.status_code, "requires the role" in answer.text) == (403, True)
    assert httpx.post(f"{served_site.url}/", content="SELECT 1").status_code == 401
    assert httpx.get(f"{served_site.url}/", params={"query": "SELECT 1"}).status_code == 401
    wrong = httpx.post(f"{served_site.url}/", content="SELECT 1", auth=("default", "guess"))
    assert (wrong.status_code, "unknown, expired or revoked" in wrong.text) == (401, True)
    with served_site.client("analyst") as client:
        reader = client.post("/api/v1/tokens", json={"name": "reader", "scopes": ["read"]}).json()["token"]
    answer = httpx.post(f"{served_site.url}/", content="SELECT 1", headers={"Authorization": f"Bearer {reader}"})
    assert (answer.status_code, "no scope sql" in answer.text) == (403, True)


@pytest.mark.parametrize(
    ("params", "said"),
    [({"compress": "1"}, "not supported"), ({"database": "system"}, "is not served"),
     ({"max_memory_usage": "99999999999999", "readonly": "0"}, None), ({"log_queries": "1"}, "cannot be changed here"),
     ({"max_execution_time": "0"}, None)],
)  # fmt: skip
def test_parameters_of_the_url_lift_nothing(served_site: Site, params: dict[str, str], said: str | None) -> None:
    answer = post(served_site, "analyst", "SELECT value FROM system.settings WHERE name = 'max_memory_usage'", **params)
    if said is None:
        assert answer.text == "2000000000\n"
    else:
        assert said in answer.text


def test_an_answer_that_breaks_off_is_no_whole_answer(served_site: Site) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        post(served_site, "analyst", "SELECT number, throwIf(number = 2000000) FROM numbers(3000000)")
    early = post(served_site, "analyst", "SELECT throwIf(number = 3) FROM numbers(5)")
    assert early.headers["x-clickhouse-exception-code"] == "395"


HEAVY = "SELECT sum(editDistance(concat(repeat('a',60000),toString(number)), repeat('b',60000))) FROM numbers(10000)"
ENDLESS = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 3"


ENDS_SECONDS = 30
"""By itself a statement goes on for sixty."""


@contextlib.contextmanager
def begun(site: Site, text: str, **params: str) -> Iterator[socket.socket]:
    """A statement of an analyst's, whose answer nobody has read yet."""
    at = urlsplit(site.url)
    with socket.create_connection((at.hostname, at.port)) as client:
        client.settimeout(PATIENCE_SECONDS)
        client.sendall(
            f"POST /sql?{urlencode(params)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n"
            f"X-ClickHouse-Key: {site.tokens['analyst']}\r\n\r\n{text}".encode()
        )
        yield client


def workers_of(site: Site) -> Workers:
    assert isinstance(site.store, EmbeddedStore)
    store = site.store
    return store.beside(Workers, lambda: Workers(store, 4, 10.0))


def at_work(workers: Workers) -> list[Process]:
    return [one for one in workers._leased if one._is_asked]


@pytest.mark.parametrize("text", [ENDLESS, HEAVY])
def test_a_statement_ends_when_nobody_waits_for_it(served_site: Site, text: str) -> None:
    workers = workers_of(served_site)
    with begun(served_site, text):
        (one,) = until(lambda: at_work(workers))
        until(lambda: computes(one.pid))
    until(lambda: not workers._leased and not workers._dead, within=ENDS_SECONDS)
    assert workers.turns._slots.next_turns() == []
    until(lambda: not computes(one.pid), within=ENDS_SECONDS)
    assert post(served_site, "analyst", "SELECT 1").text == "1\n"


def computes(pid: int) -> bool:
    before = cpu_seconds(pid)
    time.sleep(0.2)
    return cpu_seconds(pid) > before + 0.05


def cpu_seconds(pid: int) -> float:
    """None of one that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_pages_do_not_wait_for_statements(served_site: Site) -> None:
    workers, auth = workers_of(served_site), {"Authorization": f"Bearer {served_site.tokens['analyst']}"}
    with contextlib.ExitStack() as stack:
        for _ in range(6):
            stack.enter_context(begun(served_site, HEAVY))
        until(lambda: len(at_work(workers)) == 3)
        with httpx.Client(base_url=served_site.url, headers=auth, timeout=ENDS_SECONDS) as client:
            for _ in range(5):
                assert client.get("/api/v1/views").status_code == 200
        assert len(at_work(workers)) == 3, "they go on"
    until(lambda: not workers._leased, within=ENDS_SECONDS)


def test_a_reader_who_does_not_read_keeps_no_slot(served_site: Site) -> None:
    workers = workers_of(served_site)
    with begun(served_site, "SELECT number, repeat('x', 100) FROM numbers(4000000)", max_execution_time="3") as client:
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        until(lambda: not workers._leased, within=ENDS_SECONDS)
