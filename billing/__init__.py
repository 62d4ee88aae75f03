"""From facts to money: attribution, ledger, rates, invoices.

Owns:      the books of closed hours and what is read from them (`ledger_report`, `sums`), prices, invoices, accounts,
           billing periods (`periods`), exact amounts (`exact`, `money`), versions of applied files
           (`applied`), and the audit (`audit`).
Owns not:  records (ingest) and their tables (warehouse); pages (dashboards).
Words:     a *unit* is a device's smallest share; a *unit-millisecond* is what the ledger counts; *list* is the price
           without regard to the tenant, *contracted* the tenant's own; *billed* is what the invoice says.

    close       the hourly close: events and samples become ledger entries
    energy      energy, carbon and held memory: whose they were, what they cost
    verify      whether the books are true: computed by other ways, compared with what was sealed
    tenants     the mapping: who pays for an allocation
    rates       the rate card and its prices
    parties     sellers and buyers: addresses, tax ids, banks
    accounts    credits, prepaid balances, budgets, forecasts
    invoicing   drafts, issued invoices, corrections
    documents   invoices and statements as PDF, HTML, JSON and CSV
    exports     FOCUS files
    opencost    the ledger in OpenCost's terms
    insights    efficiency, savings, anomalies
    held        pushed rows that wait for a person: what accepting them would change, and the decision
"""
