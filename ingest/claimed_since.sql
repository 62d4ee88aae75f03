-- One row: an allocation was given a device at or after an instant.
-- Parameters: devices Array(String), since DateTime64(3).
SELECT cluster, device_id, partition_id, allocation_id, max(units) AS units
FROM events
WHERE device_id IN {devices:Array(String)} AND event IN ('started', 'resized', 'resumed')
    AND ts >= {since:DateTime64(3, 'UTC')}
GROUP BY cluster, device_id, partition_id, allocation_id
