"""Where a continuous command puts its rows: a file, a server through a spool, or the store."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from collectors.readings import Collected, Row
from gpuledger.books import recording_store
from ingest.wire import plain
from warehouse.connection_errors import reason
from warehouse.errors import LedgerError
from warehouse.private_files import naming, private_folder, users_file, users_folder
from warehouse.records import RECORD_TYPES

if TYPE_CHECKING:
    from warehouse.store import Store

log = logging.getLogger(__name__)

Sink = Callable[[Collected], None]
DEVICES_SECONDS = 20.0
"""Timeout of a request for the server's devices."""
DRAIN_SECONDS = 10.0
"""How long a run waits at its end for its last rows to be delivered; undelivered rows stay in the spool."""


@dataclass
class Destination:
    """name: for messages.   put: writes rows, and returns once they are durable.   written: rows, by record
    type.   devices: the cluster's devices as last reported there; empty if the destination cannot be asked."""

    name: str
    put: Sink
    written: Counter[str]
    devices: Callable[[], list[Row]] = list

    def closing_line(self, dropped: Mapping[str, int]) -> str:
        """The rows that a run reported, in one line."""
        parts = [f"{record} {rows:,}" for record, rows in sorted(self.written.items())] or ["nothing new"]
        if dropped:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(dropped.items()))
            parts.append(f"not used {sum(dropped.values()):,} ({reasons})")
        return " · ".join(parts)


@contextlib.contextmanager
def destination(
    cluster: str,
    source: str,
    out: str,
    url: str,
    token_file: Path | None,
    ca_file: Path | None,
    store: str,
    once: bool = False,
) -> Iterator[Destination]:
    """The destination that the options name: JSON lines, a server through a spool, or a store. Errors: LedgerError;
    also at the end of a run that works only once, if the server has not taken all rows."""
    written: Counter[str] = Counter()

    def counted(put: Sink) -> Sink:
        def counting(collected: Collected) -> None:
            put(collected)
            written.update({record: len(rows) for record, rows in collected.rows.items()})

        return counting

    if out and url:
        raise LedgerError("--out, --url", "rows go to one place", "Next: leave one of them out")
    with contextlib.ExitStack() as stack:
        if out == "-":
            yield Destination("to standard output", counted(lambda collected: _write(collected, sys.stdout)), written)
        elif out:
            path = Path(out)
            users_folder(path.parent)
            stack.enter_context(naming(path))
            file = stack.enter_context(open(path, "a", encoding="utf-8", opener=users_file))
            yield Destination(f"to {path}", counted(lambda collected: _write(collected, file)), written)
        elif url:
            put = stack.enter_context(_delivering(cluster, source, url, token_file, ca_file, once))
            yield Destination(f"to {url}", counted(put), written, _ServedDevices(cluster, url, token_file, ca_file))
        else:
            from ingest.known_devices import known_devices

            opened = stack.enter_context(recording_store(store, "Deliver to it with --url"))
            put = storing(opened, source)
            yield Destination(f"to {opened.url}", counted(put), written, lambda: known_devices(opened, cluster))


def _write(collected: Collected, file: TextIO) -> None:
    """Writes JSON lines; `record` names the type of each."""
    for record, rows in collected.rows.items():
        for row in rows:
            file.write(json.dumps({"record": record, **plain(row)}, ensure_ascii=False, default=str) + "\n")
    file.flush()


def storing(opened: Store, source: str) -> Sink:
    """Writes rows to a store.   source: where they came from, for the quarantine."""
    import pyarrow as pa

    from collectors.tables import schema
    from ingest.pipeline import ingest_tables

    def put(collected: Collected) -> None:
        for record, rows in collected.rows.items():
            kind = RECORD_TYPES[record]
            ingest_tables(opened, kind, source, [pa.Table.from_pylist(rows, schema=schema(kind))])

    return put


@contextlib.contextmanager
def _delivering(
    cluster: str, source: str, url: str, token_file: Path | None, ca_file: Path | None, once: bool
) -> Iterator[Sink]:
    """Delivers through a spool on disk, as the agent does; undelivered rows stay there for the next run."""
    from collectors.agent.outbox import Outbox
    from ingest.deliver import Deliverer
    from ingest.spool import Spool
    from ingest.targets import Sender, target

    with Spool(state_home() / f"watch-{source}-{mark(cluster, url)}-spool") as spool:
        spool.take_up_again()
        outbox = Outbox(spool, cluster, "")
        deliverer = Deliverer(spool, target(url, Sender(cluster, f"watch-{source}"), token_file, ca_file), 1.0)
        stop = threading.Event()
        thread = threading.Thread(target=deliverer.run, args=(stop,), name="deliver", daemon=True)
        thread.start()

        def put(collected: Collected) -> None:
            if not outbox.put(source, collected, datetime.now(UTC)):
                raise LedgerError(
                    str(spool.folder), f"the disk cannot be written: {spool.disk_error}", "Next: make room"
                )

        try:
            yield put
            # A run that ends by itself empties the spool, if the server answers.
            until = time.monotonic() + DRAIN_SECONDS
            while spool.state().batches and not deliverer.state.problem and time.monotonic() < until:
                time.sleep(0.05)
        finally:
            stop.set()
            thread.join(DRAIN_SECONDS)
        left = spool.state()
        if once and (left.rows or left.set_aside):
            why = f": {deliverer.state.problem}" if deliverer.state.problem else ""
            raise LedgerError(
                url,
                f"not everything was delivered: {_left(left.rows, left.set_aside)} in {spool.folder}{why}",
                "The next run sends it first",
            )


def _left(rows: int, batches: int) -> str:
    """What a spool still has: rows, and batches that the server refused."""
    waiting = "1 row waits" if rows == 1 else f"{rows:,} rows wait"
    refused = "1 refused batch is set aside" if batches == 1 else f"{batches:,} refused batches are set aside"
    return " and ".join([*([waiting] if rows else []), *([refused] if batches else [])])


class _ServedDevices:
    """Returns the cluster's devices from a server; while it cannot be reached, its last answer, and logs why once."""

    def __init__(self, cluster: str, url: str, token_file: Path | None, ca_file: Path | None) -> None:
        self._cluster, self._url, self._token_file = cluster, url, token_file
        self._verify = ssl.create_default_context(cafile=ca_file) if url.startswith("https:") else False
        self._known: list[Row] = []
        self._logged = ""

    def __call__(self) -> list[Row]:
        import httpx

        from ingest.prompt_client import ask
        from ingest.wire import PATH

        try:
            headers = {"Authorization": f"Bearer {self._token_file.read_text().strip()}"} if self._token_file else {}
            where, asked = f"{self._url.rstrip('/')}{PATH}/devices", {"cluster": self._cluster}
            answer = ask("GET", where, DEVICES_SECONDS, params=asked, headers=headers, verify=self._verify)
            answer.raise_for_status()
            self._known, trouble = [json.loads(line) for line in answer.text.split("\n") if line], ""
        except (httpx.HTTPError, OSError, ValueError) as error:
            trouble = reason(error)
        if trouble and trouble != self._logged:
            log.warning(
                "the devices of %s cannot be read, so failed nodes are not reported: %s", self._cluster, trouble
            )
        self._logged = trouble
        return self._known


def state_home() -> Path:
    """The folder of the positions and spools of continuous commands."""
    return Path.home() / ".local" / "state" / "gpuledger"


def mark(*of: str) -> str:
    """A short hash that identifies a destination, so that each has a position and spool of its own."""
    return hashlib.blake2b("\0".join(of).encode(), digest_size=4).hexdigest()


def state_file(given: Path | None, source: str, cluster: str, out: str, url: str, store: str) -> Path | None:
    """The file with the position; None for standard output, which has none unless one is given."""
    if given is not None or out == "-":
        return given
    if out:
        return Path(f"{out}.state")
    private_folder(state_home())
    return state_home() / f"watch-{source}-{mark(cluster, url or 'store ' + store)}.state"
