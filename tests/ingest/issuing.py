"""Pushes and issues a month in a process that can be killed at any moment.

python -m tests.ingest.issuing STORE TOKENS
"""

from __future__ import annotations

import sys
import threading
import time
from itertools import count
from pathlib import Path

from billing.invoicing.invoices import InvoiceError, issue_all
from tests.ingest.issued_fleet import ISSUED_AT, NOW, OCTOBER, closed, late_rows
from tests.ingest.pushing import push
from tests.ingest.receiving import Served, receiving
from warehouse.store import open_store

ROWS = 10
"""Of each kind that are pushed; then the same again."""


def main() -> None:
    url, tokens = sys.argv[1:]
    with open_store(url) as store, receiving(store, Path(tokens), 0.01, now=lambda: NOW) as served:
        print("open", flush=True)
        threading.Thread(target=_pushing, args=(served,), daemon=True).start()
        while True:
            closed(store)
            try:
                issue_all(store, OCTOBER, ISSUED_AT)
            except InvoiceError:
                continue
            time.sleep(60)


def _pushing(served: Served) -> None:
    for n in count():
        for one in late_rows(n % ROWS):
            push(served, one)
        time.sleep(0.3)


if __name__ == "__main__":
    main()
