-- One row: an allocation that still holds a device that it held when the last issued month ended, with no sample of its own
-- since. If its device is sampled for a day longer, its end counts as lost, within that month.
-- Units:   last_ms = its last own sample, ms since the epoch.   Parameters: until DateTime64(3): end of the issued months.
WITH
    open AS
    (
        SELECT cluster, device_id, workload_id
        FROM allocations
        WHERE start_at < {until:DateTime64(3, 'UTC')} AND end_at IS NULL AND workload_id != ''
    ),
    alive AS
    (
        SELECT DISTINCT cluster, device_id, workload_id
        FROM samples
        WHERE ts >= {until:DateTime64(3, 'UTC')} AND workload_id GLOBAL IN (SELECT workload_id FROM open)
    ),
    silent AS
    (
        SELECT * FROM open WHERE (cluster, device_id, workload_id) NOT IN (SELECT cluster, device_id, workload_id FROM alive)
    )
SELECT cluster, device_id, workload_id, toUnixTimestamp64Milli(max(ts)) AS last_ms
FROM samples
WHERE (cluster, device_id) GLOBAL IN (SELECT cluster, device_id FROM silent) AND workload_id GLOBAL IN (SELECT workload_id FROM silent)
    AND (cluster, device_id, workload_id) GLOBAL IN (SELECT cluster, device_id, workload_id FROM silent)
GROUP BY cluster, device_id, workload_id
