"""What an OpenCost query is read as, or why it is refused, parameter by parameter.

GPULEDGER_GOLDEN=write pytest tests/billing/test_golden_queries.py     renews golden/queries.json
"""

from __future__ import annotations

from billing.opencost.query import QueryError, parse_query
from tests.billing.golden import compare, digest
from tests.billing.hand_ledger import at

NOW = at("2026-10-25 12:34:56")
WINDOWS = (
    "", "today", "yesterday", "week", "lastweek", "month", "lastmonth", "1d", "12h", "30m", "2w", "0d", "1x", "-1d",
    "2026-10", "2026-10-25", "2026-10-24T12:30:00Z,2026-10-26T01:00:00Z", "2026-10-25,2026-10-26",
    "60m", "2026-10-26,2026-10-25",
    "1792900000,1792950000", "1792950000,1792900000", "2016-10-15,2026-10-24", "2016-10-15,2026-10-25",
    "2026-10-24,today",
    "2026-10-25T00:00:00+02:00,2026-10-26T00:00:00+01:00", "2026-10-24T22:10:11Z,2026-11-02T03:12:13Z",
)  # fmt: skip
OTHERS = {
    "aggregate": (
        "cluster", "Node,pod", "namespace,namespace", "label:tenant", "Label: Queue", "annotation:tenant",
        "label:colour",
        "tenant", "label:", "controller", "service,device", "",
    ),
    "step": ("1h", "24h", "1d", "2d", "1w", "90m", "0h", "1", "d", "1h30m", "10000h", "window", "1m", "13h"),
    "accumulate": ("true", "false", "none", "hour", "day", "week", "month", "quarter", "year", "1d", ""),
    "accumulateBy": ("day", "true"),
    "includeIdle": ("true", "false", "1", "maybe"),
    "idleByNode": ("true", "T"),
    "shareIdle": ("true", "weighted", "even", "none"),
    "filter": (
        'cluster:"a"', 'cluster:"a","b"+node:"n"', 'label[tenant]:"x"', 'label[colour]:"x"', 'colour:"x"',
        'cluster!:"a"',
        'cluster:"a"+cluster:"b"', 'cluster:"a"node:"b"', 'cluster', 'cluster:"a"+', '+', 'cluster:"*"', 'NODE:"n"',
    ),
    "filterClusters": ("a", "a,b", "a*"),
    "filterNamespaces": ("a, b",),
    "filterLabels": ("tenant:physics", "tenant:a,tenant:b", "physics", "colour:red", "queue: q"),
    "filterPods": ("p",),
    "filterColours": ("p",),
    "shareNamespaces": ("a", ""),
    "format": ("json", "csv", ""),
    "resolution": ("1m",),
    "anything": ("1",),
}  # fmt: skip
MOST = 600
"""Letters of a query that are kept as they are; of a longer one the first, and a digest."""
OF_A_DAY = "2026-10-24T12:30:00Z,2026-10-26T01:00:00Z"


def read_as(zone: str, **given: str) -> str:
    try:
        query = repr(parse_query(given, zone, NOW))
    except QueryError as error:
        return str(error)
    return query if len(query) < MOST else f"{query[:MOST]}... {len(query)} {digest(query)}"


def test_every_query_is_read_as_in_the_golden_file() -> None:
    """In a zone with a day of 25 hours in it, and in one of half hours."""
    found = {"none": read_as("UTC")}
    for zone in ("Europe/Berlin", "Asia/Kolkata"):
        for window in WINDOWS:
            found[f"{zone} {window}"] = read_as(zone, window=window, step="1d")
            for cut in ("hour", "day", "week", "month"):
                found[f"{zone} {window} by {cut}"] = read_as(zone, window=window, accumulate=cut)
    for name, values in OTHERS.items():
        for value in values:
            found[f"{name}={value}"] = read_as("Europe/Berlin", **{"window": OF_A_DAY, "step": "12h", name: value})
            found[f"{name}={value} alone"] = read_as("Europe/Berlin", **{"window": "2026-10", name: value})
    compare("queries", "queries", found)
