-- One row: an invoice that is issued and not void: its tenant and month. One for each tenant and month, the first.
SELECT tenant, period_start, period_end, min(number) AS number
FROM invoices FINAL
WHERE invoices.number NOT IN (SELECT number FROM voided_invoices)
GROUP BY tenant, period_start, period_end
ORDER BY period_start, tenant
