"""`gpuledger`, `python -m gpuledger` and `kubectl-gpuledger`.

An installation puts only this package into site-packages, so that it does not clash with other packages called
`scheduler` or `alerts`. The lower floors are then in `gpuledger/floors`, which only this process adds to its path.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FLOORS = Path(__file__).parent / "floors"


def main() -> None:
    _find_floors()
    with _quiet_if_interrupted():
        from gpuledger.cli import main as run

    run()


def kubectl() -> None:
    """kubectl finds it by its name: `kubectl gpuledger`."""
    _find_floors()
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


def _find_floors() -> None:
    if FLOORS.is_dir():
        sys.path.insert(0, str(FLOORS))


if __name__ == "__main__":
    main()
