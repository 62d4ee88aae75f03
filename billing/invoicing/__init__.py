"""What tenants owe: drafts from the ledger, adjustments, issued invoices and their corrections."""
