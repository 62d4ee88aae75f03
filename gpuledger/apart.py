"""Processes of our own: this very Python with one of our functions, which is handed an end of a connection.

What they hold and load ends with them. Of their terminal's signals they hear nothing: they end when the other end of
the connection is closed, or as they are told through it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from gpuledger.no_pandas import refuse_pandas
from gpuledger.output import INTERRUPTED
from warehouse.this_python import name_of, named, this_python


def begin(target: Callable[[Connection], None], *more: Connection) -> tuple[subprocess.Popen[bytes], Connection]:
    """Starts a function of a module in a process, and returns our end of its connection.

    more: connections that it gets from us, by their numbers.
    """
    ours, theirs = Pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 (this very Python, with our own arguments)
            this_python(start, name_of(target), str(theirs.fileno())),
            stdin=subprocess.DEVNULL, process_group=0, pass_fds=[one.fileno() for one in (theirs, *more)],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return process, ours


def start(target: str, number: str) -> None:
    """Entry point of the process."""
    # A shell's `&` has its commands ignore it, and those that they begin.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    refuse_pandas()
    try:
        with Connection(int(number)) as end:
            named(target)(end)
    except KeyboardInterrupt:  # who sent it says so
        sys.exit(INTERRUPTED)
