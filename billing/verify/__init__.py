"""Proves the books: computes them in other ways, and compares them with what was sealed when it was written.

Owns:      `verify`, and which tables it covers (`tables`).
Owns not:  the chains (warehouse.chain), and recomputing an invoice from the raw facts (billing.invoicing.rederive).
"""

from billing.verify.run import Failure, VerifyReport, chain_failures, verify

__all__ = ["Failure", "VerifyReport", "chain_failures", "verify"]
