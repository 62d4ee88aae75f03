-- One row: a credit, in the order in which a draft shows them, with the issued invoice that bears it ('' : none does).
-- Params:  month, or '' for all; all_tenants = 1, or tenant = the only one; ids = the only ones, or none for all.
WITH borne AS
(
    SELECT JSONExtractString(line, 'rule') AS rule, any(number) AS invoice
    FROM
    (
        SELECT number, arrayJoin(JSONExtractArrayRaw(document, 'lines')) AS line
        FROM invoices FINAL
        WHERE number NOT IN (SELECT number FROM voided_invoices)
            AND ({all_tenants:UInt8} = 1 OR tenant = {tenant:String})
    )
    WHERE JSONExtractString(line, 'kind') = 'credit'
    GROUP BY rule
)
SELECT id, at, month, tenant, project, kind, amount, currency, author, reason, evidence, invoice
FROM (SELECT *, concat('credit:', id) AS rule FROM credits FINAL) AS given
LEFT JOIN borne ON given.rule = borne.rule
WHERE ({month:String} = '' OR month = {month:String})
    AND ({all_tenants:UInt8} = 1 OR tenant = {tenant:String})
    AND (empty({ids:Array(String)}) OR has({ids:Array(String)}, id))
ORDER BY month, tenant, project, at, id
