-- One row: an allocation that holds a device at or after an instant, according to the last close.
-- Shape:   old: it held the device before the end of the issued months.   open: its end is not known.
-- Parameters: devices Array(String), since, until DateTime64(3).
SELECT cluster, device_id, partition_id, toUnixTimestamp64Milli(start_at) AS start_ms, allocation_id, workload_id, units, start_at < {until:DateTime64(3, 'UTC')} AS old,
    end_at IS NULL AS open, startsWith(estimated, 'device unknown') AS assumed
FROM allocations
WHERE device_id IN {devices:Array(String)} AND (end_at IS NULL OR end_at > {since:DateTime64(3, 'UTC')})
