"""Tenants' accounts: credits on a month's draft, prepaid balances, budgets and forecasts.

Owns:      `credits` (amounts in a tenant's favour), `prepaid` (grants, drawn down by invoices), `budgets` (how a month
           stands against its budget), `forecast` (where it will end), `costs` (what accrued when).
Owns not:  invoices (billing.invoicing), which show credits as lines and record what they draw down.
Words:     a *credit* changes what a month costs; a *grant* is money paid in advance and changes only how it is paid;
           a *draw* is what an invoice took from a grant; a month is *open* for a tenant until it has an issued invoice.
"""
