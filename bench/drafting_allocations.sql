-- The allocations of drafting_ledger.sql.
INSERT INTO allocations (claim, cluster, allocation_id, tenant, project, device_id, units, start_at, end_at)
SELECT cityHash64(allocation_id), cluster, allocation_id, any(tenant), any(project), any(device_id), 1,
    min(charge_period_start), max(charge_period_end)
FROM ledger
GROUP BY cluster, allocation_id
