-- One row: a batch, of some, that a close reads besides those already in batches: it named the batch, a close before it
-- did, or the batch was acknowledged before {fresh_ms:Int64}, so that one has read it.
-- $$wanted: a SELECT of batches, with its params.
INSERT INTO {batches:Identifier}
WITH
    wanted AS (SELECT DISTINCT batch FROM ($wanted) WHERE batch GLOBAL NOT IN {batches:Identifier})
SELECT batch FROM wanted WHERE batch GLOBAL IN {recently_read:Identifier}
UNION ALL
SELECT DISTINCT batch
FROM ingest_batches
WHERE batch IN (SELECT batch FROM wanted WHERE batch GLOBAL NOT IN {recently_read:Identifier})
    AND ingested_at < fromUnixTimestamp64Milli({fresh_ms:Int64}, 'UTC')
