-- One row: an invoice of a FOCUS file ('' = what is on none).
-- Params:  focus = a view of the file, all columns texts.
SELECT
    ifNull(InvoiceId, '') AS invoice,
    sum(toDecimal256(BilledCost, 24)) AS billed,
    count() AS rows
FROM {focus:Identifier}
WHERE BilledCost IS NOT NULL
GROUP BY invoice
ORDER BY invoice
