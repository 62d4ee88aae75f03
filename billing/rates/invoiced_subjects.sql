-- One row: a kind of GPU that a tenant held in a month, and the issued invoice that covers it.
SELECT
    model,
    pool,
    partition_profile,
    tenant,
    period_start,
    period_end,
    any(number) AS number
FROM ledger
INNER JOIN (SELECT number, tenant, period_start, period_end FROM invoices FINAL) AS issued USING (tenant)
WHERE allocation_id != '' AND charge_period_start >= period_start AND charge_period_start < period_end
GROUP BY model, pool, partition_profile, tenant, period_start, period_end
ORDER BY period_start, tenant, model, pool, partition_profile
