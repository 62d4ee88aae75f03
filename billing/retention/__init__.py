"""How long samples, metrics, sums and superseded entries are kept, and their removal.

Owns:      what is set, what would go, and what goes (`run`).
Owns not:  what was removed, which the close and the check of invoices ask (billing.removed).

Samples go a day at a time, and are noted in the audit first: hours of these days keep their entries for good. Metrics,
findings and sums, which no invoice is computed from, are left to the engine's TTL.
"""

from billing.retention.run import Retention, RetentionError, remove, retention, set_days

__all__ = ["Retention", "RetentionError", "remove", "retention", "set_days"]
