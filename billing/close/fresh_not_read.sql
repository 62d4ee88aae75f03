-- One row: a batch that was acknowledged since {fresh_ms:Int64} and that no close has read.
INSERT INTO {fresh:Identifier}
SELECT batch, any(record_type) = 'samples', groupUniqArrayArray(hours)
FROM recent_batches
WHERE ingested_at >= fromUnixTimestamp64Milli({fresh_ms:Int64}, 'UTC') AND batch NOT IN {recently_read:Identifier}
GROUP BY batch
