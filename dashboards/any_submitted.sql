-- One row: whether any job was submitted before the period's end, and not more than 62 days before it: without, ({jobs}) has none,
-- and to see that costs far less than to group all that happened by its job.
-- Parameters: start, end DateTime64(3) (UTC); clusters Array(String), empty: all
SELECT count() > 0 AS is_any
FROM
(
    SELECT 1
    FROM events
    WHERE event = 'submitted' AND ts >= {start:DateTime64(3,'UTC')} - INTERVAL 62 DAY AND ts < {end:DateTime64(3,'UTC')}
        AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
    LIMIT 1
)
