-- One row: an allocation whose end the last close estimated to be before an instant: another sign of life would move it.
-- Parameters: devices Array(String), until DateTime64(3).
SELECT DISTINCT cluster, device_id, workload_id
FROM allocations
WHERE device_id IN {devices:Array(String)} AND start_at < {until:DateTime64(3, 'UTC')}
    AND end_at < {until:DateTime64(3, 'UTC')} AND startsWith(estimated, 'end lost')
