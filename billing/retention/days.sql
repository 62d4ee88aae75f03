-- One row: a day (UTC) of samples, how much there is of it, and when the last of it came.
SELECT
    toDateTime64(parseDateTimeBestEffort(partition, 'UTC'), 3, 'UTC') AS day,
    toInt64(sum(rows)) AS rows,
    toInt64(sum(data_compressed_bytes)) AS bytes
FROM system.parts
WHERE database = currentDatabase() AND table = 'samples' AND active
GROUP BY partition
ORDER BY day
