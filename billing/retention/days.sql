-- One row: a day (UTC) of samples, and how much there is of it.
-- $$parts: those of the engine's tables.   Params:  database; samples: the table with the rows.
SELECT
    toDateTime64(parseDateTimeBestEffort(partition, 'UTC'), 3, 'UTC') AS day,
    toInt64(sum(rows)) AS rows,
    toInt64(sum(data_compressed_bytes)) AS bytes
FROM $parts
WHERE database = {database:String} AND table = {samples:String} AND active
GROUP BY partition
ORDER BY day
