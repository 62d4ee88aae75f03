-- One row: an issued document, in the order of their numbers; void = whether it was made void since.
-- Params:  number = the only one, or ''; all_tenants = 1, or tenant = the only one; start, end = periods that touch
--          [start, end).
SELECT document, void.number != '' AS void, void.at AS voided_at, void.author AS voided_by, void.reason AS void_reason
FROM invoices FINAL
LEFT JOIN (SELECT * FROM voided_invoices FINAL) AS void ON invoices.number = void.number
WHERE ({number:String} = '' OR invoices.number = {number:String})
    AND ({all_tenants:UInt8} = 1 OR tenant = {tenant:String})
    AND period_start < {end:DateTime64(3, 'UTC')} AND period_end > {start:DateTime64(3, 'UTC')}
ORDER BY issuer, year, sequence
