-- One row: an hour of those that the close reads whose samples stream_hours does not tell of in full, or tells of too
-- many: it was written before that table was, or a kill fell between two tables of a batch.
-- Traps:   batches are summed modulo 2^64, the told ones as their complement: what is told in full sums to 0.
WITH
    asked AS
    (
        SELECT hour FROM {dirty:Identifier} UNION DISTINCT SELECT hour + 1 AS hour FROM {dirty:Identifier}
    )
SELECT hour
FROM
(
    SELECT toUInt32(intDiv(toUnixTimestamp(touched_hours.hour), 3600)) AS hour, sum(rows * batch) AS batches
    FROM touched_hours
    GROUP BY hour
    UNION ALL
    SELECT toUInt32(intDiv(toUnixTimestamp(stream_hours.hour), 3600)) AS hour, bitNot(sum(stream_hours.batches)) + 1 AS batches
    FROM stream_hours
    WHERE stream_hours.hour >= toDateTime({first:UInt32} * 3600, 'UTC') AND stream_hours.hour <= toDateTime({last:UInt32} * 3600, 'UTC')
    GROUP BY hour
)
WHERE hour IN (SELECT hour FROM asked)
GROUP BY hour
HAVING sum(toUInt64(batches)) != 0
ORDER BY hour
