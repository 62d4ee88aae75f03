-- One row: an invoice that stands, in the order of their numbers. corrected: months that it bills by corrections because no invoice
-- of theirs did, each once.   timezone: by which its months are meant.
-- Traps: documents are read here, in the engine, since there is one for each tenant and month of the books: to parse those of one
--        month of 200 tenants in Python took 200 ms.
-- Params:  all_tenants = 1, or tenant = the only one.
SELECT
    number, tenant,
    JSONExtractString(document, 'period', 'month') AS month,
    JSONExtractString(document, 'period', 'timezone') AS timezone,
    arrayDistinct(arrayMap(line -> JSONExtractString(line, 'reference', 'month'),
        arrayFilter(line -> JSONExtractString(line, 'charge_class') = 'Correction' AND JSONType(line, 'reference', 'invoice') != 'String',
            if(position(document, '"Correction"') = 0, [], JSONExtractArrayRaw(document, 'lines'))))) AS corrected
FROM invoices FINAL
WHERE ({all_tenants:UInt8} = 1 OR tenant = {tenant:String})
    AND number NOT IN (SELECT number FROM voided_invoices)
    AND JSONExtractString(document, 'document_type') != 'credit_note'
ORDER BY issuer, year, sequence
