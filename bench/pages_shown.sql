-- One row: a tenant, a workload and a device to look at, and how many tenants and entries there are.
SELECT
    any(l.tenant) AS tenant, any(l.workload_id) AS workload, any(l.device_id) AS device,
    uniqExact(l.tenant) AS tenants, count() AS entries
FROM ledger AS l
WHERE l.allocation_id != ''
