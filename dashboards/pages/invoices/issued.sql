-- One row: an issued invoice or credit note, the newest number first. Units: of `currency`; NULL: the document tells none.
-- Parameters: month String ('': all); tenants Array(String) (empty: all)
SELECT number, tenant, month, document_type, status, `references`, currency, net, tax, amount, due, issued_at
FROM v_invoices
WHERE ({month:String} = '' OR month = {month:String}) AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
ORDER BY number DESC
