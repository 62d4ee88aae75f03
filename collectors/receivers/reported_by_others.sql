-- One row: a device that a source other than pushed metrics reports: an agent with its driver, a scheduler, a file.
-- Traps:   if two sources report the same row, it belongs to the later one. A device that the other source removed is free
--          again; so is one that an agent reported and stopped measuring: its node is gone, or the device has moved.
-- Parameters: devices Array(String); since DateTime64(3): an agent that has measured nothing since is gone.
WITH
    metrics AS
    (
        SELECT batch FROM ingest_batches
        WHERE record_type IN ('devices', 'samples') AND startsWith(source, 'push:') AND endsWith(source, ' metrics')
    )
SELECT cluster, device_id
FROM devices
WHERE device_id IN {devices:Array(String)} AND batch NOT IN (SELECT batch FROM metrics)
    AND (cluster, device_id) NOT IN
    (
        SELECT cluster, device_id
        FROM samples
        WHERE (cluster, device_id) GLOBAL IN (SELECT cluster, device_id FROM devices WHERE device_id IN {devices:Array(String)})
            AND batch GLOBAL NOT IN (SELECT batch FROM metrics)
        GROUP BY cluster, device_id
        HAVING max(ts) < {since:DateTime64(3, 'UTC')}
    )
GROUP BY cluster, device_id
HAVING argMax(state, (ts, state)) != 'removed'
