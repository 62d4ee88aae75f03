"""Who sends invoices and who gets them, as an accounts department needs it: addresses, tax ids, bank, terms, orders.

Owns:      the file that people write (`details`), and applying it: dated, audited, never edited (`applied`).
Owns not:  the documents that hold what was in force on their day of issue (billing.invoicing), numbers and the issuer's
           name behind them (the rate card).
Words:     the *seller* sends an invoice, the *buyer* pays it; one buyer for a tenant.
"""
