-- One row: what was billed, by an invoice that is issued and not void: its tenant and month. One for each tenant and month,
-- the first. A tenant that had no invoice of an issued month and was billed for it later has one of that month too.
WITH
    standing AS (SELECT * FROM invoices FINAL WHERE number NOT IN (SELECT number FROM voided_invoices)),
    months AS
    (
        SELECT JSONExtractString(document, 'period', 'month') AS month, any(period_start) AS month_start, any(period_end) AS month_end
        FROM invoices
        GROUP BY month
    )
SELECT tenant, period_start, period_end, min(number) AS number
FROM
(
    SELECT number, tenant, period_start, period_end FROM standing
    UNION ALL
    SELECT number, tenant, month_start, month_end
    FROM
    (
        SELECT number, tenant, JSONExtractString(line, 'reference', 'month') AS month
        FROM standing
        ARRAY JOIN JSONExtractArrayRaw(document, 'lines') AS line
        WHERE JSONExtractString(line, 'charge_class') = 'Correction'
    ) AS corrections
    INNER JOIN months ON corrections.month = months.month
)
GROUP BY tenant, period_start, period_end
ORDER BY period_start, tenant
