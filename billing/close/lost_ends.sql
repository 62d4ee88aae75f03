-- One row: an open claim whose own samples stopped long before the device's did: its end event is lost. So are those of its
-- allocation's other open claims, if it was never sampled on their devices: they end with the last of those whose ends are
-- lost, unless the allocation may still be alive on a device.
-- Units:   {silence_ms:Int64} how long; last_ms = last own sample, ms since the epoch.
WITH
    (SELECT fromUnixTimestamp64Milli(min(start_ms), 'UTC') FROM {silent:Identifier}) AS since,
    own AS
    (
        SELECT cluster, device_id, workload_id, toUnixTimestamp64Milli(max(ts)) AS last_ms
        FROM samples
        WHERE (cluster, device_id) GLOBAL IN (SELECT cluster, device_id FROM {silent:Identifier}) AND batch GLOBAL IN {batches:Identifier}
            AND ts > since
            AND workload_id GLOBAL IN (SELECT workload_id FROM {silent:Identifier}) AND workload_id != ''
        GROUP BY cluster, device_id, workload_id
    ),
    device AS
    (
        SELECT cluster, device_id, toUnixTimestamp64Milli(max(ts)) AS last_ms
        FROM samples
        WHERE (cluster, device_id) GLOBAL IN (SELECT cluster, device_id FROM {silent:Identifier}) AND batch GLOBAL IN {batches:Identifier}
            AND ts > since
        GROUP BY cluster, device_id
    ),
    looked AS
    (
        SELECT silent.claim AS claim, true AS is_silent, own.last_ms > silent.start_ms AS was_seen,
            was_seen AND device.last_ms - own.last_ms >= {silence_ms:Int64} AS is_lost, own.last_ms AS last_ms
        FROM {silent:Identifier} AS silent
        LEFT JOIN own ON silent.cluster = own.cluster AND silent.device_id = own.device_id AND silent.workload_id = own.workload_id
        LEFT JOIN device ON silent.cluster = device.cluster AND silent.device_id = device.device_id
    ),
    of_allocations AS
    (
        SELECT
            settled.claim AS claim, settled.start_ms AS start_ms, settled.end_ms < {forever:Int64} AS is_ended,
            looked.is_lost AS is_lost, is_silent AND NOT was_seen AS is_unseen,
            if(is_ended, settled.end_ms, looked.last_ms) AS seen_ms,
            max(if(is_ended OR is_lost, seen_ms, 0)) OVER (PARTITION BY cluster, allocation_id) AS last_ms,
            min(is_ended OR is_lost OR is_unseen) OVER (PARTITION BY cluster, allocation_id) AS is_over
        FROM {settled:Identifier} AS settled
        LEFT JOIN looked ON settled.claim = looked.claim
        WHERE settled.end_ms >= {forever:Int64}
            OR (startsWith(settled.estimated, 'end lost') AND settled.end_ms > settled.start_ms)
    )
SELECT claim, if(is_lost, seen_ms, last_ms) AS last_ms
FROM of_allocations
WHERE is_lost OR (is_unseen AND is_over AND of_allocations.last_ms > start_ms)
ORDER BY claim
