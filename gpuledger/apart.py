"""Processes of our own: this very Python with one of our functions, which is handed an end of a connection.

What they hold and load ends with them. Of their terminal's signals they hear nothing: they end when the other end of
the connection is closed, or as they are told through it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

_BEGIN = "import sys; sys.path[:] = sys.argv[3:]; from gpuledger.apart import start; start(*sys.argv[1:3])"


def begin(target: Callable[[Connection], None], *more: Connection) -> tuple[subprocess.Popen[bytes], Connection]:
    """Starts a function of a module in a process, and returns our end of its connection.

    more: connections that it gets from us, by their numbers.
    """
    paths = [path for path in sys.path if path and Path(path).exists()]
    ours, theirs = Pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 (this very Python, with our own arguments)
            [sys.executable, "-I", "-S", "-c", _BEGIN, f"{target.__module__}:{target.__qualname__}",
             str(theirs.fileno()), *paths],
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
    from importlib import import_module

    from gpuledger.no_pandas import refuse_pandas

    refuse_pandas()
    module, _, name = target.partition(":")
    try:
        with Connection(int(number)) as end:
            getattr(import_module(module), name)(end)
    except KeyboardInterrupt:  # who sent it says so
        sys.exit(130)
