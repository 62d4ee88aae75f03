-- One row: an open claim whose own samples stopped long before the device's did. Its end event is lost.
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
    )
SELECT silent.claim AS claim, own.last_ms AS last_ms
FROM {silent:Identifier} AS silent
INNER JOIN own ON silent.cluster = own.cluster AND silent.device_id = own.device_id AND silent.workload_id = own.workload_id
INNER JOIN device ON silent.cluster = device.cluster AND silent.device_id = device.device_id
WHERE own.last_ms > silent.start_ms AND device.last_ms - own.last_ms >= {silence_ms:Int64}
ORDER BY claim
