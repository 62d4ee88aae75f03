"""Native as clickhouse-go, on which Grafana's data source stands, asks for it over HTTP; another implementation of the
protocol reads the answers."""

from __future__ import annotations

import datetime as dt
import io
import ipaddress
import uuid
from decimal import Decimal
from typing import Any

import httpx
import pytest
from clickhouse_driver import Client
from clickhouse_driver.bufferedreader import BufferedReader
from clickhouse_driver.connection import ServerInfo
from clickhouse_driver.streams.native import BlockInputStream

from api.sql.errors import SqlError
from api.sql.native import WITH_PACKING, for_protocol
from tests.dashboards.site import Site

GO = 54460
"""The version that clickhouse-go 2.48 speaks."""


class Reader(BufferedReader):
    """Of bytes that are all there."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)
        super().__init__(65536)

    def read_into_buffer(self) -> None:
        part = self._content.read(65536)
        self.buffer[: len(part)] = part
        self.position, self.current_buffer_size = 0, len(part)
        if not part:
            raise EOFError


def read(content: bytes, version: int) -> list[tuple[Any, ...]]:
    """The rows of an answer."""
    context = Client("nowhere").connection.context
    context.server_info = ServerInfo("ClickHouse", 26, 9, 1, version, "UTC", "here", version)
    stream, rows = BlockInputStream(Reader(content), context), []
    while True:
        try:
            block = stream.read()
        except EOFError:
            return rows
        rows += block.get_rows()


def ask(site: Site, sql: str, version: int = GO) -> httpx.Response:
    """As clickhouse-go does with compression gzip."""
    return httpx.post(
        f"{site.url}/",
        params={"client_protocol_version": str(version), "database": site.store.database, "default_format": "Native"},
        content=sql,
        auth=("grafana", site.tokens["analyst"]),
        headers={
            "User-Agent": "clickhouse-go/2.48.0 (database/sql; lv:go/1.27.1; os:linux)",
            "Accept-Encoding": "gzip",
        },
    )


def rows(site: Site, sql: str, version: int = GO) -> list[tuple[Any, ...]]:
    answer = ask(site, sql, version)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-encoding"] == "gzip"
    return read(answer.content, version)


def test_what_it_asks_first_is_answered(served_site: Site) -> None:
    ((name, version, revision, zone),) = rows(served_site, "SELECT displayName(), version(), revision(), timezone()")
    assert name
    assert version[:3].count(".") == 1
    assert revision >= GO
    assert zone
    assert rows(served_site, "SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("toInt8(-1), toUInt256(7), 1.5::Float32, true", (-1, 7, 1.5, True)),
        ("1.25::Decimal(9, 2), 1.25::Decimal(18, 9), 1.25::Decimal(38, 9), 1.25::Decimal(76, 9)",
         (Decimal("1.25"),) * 4),
        ("toDate('2026-10-01'), toDate32('2026-10-01')", (dt.date(2026, 10, 1),) * 2),
        ("toDateTime64('2026-10-01 01:02:03.004', 3, 'UTC')",
         (dt.datetime(2026, 10, 1, 1, 2, 3, 4000, tzinfo=dt.UTC),)),
        ("CAST('b', 'Enum8(\\'a, (\\' = 1, \\'b\\' = 2)'), CAST('y', 'Enum16(\\'x\\' = 1, \\'y\\' = 999)')",
         ("b", "y")),
        ("toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0'), toIPv4('1.2.3.4'), toIPv6('::1')",
         (uuid.UUID("61f0c404-5cb3-11e7-907b-a6006ad3dba0"), ipaddress.ip_address("1.2.3.4"),
          ipaddress.ip_address("::1"))),
        ("'', 'ü', repeat('y', 300), toFixedString('abc', 3)", ("", "ü", "y" * 300, "abc")),
        ("NULL::Nullable(String), 'x'::Nullable(String), NULL", (None, "x", None)),
        ("[1, 2]::Array(UInt8), [['x'], []], []::Array(String)", ([1, 2], [["x"], []], [])),
        ("map('k', 1, 'l', 2), map('k', ['v'])", ({"k": 1, "l": 2}, {"k": ["v"]})),
        ("(1, 'a')::Tuple(UInt8, String), [(1::Decimal(9, 2), NULL::Nullable(Decimal(38, 9)))]",
         ((1, "a"), [(Decimal(1), None)])),
        ("toLowCardinality('x'), toLowCardinality(NULL::Nullable(String))", ("x", None)),
        ("[toLowCardinality('x')], []::Array(LowCardinality(String)), 7", (["x"], [], 7)),
    ],
)  # fmt: skip
def test_values_of_every_type_are_passed_over_right(served_site: Site, sql: str, expected: tuple[Any, ...]) -> None:
    for version in (WITH_PACKING - 1, GO):
        assert rows(served_site, f"SELECT {sql}, 'the end'", version) == [(*expected, "the end")]


def test_every_view_and_many_rows_arrive_whole(served_site: Site) -> None:
    views = [row[0] for row in rows(served_site, "SHOW TABLES LIKE 'v\\\\_%'")]
    assert "v_charges" in views
    for view in views:
        rows(served_site, f"SELECT * FROM {view}")
    assert len(rows(served_site, "SELECT * FROM v_charges")) == 96
    assert rows(served_site, "SELECT * FROM v_charges WHERE tenant = 'nobody'") == []
    reported = rows(served_site, "DESCRIBE TABLE v_charges FORMAT Native")
    assert ("tenant", "String") in {row[:2] for row in reported}
    many = rows(served_site, "SELECT number, toLowCardinality(toString(number % 7)) FROM numbers(250000)")
    assert [number for number, _ in many] == list(range(250_000))
    assert {text for _, text in many} == set("0123456")


def test_what_cannot_be_passed_over_is_refused_with_what_to_do(served_site: Site) -> None:
    answer = ask(served_site, "SELECT sumState(1)")
    assert (answer.status_code, answer.headers["x-clickhouse-exception-code"]) == (400, "48")
    assert "AggregateFunction(sum, UInt8)" in answer.text
    assert "toString" in answer.text
    assert ask(served_site, "SELECT 1", version=-1).status_code == 400


def test_who_names_no_version_gets_blocks_as_they_are() -> None:
    assert list(for_protocol(iter([b"anything"]), 0)) == [b"anything"]
    with pytest.raises((SqlError, IndexError)):
        list(for_protocol(iter([b"anything"]), GO))
