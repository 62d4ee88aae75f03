"""`gpuledger sql` prints the same of every kind of store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpuledger.running import run
from tests.stores import fresh_store
from tests.warehouse.engine_over_http import served

STATEMENT = (
    "SELECT toDateTime64('2026-11-27 21:00:00', 3, 'UTC') AS at, NULL::Nullable(String) AS nothing, true AS yes,"
    " toDecimal64('1.5', 6) AS price, toUInt64(18446744073709551615) AS many, [1, 2] AS some, 'a,\"b' AS text,"
    " count() AS samples FROM samples;"
)


@pytest.mark.parametrize("form", ["--format table", "--format csv", "--as JSONEachRow", "--as TSVWithNamesAndTypes"])
def test_a_clickhouse_server_is_printed_as_an_embedded_store(tmp_path: Path, form: str) -> None:
    fresh_store(tmp_path).close()
    embedded = run("sql", STATEMENT, *form.split(), "--store", f"chdb://{tmp_path}")
    with served(tmp_path) as url:
        of_server = run("sql", STATEMENT, *form.split(), "--store", url)
    assert embedded.exit_code == of_server.exit_code == 0, of_server.output
    assert of_server.stdout_bytes == embedded.stdout_bytes != b""
