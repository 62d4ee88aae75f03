-- One row: a cluster with jobs that were submitted in a period and never started: waiting at its end, or gone before (rejected ones
-- never waited).
-- Params:  start, end DateTime64(3) (UTC, [start, end)). Jobs submitted more than 62 days before are not looked for.
SELECT cluster, countIf(NOT is_over) AS waiting, countIf(is_over) AS gone
FROM
(
    SELECT
        cluster, allocation_id,
        minOrNullIf(ts, event = 'submitted') AS submitted_at,
        countIf(event IN ('finished', 'failed', 'cancelled')) > 0 AS is_over
    FROM events
    WHERE ts >= {start:DateTime64(3,'UTC')} - INTERVAL 62 DAY AND ts < {end:DateTime64(3,'UTC')}
    GROUP BY cluster, allocation_id
    HAVING countIf(event IN ('started', 'rejected')) = 0 AND submitted_at >= {start:DateTime64(3,'UTC')}
)
GROUP BY cluster
