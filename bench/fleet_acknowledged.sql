-- Acknowledges the fleet's batches: a close reads no others.
INSERT INTO ingest_batches (batch, record_type, source)
SELECT batch, record_type, 'bench'
FROM
(
    SELECT DISTINCT batch, 'devices' AS record_type FROM devices
    UNION ALL SELECT DISTINCT batch, 'events' AS record_type FROM events
    UNION ALL SELECT DISTINCT batch, 'samples' AS record_type FROM touched_hours
)
