"""From facts to money: attribution, ledger, rates, invoices.

Owns:      who held what (`close`), the proof that the books balance (`verify`), prices (`rates`, `rate_card`), billing
           periods (`periods`), the ledger report and invoices.
Owns not:  records (ingest) and their tables (warehouse); pages (dashboards).
Words:     a *unit* is a device's smallest share; a *unit-millisecond* is what the ledger counts; *list* is the price
           without regard to the tenant, *contracted* the tenant's own; *billed* is what the invoice says.
"""
