-- One row: a stream in which a sample that ends after an instant began before it, and when the last of those ends.
-- Traps:   a sample that comes to end before such a one, or with it, leaves it less to cover.
-- Parameters: devices Array(String), instant DateTime64(3).
SELECT cluster, device_id, partition_id, workload_id, toInt64(toUnixTimestamp64Milli(max(ts))) AS last_ms
FROM samples
WHERE device_id IN {devices:Array(String)}
    AND ts > {instant:DateTime64(3, 'UTC')} AND ts <= {instant:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR
    AND toUnixTimestamp64Milli(ts) - interval_seconds * 1000 < toUnixTimestamp64Milli({instant:DateTime64(3, 'UTC')})
GROUP BY cluster, device_id, partition_id, workload_id
