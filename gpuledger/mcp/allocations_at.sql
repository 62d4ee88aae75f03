-- One row: what an allocation held of a device at an instant, the oldest first.   $$where: a condition.
SELECT cluster, allocation_id, tenant, project, queue, node, device_id, units, start_at
FROM v_allocations
WHERE $where
ORDER BY start_at
