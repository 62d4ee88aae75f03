"""`gpuledger`, and `python -m gpuledger`.

An installation puts only this package into site-packages, so that it does not clash with other packages called
`scheduler` or `alerts`. The lower floors are then in `gpuledger/floors`, which only this process adds to its path.
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
