-- One row: a document, void or reversal that refers to what does not exist, in the order of their names.
-- Params:  most = rows.
WITH lines AS
(
    SELECT
        number, tenant, document,
        JSONExtractString(line, 'kind') AS kind,
        JSONExtractString(line, 'rule') AS rule,
        JSONExtractString(line, 'charge_class') = 'Correction' AS is_correction,
        JSONExtractString(line, 'reference', 'invoice') AS to_invoice,
        if(is_correction, JSONExtractString(line, 'reference', 'month'), JSONExtractString(document, 'period', 'month')) AS month,
        toDecimal128OrZero(JSONExtractString(line, 'billed_cost'), 9) AS cost
    FROM invoices
    ARRAY JOIN JSONExtractArrayRaw(document, 'lines') AS line
)
SELECT DISTINCT table, name, reason
FROM
(
    SELECT 'invoices' AS table, number AS name, concat('it corrects ', to_invoice, ', which was never issued to ', tenant) AS reason
    FROM lines
    WHERE to_invoice != '' AND (to_invoice, tenant) NOT IN (SELECT number, tenant FROM invoices)
    UNION ALL
    SELECT 'invoices' AS table, number AS name, concat('it credits ', JSONExtractString(document, 'references'), ', which was never issued to ', tenant) AS reason
    FROM invoices
    WHERE JSONExtractString(document, 'document_type') = 'credit_note'
        AND (JSONExtractString(document, 'references'), tenant) NOT IN (SELECT number, tenant FROM invoices)
    UNION ALL
    SELECT 'invoices' AS table, number AS name, concat('its line of ', rule, ' is not the credit that was given') AS reason
    FROM lines
    WHERE kind = 'credit' AND startsWith(rule, 'credit:') AND NOT is_correction
        AND (rule, tenant, month, cost) NOT IN (SELECT concat('credit:', id), tenant, month, toDecimal128(-amount, 9) FROM credits)
    UNION ALL
    SELECT 'invoices' AS table, number AS name, concat('its correction of ', rule, ' is of a credit that was never given') AS reason
    FROM lines
    WHERE kind = 'credit' AND startsWith(rule, 'credit:') AND is_correction
        AND (rule, tenant, month) NOT IN (SELECT concat('credit:', id), tenant, month FROM credits)
    UNION ALL
    SELECT 'invoices' AS table, number AS name, concat('it draws on grant ', JSONExtractString(draw, 'grant'), ', which was never given to ', tenant) AS reason
    FROM invoices
    ARRAY JOIN JSONExtractArrayRaw(document, 'prepaid_draws') AS draw
    WHERE (JSONExtractString(draw, 'grant'), tenant) NOT IN (SELECT id, tenant FROM grants)
    UNION ALL
    SELECT 'voided_invoices' AS table, number AS name, 'it was never issued' AS reason
    FROM voided_invoices
    WHERE number NOT IN (SELECT number FROM invoices)
    UNION ALL
    SELECT 'credits' AS table, id AS name, concat('it takes ', JSONExtractString(evidence, 'reverses'), ' back, which was never given') AS reason
    FROM credits
    WHERE JSONExtractString(evidence, 'reverses') != ''
        AND (JSONExtractString(evidence, 'reverses'), tenant, month, amount) NOT IN (SELECT id, tenant, month, -amount FROM credits)
)
ORDER BY table, name, reason
LIMIT {most:UInt32}
