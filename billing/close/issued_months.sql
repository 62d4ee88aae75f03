-- One row: a period for which invoices stand.
SELECT DISTINCT toUnixTimestamp64Milli(period_start) AS start_ms, toUnixTimestamp64Milli(period_end) AS end_ms
FROM invoices
WHERE number NOT IN (SELECT number FROM voided_invoices)
ORDER BY start_ms
