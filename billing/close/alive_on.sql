-- One row: an allocation that ever held a device whose past may be changed by a new fact.
INSERT INTO {alive:Identifier}
SELECT DISTINCT allocation_hash AS allocation
FROM allocations
WHERE (cluster, device_id) IN (SELECT cluster, device_id FROM {reached:Identifier})
