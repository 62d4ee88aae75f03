"""Fills a store in a process of its own: what ingest, close and PDFs take of memory is three times what a server needs,
and ends with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from gpuledger import apart
from gpuledger.output import INTERRUPTED, console
from gpuledger.steps import PATIENCE_SECONDS, Steps, prepared, sigterm_as_interrupt
from warehouse.errors import LedgerError
from warehouse.store import Store, open_store

Result = TypeVar("Result")


def made_apart(url: str, fill: Callable[[Store, Steps], Result], *more: Connection) -> Result:
    """What a function made of the store; its steps are shown.

    fill: a module's function, or `partial` of one, whose arguments and result can be pickled.   more: connections that
    it uses, by their numbers.
    Errors: LedgerError, OSError and ModuleNotFoundError as of the function; LedgerError if the process was killed;
    KeyboardInterrupt, once that process has ended too.
    """
    process, end = apart.begin(_run, *more)
    with process, end:
        try:
            end.send((url, fill))
            answer, error = end.recv()
            process.wait()
        except (EOFError, ConnectionError):
            raise _left(process.wait()) from None
        except KeyboardInterrupt:
            end.close()
            _wait_or_kill(process)
            raise
    if error is not None:
        raise error if isinstance(error, Exception) else LedgerError(*error)
    result: Result = answer
    return result


def _wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    """Waits until it has noticed that nobody asks any more; kills it if somebody interrupts once more. It gets no
    signal: while it still begins, that would be a traceback."""
    try:
        process.wait(PATIENCE_SECONDS + 5)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        process.kill()
        console(stderr=True).show_cursor()


def _left(status: int) -> BaseException:
    """How the command ends where the process has ended without an answer."""
    if status == INTERRUPTED:
        return KeyboardInterrupt()
    if status >= 0:
        return SystemExit(status or 1)  # it has said why
    console(stderr=True).show_cursor()
    name = signal.Signals(-status).name
    memory = ", as the system does when memory is short" if name == "SIGKILL" else ""
    what = f"the process that fills the store was ended by {name}{memory}"
    return LedgerError("interrupted", what, "The store is whole: run the same command again to continue")


def _run(end: Connection) -> None:
    """The process that fills it."""
    try:
        url, fill = end.recv()
    except (EOFError, OSError):  # whoever asked is gone already
        sys.exit(INTERRUPTED)
    answered = threading.Event()
    threading.Thread(target=_interrupt_without, args=(end, answered), name="asked", daemon=True).start()
    answer: Any = None
    error: Exception | tuple[str, str, str] | None = None
    try:
        with open_store(url) as store, sigterm_as_interrupt():
            answer = prepared(store, fill)
    except LedgerError as failed:
        error = failed.where, failed.what, failed.next_step
    except (OSError, ModuleNotFoundError) as failed:
        error = failed
    answered.set()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # interrupted just now
        end.send((answer, error))


def _interrupt_without(end: Connection, answered: threading.Event) -> None:
    """Whoever asked is gone: nobody will serve it."""
    with contextlib.suppress(EOFError, OSError):
        end.recv_bytes()
    if not answered.is_set():
        os.kill(os.getpid(), signal.SIGINT)
