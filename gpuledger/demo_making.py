"""Makes the demo in a process of its own: what its ingest, close and PDFs take of memory is three times what a server
needs, and ends with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path

from access.settings import AccessSettings
from gpuledger import apart, demo
from gpuledger.demo_fleet import Fleet
from gpuledger.steps import PATIENCE_SECONDS, Steps, prepared, sigterm_as_interrupt
from warehouse.errors import LedgerError
from warehouse.store import Store, open_store


@dataclass(frozen=True)
class Making:
    """What `demo.build` is called with.   url: of the store.   fleet: the number of the fleet's connection."""

    url: str
    seed: int
    folder: Path
    address: str
    access: AccessSettings
    fleet: int


def make(url: str, seed: int, folder: Path, address: str, access: AccessSettings, fleet: Fleet) -> demo.Demo:
    """The demo as it was made, with the fleet as its feed if that goes on from there; its steps are shown.

    Errors: as of `demo.build`; KeyboardInterrupt, after it was told as well.
    """
    process, end = apart.begin(run, fleet.end)
    with process, end:
        end.send(Making(url, seed, folder, address, access, fleet.end.fileno()))
        try:
            answer = end.recv()
            process.wait()
        except EOFError:
            sys.exit(process.wait() or 1)  # it has said why
        except KeyboardInterrupt:
            _interrupt(process)
            raise
    if isinstance(answer, demo.Demo):
        return answer
    if isinstance(answer, GoesOn):
        return replace(answer.made, feed=fleet.goes_on())
    raise LedgerError(*answer)


@dataclass(frozen=True)
class GoesOn:
    """A demo from which its fleet goes on."""

    made: demo.Demo


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ends it, and waits until it has; at once if somebody interrupts once more."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(PATIENCE_SECONDS + 5)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        process.kill()


def run(end: Connection) -> None:
    """The process that makes it."""
    making: Making = end.recv()
    answered = threading.Event()
    threading.Thread(target=_interrupt_without, args=(end, answered), name="asked", daemon=True).start()

    def build(store: Store, steps: Steps) -> demo.Demo:
        with contextlib.closing(Fleet(Connection(making.fleet))) as fleet:
            return demo.build(
                store, making.seed, making.folder, steps, datetime.now(UTC), making.address, making.access, fleet
            )

    answer: demo.Demo | GoesOn | tuple[str, str, str]
    try:
        with open_store(making.url) as store, sigterm_as_interrupt():
            made = prepared(store, build)
        answer = made if made.feed is None else GoesOn(replace(made, feed=None))
    except LedgerError as error:
        answer = (error.where, error.what, error.next_step)
    answered.set()
    end.send(answer)


def _interrupt_without(end: Connection, answered: threading.Event) -> None:
    """Whoever asked is gone: nobody will serve it."""
    with contextlib.suppress(EOFError, OSError):
        end.recv_bytes()
    if not answered.is_set():
        os.kill(os.getpid(), signal.SIGINT)
