"""From facts to money: attribution, ledger, rates, invoices.

    facts ─▶ close ─▶ ledger ─▶ invoicing ─▶ documents (PDF, HTML, JSON, CSV)
               ▲         │         ▲  └────▶ accounts (credits, prepaid balances)
       rates, tenants    ├─▶ insights, opencost, exports
                         └─▶ energy

Owns:      the books of closed hours and the sums read from them (`ledger_report`, `sums`), prices, invoices, accounts,
           billing periods (`periods`), exact amounts (`exact`, `money`), versions of applied files
           (`applied`), and the audit (`audit`).
Owns not:  records (ingest) and their tables (warehouse); pages (dashboards).
Words:     a *unit* is a device's smallest share; a *unit-millisecond* is what the ledger counts; *list* is the price
           regardless of the tenant, *contracted* the tenant's own; *billed* is what the invoice charges.

    close       the hourly close: events and samples become ledger entries
    energy      energy, carbon and memory: attributed to holders, with cost and emissions
    verify      proves the books: computes them in other ways, and checks the hash chains
    tenants     the tenant mapping: who pays for an allocation
    rates       the rate card and its prices
    parties     sellers and buyers: addresses, tax ids, banks
    accounts    credits, prepaid balances, budgets, forecasts
    invoicing   drafts, issued invoices, corrections
    documents   invoices and statements as PDF, HTML, JSON and CSV
    exports     FOCUS files
    opencost    the ledger in OpenCost's terms
    insights    efficiency, savings, anomalies
    retention   how long samples and superseded entries are kept, and their removal
    held        held pushes: the effect of accepting them, and the decision

A new kind of charge: a policy in rates/policies.py and a function in invoicing/adjustments.py (CONTRIBUTING.md).
"""
