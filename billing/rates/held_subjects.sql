-- One row: a subject that held something in closed hours of [start, end).
-- Params:  start, end; by_cluster (see billing.rates.staging).   $$keys: subject_keys.sql.
SELECT
    model,
    pool,
    partition_profile,
    tenant,
    $keys,
    if({by_cluster:UInt8}, ledger.cluster, '') AS cluster,
    min(ledger.priority) AS priority,
    min(charge_period_start) AS first
FROM ledger
WHERE allocation_id != ''
    AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
GROUP BY model, pool, partition_profile, tenant, queue, priority_level, preemptible, cluster
ORDER BY tenant, model, pool, partition_profile, queue, priority_level, preemptible, cluster
