-- One row: an acknowledged batch.
-- Parameters: batches Array(UInt64).
SELECT batch, any(record_type) AS record_type, any(ingest_batches.source) AS source, any(ingest_batches.sender) AS sender
FROM ingest_batches
WHERE batch IN {batches:Array(UInt64)}
GROUP BY batch
ORDER BY batch
