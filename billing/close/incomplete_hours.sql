-- One row: an hour in which `told` does not report exactly the batches that the close reads: stream_hours was created after
-- the hour's batches, a kill fell between two tables of a batch, or it includes batches that the close does not read.
-- Traps:   batches are summed modulo 2^64, the reported ones as their complement: what is reported exactly sums to 0.
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
    WHERE batch GLOBAL IN {batches:Identifier}
    GROUP BY hour
    UNION ALL
    SELECT hour, bitNot(sum(reported.batches)) + 1 AS batches
    FROM {reported:Identifier} AS reported
    GROUP BY hour
)
WHERE hour GLOBAL IN (SELECT hour FROM asked)
GROUP BY hour
HAVING sum(toUInt64(batches)) != 0
ORDER BY hour
