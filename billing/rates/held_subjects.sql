-- One row: a subject that held something in closed hours of [start, end).
-- Params:  start, end; by_queue, by_preemptible, by_cluster, priority_bounds (see billing.rates.staging).
SELECT
    model,
    pool,
    partition_profile,
    tenant,
    if({by_queue:UInt8}, ledger.queue, '') AS queue,
    toUInt16(if(isNull(ledger.priority) OR empty({priority_bounds:Array(Int64)}), 0, 1 + arrayCount(x -> x <= ledger.priority, {priority_bounds:Array(Int64)}))) AS priority_level,
    toUInt8(if({by_preemptible:UInt8}, ledger.preemptible, false)) AS preemptible,
    if({by_cluster:UInt8}, ledger.cluster, '') AS cluster,
    min(ledger.priority) AS priority,
    min(charge_period_start) AS first
FROM ledger
WHERE allocation_id != ''
    AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
GROUP BY model, pool, partition_profile, tenant, queue, priority_level, preemptible, cluster
ORDER BY tenant, model, pool, partition_profile, queue, priority_level, preemptible, cluster
