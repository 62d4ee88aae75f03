-- Acknowledges what is not yet: a close reads no other batches.
-- Params:  after: of facts since then; at: when they are said to have come.
INSERT INTO ingest_batches (batch, record_type, source, ingested_at)
SELECT batch, record_type, 'bench', {at:DateTime64(3, 'UTC')}
FROM
(
    SELECT DISTINCT batch, 'devices' AS record_type FROM devices WHERE ts > {after:DateTime64(3, 'UTC')}
    UNION ALL SELECT DISTINCT batch, 'events' AS record_type FROM events WHERE ts > {after:DateTime64(3, 'UTC')}
    UNION ALL SELECT DISTINCT batch, 'samples' AS record_type FROM touched_hours WHERE hour >= {after:DateTime64(3, 'UTC')}
)
