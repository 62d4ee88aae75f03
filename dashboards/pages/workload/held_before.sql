-- One row: another allocation that held, in [start, end), GPUs on which the workload's allocation began at end, as the last
-- close decided, the last to leave first. devices: how many of them; until NULL: it still holds them, beside it.
-- Parameters: workload, cluster, allocation_id String; start, end DateTime64(3) (UTC); most UInt32
SELECT
    a.allocation_id AS allocation_id, any(a.workload_id) AS workload_id, any(a.tenant) AS tenant,
    uniqExact(a.device_id) AS devices, min(a.start_at) AS since, if(countIf(a.end_at IS NULL) > 0, NULL, max(a.end_at)) AS until
FROM allocations AS a
WHERE a.cluster = {cluster:String} AND a.allocation_id != {allocation_id:String} AND a.workload_id != {workload:String}
    AND a.device_id IN
    (
        SELECT device_id FROM allocations
        WHERE workload_id = {workload:String} AND cluster = {cluster:String} AND allocation_id = {allocation_id:String}
            AND start_at <= {end:DateTime64(3,'UTC')} + INTERVAL 1 SECOND AND device_id != ''
    )
    AND a.start_at < {end:DateTime64(3,'UTC')} AND ifNull(a.end_at > {start:DateTime64(3,'UTC')}, true)
GROUP BY a.allocation_id
ORDER BY until DESC NULLS FIRST, devices DESC, allocation_id
LIMIT {most:UInt32}
