-- One row: a period with an issued invoice that is not void.
SELECT DISTINCT period_start, period_end
FROM invoices
WHERE number NOT IN (SELECT number FROM voided_invoices)
ORDER BY period_start
