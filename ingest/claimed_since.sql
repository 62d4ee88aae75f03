-- One row: an allocation that was given a device at or after an instant, or that the last close has not read yet.
-- Parameters: devices Array(String), since, cutoff DateTime64(3): the last close has read what arrived before.
SELECT cluster, device_id, partition_id, allocation_id, max(units) AS units
FROM events
WHERE device_id IN {devices:Array(String)} AND event IN ('started', 'resized', 'resumed')
    AND (ts >= {since:DateTime64(3, 'UTC')}
        OR batch NOT IN (SELECT batch FROM ingest_batches WHERE record_type = 'events' AND ingested_at < {cutoff:DateTime64(3, 'UTC')}))
GROUP BY cluster, device_id, partition_id, allocation_id
