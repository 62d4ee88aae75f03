-- One row: a device whose past may be changed by a new fact: here, one on which an allocation with late events was placed,
-- by name or by node.
INSERT INTO {reached:Identifier}
WITH places AS
(
    SELECT DISTINCT cluster, device_id, node
    FROM events
    WHERE allocation_hash IN (SELECT allocation FROM {late:Identifier})
)
SELECT toString(cluster) AS cluster, toString(device_id) AS device_id
FROM devices
WHERE (cluster, node) IN (SELECT cluster, node FROM places WHERE device_id = '' AND node != '')
UNION DISTINCT
SELECT toString(cluster) AS cluster, toString(device_id) AS device_id FROM places WHERE device_id != ''
UNION DISTINCT
SELECT toString(cluster) AS cluster, toString(device_id) AS device_id
FROM allocations
WHERE allocation_hash IN (SELECT allocation FROM {late:Identifier})
