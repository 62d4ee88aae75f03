-- One row: a tenant's period with an issued invoice that is not void (credit notes do not count), and its first number.
-- Params:  all_tenants = 1, or tenant = the only one.
SELECT tenant, period_start, period_end, min(number) AS invoice
FROM invoices FINAL
WHERE number NOT IN (SELECT number FROM voided_invoices)
    AND JSONExtractString(document, 'document_type') != 'credit_note'
    AND ({all_tenants:UInt8} = 1 OR tenant = {tenant:String})
GROUP BY tenant, period_start, period_end
ORDER BY tenant, period_start, period_end
