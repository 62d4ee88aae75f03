"""The books for other systems: FOCUS files (FinOps Open Cost and Usage Specification).

Owns:      the mapping of ledger entries and invoice lines to FOCUS columns (docs/focus.md), the files, their checks.
Owns not:  what anything costs (billing.rates, billing.invoicing); an invoice's own files (billing.documents).
Words:     a *fact* is a row of a file before it has FOCUS's names; a *group* is the usage that one invoice line covers:
           a tenant's project, SKU and price; a *reduction* is an invoice line that lowers the cost of usage.
"""
