"""`gpuledger`, `python -m gpuledger` and `kubectl-gpuledger`.

An installation puts nothing but this package into site-packages, so that others may be called `scheduler` or `alerts`:
there the floors are in `gpuledger/floors`, and this process alone finds them by their names.
"""

import sys
from pathlib import Path

FLOORS = Path(__file__).parent / "floors"


def main() -> None:
    _find_floors()
    from gpuledger.cli import main as run

    run()


def kubectl() -> None:
    """kubectl finds it by its name: `kubectl gpuledger`."""
    _find_floors()
    from gpuledger.kubectl.cli import main as run

    run()


def _find_floors() -> None:
    if FLOORS.is_dir():
        sys.path.insert(0, str(FLOORS))


if __name__ == "__main__":
    main()
