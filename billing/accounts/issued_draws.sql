-- One row: what the issued invoices of a tenant's period drew from a grant, void ones left out; with grant_id = '' what
-- they came to before anything was drawn; with a billed_month (2026-10) that a later invoice, of the period, has this
-- month among its corrections, which has no invoice of its own and gets none.
-- Params:  all_tenants = 1, or tenant = the only one.
WITH counted AS
(
    SELECT
        tenant, currency, period_start, period_end,
        JSONExtract(document, 'totals', 'amount', 'Decimal(38, 9)') AS total,
        JSONExtractArrayRaw(document, 'prepaid_draws') AS draws,
        if(position(document, 'Correction') > 0, JSONExtractArrayRaw(document, 'lines'), []) AS lines
    FROM invoices FINAL
    WHERE number NOT IN (SELECT number FROM voided_invoices)
        AND ({all_tenants:UInt8} = 1 OR tenant = {tenant:String})
        AND tenant IN (SELECT tenant FROM grants)
)
SELECT tenant, currency, period_start, period_end, grant_id, billed_month, sum(one_amount) AS amount
FROM
(
    SELECT tenant, currency, period_start, period_end, '' AS grant_id, '' AS billed_month, total AS one_amount
    FROM counted
    UNION ALL
    SELECT
        tenant, currency, period_start, period_end,
        JSONExtractString(draw, 'grant') AS grant_id,
        '' AS billed_month,
        JSONExtract(draw, 'amount', 'Decimal(38, 9)') AS one_amount
    FROM counted
    ARRAY JOIN draws AS draw
    UNION ALL
    SELECT DISTINCT
        tenant, currency, period_start, period_end,
        '' AS grant_id,
        JSONExtractString(line, 'reference', 'month') AS billed_month,
        toDecimal128(0, 9) AS one_amount
    FROM counted
    ARRAY JOIN lines AS line
    WHERE JSONExtractString(line, 'charge_class') = 'Correction'
        AND JSONType(line, 'reference', 'invoice') = 'Null'
)
GROUP BY tenant, currency, period_start, period_end, grant_id, billed_month
ORDER BY tenant, currency, period_start, period_end, grant_id, billed_month
