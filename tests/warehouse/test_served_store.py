"""The same client and the same SQL over HTTP."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

from billing.close import close
from billing.verify import verify
from tests.draws import seldom
from tests.warehouse.engine_over_http import served
from warehouse.errors import StoreError
from warehouse.store import Store, migrate, open_store


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Store]:
    with served(tmp_path) as url, open_store(url) as store:
        migrate(store)
        yield store


def test_parameters_rows_and_errors_are_those_of_the_embedded_store(remote: Store) -> None:
    at = datetime(2026, 10, 1, 12, tzinfo=UTC)
    assert remote.rows(
        "SELECT {at:DateTime64(3, 'UTC')} AS at, {name:String} AS name", {"at": at, "name": "o'brien"}
    ) == [{"at": at, "name": "o'brien"}]
    with pytest.raises(StoreError, match="nope"):
        remote.rows("SELECT nope")


def test_a_batch_sent_again_changes_nothing(remote: Store) -> None:
    batch = pa.table(
        {
            "ts": pa.array([1_790_000_000_000], pa.timestamp("ms", "UTC")),
            "interval_seconds": [60.0],
            "device_id": ["GPU-0"],
            "state": ["ok"],
            "utilization": [0.25],
            "batch": pa.array([7], pa.uint64()),
        }
    )
    for _ in range(2):
        remote.insert("samples", batch, token="seven")
    assert remote.rows("SELECT count() AS n, any(utilization) AS u FROM samples") == [{"n": 1, "u": 0.25}]
    assert remote.value("SELECT count() AS n FROM system.tables WHERE name LIKE 'staged_%'") == 0


@seldom(5, "a served store is closed")
def test_the_close_runs_there_too(remote: Store) -> None:
    remote.command(
        "INSERT INTO devices (ts, cluster, node, device_id, model, units, state) "
        "VALUES ('2026-10-01 00:00:00', 'c', 'n', 'GPU-0', 'NVIDIA L4', 2, 'available')"
    )
    remote.command(
        "INSERT INTO events (ts, cluster, allocation_id, event, tenant, node, device_id, units) VALUES "
        "('2026-10-01 01:00:00', 'c', 'a', 'started', 't', 'n', 'GPU-0', 1), "
        "('2026-10-01 02:30:00', 'c', 'a', 'finished', 't', '', '', NULL)"
    )
    report = close(remote, until=datetime(2026, 10, 1, 4, tzinfo=UTC))
    assert (report.checked, report.changed) == (4, 4)
    assert verify(remote).balanced
    assert remote.value("SELECT sum(unmetered_unit_ms) AS ms FROM ledger") == 90 * 60_000


def test_a_password_is_the_first_line_of_a_file_so_that_no_environment_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    monkeypatch.delenv("GPULEDGER_STORE_PASSWORD", raising=False)
    monkeypatch.setenv("GPULEDGER_STORE_PASSWORD_FILE", str(file))
    with pytest.raises(StoreError, match=r"GPULEDGER_STORE_PASSWORD_FILE .*cannot be read"):
        open_store("clickhouse://u@127.0.0.1:1/db")
    file.write_text("s3cret\n")
    with reported_by() as (url, keys), pytest.raises(StoreError) as error:
        open_store(url)
    assert keys
    assert {base64.b64decode(key.removeprefix("Basic ")) for key in keys} == {b"u:s3cret"}
    assert "s3cret" not in str(error.value)


@contextlib.contextmanager
def reported_by() -> Iterator[tuple[str, list[str]]]:
    """A server's store URL that lets nobody in, and who tried."""
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            keys.append(self.headers["Authorization"])
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"clickhouse://u@127.0.0.1:{server.server_port}/db", keys
        server.shutdown()
