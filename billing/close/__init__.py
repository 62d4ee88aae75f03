"""The hourly close: events and samples become claims, segments, spans and, in the end, ledger entries.

    events ─▶ claims ─▶ settled ─┐                      samples ─▶ sample_hours ─▶ spans
    devices ─▶ states ───────────┴▶ segments ─▶ holdings ──────────────┬──────────────┘
    rate card ─▶ prices ────────────────────────────┐              metered ─▶ merged
                                                    └─▶ entries ◀──────────────┘ ─▶ ledger_entries, closed_hours

Words: a *claim* is an allocation's right as reported; it is *settled* when the books believe it. A *segment* is a
stretch of a device in which nothing changes, a *holding* an allocation's part of it, a *span* what a sample covers.
"""

from billing.close.facts import READ_BY, batches_read
from billing.close.run import GRACE, CloseReport, close, stale_hours

__all__ = ["GRACE", "READ_BY", "CloseReport", "batches_read", "close", "stale_hours"]
