-- One row: an allocation that was given a device at or after an instant, and when it last was.
-- Parameters: devices, nodes Array(String): of these devices, or on these nodes; since DateTime64(3).
SELECT cluster, node, device_id, allocation_id, toUnixTimestamp64Milli(max(ts)) AS last_ms
FROM events
WHERE device_id != '' AND (device_id IN {devices:Array(String)} OR node IN {nodes:Array(String)})
    AND event IN ('started', 'resized', 'resumed') AND ts >= {since:DateTime64(3, 'UTC')}
GROUP BY cluster, node, device_id, allocation_id
