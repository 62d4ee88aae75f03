"""Where an agent delivers: the receiver of `gpuledger server`, or a ClickHouse server directly.

The receiver checks rows again, shows bad ones in the quarantine, combines batches of many agents into one insert, and
acknowledges a batch only after finding it in the store. ClickHouse itself only drops blocks whose token it has seen;
killed at the wrong moment, it may lose a block that it has noted but not yet moved into place. Also, every agent then
needs a ClickHouse user and makes its own inserts.
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlencode, urlsplit

from ingest.errors import IngestError
from ingest.http_post import Poster, Response, retry_after
from ingest.spool import Group
from ingest.wire import BATCH_HEADER, CLUSTER_HEADER, CONTENT_TYPE, NODE_HEADER, PATH, ROWS_HEADER
from warehouse.connection_errors import reason
from warehouse.records import RECORD_TYPES, USABLE_STATES, Column, RecordType
from warehouse.store import DATABASE, ONE_BLOCK, identifier, read_sql

LONGEST_ASKED_SECONDS = 3600.0
"""The longest wait that a server, or a proxy before it, can ask for: it may be mistaken."""


class Outcome(StrEnum):
    """What happened to a group."""

    TAKEN = "taken"
    WAIT = "wait"
    """Nothing can be sent now."""
    HOLD = "hold"
    """Nothing of this record type."""
    SMALLER = "smaller"
    """Too large at once."""
    REFUSED = "refused"
    """These bytes will never be taken."""


@dataclass(frozen=True, slots=True)
class Answer:
    """retry_after: seconds that the server asks to wait.   quarantined: rows that it accepted but does not count."""

    outcome: Outcome
    message: str = ""
    retry_after: float | None = None
    quarantined: int = 0


class Target(Protocol):
    """Takes batches. Never raises for errors of the server or the network."""

    url: str

    def send(self, group: Group) -> Answer: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Sender:
    """The agent's identity, which the server shows."""

    cluster: str = ""
    node: str = ""


def target(url: str, sender: Sender, token_file: Path | None = None, ca_file: Path | None = None) -> Target:
    """Picks the target by URL: http(s):// is a receiver, clickhouse(s):// a ClickHouse server. Errors: IngestError for
    others."""
    scheme = urlsplit(url).scheme
    if scheme in ("http", "https"):
        return ReceiverTarget(url, sender, token_file, ca_file)
    if scheme in ("clickhouse", "clickhouses") and "," in urlsplit(url).netloc:
        raise IngestError(url, "an agent delivers to one address", "Give it one node, or a proxy before all of them")
    if scheme in ("clickhouse", "clickhouses"):
        return ClickHouseTarget(url, sender, token_file, ca_file)
    raise IngestError(
        url or "deliver.url",
        "not an address to deliver to",
        "Use https://server:8443 or clickhouse://user@host:8123/db",
    )


class ReceiverTarget:
    """`POST /api/v1/records/{record type}` with a bearer token; the token's file is read anew for each batch."""

    def __init__(self, url: str, sender: Sender, token_file: Path | None = None, ca_file: Path | None = None) -> None:
        self.url = url
        self._token_file = token_file
        self._poster = Poster(url, ca_file)
        self._headers = {
            "Content-Type": CONTENT_TYPE,
            "Content-Encoding": "gzip",
            NODE_HEADER: sender.node.encode("ascii", "replace").decode(),
            CLUSTER_HEADER: sender.cluster.encode("ascii", "replace").decode(),
        }

    def send(self, group: Group) -> Answer:
        headers = {**self._headers, BATCH_HEADER: group.id, ROWS_HEADER: str(group.rows)}
        try:
            if self._token_file is not None:
                headers["Authorization"] = f"Bearer {secret(self._token_file)}"
            response = self._poster.post(f"{PATH}/{group.record}", group.body, headers)
        except (IngestError, OSError, http.client.HTTPException) as error:
            return _unsent(self.url, error)
        return judged(response, group.rows)

    def close(self) -> None:
        self._poster.close()


def _unsent(url: str, error: Exception) -> Answer:
    why = str(error) if isinstance(error, IngestError) else f"{url}: {reason(error)}"
    if "certificate verify failed" in why:
        why += " (--ca-file or ca_file names the authority of its certificate)"
    return Answer(Outcome.WAIT, why)


def judged(response: Response, rows: int) -> Answer:
    """Interprets a receiver's response: only its own report acknowledges; only a clear statement that the bytes are bad
    refuses."""
    status, said = response.status, f"status {response.status}: {' '.join(response.text.split())[:300]}"
    if 200 <= status < 300:
        try:
            report = json.loads(response.text)
            if report["read"] == rows:
                return Answer(Outcome.TAKEN, quarantined=sum(report["quarantined"].values()))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass
        return Answer(Outcome.WAIT, f"{said}: not a receiver's report on {rows} rows; is the address right?")
    if status in (400, 422):
        return Answer(Outcome.REFUSED, said)
    if status == 413:
        return Answer(Outcome.SMALLER, said)
    if status == 403:
        return Answer(Outcome.HOLD, said)
    return Answer(Outcome.WAIT, said, retry_after(response.headers, LONGEST_ASKED_SECONDS))


def secret(path: Path) -> str:
    """The first line of a file. Errors: IngestError."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise IngestError(str(path), f"cannot be read ({error})", "Put the token into that file") from error
    if not text:
        raise IngestError(str(path), "empty: expected a token", "Put the token into that file")
    return text.splitlines()[0]


_BAD_DATA = frozenset({6, 26, 27, 32, 33, 38, 41, 69, 72, 117, 131, 190, 321, 349, 467, 691})
"""ClickHouse's error codes that are about the rows themselves (cannot parse, not in the enum, null in a column without
it); any other may pass. Source: src/Common/ErrorCodes.cpp of ClickHouse."""


class ClickHouseTarget:
    """`INSERT ... FORMAT JSONEachRow` over HTTP, then its acknowledgement. The group's hash is its deduplication token
    and its `batch`.

    The password is the token file's first line, or GPULEDGER_STORE_PASSWORD.
    """

    def __init__(self, url: str, sender: Sender, token_file: Path | None = None, ca_file: Path | None = None) -> None:
        parts = urlsplit(url)
        tls = parts.scheme == "clickhouses"
        host = parts.hostname or "localhost"
        port = parts.port or (8443 if tls else 8123)
        self.url = f"{parts.scheme}://{host}:{port}"
        self._user = unquote(parts.username or "default")
        self._password = unquote(parts.password or "")
        self._database = parts.path.strip("/") or DATABASE
        self._source = f"{sender.cluster}/{sender.node}"
        self._token_file = token_file
        self._poster = Poster(f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}", ca_file)

    def send(self, group: Group) -> Answer:
        record = RECORD_TYPES[group.record]
        batch = int(group.id[:16], 16)
        settings: dict[str, object] = {
            **ONE_BLOCK,
            "database": self._database,
            "query": quarantine_sql() if group.suspect else insert_sql(record),
            "param_batch": batch,
            "insert_deduplication_token": f"{group.record}-{group.id}",
            "input_format_skip_unknown_fields": 1,
            "input_format_parallel_parsing": 0,
            "max_insert_block_size": 1_000_000_000,
            "date_time_input_format": "best_effort",
            "wait_end_of_query": 1,
        }
        about: dict[str, object] = {"param_record": group.record, "param_source": self._source}
        if group.suspect:
            return self._inserted({**settings, **about}, group.body, group.rows)
        answer = self._inserted(settings, group.body)
        if answer.outcome is not Outcome.TAKEN:
            return answer
        # Not taken before it is acknowledged: sent again, the rows are dropped by their token.
        about |= {
            "database": self._database,
            "query": read_sql(__file__, "deliver_acknowledge"),
            "wait_end_of_query": 1,
        }
        acknowledged = self._inserted({**about, "param_batch": batch, "param_rows": group.rows}, gzip.compress(b""))
        return (
            answer
            if acknowledged.outcome is Outcome.TAKEN
            else Answer(Outcome.WAIT, acknowledged.message, acknowledged.retry_after)
        )

    def _inserted(self, settings: Mapping[str, object], body: bytes, quarantined: int = 0) -> Answer:
        try:
            headers = {"Content-Encoding": "gzip", "X-ClickHouse-User": self._user, "X-ClickHouse-Key": self._key()}
            response = self._poster.post("/?" + urlencode(settings), body, headers)
        except (IngestError, OSError, http.client.HTTPException) as error:
            return _unsent(self.url, error)
        return judged_insert(response, quarantined)

    def close(self) -> None:
        self._poster.close()

    def _key(self) -> str:
        if self._token_file is not None:
            return secret(self._token_file)
        return self._password or os.environ.get("GPULEDGER_STORE_PASSWORD", "")


def judged_insert(response: Response, quarantined: int = 0) -> Answer:
    """Interprets a ClickHouse server's response."""
    late = re.search(r"Code: (\d+)\. DB::Exception: ", response.text)
    if response.status == 200 and "x-clickhouse-exception-code" not in response.headers and not late:
        if "x-clickhouse-summary" in response.headers or "x-clickhouse-query-id" in response.headers:
            return Answer(Outcome.TAKEN, quarantined=quarantined)
        return Answer(Outcome.WAIT, "status 200, but not from a ClickHouse server; is the address right?")
    said = f"status {response.status}: {' '.join(response.text.split())[:300]}"
    code = response.headers.get("x-clickhouse-exception-code", "") or (late[1] if late else "")
    if code.isdigit() and int(code) in _BAD_DATA:
        return Answer(Outcome.REFUSED, said)
    return Answer(Outcome.WAIT, said, retry_after(response.headers, LONGEST_ASKED_SECONDS))


def insert_sql(record: RecordType) -> str:
    """The statement that writes JSON lines of a record type."""
    return read_sql(
        __file__,
        "deliver_insert",
        table=identifier(record.name),
        columns=", ".join(identifier(column.name) for column in record.columns),
        values=", ".join(_value(record, column) for column in record.columns),
        structure=", ".join(f"{identifier(column.name)} {_type(column)}" for column in record.columns),
    )


def quarantine_sql() -> str:
    """The statement that writes lines which do not fit the contract."""
    return read_sql(__file__, "deliver_quarantine")


_TYPES: Mapping[str, str] = {
    "time": "DateTime64(3, \\'UTC\\')",
    "text": "String",
    "float": "Nullable(Float64)",
    "uint": "Nullable(UInt64)",
    "int": "Nullable(Int64)",
    "bool": "Nullable(Bool)",
}


def _type(column: Column) -> str:
    return _TYPES[column.type]


def _value(record: RecordType, column: Column) -> str:
    """As `normalise` has it: no value where the state carries none; a device has one unit if it does not say."""
    if record.name == "samples" and column.name == "utilization":
        usable = ", ".join(f"'{state}'" for state in USABLE_STATES)
        return f"if(state IN ({usable}), utilization, NULL)"
    if record.name == "devices" and column.name == "units":
        return "ifNull(units, 1)"
    return column.name
