-- One row: a kind of GPU that a tenant held in a period.
-- Params:  start, end = [start, end).
SELECT DISTINCT model, pool, partition_profile, tenant
FROM ledger
WHERE allocation_id != ''
    AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
    AND hour >= toDateTime({start:DateTime64(3, 'UTC')}, 'UTC') - INTERVAL 1 HOUR
    AND hour < toDateTime({end:DateTime64(3, 'UTC')}, 'UTC') + INTERVAL 1 HOUR
ORDER BY tenant, model, pool, partition_profile
