-- One row: an issued invoice, in the order of their numbers.
-- Params:  number = the only one, or ''; all_tenants = 1, or tenant = the only one; start, end = periods that touch
--          [start, end).
SELECT document
FROM invoices FINAL
WHERE ({number:String} = '' OR number = {number:String})
    AND ({all_tenants:UInt8} = 1 OR tenant = {tenant:String})
    AND period_start < {end:DateTime64(3, 'UTC')} AND period_end > {start:DateTime64(3, 'UTC')}
ORDER BY issuer, year, sequence
