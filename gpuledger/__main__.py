"""`gpuledger`, and `python -m gpuledger`.

An installation puts nothing but this package into site-packages, so that others may be called `scheduler` or `alerts`:
there the floors are in `gpuledger/floors`, and this process alone finds them by their names.
"""

import sys
from pathlib import Path

FLOORS = Path(__file__).parent / "floors"


def main() -> None:
    if FLOORS.is_dir():
        sys.path.insert(0, str(FLOORS))
    from gpuledger.cli import main as run

    run()


if __name__ == "__main__":
    main()
