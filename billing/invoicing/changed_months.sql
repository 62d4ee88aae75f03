-- One row: a month that was computed again after one of its invoices was issued. Void invoices and credit notes do not
-- count.
-- Params:  before = months that ended by then; all_tenants = 1, or tenant = the only one.
SELECT DISTINCT period_start AS start, period_end AS end
FROM
(
    SELECT period_start, period_end, min(toUInt64OrZero(JSONExtractString(document, 'books_run'))) AS books_run
    FROM invoices FINAL
    WHERE period_end <= {before:DateTime64(3, 'UTC')}
        AND ({all_tenants:UInt8} = 1 OR tenant = {tenant:String})
        AND number NOT IN (SELECT number FROM voided_invoices)
        AND JSONExtractString(document, 'document_type') != 'credit_note'
    GROUP BY period_start, period_end
) AS billed
CROSS JOIN (SELECT hour, argMax(run, checked_by) AS run FROM closed_hours GROUP BY hour) AS hours
WHERE hours.run > billed.books_run AND hours.hour > billed.period_start - INTERVAL 1 HOUR AND hours.hour < billed.period_end
ORDER BY start
