"""`gpuledger`, `python -m gpuledger` and `kubectl-gpuledger`.

An installation puts only this package into site-packages, so that it does not clash with other packages called
`scheduler` or `alerts`. The lower floors are then in `gpuledger/floors`, which only this process adds to its path.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuledger.no_pandas import refuse_pandas

FLOORS = Path(__file__).parent / "floors"


def main() -> None:
    _have_streams()
    _find_floors()
    refuse_pandas()
    with _quiet_if_interrupted():
        from gpuledger.cli import main as run

    run()


def kubectl() -> None:
    """kubectl finds it by its name: `kubectl gpuledger`."""
    _have_streams()
    _find_floors()
    refuse_pandas()
    with _quiet_if_interrupted():
        from gpuledger.cli import run

    def plugin(args: list[str] | None = None, **more: Any) -> Any:
        from gpuledger.kubectl.cli import app  # within `run`: what is not installed is one line

        return app(args, **more)

    run(plugin, None)


@contextmanager
def _quiet_if_interrupted() -> Iterator[None]:
    """While `gpuledger.cli` is imported, which says it otherwise; that is most of a short command's time."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("gpuledger: interrupted; nothing was begun\n")
        sys.exit(130)


def _have_streams() -> None:
    """What a parent closed goes nowhere. Else the next file that is opened gets its number: what is printed would be
    written into that one."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))


def _find_floors() -> None:
    if FLOORS.is_dir():
        sys.path.insert(0, str(FLOORS))


if __name__ == "__main__":
    main()
