-- One row: what a tenant held in a month, as far as prices tell it apart, and the issued invoice that covers it.
-- $$invoiced_months: invoiced_months.sql.
-- Params:  by_queue, by_preemptible, by_cluster, priority_bounds (see billing.rates.staging).
SELECT
    model,
    pool,
    partition_profile,
    tenant,
    if({by_queue:UInt8}, ledger.queue, '') AS queue,
    toUInt16(if(isNull(ledger.priority) OR empty({priority_bounds:Array(Int64)}), 0, 1 + arrayCount(x -> x <= ledger.priority, {priority_bounds:Array(Int64)}))) AS priority_level,
    toUInt8(if({by_preemptible:UInt8}, ledger.preemptible, false)) AS preemptible,
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
