-- One row: what a tenant held in a month, as far as prices tell it apart, and the issued invoice that covers it.
-- $$invoiced_months: invoiced_months.sql.   $$keys: subject_keys.sql.
-- Params:  by_cluster (see billing.rates.staging).
SELECT
    model,
    pool,
    partition_profile,
    tenant,
    $keys,
    if({by_cluster:UInt8}, ledger.cluster, '') AS cluster,
    period_start,
    period_end,
    min(ledger.priority) AS priority,
    min(number) AS number
FROM ledger
INNER JOIN
(
$invoiced_months) AS issued USING (tenant)
WHERE allocation_id != '' AND charge_period_start >= period_start AND charge_period_start < period_end
GROUP BY model, pool, partition_profile, tenant, queue, priority_level, preemptible, cluster, period_start, period_end
ORDER BY period_start, tenant, model, pool, partition_profile, queue, priority_level, preemptible, cluster
