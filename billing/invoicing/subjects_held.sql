-- One row: what a tenant held in a period, as far as a price can tell it apart.
-- Params:  start, end = [start, end).
SELECT DISTINCT model, pool, cluster, partition_profile, tenant, queue, priority, preemptible
FROM ledger
WHERE allocation_id != ''
    AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
ORDER BY tenant, model, pool, partition_profile, queue, priority, preemptible, cluster
