-- One row: a device of whose past a new fact may tell: a row of its own, or an event of before the horizon; then whatever
-- its allocation was placed on, by name or by node.
-- Params:  fresh: batches that no close has read; rows of batch 0 come of none, and count as new always.
CREATE TABLE {reached:Identifier} ENGINE = Memory AS
WITH
    late AS
    (
        SELECT DISTINCT cityHash64(toString(cluster), allocation_id)
        FROM events
        WHERE ts < fromUnixTimestamp64Milli({horizon_ms:Int64}, 'UTC') AND (batch = 0 OR batch IN (SELECT batch FROM {fresh:Identifier}))
    ),
    places AS
    (
        SELECT DISTINCT cluster, device_id, node
        FROM events
        WHERE cityHash64(toString(cluster), allocation_id) IN late
    )
SELECT DISTINCT toString(cluster) AS cluster, toString(device_id) AS device_id
FROM devices
WHERE batch = 0 OR batch IN (SELECT batch FROM {fresh:Identifier})
    OR (cluster, node) IN (SELECT cluster, node FROM places WHERE device_id = '' AND node != '')
UNION DISTINCT
SELECT toString(cluster) AS cluster, toString(device_id) AS device_id FROM places WHERE device_id != ''
UNION DISTINCT
SELECT toString(cluster) AS cluster, toString(device_id) AS device_id
FROM allocations
WHERE cityHash64(toString(cluster), allocation_id) IN late
