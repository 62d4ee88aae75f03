-- One row: an hour of those that the close reads whose samples stream_hours does not tell of in full: it was written
-- before that table was, or a kill fell between two tables of a batch.
WITH
    asked AS
    (
        SELECT hour FROM {dirty:Identifier} UNION DISTINCT SELECT hour + 1 AS hour FROM {dirty:Identifier}
    )
SELECT touched.hour AS hour
FROM
(
    SELECT toUInt32(intDiv(toUnixTimestamp(touched_hours.hour), 3600)) AS hour, sum(rows * batch) AS batches
    FROM touched_hours
    GROUP BY hour
) AS touched
LEFT JOIN
(
    SELECT toUInt32(intDiv(toUnixTimestamp(stream_hours.hour), 3600)) AS hour, sum(stream_hours.batches) AS batches
    FROM stream_hours
    WHERE stream_hours.hour >= toDateTime({first:UInt32} * 3600, 'UTC') AND stream_hours.hour <= toDateTime({last:UInt32} * 3600, 'UTC')
    GROUP BY hour
) AS told ON touched.hour = told.hour
WHERE touched.hour IN (SELECT hour FROM asked) AND touched.batches != told.batches
ORDER BY hour
