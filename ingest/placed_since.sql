-- One row: an allocation was given a device, at an instant or later, and when it was last.
-- Parameters: devices, nodes Array(String): of these devices, or on these nodes; since DateTime64(3).
SELECT cluster, node, device_id, allocation_id, toUnixTimestamp64Milli(max(ts)) AS last_ms
FROM events
WHERE device_id != '' AND (device_id IN {devices:Array(String)} OR node IN {nodes:Array(String)})
    AND event IN ('started', 'resized', 'resumed') AND ts >= {since:DateTime64(3, 'UTC')}
GROUP BY cluster, node, device_id, allocation_id
