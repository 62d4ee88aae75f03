-- One row: a device that was in the inventory for a part of a period only, and the stretches of the period in which it was.
-- stretches: (start, end) in milliseconds since the epoch, in order.
-- Reads:   of two rows of the same device and instant the worse state counts, and rows of a batch that is not all there do not, as in
-- a close.
-- Params:  start, end DateTime64(3) (UTC, [start, end)).
WITH
    toUnixTimestamp64Milli({start:DateTime64(3,'UTC')}) AS start_ms,
    toUnixTimestamp64Milli({end:DateTime64(3,'UTC')}) AS end_ms,
    reported AS
    (
        SELECT cluster, device_id, toUnixTimestamp64Milli(ts) AS at, max(d.state) = 'removed' AS is_gone
        FROM devices AS d
        WHERE ts < {end:DateTime64(3,'UTC')} AND (batch = 0 OR batch IN (SELECT batch FROM ingest_batches))
        GROUP BY cluster, device_id, ts
    ),
    changes AS
    (
        SELECT *
        FROM
        (
            SELECT *, lagInFrame(is_gone, 1, 1) OVER (PARTITION BY cluster, device_id ORDER BY at ROWS UNBOUNDED PRECEDING) AS was_gone
            FROM reported
        )
        WHERE is_gone != was_gone
    ),
    lives AS
    (
        SELECT
            cluster, device_id, is_gone, greatest(at, start_ms) AS since,
            leadInFrame(at, 1, end_ms) OVER (
                PARTITION BY cluster, device_id ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS until
        FROM changes
    )
SELECT cluster, device_id, arraySort(groupArray((since, until))) AS stretches
FROM lives
WHERE NOT is_gone AND until > since
GROUP BY cluster, device_id
HAVING stretches != [(start_ms, end_ms)]
