"""Histories of the operator on a real API server, as many as wanted (see real_histories)."""

from __future__ import annotations

import argparse
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.scheduler.kubernetes.real_histories import FaultError, History, a_site


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--histories", type=int, default=20)
    parser.add_argument("--seed", default="1", help="history N has the seed 'SEED N'")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--keep-going", action="store_true", help="past a failure")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no API server stays
    did, failed, began = Counter[str](), 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpuledger-histories-") as folder, a_site(Path(folder)) as site:
        for number in range(given.first, given.first + given.histories):
            history = History(site, f"{given.seed} {number}", number)
            try:
                history.run()
            except FaultError as fault:
                failed += 1
                print(f"seed {history.seed!r}: {str(fault)[:20_000]}", flush=True)
                if not given.keep_going:
                    break
            did += history.did + Counter(pods=len(history.lives), jobs=history.created, operators=len(history.ups))
            shutil.rmtree(history.folder)
            if (number + 1) % 10 == 0:
                print(
                    f"{number + 1 - given.first} histories, {time.monotonic() - began:.0f} s: {dict(did)}", flush=True
                )
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print(f"CPU {sum(one.ru_utime + one.ru_stime for one in used):.0f} s, {failed} failed, {dict(did)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
