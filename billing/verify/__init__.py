"""Whether the books are true: computed by other ways, and compared with what was sealed when it was written.

Owns:      `verify`, and which tables it vouches for (`tables`).
Owns not:  the chains (warehouse.chain), and an invoice computed again from the raw facts (billing.invoicing.rederive).
"""

from billing.verify.run import Failure, VerifyReport, chain_failures, verify

__all__ = ["Failure", "VerifyReport", "chain_failures", "verify"]
