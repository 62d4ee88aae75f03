-- One row: a tenant and a month that an issued invoice covers, and the first such invoice's number.
SELECT period_start, tenant, min(number) AS number
FROM invoices FINAL
WHERE invoices.number NOT IN (SELECT number FROM voided_invoices)
GROUP BY period_start, tenant
