"""The seller and the buyers on invoices, with what an accounts department needs: addresses, tax ids, bank, terms,
orders.

Owns:      the file that people write (`details`), and applying it: dated, audited, never edited (`applied`).
Owns not:  the documents that hold what was in force on their day of issue (billing.invoicing), numbers and the issuer's
           name in them (the rate card).
Words:     the *seller* sends an invoice, the *buyer* pays it; each tenant has one buyer.
"""
