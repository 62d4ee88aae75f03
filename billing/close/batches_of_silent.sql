-- One row: a batch of samples that says when somebody silent was last alive, and where.
SELECT batch
FROM samples
WHERE (cluster, device_id) GLOBAL IN (SELECT cluster, device_id FROM {silent:Identifier})
    AND ts > (SELECT fromUnixTimestamp64Milli(min(start_ms), 'UTC') FROM {silent:Identifier})
