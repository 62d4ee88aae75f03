-- One row: an allocation that ever held a device whose past may be changed by a new fact, or was refused on it.
INSERT INTO {alive:Identifier}
SELECT DISTINCT allocation_hash AS allocation
FROM allocations
WHERE (cluster, device_id) IN (SELECT cluster, device_id FROM {reached:Identifier})
UNION DISTINCT
SELECT cityHash64(toString(cluster), allocation_id) AS allocation
FROM refused_claims
WHERE (cluster, device_id) IN (SELECT cluster, device_id FROM {reached:Identifier})
