-- The batches that were acknowledged since {fresh_ms:Int64} and that no close has read.
INSERT INTO {fresh:Identifier}
SELECT DISTINCT batch
FROM ingest_batches
WHERE ingested_at >= fromUnixTimestamp64Milli({fresh_ms:Int64}, 'UTC') AND batch NOT IN {lately:Identifier}
