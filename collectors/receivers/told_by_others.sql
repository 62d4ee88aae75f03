-- One row: a device that another source than pushed metrics tells of: an agent with its driver, a scheduler, a file.
-- Traps:   the row that two sources tell alike is the later one's. What another source removed is nobody's again.
-- Parameters: devices Array(String).
SELECT cluster, device_id
FROM devices
WHERE device_id IN {devices:Array(String)}
    AND batch NOT IN
    (
        SELECT batch FROM ingest_batches
        WHERE record_type = 'devices' AND startsWith(source, 'push:') AND endsWith(source, ' metrics')
    )
GROUP BY cluster, device_id
HAVING argMax(state, (ts, state)) != 'removed'
