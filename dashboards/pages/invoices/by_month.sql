-- One row: what stands issued for a month in a currency. invoices, credit_notes: how many.
-- Parameters: tenants Array(String) (empty: all)
SELECT
    month,
    currency,
    countIf(document_type = 'invoice') AS invoices,
    countIf(document_type = 'credit_note') AS credit_notes,
    sum(v.net) AS net,
    sum(v.tax) AS tax,
    sum(v.amount) AS amount
FROM v_invoices AS v
WHERE status = 'issued' AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
GROUP BY month, currency
ORDER BY month, currency
