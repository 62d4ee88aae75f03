-- One row: an allocation that ever held a device of whose past a new fact may tell.
INSERT INTO {alive:Identifier}
SELECT DISTINCT allocation_hash AS allocation
FROM allocations
WHERE (cluster, device_id) IN (SELECT cluster, device_id FROM {reached:Identifier})
