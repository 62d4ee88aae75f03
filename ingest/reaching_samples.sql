-- One row: a stream with samples that begin before an instant and end after it, and the end of the last of those.
-- Traps:   a new sample that ends before such a sample, or with it, shortens what that one covers.
-- Parameters: devices Array(String), instant DateTime64(3).
SELECT cluster, device_id, partition_id, workload_id, toInt64(toUnixTimestamp64Milli(max(ts))) AS last_ms
FROM samples
WHERE device_id IN {devices:Array(String)}
    AND ts > {instant:DateTime64(3, 'UTC')} AND ts <= {instant:DateTime64(3, 'UTC')} + INTERVAL 1 HOUR
    AND toUnixTimestamp64Milli(ts) - interval_seconds * 1000 < toUnixTimestamp64Milli({instant:DateTime64(3, 'UTC')})
GROUP BY cluster, device_id, partition_id, workload_id
