-- One row: what the issued invoices of a tenant's period drew from a grant, void ones left out; with grant_id = '' what
-- they came to before anything was drawn.
-- Params:  all_tenants = 1, or tenant = the only one.
WITH counted AS
(
    SELECT
        tenant, period_start, period_end,
        JSONExtract(document, 'totals', 'amount', 'Decimal(38, 9)') AS total,
        JSONExtractArrayRaw(document, 'prepaid_draws') AS draws
    FROM invoices FINAL
    WHERE number NOT IN (SELECT number FROM voided_invoices)
        AND ({all_tenants:UInt8} = 1 OR tenant = {tenant:String})
)
SELECT tenant, period_start, period_end, grant_id, sum(one_amount) AS amount
FROM
(
    SELECT tenant, period_start, period_end, '' AS grant_id, total AS one_amount FROM counted
    UNION ALL
    SELECT
        tenant, period_start, period_end,
        JSONExtractString(draw, 'grant') AS grant_id,
        JSONExtract(draw, 'amount', 'Decimal(38, 9)') AS one_amount
    FROM counted
    ARRAY JOIN draws AS draw
)
GROUP BY tenant, period_start, period_end, grant_id
ORDER BY tenant, period_start, period_end, grant_id
