-- One row: what a price can tell apart of what the books hold, the platform's own time included.
-- Params:  start, end = hours of [start, end); by_cluster (see billing.rates.staging).   $$keys: billing/rates/subject_keys.sql.
SELECT
    model,
    pool,
    partition_profile,
    tenant,
    $keys,
    if({by_cluster:UInt8}, ledger.cluster, '') AS cluster,
    min(ledger.priority) AS priority
FROM ledger
WHERE hour >= {start:DateTime64(3, 'UTC')} AND hour < {end:DateTime64(3, 'UTC')}
GROUP BY model, pool, partition_profile, tenant, queue, priority_level, preemptible, cluster
